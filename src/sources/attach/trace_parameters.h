/* What tracepoints of the running kernel pass to their handlers, by its BTF: it differs among versions. */
#pragma once

#include <stdbool.h>

struct btf;
struct btf_param;

/* The parameters of a tracepoint's handlers; the first is the handler's own. NULL: no such tracepoint. */
const struct btf_param *trace_parameters(const struct btf *kernel, const char *name, unsigned *ret_count);

/* Whether this parameter is a pointer to `struct NAME`. */
bool trace_parameter_is(const struct btf *kernel, const struct btf_param *parameter, const char *name);

/* Whether block_rq_issue and block_rq_complete pass the request; `ret_passes_queue`: the former passes the queue before
 * it (before 5.11). */
bool trace_passes_block_requests(const struct btf *kernel, bool *ret_passes_queue);
