/* Calls that services of this node made of other services: counts and durations. Plain data. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SERVICE_CALL_NAME_BYTES     128 /* longer names are cut */
#define SERVICE_CALL_ADDRESS_BYTES  64
#define SERVICE_CALL_KIND_BYTES     64
#define SERVICE_CALL_PROTOCOL_BYTES 16
#define SERVICE_CALL_DURATIONS      72 /* buckets */
#define SERVICE_CALL_KINDS_MAX      3

/* `durations`: how many calls took from service_call_duration_start(i) up to the next one; their sum is the number of
 * calls. */
struct service_call_sums {
    uint64_t failed, wait_ns;
    uint64_t durations[SERVICE_CALL_DURATIONS];
};

/* The shortest duration of a bucket. */
uint64_t service_call_duration_start(uint32_t bucket);
/* The bucket of a duration. */
uint32_t service_call_duration_bucket(uint64_t ns);
void service_call_sums_add(struct service_call_sums *to, const struct service_call_sums *from);
uint64_t service_call_sums_calls(const struct service_call_sums *s);
/* The duration that `percentile` (0 to 100) percent of the calls do not exceed, interpolated in its bucket: at most an
 * eighth off, from 66 us on. 0: no calls. */
uint64_t service_call_sums_percentile(const struct service_call_sums *s, double percentile);

/* The calls since the last record of the same names. Strings are borrowed. */
struct service_call_traffic {
    uint64_t time_ns;     /* CLOCK_MONOTONIC */
    const char *client;   /* the calling service, as in requests: "python :8000" */
    const char *server;   /* the called service, likewise; "": it is not known, or not on this node */
    const char *address;  /* "10.0.0.3:5432"; "": a Unix socket */
    const char *protocol; /* "PostgreSQL" */
    const char *kind;     /* "SELECT", "/package.Service/Method" */
    struct service_call_sums sums;
};

/* The calls of one service by another one over some time. */
struct service_call {
    char client[SERVICE_CALL_NAME_BYTES], server[SERVICE_CALL_NAME_BYTES]; /* as above */
    char address[SERVICE_CALL_ADDRESS_BYTES], protocol[SERVICE_CALL_PROTOCOL_BYTES];
    double calls_per_second;
    uint64_t calls, failed, wait_ns, p50_ns, p99_ns;
    struct service_call_kind {
        char name[SERVICE_CALL_KIND_BYTES];
        uint64_t calls, wait_ns;
    } kinds[SERVICE_CALL_KINDS_MAX]; /* those waited for longest, longest first */
    size_t kind_count;
};

/* Whether `wanted` names the calling or the called service, with or without its port, or is the address. */
bool service_call_has(const struct service_call *call, const char *wanted);
