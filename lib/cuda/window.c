/* What is subscribed to at CUPTI, and its callbacks. CUPTI calls them on any thread: at launches, when it needs a
 * buffer, and when a buffer is full or flushed. */
#include "cuda/window.h"

#include "cuda/cupti_library.h"
#include "cuda/launches.h"
#include "cuda/probes.h"
#include "cuda/sums.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define BUFFER_BYTES (256 << 10)
#define BUFFERS_MAX  64 /* in use at a time; CUPTI counts what it then has to drop */
#define DETACH_MS    1000

enum detach { DETACH_DONE, DETACH_WANTED, DETACH_BEGUN };

/* Of the current window, or the last one. */
static const struct cupti *cupti;
static uint32_t cupti_version;
static bool is_open;
static void *subscriber;
static atomic_bool records_launches;
static _Atomic int detach_state; /* enum detach */
static _Atomic int buffers;
static uint32_t windows; /* so far */

static pthread_mutex_t results = PTHREAD_MUTEX_INITIALIZER; /* guards: */
static struct sums *sums;                                   /* NULL: no window */
static uint64_t untimed, dropped;

static const uint32_t recorded_kinds[] = {CUPTI_KIND_CONCURRENT_KERNEL, CUPTI_KIND_MEMCPY, CUPTI_KIND_MEMCPY2,
                                          CUPTI_KIND_MEMSET};
#define RECORDED_KINDS (sizeof(recorded_kinds) / sizeof(*recorded_kinds))

/* ---- launches ---- */

static bool is_graph_launch(uint32_t domain, uint32_t call)
{
    return domain == CUPTI_DOMAIN_RUNTIME
               ? call == CUPTI_RUNTIME_GRAPH_LAUNCH || call == CUPTI_RUNTIME_GRAPH_LAUNCH_PTSZ
               : call == CUPTI_DRIVER_GRAPH_LAUNCH || call == CUPTI_DRIVER_GRAPH_LAUNCH_PTSZ;
}

/* Detaches, unless another thread does or did. */
static void detach(bool finalizes)
{
    int wanted = DETACH_WANTED;
    if (!atomic_compare_exchange_strong(&detach_state, &wanted, DETACH_BEGUN))
        return;
    (void)cupti->unsubscribe(subscriber);
    if (finalizes)
        (void)cupti->finalize();
    atomic_store(&detach_state, DETACH_DONE);
}

static void on_call(void *user, uint32_t domain, uint32_t call, const struct cupti_call *c)
{
    (void)user;
    if (c->site == CUPTI_SITE_ENTER) {
        if (atomic_load_explicit(&records_launches, memory_order_relaxed))
            launches_enter(c->correlation, is_graph_launch(domain, call));
        return;
    }
    /* CUPTI can be detached from safely where a call of the program ends. */
    if (launches_exit() && atomic_load_explicit(&detach_state, memory_order_relaxed) == DETACH_WANTED)
        detach(true);
}

/* ---- finished work ---- */

static void on_request(uint8_t **buffer, size_t *size, size_t *max_records)
{
    *buffer = NULL;
    *max_records = 0; /* as many as fit */
    if (atomic_fetch_add(&buffers, 1) < BUFFERS_MAX)
        *buffer = malloc(BUFFER_BYTES);
    *size = *buffer ? BUFFER_BYTES : 0;
    if (!*buffer)
        atomic_fetch_sub(&buffers, 1);
}

static void add_execution(const struct sums_work *work, uint32_t correlation, uint64_t start, uint64_t end)
{
    if (start == 0 || end <= start)
        untimed++;
    else
        sums_add(sums, work, launches_find(correlation), end - start);
}

static void add_kernel(const struct cupti_kernel *k)
{
    const char *name = k->name ? k->name : "";
    const bool is_nccl = strncmp(name, "ncclDevKernel_", 14) == 0 || strncmp(name, "ncclKernel_", 11) == 0;
    const struct sums_work work = {.kind = is_nccl ? GPU_WORK_NCCL : GPU_WORK_KERNEL,
                                   .device = k->device,
                                   .is_graph = k->graph_node != 0,
                                   .name = name};
    add_execution(&work, k->correlation, k->start, k->end);
}

static const char *copy_text(uint8_t direction)
{
    static const char *const texts[] = {
        [CUPTI_COPY_HTOD] = "copy host to device",  [CUPTI_COPY_DTOH] = "copy device to host",
        [CUPTI_COPY_HTOA] = "copy host to array",   [CUPTI_COPY_ATOH] = "copy array to host",
        [CUPTI_COPY_ATOA] = "copy array to array",  [CUPTI_COPY_ATOD] = "copy array to device",
        [CUPTI_COPY_DTOA] = "copy device to array", [CUPTI_COPY_DTOD] = "copy device to device",
        [CUPTI_COPY_HTOH] = "copy host to host",    [CUPTI_COPY_PTOP] = "copy device to other device"};
    return direction < sizeof(texts) / sizeof(*texts) && texts[direction] ? texts[direction] : "copy";
}

static void add_copy(const struct cupti_copy *c)
{
    const struct sums_work work = {
        .kind = GPU_WORK_COPY, .device = c->device, .is_graph = c->graph_node != 0, .name = copy_text(c->direction)};
    add_execution(&work, c->correlation, c->start, c->end);
}

static void add_peer_copy(const struct cupti_peer_copy *c)
{
    const struct sums_work work = {
        .kind = GPU_WORK_COPY, .device = c->device, .is_graph = c->graph_node != 0, .name = copy_text(c->direction)};
    add_execution(&work, c->correlation, c->start, c->end);
}

static void add_set(const struct cupti_set *s)
{
    const struct sums_work work = {
        .kind = GPU_WORK_SET, .device = s->device, .is_graph = s->graph_node != 0, .name = "memset"};
    add_execution(&work, s->correlation, s->start, s->end);
}

static void add_record(const void *record)
{
    switch (*(const uint32_t *)record) {
    case CUPTI_KIND_CONCURRENT_KERNEL:
        add_kernel(record);
        break;
    case CUPTI_KIND_MEMCPY:
        add_copy(record);
        break;
    case CUPTI_KIND_MEMCPY2:
        add_peer_copy(record);
        break;
    case CUPTI_KIND_MEMSET:
        add_set(record);
        break;
    default: /* kinds that other code of the program has enabled */
        break;
    }
}

static void on_complete(void *context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid_size)
{
    void *record = NULL;
    size_t lost = 0;
    (void)size;
    pthread_mutex_lock(&results);
    if (sums) {
        while (cupti->next(buffer, valid_size, &record) == CUPTI_OK)
            add_record(record);
        if (cupti->dropped(context, stream, &lost) == CUPTI_OK)
            dropped += lost;
    }
    pthread_mutex_unlock(&results);
    free(buffer);
    atomic_fetch_sub(&buffers, 1);
}

/* ---- the window ---- */

/* The counters of the window, and its state. */
static void report_state(enum gpu_window_state state, int error, const char *reason)
{
    struct sums_totals of_sums = {0};
    struct launches_totals of_launches;
    struct gpu_window w = {.h = {.size_bytes = sizeof(w), .kind = RECORD_GPU_WINDOW}, .state = state, .error = error};
    launches_totals(&of_launches);
    pthread_mutex_lock(&results);
    if (sums)
        sums_totals(sums, &of_sums);
    w.untimed = untimed;
    w.dropped = dropped;
    pthread_mutex_unlock(&results);
    w.launches = of_launches.launches;
    w.stacks = of_launches.stacks;
    w.executions = of_sums.executions;
    w.unnamed = of_sums.unnamed;
    snprintf(w.reason, sizeof(w.reason), "%s", reason);
    cuda_probes_record(&w.h);
}

/* Replaces the results of the last window by `new`; NULL: none. */
static void set_results(struct sums *new)
{
    pthread_mutex_lock(&results);
    struct sums *old = sums;
    sums = new;
    untimed = dropped = 0;
    pthread_mutex_unlock(&results);
    sums_free(old);
}

static void set_launch_callbacks(uint32_t enable)
{
    /* A version of CUPTI does not know the calls of later ones, and refuses them. */
#define X(domain, first, last)                                                                                         \
    for (uint32_t call = (first); call <= (last); call++)                                                              \
        (void)cupti->enable_callback(enable, subscriber, domain, call);
    CUPTI_LAUNCH_CALLS(X)
#undef X
}

static void disable_kinds(size_t count)
{
    for (size_t i = 0; i < count; i++)
        (void)cupti->disable(recorded_kinds[i]);
}

/* CUPTI's error, with what failed in `*ret_what`. */
static int begin_recording(const char **ret_what)
{
    size_t enabled = 0;
    int error = cupti->subscribe(&subscriber, on_call, NULL);
    if (error != CUPTI_OK) {
        *ret_what =
            error == CUPTI_MULTIPLE_SUBSCRIBERS ? "another profiler is subscribed to CUPTI" : "cuptiSubscribe failed";
        return error;
    }
    *ret_what = "cuptiActivityRegisterCallbacks failed";
    error = cupti->register_callbacks(on_request, on_complete);
    while (error == CUPTI_OK && enabled < RECORDED_KINDS) {
        *ret_what = "cuptiActivityEnable failed";
        error = cupti->enable(recorded_kinds[enabled]);
        enabled += error == CUPTI_OK;
    }
    if (error != CUPTI_OK) {
        disable_kinds(enabled);
        (void)cupti->unsubscribe(subscriber);
        return error;
    }
    set_launch_callbacks(1);
    return CUPTI_OK;
}

/* The same, and loads CUPTI. */
static int try_open(const char **ret_what)
{
    if (atomic_load(&detach_state) != DETACH_DONE) {
        *ret_what = "CUPTI is still detaching from the last recording";
        return -1;
    }
    launches_begin(++windows);
    *ret_what = "out of memory";
    set_results(sums_new());
    if (!sums)
        return -1;
    cupti = cupti_library_load(&cupti_version, ret_what);
    if (!cupti)
        return -1;
    atomic_store(&records_launches, true);
    return begin_recording(ret_what);
}

void window_open(void)
{
    const char *reason = "";
    const int error = try_open(&reason);
    is_open = error == CUPTI_OK;
    report_state(is_open ? GPU_WINDOW_BEGAN : GPU_WINDOW_REFUSED, error, is_open ? "" : reason);
    if (is_open)
        return;
    atomic_store(&records_launches, false);
    set_results(NULL);
}

static void report_sums(bool all)
{
    pthread_mutex_lock(&results);
    if (sums)
        sums_report(sums, all);
    pthread_mutex_unlock(&results);
}

void window_tick(void)
{
    if (!is_open)
        return;
    (void)cupti->flush(0);
    report_sums(false);
    launches_tick();
}

static void wait_for_call(void)
{
    for (int ms = 0; ms < DETACH_MS && atomic_load(&detach_state) != DETACH_DONE; ms += 10)
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
}

void window_close(bool waits)
{
    if (!is_open)
        return;
    is_open = false;
    atomic_store(&records_launches, false);
    disable_kinds(RECORDED_KINDS);
    (void)cupti->flush(CUPTI_FLUSH_FORCED);
    report_sums(true);
    report_state(GPU_WINDOW_ENDED, 0, "");
    set_results(NULL);
    const bool finalizes = cupti_version >= CUPTI_VERSION_SAFE_FINALIZE;
    atomic_store(&detach_state, DETACH_WANTED);
    if (waits && finalizes)
        wait_for_call();
    detach(false);
}

void window_fork(void)
{
    is_open = false;
    atomic_store(&records_launches, false);
    atomic_store(&detach_state, DETACH_DONE);
}
