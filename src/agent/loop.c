/* Drives the pipeline; see loop.h. */
#include "agent/loop.h"

#include "base/log.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <uv.h>

#define TURN_MS        250
#define TICK_MS        1000
#define POLL_MAX       1024
#define SAME_SIGNAL_MS 100
#define LAST_TURNS_MAX 16 /* final drains of a busy ring: bounds the delay by records that keep arriving */

struct loop {
    uv_loop_t uv;
    struct pipeline *pipeline;
    const struct loop_options *options; /* while it runs */
    struct loop_end end;
    uv_timer_t turn, tick, deadline;
    uv_signal_t interrupt, terminate, child;
    uv_poll_t *polls;
    size_t poll_count;
    int error;
    bool is_ready;
};

static void turn(struct loop *l)
{
    int r = pipeline_turn(l->pipeline);
    if (r == -ENODATA) {
        uv_stop(&l->uv);
    } else if (r < 0) {
        l->error = r;
        uv_stop(&l->uv);
    }
    if (!l->is_ready && l->options->ready)
        l->is_ready = l->options->ready(l->options->context);
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

static void on_deadline(uv_timer_t *timer)
{
    uv_stop(timer->loop);
}

static void on_signal(uv_signal_t *handle, int number)
{
    struct loop *l = handle->data;
    l->end.signal = number;
    uv_stop(&l->uv);
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

int loop_new(struct pipeline *p, struct loop **ret)
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
    uv_timer_init(&l->uv, &l->turn);
    uv_timer_init(&l->uv, &l->tick);
    uv_timer_init(&l->uv, &l->deadline);
    uv_signal_init(&l->uv, &l->interrupt);
    uv_signal_init(&l->uv, &l->terminate);
    uv_signal_init(&l->uv, &l->child);
    l->turn.data = l->tick.data = l->deadline.data = l;
    l->interrupt.data = l->terminate.data = l->child.data = l;
    uv_signal_start(&l->interrupt, on_signal, SIGINT);
    uv_signal_start(&l->terminate, on_signal, SIGTERM);
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

int loop_run(struct loop *l, const struct loop_options *options, struct loop_end *ret_end)
{
    assert(!l->options);
    l->options = options;
    int r = start_polls(l);
    if (r < 0)
        return r;
    start_timers(l);
    watch_child(l);
    if (!l->end.child_exited)
        uv_run(&l->uv, UV_RUN_DEFAULT);
    wait_for_same_signal(l);
    uv_signal_stop(&l->interrupt); /* restore the default actions */
    uv_signal_stop(&l->terminate);
    uv_signal_stop(&l->child);
    if (l->error)
        return l->error;
    pipeline_stop(l->pipeline);
    int last = 1;
    for (int i = 0; i < LAST_TURNS_MAX && last > 0; i++)
        last = pipeline_turn(l->pipeline);
    if (last < 0 && last != -ENODATA)
        return last;
    *ret_end = l->end;
    return 0;
}
