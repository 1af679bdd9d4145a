/* Destination of finished requests: the interface between the queue (writer.h) and a file or a receiver. All
 * functions except `weight` are called on the writer thread, or after it has ended. */
#pragma once

#include <stdint.h>

struct trace_tree;
struct trace_writer;
struct sonde_trace_config;

struct trace_sink {
    const struct trace_sink_kind *kind;
};

struct trace_sink_kind {
    /* The share of the queue: 1, or the number of spans. Called on request threads. */
    uint32_t (*weight)(const struct trace_tree *tree);
    /* Adds a request; `tree` is freed afterwards. Writes when enough is gathered. */
    void (*take)(struct trace_sink *sink, struct trace_writer *w, const struct trace_tree *tree);
    /* The queue is empty: writes the gathered data. */
    void (*finish)(struct trace_sink *sink, struct trace_writer *w);
    /* In a child: abandons open files and connections, which belong to the parent. */
    void (*reset_in_child)(struct trace_sink *sink);
    void (*free)(struct trace_sink *sink);
};

/* Creates the sink for Triton's JSON files. `file` is borrowed. NULL: out of memory. */
struct trace_sink *trace_file_sink_new(const char *file);
