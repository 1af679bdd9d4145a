/* A table of answers, a queue, and the thread that works on it; see native_lines.h.
 *
 * Answers are kept by object (object.h: files of the same build ID share one) and address. When they take too much
 * memory, all are dropped: the few that are still shown are looked up again. */
#include "resolve/lines/native_lines.h"

#include "base/clock.h"
#include "base/cpu_share.h"
#include "base/strings.h"
#include "resolve/lines/line_files.h"
#include "resolve/lines/line_reading.h"
#include "resolve/lines/line_spawner.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/eventfd.h>
#include <uthash.h>

#define QUEUE_MAX   LINE_SPAWNER_ADDRESSES_MAX
#define BYTES_MAX   ((size_t)1 << 20)
#define COPY_MAX    ((uint64_t)8 << 20) /* of a remote file, in memory */
#define FILE_MAX_NS 10000000000ull
#define COLLECT_NS  50000000 /* addresses that are asked for at about the same time are looked up together */
#define CPU_SHARE   0.01     /* of one CPU, for the thread and its readers */
#define CPU_SAVED   500000000

enum answer_state { ANSWER_QUEUED, ANSWER_KNOWN, ANSWER_NONE };

struct answer_key {
    uint64_t object_id, address;
};

struct answer {
    struct answer_key key;
    enum answer_state state;
    size_t count;
    struct {
        uint32_t function, file; /* string numbers */
        uint32_t line;
    } *functions;
    UT_hash_handle hh;
};

struct native_lines {
    struct line_spawner *spawner; /* the thread's */
    struct line_answer *message;  /* likewise */
    int stop_fd;
    pthread_t thread;
    bool thread_runs;
    pthread_mutex_t lock; /* protects all members below */
    pthread_cond_t changed;
    bool stop, failed; /* failed: the spawner has ended */
    struct queued {
        struct object *object; /* a reference */
        uint64_t address;
    } queue[QUEUE_MAX];
    size_t queued;
    struct answer *answers;
    struct strings *texts;
    size_t bytes; /* of answers */
    struct native_lines_stats stats;
};

/* ---- answers ---- */

static struct answer *find_answer(struct native_lines *n, uint64_t object_id, uint64_t address)
{
    const struct answer_key key = {object_id, address};
    struct answer *a;
    HASH_FIND(hh, n->answers, &key, sizeof(key), a);
    return a;
}

static void drop_answers(struct native_lines *n)
{
    struct answer *a, *next;
    HASH_ITER (hh, n->answers, a, next) {
        HASH_DEL(n->answers, a);
        free(a->functions);
        free(a);
    }
    strings_free(n->texts);
    n->texts = NULL;
    n->bytes = 0;
}

/* NULL: no memory. */
static struct answer *add_answer(struct native_lines *n, uint64_t object_id, uint64_t address)
{
    if (n->bytes + (n->texts ? strings_bytes(n->texts) : 0) > BYTES_MAX)
        drop_answers(n);
    if (!n->texts && strings_new(&n->texts) < 0)
        return NULL;
    struct answer *a = calloc(1, sizeof(*a));
    if (!a)
        return NULL;
    a->key = (struct answer_key){object_id, address};
    HASH_ADD(hh, n->answers, key, sizeof(a->key), a);
    n->bytes += sizeof(*a);
    return a;
}

/* Keeps the outermost functions of a message, which is in the order of struct native_place. */
static void keep_message(struct native_lines *n, struct answer *a, const struct line_answer *message)
{
    const size_t count = message->count < NATIVE_LINES_FUNCTIONS_MAX ? message->count : NATIVE_LINES_FUNCTIONS_MAX;
    const struct line_answer_line *lines = message->lines + (message->count - count);
    if (a->state != ANSWER_QUEUED || !lines[count - 1].line) /* twice, or without information */
        return;
    a->functions = calloc(count, sizeof(*a->functions));
    if (!a->functions)
        return;
    n->bytes += count * sizeof(*a->functions);
    a->state = ANSWER_KNOWN;
    a->count = count;
    for (size_t i = 0; i < count; i++) {
        a->functions[i].function = strings_add(n->texts, lines[i].name);
        a->functions[i].file = strings_add(n->texts, lines[i].file);
        a->functions[i].line = lines[i].line;
    }
    n->stats.found++;
}

/* ---- the thread ---- */

struct lookup {
    struct native_lines *n;
    struct object *object; /* a reference */
    uint64_t addresses[QUEUE_MAX];
    size_t count;
};

static int compare_addresses(const void *left, const void *right)
{
    const uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return (a > b) - (a < b);
}

/* Takes the addresses of the oldest file in the queue; the caller holds the lock. */
static void take_lookup(struct native_lines *n, struct lookup *ret)
{
    size_t kept = 0;
    *ret = (struct lookup){.n = n, .object = object_ref(n->queue[0].object)};
    for (size_t i = 0; i < n->queued; i++) {
        if (n->queue[i].object != ret->object) {
            n->queue[kept++] = n->queue[i];
            continue;
        }
        ret->addresses[ret->count++] = n->queue[i].address;
        object_unref(n->queue[i].object);
    }
    n->queued = kept;
    qsort(ret->addresses, ret->count, sizeof(ret->addresses[0]), compare_addresses);
}

static int store_message(void *context, const struct line_answer *message)
{
    const struct lookup *l = context;
    if (message->number >= l->count || message->count == 0)
        return -EBADMSG;
    pthread_mutex_lock(&l->n->lock);
    struct answer *a = find_answer(l->n, l->object->id, l->addresses[message->number]);
    if (a) /* not dropped meanwhile */
        keep_message(l->n, a, message);
    pthread_mutex_unlock(&l->n->lock);
    return 0;
}

/* Returns 0 or -EPIPE: the spawner has ended. */
static int read_lines(struct lookup *l, const struct line_files *files, uint64_t *ret_cpu_ns)
{
    const struct dwarf_request request = {
        .fd = files->fd, .alt_fd = files->alt_fd, .addresses = l->addresses, .count = l->count, .inlines = true};
    struct line_reading reading = {.object = l->object,
                                   .until_ns = clock_monotonic_ns() + FILE_MAX_NS,
                                   .copy_max = COPY_MAX,
                                   .stop_fd = l->n->stop_fd,
                                   .place = store_message,
                                   .context = l,
                                   .answer = l->n->message};
    struct line_helper helper;
    int r = line_spawner_start(l->n->spawner, &request, &helper);
    if (r < 0)
        return r;
    line_reading_run(&reading, &helper);
    return line_spawner_end(l->n->spawner, &helper, ret_cpu_ns);
}

/* Releases the object. Returns the CPU time of the process. */
static uint64_t look_up(struct lookup *l)
{
    struct line_files files;
    uint64_t cpu_ns = 0;
    int r = line_files_open(l->object, NULL, NULL, COPY_MAX, &files);
    if (r == 0) {
        r = read_lines(l, &files, &cpu_ns);
        close(files.fd);
        closep(&files.alt_fd);
    }
    pthread_mutex_lock(&l->n->lock);
    l->n->failed |= r == -EPIPE;
    l->n->stats.cpu_ns += cpu_ns;
    l->n->stats.lookups++;
    l->n->stats.addresses += l->count;
    for (size_t i = 0; i < l->count; i++) {
        struct answer *a = find_answer(l->n, l->object->id, l->addresses[i]);
        if (a && a->state == ANSWER_QUEUED)
            a->state = ANSWER_NONE;
    }
    pthread_mutex_unlock(&l->n->lock);
    object_unref(l->object);
    return cpu_ns;
}

/* Waits, but not beyond the end; the caller holds the lock. */
static void rest(struct native_lines *n, uint64_t ns)
{
    const uint64_t until_ns = clock_monotonic_ns() + ns;
    const struct timespec until = clock_timespec_of(until_ns);
    while (!n->stop && clock_monotonic_ns() < until_ns)
        pthread_cond_timedwait(&n->changed, &n->lock, &until);
}

static void *lines_thread(void *arg)
{
    struct native_lines *n = arg;
    struct cpu_share share;
    struct lookup lookup;
    cpu_share_init(&share, CPU_SHARE, CPU_SAVED, clock_monotonic_ns());
    pthread_mutex_lock(&n->lock);
    while (!n->stop) {
        if (!n->queued) {
            pthread_cond_wait(&n->changed, &n->lock);
            continue;
        }
        rest(n, COLLECT_NS);
        if (n->stop || !cpu_share_allows(&share, clock_monotonic_ns()))
            continue;
        take_lookup(n, &lookup);
        pthread_mutex_unlock(&n->lock);
        const uint64_t start_ns = clock_thread_cpu_ns();
        const uint64_t reader_ns = look_up(&lookup);
        cpu_share_spend(&share, clock_thread_cpu_ns() - start_ns + reader_ns);
        pthread_mutex_lock(&n->lock);
    }
    pthread_mutex_unlock(&n->lock);
    return NULL;
}

/* ---- the pipeline's thread ---- */

static int init_state(struct native_lines *n)
{
    pthread_mutex_init(&n->lock, NULL);
    clock_cond_init(&n->changed);
    n->message = malloc(sizeof(*n->message));
    n->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return !n->message ? -ENOMEM : n->stop_fd < 0 ? -errno : 0;
}

int native_lines_new(struct native_lines **ret)
{
    int r = line_helper_check();
    if (r < 0)
        return r;
    struct native_lines *n = calloc(1, sizeof(*n));
    if (!n)
        return -ENOMEM;
    r = init_state(n);
    if (r == 0)
        r = line_spawner_new(&n->spawner);
    if (r < 0) {
        native_lines_free(n);
        return r;
    }
    *ret = n;
    return 0;
}

void native_lines_free(struct native_lines *n)
{
    const uint64_t one = 1;
    if (!n)
        return;
    pthread_mutex_lock(&n->lock);
    n->stop = true;
    pthread_cond_signal(&n->changed);
    pthread_mutex_unlock(&n->lock);
    if (n->thread_runs) {
        (void)!write(n->stop_fd, &one, sizeof(one));
        line_spawner_kill(n->spawner);
        pthread_join(n->thread, NULL);
    }
    for (size_t i = 0; i < n->queued; i++)
        object_unref(n->queue[i].object);
    drop_answers(n);
    line_spawner_free(n->spawner);
    closep(&n->stop_fd);
    free(n->message);
    pthread_cond_destroy(&n->changed);
    pthread_mutex_destroy(&n->lock);
    free(n);
}

/* Returns -EAGAIN; -ENOENT: no thread works on the queue. The caller holds the lock. */
static int queue_address(struct native_lines *n, struct object *object, uint64_t address)
{
    if (n->queued == QUEUE_MAX)
        return -EAGAIN; /* it is asked for again */
    if (!n->thread_runs) {
        n->thread_runs = pthread_create(&n->thread, NULL, lines_thread, n) == 0;
        n->failed = !n->thread_runs;
        if (n->thread_runs)
            (void)pthread_setname_np(n->thread, "lines");
    }
    if (n->failed)
        return -ENOENT;
    if (add_answer(n, object->id, address)) {
        n->queue[n->queued++] = (struct queued){object_ref(object), address};
        pthread_cond_signal(&n->changed);
    }
    return -EAGAIN;
}

static int copy_answer(const struct native_lines *n, const struct answer *a, struct native_place *ret)
{
    if (a->state != ANSWER_KNOWN)
        return a->state == ANSWER_QUEUED ? -EAGAIN : -ENOENT;
    ret->count = a->count;
    for (size_t i = 0; i < a->count; i++)
        ret->functions[i] = (struct native_function){.function = strings_get(n->texts, a->functions[i].function),
                                                     .file = strings_get(n->texts, a->functions[i].file),
                                                     .line = a->functions[i].line};
    return 0;
}

int native_lines_find(struct native_lines *n, struct object *object, uint64_t address, struct native_place *ret)
{
    pthread_mutex_lock(&n->lock);
    const struct answer *a = find_answer(n, object->id, address);
    const int r = a ? copy_answer(n, a, ret) : queue_address(n, object, address);
    pthread_mutex_unlock(&n->lock);
    return r;
}

void native_lines_stats(struct native_lines *n, struct native_lines_stats *ret)
{
    pthread_mutex_lock(&n->lock);
    *ret = n->stats;
    pthread_mutex_unlock(&n->lock);
}

void native_lines_metrics(struct native_lines *n, struct metric_set *set)
{
    struct native_lines_stats stats;
    native_lines_stats(n, &stats);
    metric_add(set, "sonde_self_native_line_lookups", METRIC_COUNTER, "",
               "Executable files read for source lines of native code.", (double)stats.lookups, METRIC_NO_LABELS);
    metric_add(set, "sonde_self_native_line_addresses", METRIC_COUNTER, "",
               "Addresses of native code looked up in debug information.", (double)stats.addresses, METRIC_NO_LABELS);
    metric_add(set, "sonde_self_native_line_addresses_found", METRIC_COUNTER, "",
               "Addresses of native code whose source line was found.", (double)stats.found, METRIC_NO_LABELS);
}
