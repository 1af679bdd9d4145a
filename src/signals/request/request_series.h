/* Rate, errors and duration of requests by service, method, route and status: http_server_request_duration_seconds.
 *
 * The kernel counts every request, by process and class of status (struct request_process). Method, route and status
 * are known only of recorded requests: all of them while they are few, else the slow ones, the failed ones and a
 * random sample. Each recorded request is counted in its own series. The counted requests without a record are divided
 * among the series by the weights of the sample. So the series of a service and class add up to the exact count in
 * every bucket; the division among them is an estimate as soon as requests have no record.
 *
 * No value ever decreases: where the kernel moves a request to another bucket, because its reply went on, the series
 * follow with the next requests. Bounded; pipeline thread only. */
#pragma once

#include "base/cleanup.h"
#include "model/metric.h"
#include "model/request.h"

#include <linux/types.h>

#include "probes/request.h"

#include <stdbool.h>
#include <stdint.h>

#define REQUEST_SERIES_SERVICES 128 /* further ones are counted as service "other" */
#define REQUEST_SERIES_ROUTES   32  /* of a service; further ones are counted as its route "other" */
#define REQUEST_SERIES_MAX      512 /* further ones are counted as route "other" of the service, with the method _OTHER */
#define REQUEST_SERIES_OTHERS   128 /* series of routes "other", beyond REQUEST_SERIES_MAX */

struct request_series;

/* What the kernel counted of a service since the start. */
struct request_totals_exact {
    uint64_t counts[REQUEST_CLASSES][REQUEST_BUCKETS];
    uint64_t sum_ns[REQUEST_CLASSES];
};

/* An empty table; the caller frees `*ret`. -ENOMEM. */
int request_series_new(struct request_series **ret);
void request_series_free(struct request_series *s);
DEFINE_FREEP(request_series)

/* Finds or adds a service. Returns its number, below REQUEST_SERIES_SERVICES, in `*ret`. -ENOMEM. */
int request_series_service(struct request_series *s, const char *name, uint32_t *ret);

/* Notes a recorded request of the service, or a newer record of it (request.id). Without memory the request is counted
 * as one without a record. */
void request_series_record(struct request_series *s, uint32_t service, const struct request *request);

/* Divides among the series of the service what `exact` has beyond the last call: recorded requests at once, the others
 * with the next call, when the records of their period are there too. */
void request_series_settle(struct request_series *s, uint32_t service, const struct request_totals_exact *exact);

/* Adds the series as of the last request_series_settle, with an exemplar for each bucket that has one. */
void request_series_write(const struct request_series *s, struct metric_set *set);
