/* The slowest requests of the last minutes with all their details, within a bound of memory. Not thread-safe: struct
 * requests has the lock. */
#pragma once

#include "base/cleanup.h"
#include "model/request.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct kept_requests;

struct kept_request {
    struct request *request;
    uint64_t route; /* kept_requests_route */
    uint32_t cause; /* request_cause_key when it was added */
};

/* Keeps requests of at most `max_bytes`. The caller frees `*ret`. -ENOMEM. */
int kept_requests_new(size_t max_bytes, struct kept_requests **ret);
/* Changes `max_bytes`: drops requests, which count as dropped, until the rest fits. */
void kept_requests_limit(struct kept_requests *k, size_t max_bytes);
void kept_requests_free(struct kept_requests *k);
DEFINE_FREEP(kept_requests)

/* Equal for requests of one service, port, method and route. */
uint64_t kept_requests_route(const struct request *request);

/* Takes ownership of `request`, also on failure. -ENOSPC: it is not kept; -ENOMEM. */
int kept_requests_add(struct kept_requests *k, struct request *request, uint32_t cause);
/* Removes the request with this ID, which is not 0. False: none is kept. */
bool kept_requests_remove(struct kept_requests *k, uint64_t id);

struct kept_position { /* initially zeros */
    size_t slot, index;
};

/* Iterates over the requests that ended at `since_ns` (CLOCK_MONOTONIC) or later, in no order. NULL at the end.
 * Requests must not be added or removed meanwhile. */
const struct kept_request *kept_requests_next(const struct kept_requests *k, uint64_t since_ns,
                                              struct kept_position *at);

size_t kept_requests_count(const struct kept_requests *k);
size_t kept_requests_bytes(const struct kept_requests *k);
uint64_t kept_requests_dropped(const struct kept_requests *k); /* for lack of memory, or because they came too late */
