/* Adds to a diagnosed request what its reply was as a stream. Pure. */
#pragma once

#include "diagnose/path/path_segments.h"
#include "model/request.h"

#include <linux/types.h>

#include "probes/request.h"

/* Replaces `*r` by a copy with its stream and model. The time to the first token is broken down by `path`, the critical
 * path of the request (NULL or empty: unknown): its segments, cut at the first token, so that they add up to exactly
 * that time. -EBADMSG: the record is unsound; -ENOMEM. On failure `*r` stays as it is. */
int diagnose_stream(const struct request_stream_record *record, const struct path_segments *path, struct request **r);
