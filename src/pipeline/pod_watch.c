/* See pod_watch.h. A list of pods is immutable; both threads hold a reference to the latest one. */
#include "pipeline/pod_watch.h"

#include "base/clock.h"
#include "base/log.h"
#include "pipeline/cri.h"
#include "resolve/process/pods.h"
#include "resolve/process/processes.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

#define PAUSE_NS     (2 * 1000000000ull)
#define PAUSE_MAX_NS (60 * 1000000000ull)
#define FIRST_NS     (2 * 1000000000ull)

struct pod_watch {
    char *socket, *label_keys;
    pthread_t thread;
    struct pods *taken; /* reference of the pipeline thread */

    pthread_mutex_t lock; /* protects all members below */
    pthread_cond_t changed;
    bool asked, is_missed, is_over;
    bool warned;             /* a warning about a failed query was logged */
    char why[CRI_WHY_BYTES]; /* reason of the last failure; "": the last query succeeded */
    struct pods *pods;       /* the latest list; NULL: none */
    uint64_t asks, failures;
    size_t count; /* of the latest list */
    unsigned left_out;
};

static bool is_over(void *context)
{
    struct pod_watch *w = context;
    pthread_mutex_lock(&w->lock);
    const bool over = w->is_over;
    pthread_mutex_unlock(&w->lock);
    return over;
}

/* Under the lock. No warning on a node without pods, unless a socket is configured. */
static void log_failure(struct pod_watch *w)
{
    if (w->warned || !w->why[0] || !(w->is_missed || w->socket[0]))
        return;
    w->warned = true;
    log_warning("pod names are not available: %s", w->why);
}

static void take_failure(struct pod_watch *w, const char *why)
{
    w->failures++;
    snprintf(w->why, sizeof(w->why), "%s", why);
    log_failure(w);
}

static void take_answer(struct pod_watch *w, struct pods *pods)
{
    if (w->warned)
        log_info("the container runtime reports pods again");
    w->warned = false;
    w->why[0] = '\0';
    w->count = pods_count(pods);
    w->left_out = pods_left_out(pods);
    pods_unref(w->pods);
    w->pods = pods;
}

/* Under the lock. False: the thread must end. */
static bool wait_until_asked(struct pod_watch *w, uint64_t due_ns)
{
    const struct timespec due = clock_timespec_of(due_ns);
    while (!w->is_over && (!w->asked || clock_monotonic_ns() < due_ns)) {
        if (w->asked)
            pthread_cond_timedwait(&w->changed, &w->lock, &due);
        else
            pthread_cond_wait(&w->changed, &w->lock);
    }
    return !w->is_over;
}

static void *watch_thread(void *context)
{
    struct pod_watch *w = context;
    const struct cri_options options = {
        .socket = w->socket, .label_keys = w->label_keys, .is_over = is_over, .context = w};
    uint64_t due_ns = 0, pause_ns = PAUSE_NS;
    pthread_mutex_lock(&w->lock);
    while (wait_until_asked(w, due_ns)) {
        struct pods *pods = NULL;
        char why[CRI_WHY_BYTES] = "";
        const bool was_missed = w->is_missed;
        w->asked = w->is_missed = false; /* pods that are missed from here on may be absent from this reply */
        pthread_mutex_unlock(&w->lock);
        int r = cri_ask(&options, &pods, why);
        pthread_mutex_lock(&w->lock);
        w->asks++;
        w->is_missed |= r < 0 && was_missed;
        if (r == 0)
            take_answer(w, pods);
        else if (!w->is_over || w->is_missed)
            take_failure(w, why);
        pause_ns = r == 0 ? PAUSE_NS : 2 * pause_ns < PAUSE_MAX_NS ? 2 * pause_ns : PAUSE_MAX_NS;
        due_ns = clock_monotonic_ns() + pause_ns;
        w->asked |= r < 0 && w->is_missed;
        pthread_cond_broadcast(&w->changed);
    }
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

static void wait_for_first(struct pod_watch *w)
{
    const struct timespec end = clock_timespec_of(clock_monotonic_ns() + FIRST_NS);
    pthread_mutex_lock(&w->lock);
    for (int r = 0; !w->asks && r == 0;)
        r = pthread_cond_timedwait(&w->changed, &w->lock, &end);
    pthread_mutex_unlock(&w->lock);
}

int pod_watch_new(const char *socket, const char *label_keys, struct processes *processes, struct pod_watch **ret)
{
    struct pod_watch *w = calloc(1, sizeof(*w));
    if (!w)
        return -ENOMEM;
    w->socket = strdup(socket);
    w->label_keys = strdup(label_keys);
    w->asked = true;
    pthread_mutex_init(&w->lock, NULL); /* cannot fail on Linux */
    clock_cond_init(&w->changed);
    int r = w->socket && w->label_keys ? -pthread_create(&w->thread, NULL, watch_thread, w) : -ENOMEM;
    if (r < 0) {
        w->is_over = true;
        pod_watch_free(w);
        return r;
    }
    (void)pthread_setname_np(w->thread, "pods");
    wait_for_first(w);
    pod_watch_turn(w, processes);
    *ret = w;
    return 0;
}

void pod_watch_free(struct pod_watch *w)
{
    if (!w)
        return;
    pthread_mutex_lock(&w->lock);
    const bool has_thread = !w->is_over;
    w->is_over = true;
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->lock);
    if (has_thread)
        pthread_join(w->thread, NULL);
    pods_unref(w->pods);
    pods_unref(w->taken);
    pthread_cond_destroy(&w->changed);
    pthread_mutex_destroy(&w->lock);
    free(w->socket);
    free(w->label_keys);
    free(w);
}

static void ask_soon(struct pod_watch *w, bool is_missed)
{
    pthread_mutex_lock(&w->lock);
    w->asked = true;
    w->is_missed |= is_missed;
    log_failure(w);
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->lock);
}

void pod_watch_ask(struct pod_watch *w)
{
    ask_soon(w, false);
}

void pod_watch_turn(struct pod_watch *w, struct processes *processes)
{
    pthread_mutex_lock(&w->lock);
    struct pods *latest = w->pods == w->taken ? NULL : pods_ref(w->pods);
    pthread_mutex_unlock(&w->lock);
    if (latest) {
        processes_set_pods(processes, latest);
        pods_unref(w->taken);
        w->taken = latest;
    }
    if (processes_misses_pods(processes))
        ask_soon(w, true);
}

struct pods *pod_watch_pods(const struct pod_watch *w)
{
    return w->taken;
}

void pod_watch_metrics(struct pod_watch *w, struct metric_set *set)
{
    pthread_mutex_lock(&w->lock);
    const uint64_t asks = w->asks, failures = w->failures;
    const size_t count = w->count;
    const unsigned left_out = w->left_out;
    pthread_mutex_unlock(&w->lock);
    metric_add(set, "sonde_pods", METRIC_GAUGE, "",
               "Pods in the last reply of the container runtime, including those that have ended.", (double)count,
               METRIC_NO_LABELS);
    metric_add(set, "sonde_pods_left_out", METRIC_GAUGE, "", "Pods and containers of that reply that were not kept.",
               left_out, METRIC_NO_LABELS);
    metric_add(set, "sonde_self_pods_requests", METRIC_COUNTER, "", "Queries to the container runtime for pods.",
               (double)asks, METRIC_NO_LABELS);
    metric_add(set, "sonde_self_pods_request_failures", METRIC_COUNTER, "", "Queries without a valid reply.",
               (double)failures, METRIC_NO_LABELS);
}
