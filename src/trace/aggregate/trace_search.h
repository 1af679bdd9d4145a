/* Finds one request, with all its traces, among the records of a file. */
#pragma once

#include "base/strings.h"
#include "trace/model/trace_request.h"

#include <stdbool.h>
#include <stdint.h>

struct trace_search {
    uint64_t id;                  /* trace ID of the request or of any of its children */
    struct strings *names;        /* owned; those of `request` are among them */
    struct trace_table *table;    /* owned */
    struct trace_request request; /* what was found so far; without traces: nothing */
    bool is_complete;
};

/* To be cleared in any case. -ENOMEM. */
int trace_search_begin(struct trace_search *s, uint64_t id);
void trace_search_clear(struct trace_search *s);

/* Adds a record of the file. 1: the request is complete, and the others need not be read; 0; -ENOMEM, -ENOBUFS. */
int trace_search_add(struct trace_search *s, const struct triton_record *record);
/* After the last record: takes the traces that are still open. -ENOMEM. */
int trace_search_end(struct trace_search *s);
