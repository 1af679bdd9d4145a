/* Drives the pipeline; see loop.h.
 *
 * SIGINT and SIGTERM have a handler of their own rather than libuv's, which only wakes the main thread: this one also
 * sets an alarm, whose signal ends the process even if the main thread never looks again. */
#include "pipeline/loop.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/turn_time.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/wait.h>
#include <uv.h>

#define NOTICE_MAX_S   5
#define END_MAX_S      10 /* a receiver that does not answer gets 5 s for the last packets */
#define TURN_MS        250
#define TICK_MS        1000
#define POLL_MAX       1024
#define SAME_SIGNAL_MS 100
#define LAST_TURNS_MAX 16            /* final drains of a busy ring: bounds the delay by records that keep arriving */
#define LAST_TURNS_NS  2000000000ull /* of a service: part of END_MAX_S, however slow the machine is */
/* A turn of a service. An item that begins last can still wait longer than the second that shows that a file system
 * does not respond (resolve/remote/file_wait.h). */
#define TURN_ITEMS_NS 1000000000ull
#define TURN_WAITS_NS 2500000000ull

struct loop {
    enum loop_kind kind;
    uv_loop_t uv;
    struct pipeline *pipeline;
    const struct loop_options *options; /* while it runs */
    struct loop_end end;
    uv_timer_t turn, tick, deadline;
    uv_async_t ended; /* by SIGINT or SIGTERM */
    uv_async_t wake;
    uv_signal_t child, hangup;
    uv_poll_t *polls;
    size_t poll_count;
    int error;
    bool is_ready;
};

/* What the handler of SIGINT and SIGTERM needs. */
static struct {
    uv_async_t *ended;
    bool is_service;
    volatile sig_atomic_t number;
} at_signal;

static void turn(struct loop *l)
{
    if (l->kind == LOOP_OF_SERVICE)
        turn_time_begin(TURN_ITEMS_NS, TURN_WAITS_NS);
    int r = pipeline_turn(l->pipeline);
    turn_time_end();
    if (r == -ENODATA) {
        uv_stop(&l->uv);
    } else if (r < 0) {
        l->error = r;
        uv_stop(&l->uv);
    }
    if (!l->is_ready && l->options->ready)
        l->is_ready = l->options->ready(l->options->context);
    if (l->options->turned_ns)
        atomic_store_explicit(l->options->turned_ns, clock_monotonic_ns(), memory_order_relaxed);
}

static void on_turn(uv_timer_t *timer)
{
    turn(timer->data);
}

static void on_readable(uv_poll_t *poll, int status, int events)
{
    (void)events;
    if (status < 0)
        uv_poll_stop(poll); /* the timer still runs turns */
    else
        turn(poll->data);
}

static void on_tick(uv_timer_t *timer)
{
    struct loop *l = timer->data;
    if (!l->options->tick(l->options->context))
        uv_stop(&l->uv);
}

static void on_wake(uv_async_t *wake)
{
    const struct loop *l = wake->data;
    if (l->options && l->options->woken)
        l->options->woken(l->options->context);
}

void loop_wake(struct loop *l)
{
    uv_async_send(&l->wake);
}

static void on_deadline(uv_timer_t *timer)
{
    uv_stop(timer->loop);
}

/* In the signal handler. */
static void handle_end_signal(int number)
{
    const int saved = errno;
    if (at_signal.is_service) {
        alarm(NOTICE_MAX_S);
        turn_time_interrupt();
    }
    at_signal.number = number;
    uv_async_send(at_signal.ended);
    errno = saved;
}

static void on_end_signal(uv_async_t *ended)
{
    struct loop *l = ended->data;
    if (l->kind == LOOP_OF_SERVICE)
        alarm(END_MAX_S);
    l->end.signal = at_signal.number;
    uv_stop(&l->uv);
}

static void set_end_signals(void (*handler)(int number))
{
    const struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

static void on_child(uv_signal_t *handle, int number)
{
    (void)number;
    struct loop *l = handle->data;
    if (waitpid(l->options->child_pid, &l->end.child_status, WNOHANG) == l->options->child_pid) {
        l->end.child_exited = true;
        uv_stop(&l->uv);
    }
}

static void on_hangup(uv_signal_t *handle, int number)
{
    (void)number;
    const struct loop *l = handle->data;
    l->options->hangup(l->options->context);
}

static int start_polls(struct loop *l)
{
    int fds[POLL_MAX];
    size_t count = pipeline_poll_fds(l->pipeline, fds, POLL_MAX);
    l->polls = calloc(count ? count : 1, sizeof(*l->polls));
    if (!l->polls)
        return -ENOMEM;
    for (size_t i = 0; i < count; i++) {
        uv_poll_t *poll = &l->polls[l->poll_count];
        if (uv_poll_init(&l->uv, poll, fds[i]) < 0)
            continue; /* not pollable: the timer drains it */
        l->poll_count++;
        poll->data = l;
        uv_poll_start(poll, UV_READABLE, on_readable);
    }
    return 0;
}

static void start_timers(struct loop *l)
{
    uv_update_time(&l->uv); /* the cached time is that of loop_new */
    uv_timer_start(&l->turn, on_turn, 0, TURN_MS);
    if (l->options->tick)
        uv_timer_start(&l->tick, on_tick, TICK_MS, TICK_MS);
    if (l->options->duration_ns)
        uv_timer_start(&l->deadline, on_deadline, l->options->duration_ns / 1000000 + 1,
                       0); /* +1: libuv's clock truncates to milliseconds */
}

static void watch_child(struct loop *l)
{
    if (l->options->child_pid <= 0)
        return;
    uv_signal_start(&l->child, on_child, SIGCHLD);
    on_child(&l->child, SIGCHLD); /* it may have exited before the handler was installed */
}

int loop_new(struct pipeline *p, enum loop_kind kind, struct loop **ret)
{
    struct loop *l = calloc(1, sizeof(*l));
    if (!l)
        return -ENOMEM;
    int r = uv_loop_init(&l->uv);
    if (r < 0) {
        free(l);
        return r; /* libuv errors are -errno on Linux */
    }
    l->pipeline = p;
    l->kind = kind;
    uv_timer_init(&l->uv, &l->turn);
    uv_timer_init(&l->uv, &l->tick);
    uv_timer_init(&l->uv, &l->deadline);
    uv_async_init(&l->uv, &l->ended, on_end_signal);
    uv_async_init(&l->uv, &l->wake, on_wake);
    uv_signal_init(&l->uv, &l->child);
    uv_signal_init(&l->uv, &l->hangup);
    l->turn.data = l->tick.data = l->deadline.data = l;
    l->ended.data = l->wake.data = l->child.data = l->hangup.data = l;
    at_signal.ended = &l->ended;
    at_signal.is_service = kind == LOOP_OF_SERVICE;
    set_end_signals(handle_end_signal);
    *ret = l;
    return 0;
}

static void close_handle(uv_handle_t *handle, void *context)
{
    (void)context;
    if (!uv_is_closing(handle))
        uv_close(handle, NULL);
}

void loop_free(struct loop *l)
{
    if (!l)
        return;
    set_end_signals(SIG_DFL);
    uv_walk(&l->uv, close_handle, NULL);
    do
        uv_run(&l->uv, UV_RUN_DEFAULT); /* runs the close callbacks; a pending uv_stop makes one run return early */
    while (uv_loop_close(&l->uv) == UV_EBUSY);
    free(l->polls);
    free(l);
}

/* Ctrl-C signals the whole foreground process group. If the child died of it, this process received the same signal,
 * but another thread may handle it slightly later; wait for it briefly. */
static void wait_for_same_signal(struct loop *l)
{
    if (!l->end.child_exited || l->end.signal || !WIFSIGNALED(l->end.child_status))
        return;
    uv_timer_start(&l->deadline, on_deadline, SAME_SIGNAL_MS, 0);
    uv_run(&l->uv, UV_RUN_DEFAULT);
}

/* Turns the stopped pipeline until it has no more records or, in a service, no more time. */
static int take_last_turns(const struct loop *l)
{
    const uint64_t end_ns = l->kind == LOOP_OF_SERVICE ? clock_monotonic_ns() + LAST_TURNS_NS : UINT64_MAX;
    int last = 1;
    for (int i = 0; i < LAST_TURNS_MAX && last > 0; i++) {
        const uint64_t now_ns = clock_monotonic_ns();
        if (now_ns >= end_ns)
            break;
        if (l->kind == LOOP_OF_SERVICE)
            turn_time_begin(end_ns - now_ns, end_ns - now_ns);
        last = pipeline_turn(l->pipeline);
        turn_time_end();
    }
    if (last < 0 && last != -ENODATA)
        return last;
    const uint64_t dropped = pipeline_drop_rest(l->pipeline);
    if (dropped)
        log_warning("%" PRIu64 " records and waits were not resolved in time: they are missing in the last data",
                    dropped);
    return 0;
}

int loop_run(struct loop *l, const struct loop_options *options, struct loop_end *ret_end)
{
    assert(!l->options);
    l->options = options;
    int r = start_polls(l);
    if (r < 0)
        return r;
    start_timers(l);
    watch_child(l);
    if (options->hangup)
        uv_signal_start(&l->hangup, on_hangup, SIGHUP);
    if (!l->end.child_exited)
        uv_run(&l->uv, UV_RUN_DEFAULT);
    wait_for_same_signal(l);
    set_end_signals(SIG_DFL);
    turn_time_resume();
    uv_signal_stop(&l->child);
    if (l->error)
        return l->error;
    pipeline_stop(l->pipeline);
    r = take_last_turns(l);
    if (r == 0)
        *ret_end = l->end;
    return r;
}
