/* A request in one sentence: its duration, its longest component or its largest difference from the usual, and the
 * usual value. Pure. */
#pragma once

#include "model/request.h"

#include <stddef.h>

#define REQUEST_SENTENCE_BYTES 1024

/* "212 ms: 180 ms waiting for disk, pread64 of weights.bin (ext4) in thread 4711 pool-1; usually 3.00 ms (median of 256
 * requests)"; begins with "status 503; " or "no reply was seen; " for a request that failed. Reads the components,
 * segments and r->usual; not r->cause. Cut to REQUEST_SENTENCE_BYTES. */
const char *request_sentence(const struct request *r, char out[REQUEST_SENTENCE_BYTES]);

/* The cause in words, without times: "waiting for a lock held by another thread: the holder slept";
 * begins with "status 503" or "no reply" for a request that failed. If r->constant is set, only that is worded. Reads
 * what request_sentence reads, and r->constant. */
const char *request_cause_sentence(const struct request *r, char out[REQUEST_SENTENCE_BYTES]);

/* Describes a failure: "process 7 replied with status 500 after 9.00 ms (not slow: only the failure is abnormal); it
 * waited for no other service. Sonde does not see the error itself: see the log of that process." Reads the components,
 * upstream and r->usual. Writes "" for a request that did not fail. */
const char *request_failure(const struct request *r, char out[REQUEST_SENTENCE_BYTES]);

/* Replaces *r, which the caller owns, by a copy whose `cause` is its sentence, and `group_cause` that of its group. On
 * failure *r stays as it is. -ENOMEM.
 */
int request_set_sentence(struct request **r);
