/* Called by request threads: start, stamp, end. Each trace has its own lock, which is practically uncontended. Its
 * records are stored consecutively, and the last trace of a request to end passes the tree to the writer. A trace
 * from before a fork belongs to the parent, and its locks may be held by threads that do not exist in this process:
 * each function checks the generation first. */
#include "../export.h"
#include "clock.h"
#include "context.h"
#include "manager.h"
#include "node.h"
#include "process_generation.h"
#include "thread_context.h"
#include "tree.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define ID_BYTES_MAX      4096
#define MESSAGE_BYTES_MAX 1024
#define NAME_BYTES_MAX    255
#define WORD_BYTES_MAX    1024
#define STATE_BYTES_MAX   4096

static atomic_uint_least64_t last_id;

static bool is_ours(const struct sonde_trace *t)
{
    return t && t->tree->generation == trace_generation_now();
}

static bool makes_spans(const struct sonde_trace_manager *m)
{
    return m->config->mode == TRACE_MODE_OPENTELEMETRY;
}

static void trace_init(struct sonde_trace *t, struct trace_tree *tree, const struct sonde_trace_model *model)
{
    t->tree = tree;
    t->next = NULL;
    t->id = trace_is_recorded(tree) ? atomic_fetch_add_explicit(&last_id, 1, memory_order_relaxed) + 1 : 0;
    t->parent_id = 0;
    t->model_name = model->entry->name;
    t->model_version = model->version;
    t->request_id = t->message = NULL;
    t->generation = NULL;
    t->request_id_size = t->message_size = 0;
    t->status = SONDE_TRACE_OK;
    t->span_id = trace_ids_span(&tree->manager->ids);
    t->parent_span_id = t->end_ns = 0;
    t->begin_ns = tree->makes_spans ? sonde_trace_now_ns() : 0;
    pthread_mutex_init(&t->lock, NULL);
    t->data = t->inline_data;
    t->size = 0;
    t->capacity = sizeof(t->inline_data);
}

static struct trace_settings *force_settings(struct sonde_trace_model *model)
{
    struct sonde_trace_manager *m = model->manager;
    pthread_mutex_lock(&m->lock);
    struct trace_settings *s = trace_sampler_force(atomic_load_explicit(&model->entry->sampler, memory_order_relaxed));
    pthread_mutex_unlock(&m->lock);
    return s;
}

static struct trace_settings *take_settings(struct sonde_trace_model *model, struct trace_sampler *asked)
{
    struct sonde_trace_manager *m = model->manager;
    struct trace_settings *s = NULL;
    pthread_mutex_lock(&m->lock);
    struct trace_sampler *now = atomic_load_explicit(&model->entry->sampler, memory_order_relaxed);
    if (now == asked || trace_sampler_is_due(now)) /* the model may have gained or lost settings of its own */
        s = trace_sampler_take(now);
    pthread_mutex_unlock(&m->lock);
    return s;
}

/* Joins the caller's trace, or begins a new one; the sampled flag is set if spans are sent. */
static void join(struct trace_tree *tree, const struct trace_context *caller)
{
    struct trace_ids *ids = &tree->manager->ids;
    tree->root.parent_span_id = trace_ids_span(ids);
    if (caller)
        tree->context = *caller;
    else
        trace_ids_trace(ids, tree->context.trace_id);
    tree->context.flags &= (uint8_t)~TRACE_CONTEXT_SAMPLED;
    tree->context.flags |= tree->makes_spans ? TRACE_CONTEXT_SAMPLED : 0;
}

/* Sets up what only spans need. An invalid or incomplete tracestate is dropped, as the standard requires; also if out
 * of memory. */
static void prepare_spans(struct trace_tree *tree, const struct sonde_trace_request *request, bool has_caller)
{
    tree->unix_offset_ns = trace_read_clock_ns(CLOCK_REALTIME) - tree->root.begin_ns;
    if (!has_caller)
        return;
    bool has_state =
        request->size >= offsetof(struct sonde_trace_request, tracestate) + sizeof(char *) && request->tracestate;
    size_t size = has_state ? strnlen(request->tracestate, STATE_BYTES_MAX + 1) : 0;
    if (size > 0 && size <= STATE_BYTES_MAX && trace_state_is_valid(request->tracestate, size))
        tree->tracestate = strndup(request->tracestate, size);
}

/* Starts a trace. Takes ownership of the settings reference; NULL: not recorded. `caller`: the trace to continue, or
 * NULL. */
static struct sonde_trace *begin(struct sonde_trace_model *model, const struct sonde_trace_request *request,
                                 const struct trace_context *caller, struct trace_settings *settings)
{
    struct sonde_trace_manager *m = model->manager;
    struct trace_tree *tree = malloc(sizeof(*tree));
    if (!tree) {
        if (settings)
            atomic_fetch_add_explicit(&m->writer.dropped_queue, 1, memory_order_relaxed);
        trace_settings_unref(settings);
        return NULL;
    }
    tree->queued = NULL;
    tree->manager = m;
    tree->settings = settings ? settings : &trace_settings_none;
    tree->makes_spans = settings && makes_spans(m);
    tree->generation = trace_generation_now();
    atomic_init(&tree->live, 1);
    atomic_init(&tree->bytes, sizeof(*tree));
    pthread_mutex_init(&tree->lock, NULL);
    tree->last = &tree->root;
    tree->context = (struct trace_context){0};
    tree->tracestate = NULL;
    trace_init(&tree->root, tree, model);
    join(tree, caller);
    if (tree->makes_spans)
        prepare_spans(tree, request, caller != NULL);
    atomic_fetch_add_explicit(&m->refs, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&m->sampled, settings != NULL, memory_order_relaxed);
    if (request && request->request_id)
        sonde_trace_request_id(&tree->root, request->request_id, request->request_id_size);
    if (trace_probes_enabled())
        trace_probes_start(&tree->root);
    return &tree->root;
}

static const struct trace_context *caller_of(const struct sonde_trace_request *request,
                                             struct trace_context *ret_caller)
{
    bool is_one = request && request->traceparent && trace_context_parse(request->traceparent, ret_caller) == 0;
    return is_one ? ret_caller : NULL;
}

/* Not inlined, like start_with_context, to keep register saving out of the path of untraced requests. `sampler`: the
 * one that is due, or NULL. */
__attribute__((noinline)) static struct sonde_trace *
start_due(struct sonde_trace_model *model, const struct sonde_trace_request *request, struct trace_sampler *sampler)
{
    struct trace_context caller;
    struct trace_settings *settings = sampler ? take_settings(model, sampler) : NULL;
    return settings || trace_probes_enabled() ? begin(model, request, caller_of(request, &caller), settings) : NULL;
}

static inline struct sonde_trace *start_sampled(struct sonde_trace_model *model,
                                                const struct sonde_trace_request *request)
{
    bool heard = trace_probes_enabled(); /* before the counter, an atomic operation that stalls later loads */
    struct trace_sampler *sampler = atomic_load_explicit(&model->entry->sampler, memory_order_acquire);
    if (trace_sampler_is_due(sampler))
        return start_due(model, request, sampler);
    return heard ? start_due(model, request, NULL) : NULL;
}

/* In opentelemetry mode the caller's sampled flag decides: if set, the request is sampled regardless of rate and
 * count; if not, it is not sampled (Triton samples those too). */
__attribute__((noinline)) static struct sonde_trace *start_with_context(struct sonde_trace_model *model,
                                                                        const struct sonde_trace_request *request)
{
    struct trace_context space;
    const struct trace_context *caller = makes_spans(model->manager) ? caller_of(request, &space) : NULL;
    if (!caller)
        return start_sampled(model, request);
    struct trace_settings *settings = caller->flags & TRACE_CONTEXT_SAMPLED ? force_settings(model) : NULL;
    return settings || trace_probes_enabled() ? begin(model, request, caller, settings) : NULL;
}

SONDE_EXPORT struct sonde_trace *sonde_trace_start(struct sonde_trace_model *model,
                                                   const struct sonde_trace_request *request)
{
    if (!model)
        return NULL;
    if (request && request->traceparent)
        return start_with_context(model, request);
    return start_sampled(model, request);
}

static void count_dropped_record(struct trace_tree *tree)
{
    if (trace_is_recorded(tree))
        atomic_fetch_add_explicit(&tree->manager->records_dropped, 1, memory_order_relaxed);
}

/* Charges memory to a request; false: its limit is reached. */
static bool charge(struct trace_tree *tree, size_t bytes)
{
    size_t before = atomic_fetch_add_explicit(&tree->bytes, bytes, memory_order_relaxed);
    if (before + bytes <= tree->manager->request_bytes_max)
        return true;
    atomic_fetch_sub_explicit(&tree->bytes, bytes, memory_order_relaxed);
    return false;
}

SONDE_EXPORT struct sonde_trace *sonde_trace_child(struct sonde_trace *parent, struct sonde_trace_model *model)
{
    if (!is_ours(parent) || !model)
        return NULL;
    struct trace_tree *tree = parent->tree;
    struct sonde_trace *t = charge(tree, sizeof(*t)) ? malloc(sizeof(*t)) : NULL;
    if (!t) {
        count_dropped_record(tree);
        return NULL;
    }
    atomic_fetch_add_explicit(&tree->live, 1, memory_order_relaxed);
    pthread_mutex_lock(&tree->lock); /* also around the id, so that the list is ordered by id */
    trace_init(t, tree, model);
    t->parent_id = parent->id;
    t->parent_span_id = parent->span_id;
    tree->last->next = t;
    tree->last = t;
    pthread_mutex_unlock(&tree->lock);
    if (trace_probes_enabled())
        trace_probes_start(t);
    return t;
}

static void copy_text(char **to, uint32_t *to_size, const char *from, size_t size, size_t max)
{
    size = size < max ? size : max;
    char *copy = malloc(size + 1); /* NUL-terminated for the probes */
    if (!copy)
        return;
    memcpy(copy, from, size);
    copy[size] = '\0';
    free(*to);
    *to = copy;
    *to_size = (uint32_t)size;
}

SONDE_EXPORT void sonde_trace_request_id(struct sonde_trace *t, const char *id, size_t size)
{
    if (!is_ours(t) || !id)
        return;
    pthread_mutex_lock(&t->lock);
    copy_text(&t->request_id, &t->request_id_size, id, size, ID_BYTES_MAX);
    pthread_mutex_unlock(&t->lock);
}

SONDE_EXPORT uint64_t sonde_trace_id(const struct sonde_trace *t)
{
    return t ? t->id : 0;
}

SONDE_EXPORT int sonde_trace_context(const struct sonde_trace *t, char *ret_traceparent, const char **ret_tracestate)
{
    if (!is_ours(t) || !t->tree->makes_spans)
        return -ENOENT;
    trace_context_format(&t->tree->context, t->span_id, ret_traceparent);
    *ret_tracestate = t->tree->tracestate;
    return 0;
}

SONDE_EXPORT unsigned sonde_trace_level(const struct sonde_trace *t)
{
    return is_ours(t) ? t->tree->settings->level : 0;
}

SONDE_EXPORT void sonde_trace_enter(struct sonde_trace *t)
{
    if (is_ours(t))
        trace_thread_context_enter(t);
}

SONDE_EXPORT void sonde_trace_leave(struct sonde_trace *t)
{
    if (t)
        trace_thread_context_leave(t);
}

static bool make_room(struct sonde_trace *t, size_t size)
{
    size_t capacity = t->capacity;
    while (capacity - t->size < size)
        capacity *= 2;
    if (!charge(t->tree, capacity))
        return false;
    unsigned char *data = malloc(capacity);
    if (!data)
        return false;
    memcpy(data, t->data, t->size);
    if (t->data != t->inline_data) {
        atomic_fetch_sub_explicit(&t->tree->bytes, t->capacity, memory_order_relaxed);
        free(t->data);
    }
    t->data = data;
    t->capacity = capacity;
    return true;
}

/* Reserves a record and its data, under the trace's lock; NULL: no memory. */
static struct trace_record *add_record(struct sonde_trace *t, unsigned kind, uint64_t ns, size_t size_bytes)
{
    size_t size = sizeof(struct trace_record) + TRACE_ALIGN(size_bytes);
    if (t->capacity - t->size < size && !make_room(t, size)) {
        count_dropped_record(t->tree);
        return NULL;
    }
    struct trace_record *r = (struct trace_record *)(void *)(t->data + t->size);
    *r = (struct trace_record){.ns = ns, .size_bytes = (uint32_t)size_bytes, .kind = (uint16_t)kind};
    t->size += size;
    return r;
}

/* Checked before reading the clock. */
static bool takes_timestamps(const struct sonde_trace *t)
{
    return is_ours(t) && t->tree->settings->level & SONDE_TRACE_TIMESTAMPS;
}

static void stamp(struct sonde_trace *t, enum sonde_trace_activity activity, uint64_t ns)
{
    if ((unsigned)activity >= SONDE_TRACE_TENSOR_QUEUE_INPUT)
        return;
    pthread_mutex_lock(&t->lock);
    add_record(t, activity, ns, 0);
    pthread_mutex_unlock(&t->lock);
}

SONDE_EXPORT void sonde_trace_timestamp(struct sonde_trace *t, enum sonde_trace_activity activity)
{
    if (takes_timestamps(t))
        stamp(t, activity, sonde_trace_now_ns());
}

SONDE_EXPORT void sonde_trace_timestamp_at(struct sonde_trace *t, enum sonde_trace_activity activity,
                                           uint64_t monotonic_ns)
{
    if (takes_timestamps(t))
        stamp(t, activity, monotonic_ns);
}

SONDE_EXPORT void sonde_trace_custom_at(struct sonde_trace *t, const char *name, uint64_t monotonic_ns)
{
    if (!takes_timestamps(t))
        return;
    size_t size = strnlen(name, NAME_BYTES_MAX);
    pthread_mutex_lock(&t->lock);
    struct trace_record *r = add_record(t, TRACE_CUSTOM, monotonic_ns, size);
    if (r) {
        r->name_size = (uint16_t)size;
        memcpy(r + 1, name, size);
    }
    pthread_mutex_unlock(&t->lock);
}

SONDE_EXPORT void sonde_trace_custom(struct sonde_trace *t, const char *name)
{
    if (takes_timestamps(t))
        sonde_trace_custom_at(t, name, sonde_trace_now_ns());
}

void trace_put_tokens(struct sonde_trace *t, bool is_first, uint32_t count, uint64_t ns)
{
    if (!is_ours(t) || !(t->tree->settings->level & SONDE_TRACE_TIMESTAMPS))
        return;
    pthread_mutex_lock(&t->lock);
    struct trace_record *r = add_record(t, TRACE_TOKENS, ns, sizeof(struct trace_tokens_record));
    if (r)
        *(struct trace_tokens_record *)(r + 1) = (struct trace_tokens_record){count, is_first};
    pthread_mutex_unlock(&t->lock);
}

void trace_take_generation(struct sonde_trace *t, struct trace_generation_facts *facts, size_t size)
{
    if (!is_ours(t) || !facts || !charge(t->tree, size)) {
        if (is_ours(t))
            count_dropped_record(t->tree);
        free(facts);
        return;
    }
    pthread_mutex_lock(&t->lock);
    free(t->generation); /* of an earlier generation; its memory stays charged */
    t->generation = facts;
    pthread_mutex_unlock(&t->lock);
}

SONDE_EXPORT void sonde_trace_tensor(struct sonde_trace *t, enum sonde_trace_activity activity,
                                     const struct sonde_trace_tensor *tensor)
{
    if (!(sonde_trace_level(t) & SONDE_TRACE_TENSORS) || activity < SONDE_TRACE_TENSOR_QUEUE_INPUT ||
        activity > SONDE_TRACE_TENSOR_BACKEND_OUTPUT)
        return;
    struct trace_tensor_record head = {
        .size_bytes = tensor->size_bytes,
        .copied_bytes =
            tensor->data && tensor->size_bytes <= t->tree->manager->tensor_bytes_max ? tensor->size_bytes : 0,
        .dims = tensor->dims < TRACE_DIMS_MAX ? (uint32_t)tensor->dims : TRACE_DIMS_MAX,
        .name_size = (uint16_t)strnlen(tensor->name, WORD_BYTES_MAX),
        .dtype_size = (uint16_t)strnlen(tensor->dtype, WORD_BYTES_MAX),
    };
    size_t shape_bytes = head.dims * sizeof(*tensor->shape);
    size_t size = sizeof(head) + shape_bytes + head.copied_bytes + head.name_size + head.dtype_size;
    pthread_mutex_lock(&t->lock);
    struct trace_record *r = add_record(t, activity, 0, size);
    if (r) {
        unsigned char *p = (unsigned char *)(r + 1);
        const struct {
            const void *from;
            size_t size;
        } parts[] = {{&head, sizeof(head)},
                     {tensor->shape, shape_bytes},
                     {tensor->data, head.copied_bytes},
                     {tensor->name, head.name_size},
                     {tensor->dtype, head.dtype_size}};
        for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); p += parts[i++].size)
            if (parts[i].size > 0)
                memcpy(p, parts[i].from, parts[i].size);
    }
    pthread_mutex_unlock(&t->lock);
}

SONDE_EXPORT void sonde_trace_end(struct sonde_trace *t, enum sonde_trace_status status, const char *message)
{
    if (!is_ours(t))
        return;
    struct trace_tree *tree = t->tree;
    t->status = status;
    if (tree->makes_spans)
        t->end_ns = sonde_trace_now_ns();
    if (message)
        copy_text(&t->message, &t->message_size, message, strnlen(message, MESSAGE_BYTES_MAX), MESSAGE_BYTES_MAX);
    trace_thread_context_end(t);
    if (trace_probes_enabled())
        trace_probes_end(t);
    if (atomic_fetch_sub_explicit(&tree->live, 1, memory_order_acq_rel) != 1)
        return;
    if (!trace_is_recorded(tree)) {
        trace_tree_free(tree);
        return;
    }
    struct sonde_trace_manager *m = tree->manager;
    atomic_fetch_add_explicit(&m->refs, 1, memory_order_relaxed); /* the tree's own reference may be dropped during
                                                                   * the push */
    trace_writer_push(&m->writer, tree);
    trace_manager_unref(m);
}
