/* Manages the content of the BPF unwind maps; see unwind_publisher.h.
 *
 * An object is kept while a published process maps it, and for a while afterwards, so that the table of a program that
 * is started repeatedly is built once. When the maps are full, unused objects are evicted first, then those whose
 * processes were sampled least recently. Processes that map an evicted object are unpublished before it is removed, so
 * that the BPF programs never follow the number of a removed object. */
#include "pipeline/unwind_publisher.h"

#include "base/clock.h"
#include "pipeline/unwind_publisher_builds.h"
#include "resolve/elf/go_labels.h"
#include "resolve/interpreter/interpreters.h"
#include "resolve/process/process_go.h"
#include "resolve/process/processes.h"
#include "resolve/unwind/unwind_cache.h"
#include "sources/tables/unwind_tables.h"

#include <errno.h>
#include <malloc.h>

#define SECOND_NS          1000000000ull
#define UNUSED_KEPT_NS     (60 * SECOND_NS)
#define EVICTABLE_AFTER_NS (30 * SECOND_NS) /* since the last sample */
#define RETRY_NS           (10 * SECOND_NS)
#define LAYOUT_RETRY_NS    (SECOND_NS / 5)  /* an interpreter that is still starting */
#define ROOM_RETRY_NS      (SECOND_NS / 10) /* the kernel frees memory with a delay */
#define PROCESSES_MAX      16384
/* Smaller tables are built synchronously: in about 2 ms or, by an agent, 0.15 ms. Until a deferred table is ready,
 * unwind rules are looked up one by one. */
#define DEFER_ABOVE_BYTES       (64u << 10)
#define DEFER_ABOVE_BYTES_SHARE (4u << 10)
#define REFUSALS_MAX            5 /* doublings of RETRY_NS */

static uint64_t generation(const struct unwind_publisher *p)
{
    return p->generation + unwind_cache_generation(p->cache);
}

/* ---- objects ---- */

static struct published_object *object_get(struct unwind_publisher *p, struct object *object)
{
    struct published_object *o;
    HASH_FIND(hh, p->objects, &object->id, sizeof(object->id), o);
    if (o)
        return o;
    o = calloc(1, sizeof(*o));
    if (!o)
        return NULL;
    o->id = object->id;
    o->unused_since_ns = p->now_ns;
    HASH_ADD(hh, p->objects, id, sizeof(o->id), o);
    if (!o->hh.tbl) {
        free(o);
        return NULL;
    }
    o->object = object_ref(object);
    return o;
}

static void object_remove_from_kernel(struct unwind_publisher *p, struct published_object *o)
{
    if (o->state != OBJECT_PRESENT)
        return;
    unwind_tables_remove_object(p->tables, o->number);
    unwind_publisher_set_state(p, o, OBJECT_UNKNOWN);
    o->bytes = 0;
}

static void object_destroy(struct unwind_publisher *p, struct published_object *o)
{
    object_remove_from_kernel(p, o);
    unwind_publisher_set_state(p, o, OBJECT_UNKNOWN);
    HASH_DEL(p->objects, o);
    object_unref(o->object);
    free(o);
}

static void object_release(struct unwind_publisher *p, struct published_object *o)
{
    if (!o || --o->users > 0)
        return;
    o->unused_since_ns = p->now_ns;
    if (o->state == OBJECT_WAITING)
        unwind_publisher_set_state(p, o, OBJECT_UNKNOWN);
}

static void process_unpublish(struct unwind_publisher *p, struct published_process *e)
{
    if (e->is_in_kernel)
        unwind_tables_remove_process(p->tables, e->pid);
    e->is_in_kernel = false;
}

static void unpublish_users(struct unwind_publisher *p, const struct published_object *o)
{
    for (struct published_process *e = p->processes; e; e = e->hh.next)
        for (size_t i = 0; i < e->mapping_count; i++)
            if (e->mappings[i].object == o)
                process_unpublish(p, e);
}

/* Updates the last use of the objects that a process maps by the last sample of the process. */
static void note_wanted(const struct published_process *e)
{
    for (size_t i = 0; i < e->mapping_count; i++)
        if (e->mappings[i].object && e->mappings[i].object->wanted_ns < e->wanted_ns)
            e->mappings[i].object->wanted_ns = e->wanted_ns;
}

/* Updates the last use of all objects. */
static void fill_wanted(struct unwind_publisher *p)
{
    for (struct published_process *e = p->processes; e; e = e->hh.next)
        note_wanted(e);
}

static bool is_wanted(const struct unwind_publisher *p, const struct published_object *o)
{
    return p->now_ns - o->wanted_ns < EVICTABLE_AFTER_NS;
}

static bool is_evictable(const struct unwind_publisher *p, const struct published_object *o)
{
    return o->state == OBJECT_PRESENT && (!o->users || !is_wanted(p, o));
}

static struct published_object *least_wanted(const struct unwind_publisher *p)
{
    struct published_object *found = NULL;
    for (struct published_object *o = p->objects; o; o = o->hh.next) {
        if (!is_evictable(p, o))
            continue;
        bool better = !found || (o->users == 0) > (found->users == 0) ||
                      ((o->users == 0) == (found->users == 0) &&
                       (o->users ? o->wanted_ns < found->wanted_ns : o->unused_since_ns < found->unused_since_ns));
        if (better)
            found = o;
    }
    return found;
}

static void evict(struct unwind_publisher *p, struct published_object *o)
{
    if (o->users)
        unpublish_users(p, o);
    object_remove_from_kernel(p, o);
    p->evictions++;
    p->generation++;
}

/* Evicts objects of at least `bytes` in total; false if not enough objects are evictable. */
static bool make_room(struct unwind_publisher *p, size_t bytes)
{
    fill_wanted(p);
    for (size_t freed = 0; freed < bytes;) {
        struct published_object *o = least_wanted(p);
        if (!o)
            return false;
        freed += o->bytes;
        evict(p, o);
    }
    return true;
}

void unwind_publisher_trim(struct unwind_publisher *p)
{
    fill_wanted(p);
    for (struct published_object *o = p->objects; o; o = o->hh.next)
        if (o->state == OBJECT_PRESENT && !is_wanted(p, o))
            evict(p, o);
}

static void object_put(struct unwind_publisher *p, struct published_object *o, const struct unwind_table *table)
{
    const size_t bytes = table->value_count * UNWIND_VALUE_BYTES;
    if (bytes > unwind_tables_max_bytes(p->tables)) {
        unwind_publisher_set_state(p, o, OBJECT_TOO_LARGE);
        p->refused++;
        return;
    }
    int r = unwind_tables_put_object(p->tables, table->values, table->value_count, &o->number);
    if (r == 0) {
        unwind_publisher_set_state(p, o, OBJECT_PRESENT);
        o->bytes = bytes;
        o->refusals = 0;
        p->puts++;
        p->generation++;
        return;
    }
    bool soon = r == -ENOSPC && make_room(p, bytes);
    unwind_publisher_set_state(p, o, OBJECT_UNKNOWN);
    unwind_publisher_retry(p, o, soon ? ROOM_RETRY_NS : RETRY_NS << o->refusals);
    o->refusals += !soon && o->refusals < REFUSALS_MAX;
    p->refused += !soon;
}

/* Advances the state of the object as far as possible now; returns its number for the kernel's mappings. */
static uint32_t object_number(struct unwind_publisher *p, struct published_object *o)
{
    if (!o || o->object->is_anonymous)
        return UNWIND_OBJECT_NO_CODE;
    if (o->state == OBJECT_UNKNOWN && p->now_ns < o->retry_ns) {
        unwind_publisher_schedule_retry(p, o->retry_ns); /* the retry time may have been consumed by an earlier one */
    } else if (o->state == OBJECT_UNKNOWN) {
        const struct unwind_table *table;
        switch (unwind_cache_look(p->cache, o->id, &table)) {
        case UNWIND_CACHE_READY:
            object_put(p, o, table);
            if (o->state == OBJECT_PRESENT)
                unwind_cache_published(p->cache, o->id);
            break;
        case UNWIND_CACHE_NO_RULES:
            unwind_publisher_set_state(p, o, OBJECT_NO_RULES);
            break;
        case UNWIND_CACHE_DEFERRED:
            unwind_publisher_build(p, o, false);
            break;
        case UNWIND_CACHE_UNKNOWN:
            break;
        }
    }
    if (o->state == OBJECT_PRESENT)
        return o->number;
    return o->state == OBJECT_NO_RULES ? UNWIND_OBJECT_NO_CODE : UNWIND_OBJECT_UNKNOWN;
}

/* ---- processes ---- */

static void process_release_mappings(struct unwind_publisher *p, struct published_process *e)
{
    note_wanted(e);
    for (size_t i = 0; i < e->mapping_count; i++)
        object_release(p, e->mappings[i].object);
    free(e->mappings);
    e->mappings = NULL;
    e->mapping_count = 0;
}

static void process_destroy(struct unwind_publisher *p, struct published_process *e)
{
    process_unpublish(p, e);
    process_release_mappings(p, e);
    HASH_DEL(p->processes, e);
    free(e);
}

static struct published_process *process_get(struct unwind_publisher *p, uint32_t pid)
{
    struct published_process *e;
    HASH_FIND(hh, p->processes, &pid, sizeof(pid), e);
    if (e)
        return e;
    if (HASH_COUNT(p->processes) >= PROCESSES_MAX)
        process_destroy(p, p->processes); /* the oldest entry */
    e = calloc(1, sizeof(*e));
    if (!e)
        return NULL;
    e->pid = pid;
    HASH_ADD(hh, p->processes, pid, sizeof(e->pid), e);
    if (!e->hh.tbl) {
        free(e);
        return NULL;
    }
    return e;
}

/* Copies the object of each mapping of the process. */
static int process_take_mappings(struct unwind_publisher *p, struct published_process *e, const struct process *process)
{
    struct published_mapping *mappings = calloc(process->mapping_count + 1, sizeof(*mappings));
    if (!mappings)
        return -ENOMEM;
    for (size_t i = 0; i < process->mapping_count; i++) {
        struct object *object = process->mappings[i].object;
        mappings[i].object = object ? object_get(p, object) : NULL;
        mappings[i].number = UNWIND_OBJECT_UNKNOWN;
        if (mappings[i].object)
            mappings[i].object->users++; /* before the old mappings are released, so that shared objects never
                                          * become unused */
    }
    process_release_mappings(p, e);
    e->mappings = mappings;
    e->mapping_count = process->mapping_count;
    e->start_time_ns = process->start_time_ns;
    e->mapping_version = process->mapping_version;
    return 0;
}

static void find_interpreters(struct unwind_publisher *p, struct published_process *e, const struct process *process,
                              struct interpreter_layouts *ret)
{
    const int r = p->interpreters ? interpreters_layout(p->interpreters, process, ret) : 0;
    if (r < 0)
        unwind_publisher_schedule_retry(p, p->now_ns + (r == -EAGAIN ? LAYOUT_RETRY_NS : RETRY_NS));
    e->layout_error = r < 0 ? r : 0;
    p->met_runtime |= ret->runtime != 0 || r == -EAGAIN;
    const struct go_labels_file *go = process_go_file(process);
    if (go)
        ret->go = go->stacks;
}

static int process_put(struct unwind_publisher *p, struct published_process *e, const struct process *process,
                       const struct interpreter_layouts *layouts)
{
    _cleanup_free_ struct unwind_mapping *mappings = calloc(e->mapping_count + 1, sizeof(*mappings));
    if (!mappings)
        return -ENOMEM;
    for (size_t i = 0; i < e->mapping_count; i++) {
        const struct process_mapping *m = &process->mappings[i];
        mappings[i] = (struct unwind_mapping){m->start, m->end, m->file_offset, e->mappings[i].number};
    }
    return unwind_tables_put_process(p->tables, e->pid, mappings, e->mapping_count, layouts);
}

/* Updates the object numbers of all mappings; true if any changed. */
static bool process_number_mappings(struct unwind_publisher *p, struct published_process *e)
{
    bool changed = false;
    for (size_t i = 0; i < e->mapping_count; i++) {
        uint32_t number = object_number(p, e->mappings[i].object);
        changed |= number != e->mappings[i].number;
        e->mappings[i].number = number;
    }
    return changed;
}

static bool is_same(const struct published_process *e, const struct process *process)
{
    return e->mapping_version == process->mapping_version && e->start_time_ns == process->start_time_ns &&
           e->mapping_count == process->mapping_count;
}

static void process_publish(struct unwind_publisher *p, struct published_process *e, const struct process *process)
{
    bool changed = !is_same(e, process);
    if (changed && process_take_mappings(p, e, process) < 0) {
        process_unpublish(p, e);
        e->retry_ns = p->now_ns + RETRY_NS;
        return;
    }
    changed |= process_number_mappings(p, e);
    e->generation = generation(p);
    const bool is_put = !changed && e->is_in_kernel;
    if (is_put && !e->layout_error)
        return;
    struct interpreter_layouts layouts = {0};
    find_interpreters(p, e, process, &layouts);
    if (is_put && e->layout_error)
        return;
    int r = process_put(p, e, process, &layouts);
    if (r == 0) {
        e->is_in_kernel = true;
        return;
    }
    process_unpublish(p, e); /* its entry in the kernel is outdated */
    e->retry_ns = p->now_ns + RETRY_NS;
    p->refused++;
}

void unwind_publisher_want(struct unwind_publisher *p, const struct process *process)
{
    if (!process || process->exited)
        return;
    struct published_process *e = process_get(p, process->pid);
    if (!e)
        return;
    e->wanted_ns = p->now_ns;
    if (e->is_in_kernel ? is_same(e, process) && e->generation == generation(p) : p->now_ns < e->retry_ns)
        return;
    process_publish(p, e, process);
}

/* Whether the object's table is not built yet; has it built at once. */
static bool is_pending(struct unwind_publisher *p, struct published_object *o)
{
    if (o && o->state == OBJECT_WAITING)
        unwind_publisher_build(p, o, true);
    return o && o->state == OBJECT_QUEUED;
}

bool unwind_publisher_prepare(struct unwind_publisher *p, const struct process *process)
{
    if (!process || process->exited)
        return true;
    for (size_t i = 0; i < process->mapping_count; i++) {
        const struct object *object = process->mappings[i].object;
        const struct unwind_table *table;
        if (object && !object->is_anonymous && unwind_cache_look(p->cache, object->id, &table) == UNWIND_CACHE_UNKNOWN)
            unwind_cache_get(p->cache, object, &table); /* marks it as needed, or defers it to the builder thread */
    }
    unwind_publisher_want(p, process);
    struct published_process *e;
    HASH_FIND(hh, p->processes, &process->pid, sizeof(process->pid), e);
    bool is_ready = e && e->is_in_kernel && e->layout_error != -EAGAIN && e->generation == generation(p);
    for (size_t i = 0; e && i < e->mapping_count; i++)
        is_ready &= !is_pending(p, e->mappings[i].object);
    return is_ready && unwind_tables_is_settled(p->tables);
}

void unwind_publisher_mapped(struct unwind_publisher *p, const struct process *process)
{
    if (!process || process->exited)
        return;
    for (size_t i = 0; i < process->mapping_count; i++) {
        const struct object *object = process->mappings[i].object;
        struct published_object *o = NULL;
        if (object)
            HASH_FIND(hh, p->objects, &object->id, sizeof(object->id), o);
        if (o && o->state == OBJECT_PRESENT) {
            unwind_publisher_want(p, process);
            return;
        }
    }
}

void unwind_publisher_forget(struct unwind_publisher *p, uint32_t pid)
{
    struct published_process *e;
    HASH_FIND(hh, p->processes, &pid, sizeof(pid), e);
    if (e)
        process_destroy(p, e);
}

/* ---- once a turn ---- */

static void object_take_built(struct unwind_publisher *p, struct published_object *o, const struct unwind_built *built)
{
    unwind_publisher_set_state(p, o, OBJECT_UNKNOWN);
    if (built->error == -ETIMEDOUT)
        object_unreadable(o->object);
    if (object_error_is_passing(built->error))
        unwind_publisher_retry(p, o, RETRY_NS);
    else if (built->error < 0)
        unwind_publisher_set_state(p, o, OBJECT_NO_RULES);
    else
        object_put(p, o, built->table);
    p->generation++;
}

static void take_built(struct unwind_publisher *p)
{
    struct unwind_built built;
    while (unwind_builder_take(p->builder, &built)) {
        struct published_object *o;
        HASH_FIND(hh, p->objects, &built.object_id, sizeof(built.object_id), o);
        if (!o || !o->is_outside_share)
            cpu_share_spend(&p->share, built.cpu_ns);
        if (o && o->state == OBJECT_QUEUED)
            object_take_built(p, o, &built);
        if (!object_error_is_passing(built.error))
            unwind_cache_put(p->cache, built.object_id, built.table);
        if (o && (o->state == OBJECT_PRESENT || o->state == OBJECT_TOO_LARGE))
            unwind_cache_published(p->cache, o->id);
        p->trim_wanted = true;
    }
}

static void remove_unused(struct unwind_publisher *p)
{
    for (struct published_object *o = p->objects, *next; o; o = next) {
        next = o->hh.next;
        if (o->users == 0 && o->state != OBJECT_QUEUED && p->now_ns - o->unused_since_ns >= UNUSED_KEPT_NS)
            object_destroy(p, o);
    }
}

/* Memory freed by the builder thread stays in the allocator's arena until trimmed. */
static void trim_memory(struct unwind_publisher *p)
{
    struct unwind_builder_stats stats;
    unwind_builder_stats(p->builder, &stats);
    if (!p->trim_wanted || stats.queued)
        return;
    malloc_trim(0);
    p->trim_wanted = false;
}

void unwind_publisher_run_at(struct unwind_publisher *p, uint64_t now_ns)
{
    p->now_ns = now_ns;
    take_built(p);
    if (p->retry_ns && p->now_ns >= p->retry_ns) {
        p->retry_ns = 0;
        p->generation++;
    }
    unwind_publisher_build_next(p);
    if (p->now_ns - p->last_sweep_ns < SECOND_NS)
        return;
    p->last_sweep_ns = p->now_ns;
    remove_unused(p);
    trim_memory(p);
}

bool unwind_publisher_met_runtime(const struct unwind_publisher *p)
{
    return p->met_runtime;
}

void unwind_publisher_run(struct unwind_publisher *p)
{
    unwind_publisher_run_at(p, clock_monotonic_ns());
}

/* ---- lifecycle ---- */

int unwind_publisher_new(struct unwind_tables *tables, struct unwind_cache *cache, struct interpreters *interpreters,
                         double share, struct unwind_publisher **ret)
{
    _cleanup_(unwind_publisher_freep) struct unwind_publisher *p = calloc(1, sizeof(*p));
    if (!p)
        return -ENOMEM;
    p->tables = tables;
    p->cache = cache;
    p->interpreters = interpreters;
    p->now_ns = p->last_sweep_ns = clock_monotonic_ns();
    cpu_share_init(&p->share, share, UNWIND_SHARE_BURST_NS, p->now_ns);
    int r = unwind_builder_new(&p->builder);
    if (r < 0)
        return r;
    unwind_cache_defer_above(cache, share > 0 ? DEFER_ABOVE_BYTES_SHARE : DEFER_ABOVE_BYTES);
    *ret = take_ptr(p);
    return 0;
}

void unwind_publisher_free(struct unwind_publisher *p)
{
    if (!p)
        return;
    unwind_builder_free(p->builder);
    while (p->processes)
        process_destroy(p, p->processes);
    while (p->objects)
        object_destroy(p, p->objects);
    free(p);
}
