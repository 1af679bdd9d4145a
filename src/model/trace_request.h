/* One request whole: its trace and those of its parts (an ensemble's steps, models called by models), and what it looks
 * like as spans, one within the other. */
#pragma once

#include "base/cleanup.h"
#include "base/strings.h"
#include "model/triton_trace.h"

#define TRACE_REQUEST_PARTS_MAX 4096
#define TRACE_REQUEST_BYTES_MAX ((size_t)128 << 20)

struct trace_request {
    struct triton_trace *traces; /* owned, with their moments and request ids; without tensors */
    size_t count, capacity, bytes;
    uint64_t dropped; /* parts that found no room */
};

/* A copy. -ENOMEM. */
int trace_request_add(struct trace_request *r, const struct triton_trace *trace);
void trace_request_clear(struct trace_request *r);

/* A time within a request, or a moment (`is_moment`: end_ns is start_ns). Every moment of a trace is the begin or end
 * of a span or is one by itself: none is left out. */
struct trace_item {
    uint64_t start_ns, end_ns;
    uint64_t id;      /* of the trace it is of */
    const char *name; /* borrowed */
    size_t name_size; /* "X" of a pair X_START, X_END */
    int depth;        /* within how many others */
    uint32_t tokens;  /* of a moment: so many were out */
    bool is_moment;
    bool is_door;    /* the front end's: the request, receive, send */
    bool is_handler; /* the time of the model itself: REQUEST_START to REQUEST_END, named by the model */
};

struct trace_items {
    struct trace_item *items; /* owned */
    size_t count, capacity;
};

#define TRACE_PAIRS_OPEN 64 /* pairs begun and not ended, of one trace; more are no pairs */
#define TRACE_PAIR_END   UINT32_MAX

/* Pairs X_START, X_END of names that are not Triton's, the inner ones first: ret_ends[i] is 1 + the moment that ends
 * what moment i begins, and ret_ends of that moment TRACE_PAIR_END. The others stay as they are. */
void trace_pairs_find(const struct triton_trace *trace, const struct strings *names, uint32_t *ret_ends);

/* From the request down to its parts, each followed by what lies within it. -ENOMEM. */
int trace_request_items(const struct trace_request *r, const struct strings *names, struct trace_items *ret);
void trace_items_clear(struct trace_items *items);
