/* Series and their histograms. A series is found by a hash of its labels in a table that only grows. A histogram has
 * two halves; one is active. A reader activates the other half, waits for threads still counting in the
 * first, and adds the first to the second. So a reader never sees a partly counted generation, and counting threads
 * never wait, except for each other when they create a series. */
#include "metrics.h"

#include "clock.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SLOTS (2 * TRACE_SERIES_MAX)
#define OTHER                                                                                                          \
    ((uint64_t)1 << 63) /* flag in `turn`: index of the active half; the lower bits                                    \
                         * count the updates begun in it */
#define MS                      ((uint64_t)1000000)
#define LATE_NS                 50000 /* wait for a thread that was preempted while counting */

#define TOKEN_USAGE             "gen_ai.client.token.usage"
#define TOKEN_USAGE_DESCRIPTION "Number of input and output tokens used."
#define TOKEN_BOUNDS            1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864

/* Names and bounds follow OpenTelemetry's semantic conventions, which have a single metric of token counts, named
 * gen_ai.client even on servers. */
const struct trace_metric_kind trace_metric_kinds[TRACE_METRICS] = {
    {"gen_ai.server.request.duration",
     "Generative AI server request duration such as time-to-last byte or last output token.",
     NULL,
     14,
     {10 * MS, 20 * MS, 40 * MS, 80 * MS, 160 * MS, 320 * MS, 640 * MS, 1280 * MS, 2560 * MS, 5120 * MS, 10240 * MS,
      20480 * MS, 40960 * MS, 81920 * MS}},
    {"gen_ai.server.time_to_first_token",
     "Time to generate first token for successful responses.",
     NULL,
     16,
     {1 * MS, 5 * MS, 10 * MS, 20 * MS, 40 * MS, 60 * MS, 80 * MS, 100 * MS, 250 * MS, 500 * MS, 750 * MS, 1000 * MS,
      2500 * MS, 5000 * MS, 7500 * MS, 10000 * MS}},
    {"gen_ai.server.time_per_output_token",
     "Time per output token generated after the first token for successful responses.",
     NULL,
     13,
     {10 * MS, 25 * MS, 50 * MS, 75 * MS, 100 * MS, 150 * MS, 200 * MS, 300 * MS, 400 * MS, 500 * MS, 750 * MS,
      1000 * MS, 2500 * MS}},
    {TOKEN_USAGE, TOKEN_USAGE_DESCRIPTION, "input", 14, {TOKEN_BOUNDS}},
    {TOKEN_USAGE, TOKEN_USAGE_DESCRIPTION, "output", 14, {TOKEN_BOUNDS}},
};

unsigned trace_metrics_end_of(unsigned metric)
{
    unsigned end = metric + 1;
    while (end < TRACE_METRICS && strcmp(trace_metric_kinds[end].name, trace_metric_kinds[metric].name) == 0)
        end++;
    return end;
}

struct half {
    atomic_uint_least64_t ended;
    struct {
        atomic_uint_least64_t counts[TRACE_BOUNDS_MAX + 1], sum;
    } histograms[TRACE_METRICS];
};

struct trace_series {
    struct trace_series_key key; /* the texts follow the struct */
    uint64_t hash;
    uint32_t order;
    atomic_uint_least64_t turn;
    struct half halves[2];
    char texts[];
};

/* --- counting -------------------------------------------------------------------------------- */

static void add(atomic_uint_least64_t *to, uint64_t n)
{
    atomic_fetch_add_explicit(to, n, memory_order_relaxed);
}

static unsigned bucket_of(const struct trace_metric_kind *kind, uint64_t value)
{
    unsigned i = 0;
    while (i < kind->bound_count && value > kind->bounds[i])
        i++;
    return i;
}

static void count_into(struct trace_series *s, const uint64_t values[TRACE_METRICS])
{
    uint64_t turn = atomic_fetch_add_explicit(&s->turn, 1, memory_order_acquire);
    struct half *half = &s->halves[turn >> 63];
    for (unsigned i = 0; i < TRACE_METRICS; i++) {
        if (values[i] == TRACE_NO_VALUE)
            continue;
        add(&half->histograms[i].counts[bucket_of(&trace_metric_kinds[i], values[i])], 1);
        add(&half->histograms[i].sum, values[i]);
    }
    atomic_fetch_add_explicit(&half->ended, 1, memory_order_release);
}

/* --- series ---------------------------------------------------------------------------------- */

static uint64_t hash_text(uint64_t hash, const char *text)
{
    for (; *text; text++)
        hash = (hash ^ (unsigned char)*text) * 1099511628211U;
    return (hash ^ 0xff) * 1099511628211U; /* separates texts */
}

static uint64_t hash_key(const struct trace_series_key *key)
{
    uint64_t hash = 14695981039346656037U ^ (uintptr_t)key->model;
    hash = hash_text(hash, key->operation);
    hash = hash_text(hash, key->finish_reason);
    hash = hash_text(hash, key->error_type);
    return hash ^ hash >> 29;
}

static bool is_same(const struct trace_series *s, const struct trace_series_key *key, uint64_t hash)
{
    return s->hash == hash && s->key.model == key->model && strcmp(s->key.operation, key->operation) == 0 &&
           strcmp(s->key.finish_reason, key->finish_reason) == 0 && strcmp(s->key.error_type, key->error_type) == 0;
}

static char *copy_text(const char **ret, char *to, const char *from)
{
    *ret = to;
    return stpcpy(to, from) + 1;
}

static struct trace_series *series_new(const struct trace_series_key *key, uint64_t hash)
{
    size_t texts = strlen(key->operation) + strlen(key->finish_reason) + strlen(key->error_type) + 3;
    struct trace_series *s = calloc(1, sizeof(*s) + texts);
    if (!s)
        return NULL;
    s->hash = hash;
    s->key.model = key->model;
    char *end = copy_text(&s->key.operation, s->texts, key->operation);
    end = copy_text(&s->key.finish_reason, end, key->finish_reason);
    copy_text(&s->key.error_type, end, key->error_type);
    return s;
}

/* Finds the key's series. NULL: none, and *ret_slot is its slot. */
static struct trace_series *find_series(struct trace_metrics *m, const struct trace_series_key *key, uint64_t hash,
                                        struct trace_series *_Atomic **ret_slot)
{
    for (size_t i = hash % SLOTS;; i = (i + 1) % SLOTS) { /* terminates: half of the slots stay empty */
        struct trace_series *s = atomic_load_explicit(&m->slots[i], memory_order_acquire);
        if (s && is_same(s, key, hash))
            return s;
        if (!s) {
            *ret_slot = &m->slots[i];
            return NULL;
        }
    }
}

/* Creates a series under a lock, so that each series is created once and takes one slot. */
static struct trace_series *create_series(struct trace_metrics *m, const struct trace_series_key *key, uint64_t hash)
{
    struct trace_series *_Atomic *slot;
    pthread_mutex_lock(&m->create_lock);
    struct trace_series *s = find_series(m, key, hash, &slot);
    unsigned n = atomic_load_explicit(&m->series_count, memory_order_relaxed);
    if (!s && n < TRACE_SERIES_MAX && (s = series_new(key, hash))) {
        s->order = n;
        atomic_store_explicit(slot, s, memory_order_release);
        atomic_store_explicit(&m->series_count, n + 1, memory_order_release);
    }
    pthread_mutex_unlock(&m->create_lock);
    return s;
}

/* NULL: table full, or out of memory. When the table is full no series is added any more, so a lock-free lookup is
 * final. */
static struct trace_series *find_or_create(struct trace_metrics *m, const struct trace_series_key *key)
{
    uint64_t hash = hash_key(key);
    struct trace_series *_Atomic *slot, *s = find_series(m, key, hash, &slot);
    if (s)
        return s;
    bool is_full = atomic_load_explicit(&m->series_count, memory_order_acquire) == TRACE_SERIES_MAX;
    return is_full ? find_series(m, key, hash, &slot) : create_series(m, key, hash);
}

void trace_metrics_count(struct trace_metrics *m, const struct trace_series_key *key,
                         const uint64_t values[TRACE_METRICS])
{
    struct trace_series *s = find_or_create(m, key);
    add(&m->generations, 1);
    if (!s)
        add(&m->overflowed, 1);
    count_into(s ? s : m->overflow, values);
}

/* --- reading --------------------------------------------------------------------------------- */

static void move(atomic_uint_least64_t *from, atomic_uint_least64_t *to, uint64_t *ret)
{
    *ret = atomic_load_explicit(from, memory_order_relaxed);
    add(to, *ret);
    atomic_store_explicit(from, 0, memory_order_relaxed);
}

/* Under the lock. */
static void read_series(struct trace_series *s, struct trace_series_stats *ret)
{
    uint64_t turn = atomic_fetch_add_explicit(&s->turn, OTHER, memory_order_acq_rel);
    struct half *from = &s->halves[turn >> 63], *to = &s->halves[!(turn >> 63)];
    uint64_t begun = turn & ~OTHER;
    while (atomic_load_explicit(&from->ended, memory_order_acquire) != begun)
        nanosleep(&(struct timespec){.tv_nsec = LATE_NS}, NULL);
    *ret = (struct trace_series_stats){.model = s->key.model,
                                       .operation = s->key.operation,
                                       .finish_reason = s->key.finish_reason,
                                       .error_type = s->key.error_type,
                                       .order = s->order};
    for (unsigned i = 0; i < TRACE_METRICS; i++) {
        struct trace_histogram *h = &ret->histograms[i];
        for (unsigned j = 0; j <= trace_metric_kinds[i].bound_count; j++) {
            move(&from->histograms[i].counts[j], &to->histograms[i].counts[j], &h->counts[j]);
            h->count += h->counts[j];
        }
        move(&from->histograms[i].sum, &to->histograms[i].sum, &h->sum);
    }
    atomic_store_explicit(&from->ended, 0, memory_order_relaxed);
    atomic_fetch_add_explicit(&to->ended, begun, memory_order_release);
}

static int compare(const void *a, const void *b)
{
    const struct trace_series_stats *left = a, *right = b;
    return (left->order > right->order) - (left->order < right->order);
}

int trace_metrics_read(struct trace_metrics *m, struct trace_metrics_snapshot *ret)
{
    struct trace_series_stats *series = calloc(TRACE_SERIES_MAX + 1, sizeof(*series));
    if (!series)
        return -ENOMEM;
    size_t n = 0;
    pthread_mutex_lock(&m->lock);
    for (size_t i = 0; i < SLOTS && n < TRACE_SERIES_MAX; i++) {
        struct trace_series *s = atomic_load_explicit(&m->slots[i], memory_order_acquire);
        if (s)
            read_series(s, &series[n++]);
    }
    qsort(series, n, sizeof(*series), compare);
    if (atomic_load_explicit(&m->overflowed, memory_order_relaxed) > 0) {
        read_series(m->overflow, &series[n]);
        series[n++].overflow = true;
    }
    uint64_t now_ns = trace_read_clock_ns(CLOCK_REALTIME);
    *ret = (struct trace_metrics_snapshot){
        .start_unix_ns = m->start_unix_ns,
        .unix_ns = now_ns > m->start_unix_ns ? now_ns : m->start_unix_ns + 1, /* the clock was set back */
        .count = n,
        .series = series};
    pthread_mutex_unlock(&m->lock);
    return 0;
}

/* --- lifecycle ------------------------------------------------------------------------------- */

static void free_series(struct trace_metrics *m)
{
    for (size_t i = 0; i < SLOTS; i++) {
        struct trace_series *s = atomic_load_explicit(&m->slots[i], memory_order_relaxed);
        if (s)
            atomic_store_explicit(&m->slots[i], NULL, memory_order_relaxed);
        free(s);
    }
}

int trace_metrics_init(struct trace_metrics *m)
{
    static const struct trace_series_key nameless = {"", "", "", ""};
    m->overflow = series_new(&nameless, 0);
    if (!m->overflow)
        return -ENOMEM;
    pthread_mutex_init(&m->lock, NULL);
    pthread_mutex_init(&m->create_lock, NULL);
    m->start_unix_ns = trace_read_clock_ns(CLOCK_REALTIME);
    return 0;
}

void trace_metrics_fini(struct trace_metrics *m)
{
    if (!m->overflow)
        return;
    free_series(m);
    free(m->overflow);
    pthread_mutex_destroy(&m->create_lock);
    pthread_mutex_destroy(&m->lock);
}

/* A thread of the parent may have been counting at the fork: halves are cleared, not read. */
void trace_metrics_reset_in_child(struct trace_metrics *m)
{
    free_series(m);
    memset(&m->overflow->turn, 0, sizeof(m->overflow->turn));
    memset(m->overflow->halves, 0, sizeof(m->overflow->halves));
    atomic_store_explicit(&m->series_count, 0, memory_order_relaxed);
    atomic_store_explicit(&m->generations, 0, memory_order_relaxed);
    atomic_store_explicit(&m->overflowed, 0, memory_order_relaxed);
    m->start_unix_ns = trace_read_clock_ns(CLOCK_REALTIME);
}
