/* A list of agents; see agents.h. */
#include "server/agents.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#define FIRST_PLACES 64

struct agent_entry {
    uint8_t uid[OPAMP_UID_BYTES];
    uint64_t seen_ns, row_ns, full_ns;  /* 0: never */
    uint64_t sequence;                  /* of the last report */
    uint64_t state;                     /* a hash of the last report's health and configuration */
    uint64_t start_ns, former_start_ns; /* of the agent that reported last, and of another one before it; 0: unknown */
    bool is_described;                  /* `facts` are known */
    struct agent_facts facts;
};

struct agents {
    pthread_mutex_t lock;
    struct agent_entry *list; /* in no order: a search compares 16 bytes of each, 10,000 in 20 us */
    size_t count, places, max;
};

int agents_new(size_t max, struct agents **ret)
{
    struct agents *a = calloc(1, sizeof(*a));
    if (!a)
        return -ENOMEM;
    a->max = max;
    pthread_mutex_init(&a->lock, NULL);
    *ret = a;
    return 0;
}

void agents_free(struct agents *a)
{
    if (!a)
        return;
    pthread_mutex_destroy(&a->lock);
    free(a->list);
    free(a);
}

static struct agent_entry *find_agent(struct agents *a, const uint8_t *uid)
{
    for (size_t i = 0; i < a->count; i++)
        if (memcmp(a->list[i].uid, uid, OPAMP_UID_BYTES) == 0)
            return &a->list[i];
    return NULL;
}

static struct agent_entry *find_oldest(struct agents *a)
{
    struct agent_entry *oldest = a->list;
    for (size_t i = 1; i < a->count; i++)
        if (a->list[i].seen_ns < oldest->seen_ns)
            oldest = &a->list[i];
    return oldest;
}

static int grow(struct agents *a)
{
    const size_t wanted = a->places ? 2 * a->places : FIRST_PLACES, places = wanted < a->max ? wanted : a->max;
    struct agent_entry *bigger = realloc(a->list, places * sizeof(*bigger));
    if (!bigger)
        return -ENOMEM;
    a->list = bigger;
    a->places = places;
    return 0;
}

/* A place for a new agent, which may be that of one that is gone. */
static int add_agent(struct agents *a, const uint8_t *uid, uint64_t now_ns, struct agent_entry **ret)
{
    if (a->count == a->max) {
        *ret = find_oldest(a);
        if (now_ns - (*ret)->seen_ns < AGENTS_FORGET_NS)
            return -EBUSY;
    } else {
        if (a->count == a->places && grow(a) < 0)
            return -ENOMEM;
        *ret = &a->list[a->count++];
    }
    **ret = (struct agent_entry){0};
    memcpy((*ret)->uid, uid, OPAMP_UID_BYTES);
    return 0;
}

static void copy_text(char ret[AGENT_TEXT_BYTES], struct cursor text)
{
    const size_t size = text.size < AGENT_TEXT_BYTES ? text.size : AGENT_TEXT_BYTES - 1;
    memcpy(ret, size ? (const char *)text.data : "", size);
    ret[size] = '\0';
}

static void keep_facts(struct agent_entry *e, const struct opamp_report *r)
{
    copy_text(e->facts.host, r->host);
    copy_text(e->facts.service, r->service);
    copy_text(e->facts.version, r->version);
    copy_text(e->facts.kernel, r->kernel);
    copy_text(e->facts.machine, r->machine);
    e->facts.takes_captures = r->takes_captures;
    e->is_described = true;
}

/* Without the number of losses, which grows. */
static uint64_t hash_state(const struct opamp_report *r)
{
    uint64_t hash = r->is_healthy + 2u * r->has_health;
    const struct cursor parts[] = {r->status, r->detail, cursor_make(r->problems, strlen(r->problems))};
    for (size_t i = 0; i < array_size(parts); i++)
        hash = XXH3_64bits_withSeed(parts[i].size ? (const void *)parts[i].data : "", parts[i].size, hash);
    return hash;
}

static bool is_twin(struct agent_entry *e, uint64_t start_ns)
{
    if (!start_ns || start_ns == e->start_ns)
        return false;
    if (start_ns == e->former_start_ns)
        return true;
    e->former_start_ns = e->start_ns;
    e->start_ns = start_ns;
    return false;
}

static void take_report(struct agent_entry *e, const struct opamp_report *r, uint64_t now_ns, struct agent_verdict *ret)
{
    const bool is_next = e->seen_ns && r->sequence == e->sequence + 1;
    const uint64_t state = hash_state(r);
    ret->is_twin = is_twin(e, r->start_unix_ns);
    if (r->has_description) {
        keep_facts(e, r);
        e->full_ns = now_ns;
    }
    ret->needs_full =
        !r->is_last && !r->has_description && (!e->is_described || !is_next || now_ns - e->full_ns >= AGENTS_FULL_NS);
    ret->needs_row = e->is_described && (r->has_description || r->is_last || r->config.size ||
                                         (r->has_health && state != e->state) || now_ns - e->row_ns >= AGENTS_ROW_NS);
    ret->facts = e->facts;
    if (ret->needs_row)
        e->row_ns = now_ns;
    if (r->has_health)
        e->state = state;
    e->sequence = r->sequence;
    e->seen_ns = now_ns;
}

int agents_take(struct agents *a, const struct opamp_report *report, uint64_t now_ns, struct agent_verdict *ret)
{
    int r = 0;
    pthread_mutex_lock(&a->lock);
    struct agent_entry *e = find_agent(a, report->instance_uid.data);
    if (!e)
        r = add_agent(a, report->instance_uid.data, now_ns, &e);
    if (r == 0)
        take_report(e, report, now_ns, ret);
    if (r == 0 && report->is_last)
        *e = a->list[--a->count];
    pthread_mutex_unlock(&a->lock);
    return r;
}

void agents_forget(struct agents *a, const uint8_t uid[OPAMP_UID_BYTES])
{
    pthread_mutex_lock(&a->lock);
    struct agent_entry *e = find_agent(a, uid);
    if (e)
        *e = a->list[--a->count];
    pthread_mutex_unlock(&a->lock);
}

int agents_check_captures(struct agents *a, const char *host)
{
    int r = -ENOENT;
    pthread_mutex_lock(&a->lock);
    for (size_t i = 0; i < a->count && r < 0; i++)
        if (a->list[i].is_described && strcmp(a->list[i].facts.host, host) == 0)
            r = a->list[i].facts.takes_captures ? 0 : -EOPNOTSUPP;
    pthread_mutex_unlock(&a->lock);
    return r;
}

size_t agents_count(struct agents *a)
{
    pthread_mutex_lock(&a->lock);
    const size_t count = a->count;
    pthread_mutex_unlock(&a->lock);
    return count;
}
