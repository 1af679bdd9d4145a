/* What requests with the same cause have in common: the kind of component that explains them, and where that time was
 * spent. Pure. */
#pragma once

#include "model/request.h"

#define REQUEST_PLACE_BYTES 384

/* The longest component of `kind`; NULL: the request has none. */
const struct request_part *request_longest_part(const struct request *r, enum request_part_kind kind);

/* How many bytes of a component's detail come before the kernel's functions, which end it where the stack has some. */
int request_detail_bytes(const struct request_part *part);

/* Where a component spent its time: its detail without the kernel's functions, and without what differs from request to
 * request: which thread and CPU it was, how often it waited, how many packets were lost, and what the function ran on
 * the CPU ("running sha1"), except a garbage collection. "": not known. Returns `out`. */
const char *request_part_place(const struct request *r, const struct request_part *part, char out[REQUEST_PLACE_BYTES]);

/* Where the longest component of `kind` spent its time, as request_part_place; "" if there is no such component.
 * Returns `out`. */
const char *request_cause_place(const struct request *r, enum request_part_kind kind, char out[REQUEST_PLACE_BYTES]);

/* Equal for components of one kind and place (of CPU time, the function without its line). */
uint32_t request_part_key(const struct request *r, const struct request_part *part);

/* Equal for requests of one route that have one cause: `kind`, the place (of CPU time, the function without its line),
 * and the status of those that failed; for failed requests that are not slow, the status alone. */
uint32_t request_cause_key(const struct request *r, enum request_part_kind kind, bool is_slow);
