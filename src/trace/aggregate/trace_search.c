/* See trace_search.h. The traces of a request are close to each other in the file. */
#include "trace/aggregate/trace_search.h"

#include "trace/aggregate/trace_table.h"

#define NAMES_BYTES ((size_t)16 << 20)

int trace_search_begin(struct trace_search *s, uint64_t id)
{
    *s = (struct trace_search){.id = id};
    int r = strings_new(&s->names);
    if (r < 0)
        return r;
    strings_set_max_bytes(s->names, NAMES_BYTES);
    return trace_table_new(s->names, 0, false, &s->table);
}

void trace_search_clear(struct trace_search *s)
{
    trace_table_free(s->table);
    strings_free(s->names);
    trace_request_clear(&s->request);
}

/* Collects complete traces with the same root as s->id. The root is known once a record of s->id was read. */
static int take_complete(struct trace_search *s, bool drain)
{
    const struct triton_trace *trace;
    uint64_t root;
    int r = 0;
    while (r == 0 && (trace = trace_table_take(s->table, drain)))
        if (trace_table_root(s->table, s->id, &root) && root == trace->root_id) {
            r = trace_request_add(&s->request, trace);
            s->is_complete |= trace->id == s->id;
        }
    return r;
}

int trace_search_add(struct trace_search *s, const struct triton_record *record)
{
    int r = trace_table_add(s->table, record);
    if (r == 0)
        r = take_complete(s, false);
    return r < 0 ? r : s->is_complete;
}

int trace_search_end(struct trace_search *s)
{
    return take_complete(s, true);
}
