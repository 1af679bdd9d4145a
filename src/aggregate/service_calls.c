/* A row for each caller, called address, protocol and kind, with its calls in slots of time: see service_calls.h. */
#include "aggregate/service_calls.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SLOT_NS (20 * 1000000000ull)
#define SLOTS   (SERVICE_CALLS_SECONDS / 20 + 1) /* and the one that is being filled */

struct call_row {
    struct service_call names; /* without numbers */
    char kind[SERVICE_CALL_KIND_BYTES];
    struct service_call_sums total; /* since the first */
    uint64_t last_ns;
    struct {
        uint32_t failed;
        uint32_t durations[SERVICE_CALL_DURATIONS];
        uint64_t wait_ns;
    } slots[SLOTS];
};

struct service_calls {
    pthread_mutex_t lock;
    uint64_t first_ns, slot; /* of all: time of the first calls; number of the slot that is being filled */
    size_t count;
    struct call_row *rows[SERVICE_CALLS_MAX + 1]; /* the first: of those without a row of their own */
};

static struct call_row *new_row(const struct service_call_traffic *t)
{
    struct call_row *row = calloc(1, sizeof(*row));
    if (!row)
        return NULL;
    snprintf(row->names.client, sizeof(row->names.client), "%s", t->client);
    snprintf(row->names.server, sizeof(row->names.server), "%s", t->server);
    snprintf(row->names.address, sizeof(row->names.address), "%s", t->address);
    snprintf(row->names.protocol, sizeof(row->names.protocol), "%s", t->protocol);
    snprintf(row->kind, sizeof(row->kind), "%s", t->kind);
    return row;
}

int service_calls_new(struct service_calls **ret)
{
    static const struct service_call_traffic other = {
        .client = "other", .server = "", .address = "", .protocol = "", .kind = ""};
    struct service_calls *s = calloc(1, sizeof(*s));
    if (!s)
        return -ENOMEM;
    pthread_mutex_init(&s->lock, NULL);
    s->rows[s->count++] = new_row(&other);
    if (!s->rows[0]) {
        service_calls_free(s);
        return -ENOMEM;
    }
    *ret = s;
    return 0;
}

void service_calls_free(struct service_calls *s)
{
    if (!s)
        return;
    for (size_t r = 0; r < s->count; r++)
        free(s->rows[r]);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

/* Clears the slots between the last one used and that of `now_ns`. */
static void advance_slots(struct service_calls *s, uint64_t now_ns)
{
    const uint64_t slot = now_ns / SLOT_NS;
    for (uint64_t i = 0; s->slot < slot && i < SLOTS; i++) {
        s->slot = slot - s->slot > SLOTS ? slot - SLOTS + 1 : s->slot + 1;
        for (size_t r = 0; r < s->count; r++)
            memset(&s->rows[r]->slots[s->slot % SLOTS], 0, sizeof(s->rows[r]->slots[0]));
    }
}

static bool is_cut_of(const char *cut, size_t size, const char *text)
{
    return strncmp(cut, text, size - 1) == 0;
}

/* By its address: which service reads there may be known later. Unix sockets have none, but always a service. */
static bool is_server_of(const struct service_call *names, const char *server, const char *address)
{
    return is_cut_of(names->address, sizeof(names->address), address) &&
           (address[0] || is_cut_of(names->server, sizeof(names->server), server));
}

static bool is_row_of(const struct call_row *row, const struct service_call_traffic *t)
{
    return is_cut_of(row->kind, sizeof(row->kind), t->kind) && is_server_of(&row->names, t->server, t->address) &&
           is_cut_of(row->names.client, sizeof(row->names.client), t->client) &&
           is_cut_of(row->names.protocol, sizeof(row->names.protocol), t->protocol);
}

/* Whatever the kind. */
static bool is_same_group(const struct service_call *a, const struct service_call *b)
{
    return strcmp(a->client, b->client) == 0 && is_server_of(a, b->server, b->address) &&
           strcmp(a->protocol, b->protocol) == 0;
}

/* The latest name counts. */
static void set_server(struct service_call *names, const char *server)
{
    if (server[0])
        snprintf(names->server, sizeof(names->server), "%s", server);
}

/* Moves what a row has counted to another one of its group, so that no counter of a metric decreases. */
static void fold_total(struct service_calls *s, size_t place)
{
    for (size_t r = 1; r < s->count; r++)
        if (r != place && is_same_group(&s->rows[r]->names, &s->rows[place]->names)) {
            service_call_sums_add(&s->rows[r]->total, &s->rows[place]->total);
            return;
        }
}

/* Of the rows without calls for as long as slots reach back, the one idle for longest; 0: no such row. */
static size_t find_idle_row(const struct service_calls *s, uint64_t now_ns)
{
    size_t idle = 0;
    for (size_t r = 1; r < s->count; r++)
        if (now_ns - s->rows[r]->last_ns > SLOTS * SLOT_NS && (!idle || s->rows[r]->last_ns < s->rows[idle]->last_ns))
            idle = r;
    return idle;
}

static struct call_row *find_row(struct service_calls *s, const struct service_call_traffic *t)
{
    for (size_t r = 1; r < s->count; r++)
        if (is_row_of(s->rows[r], t))
            return s->rows[r];
    const size_t place = s->count <= SERVICE_CALLS_MAX ? s->count : find_idle_row(s, t->time_ns);
    struct call_row *row = place ? new_row(t) : NULL;
    if (!row)
        return s->rows[0];
    if (place < s->count) {
        fold_total(s, place);
        free(s->rows[place]);
    } else {
        s->count++;
    }
    s->rows[place] = row;
    return row;
}

void service_calls_add(struct service_calls *s, const struct service_call_traffic *traffic)
{
    pthread_mutex_lock(&s->lock);
    s->first_ns = s->first_ns ?: traffic->time_ns;
    advance_slots(s, traffic->time_ns);
    struct call_row *row = find_row(s, traffic);
    row->last_ns = traffic->time_ns;
    if (row != s->rows[0])
        set_server(&row->names, traffic->server);
    service_call_sums_add(&row->total, &traffic->sums);
    row->slots[s->slot % SLOTS].failed += (uint32_t)traffic->sums.failed;
    row->slots[s->slot % SLOTS].wait_ns += traffic->sums.wait_ns;
    for (size_t i = 0; i < SERVICE_CALL_DURATIONS; i++)
        row->slots[s->slot % SLOTS].durations[i] += (uint32_t)traffic->sums.durations[i];
    pthread_mutex_unlock(&s->lock);
}

static struct service_call_sums sums_since(const struct service_calls *s, const struct call_row *row,
                                           uint64_t first_slot)
{
    struct service_call_sums sums = {0};
    for (uint64_t slot = first_slot; slot <= s->slot; slot++) {
        sums.failed += row->slots[slot % SLOTS].failed;
        sums.wait_ns += row->slots[slot % SLOTS].wait_ns;
        for (size_t i = 0; i < SERVICE_CALL_DURATIONS; i++)
            sums.durations[i] += row->slots[slot % SLOTS].durations[i];
    }
    return sums;
}

/* ---- rows of all kinds together ---- */

struct call_group {
    struct service_call call;
    struct service_call_sums sums;
};

/* Keeps the kinds waited for longest. */
static void add_kind(struct service_call *call, const char *name, const struct service_call_sums *sums)
{
    struct service_call_kind kind = {.calls = service_call_sums_calls(sums), .wait_ns = sums->wait_ns};
    snprintf(kind.name, sizeof(kind.name), "%s", name);
    size_t at = call->kind_count;
    while (at > 0 && call->kinds[at - 1].wait_ns < kind.wait_ns)
        at--;
    if (at == SERVICE_CALL_KINDS_MAX)
        return;
    call->kind_count += call->kind_count < SERVICE_CALL_KINDS_MAX;
    memmove(&call->kinds[at + 1], &call->kinds[at], (call->kind_count - at - 1) * sizeof(kind));
    call->kinds[at] = kind;
}

/* Adds the sums of a row to its group, which may be a new one. Returns how many groups there are. */
static size_t add_to_group(struct call_group *groups, size_t count, const struct call_row *row,
                           const struct service_call_sums *sums)
{
    size_t i = 0;
    while (i < count && !is_same_group(&groups[i].call, &row->names))
        i++;
    if (i == count)
        groups[count++] = (struct call_group){.call = row->names};
    set_server(&groups[i].call, row->names.server);
    service_call_sums_add(&groups[i].sums, sums);
    if (row->kind[0])
        add_kind(&groups[i].call, row->kind, sums);
    return count;
}

static int longest_first(const void *a, const void *b)
{
    const struct service_call *x = a, *y = b;
    return x->wait_ns < y->wait_ns ? 1 : x->wait_ns > y->wait_ns ? -1 : strcmp(x->client, y->client);
}

int service_calls_list(struct service_calls *s, uint64_t since_ns, uint64_t now_ns, struct service_call **ret,
                       size_t *ret_count)
{
    _cleanup_free_ struct call_group *groups = calloc(SERVICE_CALLS_MAX + 1, sizeof(*groups));
    struct service_call *list = calloc(SERVICE_CALLS_MAX + 1, sizeof(*list));
    size_t count = 0;
    if (!groups || !list) {
        free(list);
        return -ENOMEM;
    }
    pthread_mutex_lock(&s->lock);
    advance_slots(s, now_ns);
    uint64_t first_slot = since_ns / SLOT_NS;
    if (first_slot + SLOTS <= s->slot)
        first_slot = s->slot - SLOTS + 1;
    const uint64_t from_ns = first_slot * SLOT_NS > s->first_ns ? first_slot * SLOT_NS : s->first_ns;
    const double seconds = now_ns > from_ns + 1000000000 ? (double)(now_ns - from_ns) / 1e9 : 1;
    for (size_t r = 0; r < s->count; r++) {
        const struct service_call_sums sums = sums_since(s, s->rows[r], first_slot);
        if (service_call_sums_calls(&sums))
            count = add_to_group(groups, count, s->rows[r], &sums);
    }
    pthread_mutex_unlock(&s->lock);
    for (size_t i = 0; i < count; i++) {
        struct service_call *call = &list[i];
        *call = groups[i].call;
        call->calls = service_call_sums_calls(&groups[i].sums);
        call->calls_per_second = (double)call->calls / seconds;
        call->failed = groups[i].sums.failed;
        call->wait_ns = groups[i].sums.wait_ns;
        call->p50_ns = service_call_sums_percentile(&groups[i].sums, 50);
        call->p99_ns = service_call_sums_percentile(&groups[i].sums, 99);
    }
    qsort(list, count, sizeof(list[0]), longest_first);
    *ret = list;
    *ret_count = count;
    return 0;
}

void service_calls_metrics(struct service_calls *s, struct metric_set *set)
{
    _cleanup_free_ struct call_group *groups = calloc(SERVICE_CALLS_MAX + 1, sizeof(*groups));
    size_t count = 0;
    if (!groups)
        return;
    pthread_mutex_lock(&s->lock);
    for (size_t r = 0; r < s->count; r++)
        if (service_call_sums_calls(&s->rows[r]->total))
            count = add_to_group(groups, count, s->rows[r], &s->rows[r]->total);
    pthread_mutex_unlock(&s->lock);
    for (size_t i = 0; i < count; i++) {
        const struct service_call *call = &groups[i].call;
        const struct metric_label labels[] = {{"client", call->client},
                                              {"server", call->server},
                                              {"address", call->address},
                                              {"protocol", call->protocol}};
        metric_add(set, "sonde_calls", METRIC_COUNTER, "", "Calls that services of this node made of other services.",
                   (double)service_call_sums_calls(&groups[i].sums), labels, array_size(labels));
        metric_add(set, "sonde_calls_failed", METRIC_COUNTER, "",
                   "Calls whose reply began with an error, or whose connection ended without a reply.",
                   (double)groups[i].sums.failed, labels, array_size(labels));
        metric_add(set, "sonde_calls_wait_seconds", METRIC_COUNTER, "seconds",
                   "Time from the calls until the first bytes of their replies were read.",
                   (double)groups[i].sums.wait_ns / 1e9, labels, array_size(labels));
    }
}
