/* Finds the evidence for the segments of a critical path in the records of their threads and times. Pure. */
#pragma once

#include "diagnose/flight/flight_index.h"
#include "diagnose/path/path_segments.h"

/* For finished segments. The caller clears it with path_evidence_clear. -ENOMEM: it is empty. */
int path_evidence_find(const struct flight_index *index, const struct path_segments *path, struct path_evidence *ret);
