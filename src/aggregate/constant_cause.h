/* What the requests of a route have in common that always take about as long: a component, or the wait for a service,
 * that is there in nearly every request with about the same duration. The largest component of one request may be a
 * wait for a CPU that was busy just then. Pure. */
#pragma once

#include "model/request.h"

#include <stddef.h>

#define CONSTANT_CAUSE_MIN 5  /* with fewer requests whose paths are known, nothing is found */
#define CONSTANT_CAUSE_MAX 64 /* requests that are compared */

/* Finds the component or service that most requests of the list have in common, if it takes a good part of their time.
 * Only requests with a path are compared, at most CONSTANT_CAUSE_MAX. Returns a typical request, whose component or
 * service `*ret` names; NULL: nothing is found, there are too few requests, or there is no memory. */
const struct request *constant_cause_find(struct request *const *requests, size_t count, struct request_constant *ret);
