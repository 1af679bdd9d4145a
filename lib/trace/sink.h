/* Where finished requests go: the seam between the queue (writer.h) and a file or a receiver. All but
 * `weight` are called on the writer's thread, or when there is none any more. */
#pragma once

#include <stdint.h>

struct trace_tree;
struct trace_writer;
struct sonde_trace_config;

struct trace_sink {
    const struct trace_sink_kind *kind;
};

struct trace_sink_kind {
    /* How much of the queue it takes: 1, or its spans. On a thread that serves requests. */
    uint32_t (*weight)(const struct trace_tree *tree);
    /* Gathers a request; `tree` is freed afterwards. Writes what is gathered when it is enough. */
    void (*take)(struct trace_sink *sink, struct trace_writer *w, const struct trace_tree *tree);
    /* There is no other for now: writes what is left. */
    void (*finish)(struct trace_sink *sink, struct trace_writer *w);
    /* In a child: what is open is the parent's. */
    void (*reset_in_child)(struct trace_sink *sink);
    void (*free)(struct trace_sink *sink);
};

/* Triton's JSON in files. `file` is borrowed. NULL: no memory. */
struct trace_sink *trace_file_sink_new(const char *file);
