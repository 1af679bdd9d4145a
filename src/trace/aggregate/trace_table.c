/* Groups records of Triton traces by id; see trace_table.h. */
#include "trace/aggregate/trace_table.h"

#include <errno.h>
#include <string.h>

#define MOMENTS_KEPT    64 /* capacity that an entry keeps for its next id */
#define REQUEST_ID_KEPT 64

struct entry {
    struct triton_trace trace;
    struct triton_activity **last_activity;
    uint32_t moment_capacity;
    size_t held_bytes;
    struct triton_facts *facts; /* owned; same as trace.facts */
    char *request_id;           /* owned; buffer of trace.request_id */
    size_t request_id_room;
    uint32_t next_in_slot, newer, older; /* index + 1 of an entry; 0: none */
};

struct closed_id {
    uint64_t id, root;
    uint8_t frontends;
    bool used;
};

struct trace_table {
    struct strings *names; /* borrowed */
    struct entry *entries;
    uint32_t capacity, count; /* of `entries`; those from index `count` on were never used */
    uint32_t *slots, slot_mask;
    uint32_t newest, oldest, open, open_max, free;
    uint32_t taken; /* returned; recycled by the next call */
    size_t held_bytes;
    bool with_tensors;
    struct closed_id *closed; /* direct-mapped: a slot keeps the last id that hashed to it; ids increase, so these are
                               * the most recent */
    struct trace_table_losses losses;
};

/* ---- lifecycle ---- */

int trace_table_new(struct strings *names, size_t open, bool with_tensors, struct trace_table **ret)
{
    _cleanup_(trace_table_freep) struct trace_table *t = calloc(1, sizeof(*t));
    if (!t)
        return -ENOMEM;
    t->names = names;
    t->open_max = (uint32_t)(open ? open : TRACE_TABLE_OPEN);
    t->capacity = t->open_max + 2; /* one more than may stay open, and the returned one */
    t->with_tensors = with_tensors;
    uint32_t slots = 64;
    while (slots < t->capacity)
        slots *= 2;
    t->slot_mask = slots - 1;
    t->slots = calloc(slots, sizeof(*t->slots));
    t->entries = calloc(t->capacity, sizeof(*t->entries));
    t->closed = calloc(TRACE_TABLE_CLOSED, sizeof(*t->closed));
    if (!t->slots || !t->entries || !t->closed)
        return -ENOMEM;
    *ret = take_ptr(t);
    return 0;
}

static void clear_texts(struct entry *e)
{
    for (struct triton_activity *a = e->trace.activities, *next; a; a = next) {
        next = a->next;
        free(a);
    }
    e->trace.activities = NULL;
    free(e->facts);
    e->facts = NULL;
    if (e->request_id_room > REQUEST_ID_KEPT) {
        free(e->request_id);
        e->request_id = NULL;
        e->request_id_room = 0;
    }
}

void trace_table_free(struct trace_table *t)
{
    if (!t)
        return;
    for (uint32_t i = 0; i < t->count; i++) {
        clear_texts(&t->entries[i]);
        free(t->entries[i].request_id);
        free(t->entries[i].trace.moments);
    }
    free(t->entries);
    free(t->slots);
    free(t->closed);
    free(t);
}

const struct trace_table_losses *trace_table_losses(const struct trace_table *t)
{
    return &t->losses;
}

/* ---- entries by id and by age ---- */

static uint32_t hash_id(uint64_t id)
{
    return (uint32_t)(id * 0x9E3779B97F4A7C15u >> 40);
}

static struct entry *entry_at(const struct trace_table *t, uint32_t number)
{
    return number ? &t->entries[number - 1] : NULL;
}

static uint32_t find_open(const struct trace_table *t, uint64_t id)
{
    uint32_t number = t->slots[hash_id(id) & t->slot_mask];
    while (number && entry_at(t, number)->trace.id != id)
        number = entry_at(t, number)->next_in_slot;
    return number;
}

static void unlink_slot(struct trace_table *t, uint32_t number)
{
    uint32_t *at = &t->slots[hash_id(entry_at(t, number)->trace.id) & t->slot_mask];
    while (*at != number)
        at = &entry_at(t, *at)->next_in_slot;
    *at = entry_at(t, number)->next_in_slot;
}

static void unlink_age(struct trace_table *t, uint32_t number)
{
    struct entry *e = entry_at(t, number), *newer = entry_at(t, e->newer), *older = entry_at(t, e->older);
    *(newer ? &newer->older : &t->newest) = e->older;
    *(older ? &older->newer : &t->oldest) = e->newer;
}

static void link_newest(struct trace_table *t, uint32_t number)
{
    struct entry *e = entry_at(t, number), *before = entry_at(t, t->newest);
    e->older = t->newest;
    e->newer = 0;
    *(before ? &before->newer : &t->oldest) = number;
    t->newest = number;
}

static struct closed_id *closed_slot(const struct trace_table *t, uint64_t id)
{
    return &t->closed[id % TRACE_TABLE_CLOSED];
}

static const struct closed_id *find_closed(const struct trace_table *t, uint64_t id)
{
    const struct closed_id *closed = closed_slot(t, id);
    return closed->used && closed->id == id ? closed : NULL;
}

static void recycle_taken(struct trace_table *t)
{
    struct entry *e = entry_at(t, t->taken);
    if (!e)
        return;
    clear_texts(e);
    if (e->moment_capacity > MOMENTS_KEPT) {
        free(e->trace.moments);
        e->trace.moments = NULL;
        e->moment_capacity = 0;
    }
    e->next_in_slot = t->free;
    t->free = t->taken;
    t->taken = 0;
}

static uint32_t open_entry(struct trace_table *t, uint64_t id)
{
    uint32_t number = t->free;
    if (number)
        t->free = entry_at(t, number)->next_in_slot;
    else
        number = ++t->count;
    struct entry *e = entry_at(t, number);
    struct triton_moment *moments = e->trace.moments;
    e->trace = (struct triton_trace){.id = id, .moments = moments};
    e->held_bytes = 0;
    e->last_activity = NULL; /* set with the first activity */
    uint32_t *slot = &t->slots[hash_id(id) & t->slot_mask];
    e->next_in_slot = *slot;
    *slot = number;
    link_newest(t, number);
    t->open++;
    return number;
}

/* ---- adding ---- */

/* Like trace_summary.py, also matches custom event names that contain the name of a front end's event. */
static uint8_t frontends_of(uint32_t event, const struct triton_text *name)
{
    static const char http[] = "HTTP_RECV_START", grpc[] = "GRPC_WAITREAD_START";
    if (event < TRITON_EVENT_COUNT)
        return event == TRITON_HTTP_RECV_START ? TRITON_HTTP : event == TRITON_GRPC_WAITREAD_START ? TRITON_GRPC : 0;
    return (memmem(name->at, name->size, http, sizeof(http) - 1) ? TRITON_HTTP : 0) |
           (memmem(name->at, name->size, grpc, sizeof(grpc) - 1) ? TRITON_GRPC : 0);
}

static int add_moment(struct trace_table *t, struct entry *e, const struct triton_stamp *stamp, bool may_be_frontend)
{
    struct triton_trace *trace = &e->trace;
    if (trace->moment_count == e->moment_capacity) {
        if (trace->moment_count >= TRACE_TABLE_MOMENTS_MAX) {
            t->losses.moments++;
            return 0;
        }
        uint32_t capacity = e->moment_capacity ? e->moment_capacity * 2 : 16;
        struct triton_moment *moments = realloc(trace->moments, capacity * sizeof(*moments));
        if (!moments)
            return -ENOMEM;
        trace->moments = moments;
        if (capacity > MOMENTS_KEPT) {
            e->held_bytes += (capacity - e->moment_capacity) * sizeof(*moments);
            t->held_bytes += (capacity - e->moment_capacity) * sizeof(*moments);
        }
        e->moment_capacity = capacity;
    }
    uint32_t event = triton_event_find(stamp->name);
    if (event == TRITON_EVENT_COUNT)
        event += strings_add_n(t->names, stamp->name.at, stamp->name.size);
    if (may_be_frontend)
        trace->frontends_seen |= frontends_of(event, &stamp->name);
    trace->moments[trace->moment_count++] = (struct triton_moment){stamp->ns, event, stamp->tokens};
    return 0;
}

static void copy_text(char **to, struct triton_text from, struct triton_text *ret)
{
    *ret = (struct triton_text){from.at ? *to : NULL, from.size};
    if (from.size)
        memcpy(*to, from.at, from.size);
    *to += from.size;
}

static int add_activity(struct trace_table *t, struct entry *e, const struct triton_record *record)
{
    const struct triton_tensor *tensor = &record->tensor;
    size_t bytes =
        record->activity.size + tensor->name.size + tensor->data.size + tensor->shape.size + tensor->dtype.size;
    struct triton_activity *a = malloc(sizeof(*a) + bytes);
    if (!a)
        return -ENOMEM;
    char *to = (char *)(a + 1);
    a->next = NULL;
    copy_text(&to, record->activity, &a->activity);
    copy_text(&to, tensor->name, &a->tensor.name);
    copy_text(&to, tensor->data, &a->tensor.data);
    copy_text(&to, tensor->shape, &a->tensor.shape);
    copy_text(&to, tensor->dtype, &a->tensor.dtype);
    *(e->last_activity ? e->last_activity : &e->trace.activities) = a;
    e->last_activity = &a->next;
    e->held_bytes += sizeof(*a) + bytes;
    t->held_bytes += sizeof(*a) + bytes;
    return 0;
}

static int set_request_id(struct trace_table *t, struct entry *e, struct triton_text id)
{
    if (id.size > e->request_id_room) {
        size_t room = id.size < REQUEST_ID_KEPT ? REQUEST_ID_KEPT : id.size;
        char *text = realloc(e->request_id, room);
        if (!text)
            return -ENOMEM;
        e->request_id = text;
        e->request_id_room = room;
    }
    memcpy(e->request_id, id.at, id.size);
    e->trace.request_id = (struct triton_text){e->request_id, id.size};
    e->held_bytes += id.size;
    t->held_bytes += id.size;
    return 0;
}

/* The last object that has facts wins. */
static int set_facts(struct trace_table *t, struct entry *e, const struct triton_facts *facts)
{
    size_t bytes;
    struct triton_facts *copy = triton_facts_copy(facts, &bytes);
    if (!copy)
        return -ENOMEM;
    free(e->facts);
    e->trace.facts = e->facts = copy;
    e->held_bytes += bytes;
    t->held_bytes += bytes;
    return 0;
}

static int add_header(struct trace_table *t, struct entry *e, const struct triton_record *record)
{
    struct triton_trace *trace = &e->trace;
    if (record->has_parent) {
        trace->has_parent = true;
        trace->parent_id = record->parent_id;
    }
    if (record->has_version)
        trace->model_version = record->model_version;
    if (record->model_name.at) {
        trace->model = strings_add_n(t->names, record->model_name.at, record->model_name.size);
        trace->has_model = true;
    }
    return record->request_id.size ? set_request_id(t, e, record->request_id) : 0;
}

int trace_table_add(struct trace_table *t, const struct triton_record *record)
{
    recycle_taken(t);
    uint32_t number =
        t->newest && entry_at(t, t->newest)->trace.id == record->id ? t->newest : find_open(t, record->id);
    if (!number) {
        if (find_closed(t, record->id)) {
            t->losses.late++;
            return 0;
        }
        if (t->open > t->open_max)
            return -ENOBUFS;
        number = open_entry(t, record->id);
    } else if (number != t->newest) {
        unlink_age(t, number);
        link_newest(t, number);
    }
    struct entry *e = entry_at(t, number);
    int r = record->facts ? set_facts(t, e, record->facts) : 0;
    if (r < 0)
        return r;
    if (record->model_name.at || record->has_parent || record->has_version || record->request_id.at)
        r = add_header(t, e, record);
    for (size_t i = 0; i < record->stamp_count && r == 0; i++)
        r = add_moment(t, e, &record->stamps[i], !record->has_parent);
    if (r == 0 && record->activity.at && t->with_tensors)
        r = add_activity(t, e, record);
    return r;
}

/* ---- returning traces ---- */

/* Follows the ancestors as far as they are known; `*ret_frontends` is the union of their frontends and its own. False:
 * an ancestor is unknown. */
static bool follow_ancestors(const struct trace_table *t, const struct triton_trace *trace, uint64_t *ret_root,
                             uint8_t *ret_frontends)
{
    *ret_root = trace->id;
    *ret_frontends = trace->frontends_seen;
    for (int depth = 0; trace->has_parent && depth < TRACE_TABLE_DEPTH; depth++) {
        uint32_t parent = find_open(t, trace->parent_id);
        const struct closed_id *closed = parent ? NULL : find_closed(t, trace->parent_id);
        *ret_root = closed ? closed->root : trace->parent_id;
        if (closed)
            *ret_frontends |= closed->frontends;
        if (!parent)
            return closed;
        trace = &entry_at(t, parent)->trace;
        *ret_frontends |= trace->frontends_seen;
    }
    return true;
}

bool trace_table_root(const struct trace_table *t, uint64_t id, uint64_t *ret_root)
{
    uint32_t number = find_open(t, id);
    const struct closed_id *closed = find_closed(t, id);
    uint8_t frontends;
    if (number)
        follow_ancestors(t, &entry_at(t, number)->trace, ret_root, &frontends);
    else if (closed)
        *ret_root = closed->root;
    return number || closed;
}

const struct triton_trace *trace_table_take(struct trace_table *t, bool drain)
{
    recycle_taken(t);
    if (t->open == 0 || (!drain && t->open <= t->open_max && t->held_bytes <= TRACE_TABLE_BYTES))
        return NULL;
    uint32_t number = t->oldest;
    struct entry *e = entry_at(t, number);
    if (!follow_ancestors(t, &e->trace, &e->trace.root_id, &e->trace.frontends))
        t->losses.orphans++;
    unlink_slot(t, number);
    unlink_age(t, number);
    t->open--;
    t->held_bytes -= e->held_bytes;
    t->taken = number;
    *closed_slot(t, e->trace.id) = (struct closed_id){e->trace.id, e->trace.root_id, e->trace.frontends, true};
    return &e->trace;
}

bool trace_table_parent(const struct trace_table *t, uint64_t id, uint64_t *ret_parent)
{
    const struct entry *e = entry_at(t, find_open(t, id));
    if (!e || !e->trace.has_parent)
        return false;
    *ret_parent = e->trace.parent_id;
    return true;
}
