/* The call of another service, in words. Pure, except for the callbacks that look up names. */
#pragma once

#include "diagnose/path/path_names.h"
#include "diagnose/path/path_segments.h"

/* Writes the call that the request waited for in this segment: "PostgreSQL SELECT", "gRPC /package.Service/Method"; "":
 * not known. Returns `out`. */
const char *path_asked_text(const struct path_segment *s, const struct path_names *names, char out[PATH_ASKED_BYTES]);
