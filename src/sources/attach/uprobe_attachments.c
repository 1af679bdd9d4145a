/* See uprobe_attachments.h. Each attachment moves from its actual to its desired state by one ask at a time. When the
 * helper ends, all that it attached is detached; another one is started, at a limited rate. */
#include "sources/attach/uprobe_attachments.h"

#include "base/clock.h"
#include "base/descriptors.h"
#include "base/helper_process.h"
#include "sources/attach/uprobe_helper.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define IN_FLIGHT_MAX 16
#define RESTART_NS    10000000000ull
#define END_WAIT_MS   3000

struct uprobe_attachment {
    struct uprobe_ask ask;
    int fd;
    bool is_removed;
    bool is_on;
    bool is_in_flight;
    bool is_refused;
};

struct uprobe_attachments {
    char helper_name[16];
    struct uprobe_programs kinds[UPROBE_KINDS_MAX];
    size_t kind_count;
    int control; /* -1: no helper runs */
    pid_t pid;
    uint64_t started_ns;
    size_t in_flight;
    struct uprobe_attachment *places[UPROBE_ATTACHMENTS_MAX];
    struct uprobe_attachments_stats stats;
};

/* ---- helper process ---- */

static void reap(pid_t pid, unsigned wait_ms)
{
    for (unsigned waited_ms = 0; waitpid(pid, NULL, WNOHANG) == 0; waited_ms++) {
        if (waited_ms == wait_ms) {
            kill(pid, SIGKILL); /* if the kernel blocks its exit, init reaps it */
            return;
        }
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
}

static void stop_helper(struct uprobe_attachments *a, unsigned wait_ms)
{
    if (a->control < 0)
        return;
    a->stats.cpu_ns += clock_process_cpu_ns(a->pid);
    close(a->control);
    a->control = -1;
    a->in_flight = 0;
    reap(a->pid, wait_ms);
    for (size_t i = 0; i < UPROBE_ATTACHMENTS_MAX; i++)
        if (a->places[i])
            a->places[i]->is_on = a->places[i]->is_in_flight = false;
}

static void start_helper(struct uprobe_attachments *a, uint64_t now_ns)
{
    if (a->started_ns && now_ns - a->started_ns < RESTART_NS)
        return;
    a->started_ns = now_ns;
    if (helper_process_fork(&a->pid, &a->control) < 0) {
        a->control = -1;
        return;
    }
    if (a->pid == 0)
        uprobe_helper_run(a->control, a->helper_name, a->kinds, a->kind_count);
    a->stats.starts++;
}

/* False: the helper has ended. */
static bool take_answers(struct uprobe_attachments *a)
{
    struct uprobe_answer answer;
    ssize_t n;
    while ((n = recv(a->control, &answer, sizeof(answer), MSG_DONTWAIT)) == sizeof(answer)) {
        struct uprobe_attachment *t = answer.place < UPROBE_ATTACHMENTS_MAX ? a->places[answer.place] : NULL;
        a->in_flight--;
        if (!t)
            continue;
        t->is_in_flight = false;
        t->is_on = t->ask.is_on && answer.error == 0;
        if (answer.error < 0) {
            t->is_refused = true;
            a->stats.last_error = answer.error;
        }
    }
    return n < 0 && (errno == EAGAIN || errno == EINTR);
}

/* ---- attachments ---- */

static bool is_to_be_on(const struct uprobe_attachments *a, const struct uprobe_attachment *t)
{
    return !a->stats.is_stopped && !t->is_removed && !t->is_refused;
}

static bool is_settled(const struct uprobe_attachments *a, const struct uprobe_attachment *t)
{
    return !t->is_in_flight && t->is_on == is_to_be_on(a, t);
}

/* False: the helper does not take it. */
static bool ask_change(struct uprobe_attachments *a, struct uprobe_attachment *t)
{
    if (is_settled(a, t) || t->is_in_flight || a->in_flight == IN_FLIGHT_MAX)
        return true;
    t->ask.is_on = is_to_be_on(a, t);
    const struct descriptors with = {.fds = {t->ask.is_on ? t->fd : -1, -1}};
    const int r = descriptors_send(a->control, &t->ask, sizeof(t->ask), &with, MSG_DONTWAIT);
    t->is_in_flight = r == 0;
    a->in_flight += r == 0;
    return r == 0 || r == -EAGAIN;
}

static void attachment_free(struct uprobe_attachment *t)
{
    closep(&t->fd);
    free(t);
}

void uprobe_attachments_turn(struct uprobe_attachments *a)
{
    bool is_needed = false;
    if (a->control >= 0 && !take_answers(a))
        stop_helper(a, 0);
    a->stats.attached = a->stats.waiting = a->stats.refused = 0;
    for (size_t i = 0; i < UPROBE_ATTACHMENTS_MAX; i++) {
        struct uprobe_attachment *t = a->places[i];
        if (!t)
            continue;
        if (t->is_removed && !t->is_on && !t->is_in_flight) {
            attachment_free(t);
            a->places[i] = NULL;
            continue;
        }
        is_needed |= !is_settled(a, t);
        if (a->control >= 0 && !ask_change(a, t))
            stop_helper(a, 0);
        a->stats.attached += t->is_on;
        a->stats.waiting += !is_settled(a, t);
        a->stats.refused += t->is_refused;
    }
    if (is_needed && a->control < 0)
        start_helper(a, clock_monotonic_ns());
}

int uprobe_attachments_add(struct uprobe_attachments *a, int fd, int32_t pid, const struct uprobe_site *sites,
                           size_t count, struct uprobe_attachment **ret)
{
    size_t place = 0;
    if (count == 0 || count > UPROBE_SITES_MAX)
        return -EINVAL;
    while (place < UPROBE_ATTACHMENTS_MAX && a->places[place])
        place++;
    if (place == UPROBE_ATTACHMENTS_MAX)
        return -ENOSPC;
    struct uprobe_attachment *t = calloc(1, sizeof(*t));
    if (!t)
        return -ENOMEM;
    t->ask = (struct uprobe_ask){.place = (uint32_t)place, .pid = pid, .site_count = (uint32_t)count};
    memcpy(t->ask.sites, sites, count * sizeof(*sites));
    t->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (t->fd < 0) {
        attachment_free(t);
        return -EMFILE;
    }
    a->places[place] = *ret = t;
    return 0;
}

bool uprobe_attachment_is_on(const struct uprobe_attachment *t)
{
    return t->is_on;
}

void uprobe_attachments_remove(struct uprobe_attachments *a, struct uprobe_attachment *t)
{
    t->is_removed = true;
    uprobe_attachments_turn(a);
}

void uprobe_attachments_stop(struct uprobe_attachments *a)
{
    a->stats.is_stopped = true;
    uprobe_attachments_turn(a);
}

bool uprobe_attachments_is_stopped(const struct uprobe_attachments *a)
{
    return a->stats.is_stopped;
}

/* ---- life cycle ---- */

int uprobe_attachments_new(const char *helper_name, const struct uprobe_programs *kinds, size_t kind_count,
                           struct uprobe_attachments **ret)
{
    struct uprobe_attachments *a = calloc(1, sizeof(*a));
    if (!a)
        return -ENOMEM;
    assert(kind_count <= UPROBE_KINDS_MAX);
    snprintf(a->helper_name, sizeof(a->helper_name), "%s", helper_name);
    memcpy(a->kinds, kinds, kind_count * sizeof(*kinds));
    a->kind_count = kind_count;
    a->control = -1;
    *ret = a;
    return 0;
}

void uprobe_attachments_free(struct uprobe_attachments *a)
{
    if (!a)
        return;
    stop_helper(a, END_WAIT_MS);
    for (size_t i = 0; i < UPROBE_ATTACHMENTS_MAX; i++)
        if (a->places[i])
            attachment_free(a->places[i]);
    free(a);
}

void uprobe_attachments_stats(const struct uprobe_attachments *a, struct uprobe_attachments_stats *ret)
{
    *ret = a->stats;
    if (a->control >= 0)
        ret->cpu_ns += clock_process_cpu_ns(a->pid);
}
