/* Selects the request whose data flow is shown; see trace_flow.h. */
#include "trace/aggregate/trace_flow.h"

#include <errno.h>
#include <string.h>

struct trace_flow_finder {
    const struct strings *names;
    struct trace_flow flow;
    uint64_t lowest; /* lowest id of a child or, without children, lowest id with a tensor; UINT64_MAX: none yet */
    size_t capacity, bytes;
    uint64_t dropped;
};

int trace_flow_finder_new(const struct strings *names, struct trace_flow_finder **ret)
{
    struct trace_flow_finder *f = calloc(1, sizeof(*f));
    if (!f)
        return -ENOMEM;
    f->names = names;
    f->lowest = UINT64_MAX;
    *ret = f;
    return 0;
}

static void free_activities(struct triton_activity *a)
{
    while (a) {
        struct triton_activity *next = a->next;
        free(a);
        a = next;
    }
}

static void reset_flow(struct trace_flow_finder *f)
{
    for (size_t i = 0; i < f->flow.count; i++)
        free_activities(f->flow.nodes[i].activities);
    f->flow.count = f->bytes = 0;
    f->dropped = 0;
}

void trace_flow_finder_free(struct trace_flow_finder *f)
{
    if (!f)
        return;
    reset_flow(f);
    free(f->flow.nodes);
    free(f);
}

void trace_flow_see(struct trace_flow_finder *f, const struct triton_record *record)
{
    struct trace_flow *flow = &f->flow;
    if (record->has_parent && (!flow->is_tree || record->id < f->lowest)) {
        if (!flow->is_tree || flow->root != record->parent_id)
            reset_flow(f);
        flow->is_tree = true;
        flow->root = record->parent_id;
        f->lowest = record->id;
    } else if (!flow->is_tree && record->activity.at && record->id < f->lowest) {
        reset_flow(f);
        flow->root = f->lowest = record->id;
    }
}

static bool parent_of(const struct trace_flow_finder *f, const struct trace_table *table, uint64_t id,
                      uint64_t *ret_parent)
{
    for (size_t i = 0; i < f->flow.count; i++)
        if (f->flow.nodes[i].id == id) {
            *ret_parent = f->flow.nodes[i].parent_id;
            return true;
        }
    return trace_table_parent(table, id, ret_parent);
}

static bool is_part_of_flow(const struct trace_flow_finder *f, const struct trace_table *table,
                            const struct triton_trace *trace)
{
    uint64_t id = trace->id, parent = trace->parent_id;
    bool has_parent = trace->has_parent && f->flow.is_tree;
    for (int depth = 0; depth < TRACE_TABLE_DEPTH; depth++) {
        if (id == f->flow.root)
            return true;
        if (!has_parent)
            return false;
        id = parent;
        has_parent = id != f->flow.root && parent_of(f, table, id, &parent);
    }
    return false;
}

/* Relocates a pointer into a copied allocation: each activity is a single allocation. */
static struct triton_text relocate_text(struct triton_text text, const char *from, const char *to)
{
    return (struct triton_text){text.at ? to + (text.at - from) : NULL, text.size};
}

static int copy_activities(struct trace_flow_finder *f, const struct triton_activity *from, struct triton_activity **to)
{
    for (; from; from = from->next) {
        const struct triton_tensor *t = &from->tensor;
        size_t bytes =
            sizeof(*from) + from->activity.size + t->name.size + t->data.size + t->shape.size + t->dtype.size;
        if (bytes > TRACE_FLOW_BYTES_MAX - f->bytes) {
            f->dropped++;
            continue;
        }
        struct triton_activity *copy = malloc(bytes);
        if (!copy)
            return -ENOMEM;
        memcpy(copy, from, bytes);
        const char *a = (const char *)from, *b = (const char *)copy;
        copy->activity = relocate_text(from->activity, a, b);
        copy->tensor = (struct triton_tensor){relocate_text(t->name, a, b), relocate_text(t->data, a, b),
                                              relocate_text(t->shape, a, b), relocate_text(t->dtype, a, b)};
        copy->next = NULL;
        f->bytes += bytes;
        *to = copy;
        to = &copy->next;
    }
    return 0;
}

int trace_flow_take(struct trace_flow_finder *f, const struct trace_table *table, const struct triton_trace *trace)
{
    struct trace_flow *flow = &f->flow;
    if (!flow->root || !is_part_of_flow(f, table, trace))
        return 0;
    if (flow->count == TRACE_FLOW_NODES_MAX) {
        f->dropped++;
        return 0;
    }
    if (flow->count == f->capacity) {
        size_t capacity = f->capacity ? f->capacity * 2 : 16;
        struct trace_flow_node *nodes = realloc(flow->nodes, capacity * sizeof(*nodes));
        if (!nodes)
            return -ENOMEM;
        flow->nodes = nodes;
        f->capacity = capacity;
    }
    struct trace_flow_node *node = &flow->nodes[flow->count++];
    *node = (struct trace_flow_node){.id = trace->id,
                                     .parent_id = trace->has_parent ? trace->parent_id : 0,
                                     .version = trace->model_version,
                                     .name = trace->frontends && trace->has_model ? strings_get(f->names, trace->model)
                                                                                  : NULL};
    return copy_activities(f, trace->activities, &node->activities);
}

static int by_id(const void *a, const void *b)
{
    const struct trace_flow_node *x = a, *y = b;
    return x->id < y->id ? -1 : x->id > y->id;
}

struct trace_flow trace_flow_finish(struct trace_flow_finder *f, uint64_t *ret_dropped)
{
    if (f->flow.count)
        qsort(f->flow.nodes, f->flow.count, sizeof(*f->flow.nodes), by_id);
    *ret_dropped = f->dropped;
    return f->flow;
}
