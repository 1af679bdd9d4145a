/* The FILE of `sonde trace`: a file, standard input, or a rotated set that is named by what stands before the numbers.
 * Reads it record by record, shows how far it is on a terminal, and says at the end what of it could not be read. */
#pragma once

#include "base/cleanup.h"
#include "model/triton_trace.h"

struct trace_input {
    const char *argument; /* borrowed */
    char **paths;         /* owned; in the order of their numbers */
    size_t count;
};

#define TRACE_INPUT_FILES_MAX 100000

/* FILE, or FILE.0, FILE.1, ... where there is no FILE. Says why not. */
int trace_input_find(const char *argument, struct trace_input *ret);
void trace_input_clear(struct trace_input *input);

/* Gives every record of a file to `take`; an error of its, or 1 when it has enough, ends the reading. Says what was
 * lost, on standard error. 0, 1 when something in the file made no sense (what did was read), -errno after the reason
 * was said. */
int trace_input_read(const char *path, void *context, int (*take)(void *context, const struct triton_record *record));
