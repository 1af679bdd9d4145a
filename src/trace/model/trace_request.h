/* One whole request: its trace and the traces of its parts (an ensemble's steps, models called by models), converted to
 * nested spans. */
#pragma once

#include "base/cleanup.h"
#include "base/strings.h"
#include "trace/model/triton_trace.h"

#define TRACE_REQUEST_PARTS_MAX 4096
#define TRACE_REQUEST_BYTES_MAX ((size_t)128 << 20)

struct trace_request {
    struct triton_trace *traces; /* owned, with their moments and request IDs; without tensors */
    size_t count, capacity, bytes;
    uint64_t dropped; /* parts past a limit */
};

/* Adds a copy. Returns 0 (also when it was dropped) or -ENOMEM. */
int trace_request_add(struct trace_request *r, const struct triton_trace *trace);
void trace_request_clear(struct trace_request *r);

/* A time span within a request, or a moment (`is_moment`: end_ns is start_ns). Every moment of a trace is either the
 * begin or end of a span or an item itself: none is left out. */
struct trace_item {
    uint64_t start_ns, end_ns;
    uint64_t id;      /* of its trace */
    const char *name; /* borrowed */
    size_t name_size; /* "X" of a pair X_START, X_END */
    int depth;        /* nesting depth */
    uint32_t tokens;  /* of a moment: number of tokens produced so far */
    bool is_moment;
    bool is_front_end; /* a span of the front end: the request, receive, send */
    bool is_handler;   /* the model's time: REQUEST_START to REQUEST_END, named after the model */
};

struct trace_items {
    struct trace_item *items; /* owned */
    size_t count, capacity;
};

#define TRACE_PAIRS_OPEN 64 /* open pairs per trace; a pair past this is ignored */
#define TRACE_PAIR_END   UINT32_MAX

/* Finds pairs X_START, X_END of names that are not Triton's, inner ones first: ret_ends[i] becomes 1 + the index of
 * the moment that ends what moment i begins, and ret_ends of that moment TRACE_PAIR_END. Other elements are
 * unchanged. */
void trace_pairs_find(const struct triton_trace *trace, const struct strings *names, uint32_t *ret_ends);

/* From the request down to its parts, each followed by the items inside it. The caller frees `ret`'s contents with
 * trace_items_clear. 0 or -ENOMEM. */
int trace_request_items(const struct trace_request *r, const struct strings *names, struct trace_items *ret);
void trace_items_clear(struct trace_items *items);
