/* Reads BTF; see trace_parameters.h. */
#include "sources/attach/trace_parameters.h"

#include <bpf/btf.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

const struct btf_param *trace_parameters(const struct btf *kernel, const char *name, unsigned *ret_count)
{
    char type_name[64];
    snprintf(type_name, sizeof(type_name), "btf_trace_%s", name);
    const int id = btf__find_by_name_kind(kernel, type_name, BTF_KIND_TYPEDEF);
    const struct btf_type *pointer =
        id < 0 ? NULL : btf__type_by_id(kernel, btf__type_by_id(kernel, (uint32_t)id)->type);
    const struct btf_type *prototype = pointer && btf_is_ptr(pointer) ? btf__type_by_id(kernel, pointer->type) : NULL;
    if (!prototype || !btf_is_func_proto(prototype))
        return NULL;
    *ret_count = btf_vlen(prototype);
    return btf_params(prototype);
}

bool trace_parameter_is(const struct btf *kernel, const struct btf_param *parameter, const char *name)
{
    const struct btf_type *pointer = btf__type_by_id(kernel, parameter->type);
    const struct btf_type *object = pointer && btf_is_ptr(pointer) ? btf__type_by_id(kernel, pointer->type) : NULL;
    return object && btf_is_struct(object) && strcmp(btf__name_by_offset(kernel, object->name_off), name) == 0;
}

bool trace_passes_block_requests(const struct btf *kernel, bool *ret_passes_queue)
{
    unsigned issue_count = 0, complete_count = 0;
    const struct btf_param *issue = trace_parameters(kernel, "block_rq_issue", &issue_count);
    const struct btf_param *complete = trace_parameters(kernel, "block_rq_complete", &complete_count);
    if (!issue || !complete || complete_count != 4 || !trace_parameter_is(kernel, &complete[1], "request"))
        return false;
    *ret_passes_queue = issue_count == 3;
    return (issue_count == 2 || issue_count == 3) && trace_parameter_is(kernel, &issue[issue_count - 1], "request");
}
