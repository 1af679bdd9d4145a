/* The agent's side of the attaching helper process; see link_attachments.h. Each attachment moves from its actual to
 * its desired state by one request at a time, and the number of requests in flight is limited. When the helper ends,
 * all attachments end with it: their links are discarded, and a new helper is started, at a limited rate. */
#include "sources/link/link_attachments.h"

#include "base/clock.h"
#include "base/descriptors.h"
#include "base/helper_process.h"
#include "sources/link/link_helper.h"
#include "sources/link/link_table.h"

#include <bpf/libbpf.h>

#include <linux/types.h>

#include "link.skel.h"
#include "probes/link.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <utlist.h>

#define SECOND_NS       1000000000ull
#define REQUESTS_MAX    16 /* requests in flight */
#define TRIES_MAX       6
#define RETRY_NS        SECOND_NS /* doubled after each failure */
#define RESTART_NS      (10 * SECOND_NS)
#define HELPER_START_MS 5000
#define END_WAIT_MS     3000 /* for an orderly detach */
#define KILLED_WAIT_MS  2000
#define FILES_SHARE     8 /* one in this many of our descriptors is used for files here */

struct link_attachment {
    struct link_attachment *prev, *next;
    uint32_t place;
    uid_t owner; /* owner of the file: each owner gets a share of the places */
    int fd;      /* of the file, to attach again */
    struct link_site sites[LINK_SITES_MAX];
    size_t count;
    bool is_removed; /* to be detached and freed */
    bool is_on;
    bool is_in_flight; /* a request is in flight */
    bool is_late;      /* already counted as late */
    unsigned tries;
    uint64_t retry_ns;
    uint64_t due_ns; /* since when a change is pending; 0: none, or waiting for a retry */
};

struct link_attachments {
    struct link_bpf *bpf;
    int control; /* -1: no helper runs */
    pid_t pid;
    pid_t slow_pid; /* a helper that had not ended when last waited for; 0: none */
    uint64_t started_ns;
    struct link_attachment *all;
    struct link_attachment *places[LINK_FILES_MAX];
    size_t in_flight;
    size_t max; /* files */
    bool paused;
    bool has_new_room;
    struct link_attachments_stats stats;
};

/* ---- helper process ---- */

static bool has_ended(pid_t pid, unsigned max_ms)
{
    for (unsigned waited_ms = 0; waitpid(pid, NULL, WNOHANG) == 0; waited_ms++) {
        if (waited_ms == max_ms)
            return false;
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    return true;
}

static uint64_t process_cpu_ns(const struct link_attachments *l)
{
    return l->control < 0 ? 0 : clock_process_cpu_ns(l->pid);
}

/* A helper blocked in the kernel does not end: it is reaped by a later cycle or by init. It holds no resources of the
 * agent. */
static void stop_helper(struct link_attachments *l, unsigned patience_ms, unsigned killed_patience_ms)
{
    if (l->control < 0)
        return;
    l->stats.cpu_ns += process_cpu_ns(l);
    close(l->control);
    l->control = -1;
    if (has_ended(l->pid, patience_ms))
        return;
    kill(l->pid, SIGKILL);
    if (!has_ended(l->pid, killed_patience_ms))
        l->slow_pid = l->pid;
}

static int wait_for_helper(struct link_attachments *l)
{
    struct pollfd readable = {.fd = l->control, .events = POLLIN};
    struct link_answer answer;
    if (poll(&readable, 1, HELPER_START_MS) <= 0)
        return -ETIMEDOUT;
    if (recv(l->control, &answer, sizeof(answer), MSG_DONTWAIT) != sizeof(answer))
        return -ECHILD;
    l->in_flight = 0;
    return answer.error;
}

static int start_helper(struct link_attachments *l)
{
    pid_t pid;
    int socket;
    l->started_ns = clock_monotonic_ns();
    const int r = helper_process_fork(&pid, &socket);
    if (r < 0)
        return r;
    if (pid == 0)
        link_helper_run(socket, l->bpf);
    l->control = socket;
    l->pid = pid;
    l->in_flight = 1; /* for its initial message */
    l->stats.starts++;
    return 0;
}

static void drop_helper(struct link_attachments *l)
{
    struct link_attachment *a;
    uint64_t count;
    stop_helper(l, 0, 0);
    /* thread_enter may have fired, thread_leave no longer fires. */
    if (link_table_forget_all(bpf_map__fd(l->bpf->maps.thread_links), true, &count) == 0)
        l->stats.forgotten += count;
    DL_FOREACH(l->all, a)
    {
        a->is_on = a->is_in_flight = false;
    }
    l->in_flight = 0;
}

/* ---- actual and desired state ---- */

static bool is_to_be_on(const struct link_attachments *l, const struct link_attachment *a)
{
    return !a->is_removed && !l->paused && a->tries < TRIES_MAX;
}

static int send_request(struct link_attachments *l, const struct link_attachment *a, bool on)
{
    struct link_ask ask = {.kind = on              ? LINK_ASK_ATTACH
                                   : a->is_removed ? LINK_ASK_DETACH
                                                   : LINK_ASK_DETACH_AND_FORGET,
                           .place = a->place,
                           .site_count = a->count};
    memcpy(ask.sites, a->sites, sizeof(ask.sites));
    const struct descriptors with = {.fds = {on ? a->fd : -1, -1}};
    const int r = descriptors_send(l->control, &ask, sizeof(ask), &with, MSG_DONTWAIT);
    l->in_flight += r == 0;
    return r;
}

static bool is_settled(const struct link_attachments *l, const struct link_attachment *a)
{
    return !a->is_in_flight && a->is_on == is_to_be_on(l, a);
}

/* Refused attachments wait for a retry, and all wait while no helper runs: nothing blocks them, so they are not late.
 */
static bool is_due(const struct link_attachments *l, const struct link_attachment *a, uint64_t now_ns)
{
    const bool pauses = !a->is_in_flight && !a->is_on && now_ns < a->retry_ns;
    return l->control >= 0 && !is_settled(l, a) && !pauses;
}

/* Sends the request that moves `a` towards its desired state. Returns 0 also when nothing is to be done or a request
 * is in flight. */
static int request_change(struct link_attachments *l, struct link_attachment *a, uint64_t now_ns)
{
    const bool on = is_to_be_on(l, a);
    if (!is_due(l, a, now_ns) || a->is_in_flight || l->in_flight == REQUESTS_MAX)
        return 0;
    int r = send_request(l, a, on);
    a->is_in_flight = r == 0;
    return r == -EAGAIN ? 0 : r;
}

static void count_late(struct link_attachments *l, struct link_attachment *a, uint64_t now_ns)
{
    if (!is_due(l, a, now_ns)) {
        a->due_ns = 0;
        a->is_late = false;
        return;
    }
    if (!a->due_ns)
        a->due_ns = now_ns;
    const uint64_t waits_ns = now_ns - a->due_ns;
    if (waits_ns > l->stats.waits_ns)
        l->stats.waits_ns = waits_ns;
    if (waits_ns < LINK_LATE_NS || a->is_late)
        return;
    a->is_late = true;
    l->stats.late++;
}

static void attachment_free(struct link_attachments *l, struct link_attachment *a)
{
    DL_DELETE(l->all, a);
    l->places[a->place] = NULL;
    l->has_new_room = true;
    closep(&a->fd);
    free(a);
}

static void take_answer(struct link_attachments *l, const struct link_answer *answer, uint64_t now_ns)
{
    struct link_attachment *a = answer->place < LINK_FILES_MAX ? l->places[answer->place] : NULL;
    l->in_flight--;
    l->stats.forgotten += answer->forgotten;
    if (!a || !a->is_in_flight)
        return;
    a->is_in_flight = false;
    a->is_on = !a->is_on && answer->error == 0;
    if (answer->error == 0) {
        a->tries = 0;
        return;
    }
    a->retry_ns = now_ns + (RETRY_NS << a->tries++);
    l->stats.refused++;
}

/* False: the helper has ended. */
static bool take_answers(struct link_attachments *l, uint64_t now_ns)
{
    struct link_answer answer;
    ssize_t n;
    while ((n = recv(l->control, &answer, sizeof(answer), MSG_DONTWAIT)) == sizeof(answer))
        take_answer(l, &answer, now_ns);
    return n < 0 && (errno == EAGAIN || errno == EINTR);
}

static void restart_helper(struct link_attachments *l, uint64_t now_ns)
{
    if (l->all && now_ns - l->started_ns >= RESTART_NS)
        (void)start_helper(l);
}

void link_attachments_turn(struct link_attachments *l)
{
    const uint64_t now_ns = clock_monotonic_ns();
    struct link_attachment *a, *next;
    if (l->control >= 0 && !take_answers(l, now_ns))
        drop_helper(l);
    if (l->slow_pid && has_ended(l->slow_pid, 0))
        l->slow_pid = 0;
    if (l->control < 0)
        restart_helper(l, now_ns);
    l->stats.attached = l->stats.waiting = l->stats.waits_ns = 0;
    DL_FOREACH_SAFE(l->all, a, next)
    {
        if (request_change(l, a, now_ns) < 0)
            drop_helper(l);
        count_late(l, a, now_ns);
        l->stats.waiting += !is_settled(l, a);
        l->stats.attached += a->is_on;
        if (a->is_removed && !a->is_on && !a->is_in_flight)
            attachment_free(l, a);
    }
}

/* ---- requested attachments ---- */

static size_t files_max(void)
{
    struct rlimit limit;
    const size_t share = getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur / FILES_SHARE : 16;
    return share < LINK_FILES_MAX ? share : LINK_FILES_MAX;
}

/* False: no place is free, or the owner has its share: half of the places that other owners leave, so that no owner can
 * take all.
 */
static bool find_place(const struct link_attachments *l, uid_t owner, uint32_t *ret)
{
    size_t own = 0, others = 0;
    uint32_t place = LINK_FILES_MAX;
    for (uint32_t i = 0; i < l->max; i++) {
        const struct link_attachment *a = l->places[i];
        own += a && a->owner == owner;
        others += a && a->owner != owner;
        if (!a && place == LINK_FILES_MAX)
            place = i;
    }
    if (place == LINK_FILES_MAX || own >= (l->max - others + 1) / 2)
        return false;
    *ret = place;
    return true;
}

/* The sites of libsonde's objects; see attach_file() in link_helper.c. */
static bool are_usable(const struct link_site *sites, size_t count)
{
    size_t enters = 0;
    for (size_t i = 0; count <= LINK_SITES_MAX && i < count; i++)
        enters += !sites[i].is_leave;
    return enters == 1 && count > 1;
}

static int add_attachment(struct link_attachments *l, int fd, const struct link_site *sites, size_t count,
                          struct link_attachment **ret)
{
    struct stat file;
    uint32_t place;
    if (!are_usable(sites, count))
        return -EINVAL;
    if (fstat(fd, &file) < 0)
        return -errno;
    if (!find_place(l, file.st_uid, &place))
        return -ENOSPC;
    struct link_attachment *a = calloc(1, sizeof(*a));
    if (!a)
        return -ENOMEM;
    a->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (a->fd < 0) {
        const int error = -errno;
        free(a);
        return error;
    }
    a->owner = file.st_uid;
    memcpy(a->sites, sites, count * sizeof(*sites));
    a->count = count;
    a->place = place;
    l->places[place] = a;
    DL_APPEND(l->all, a);
    *ret = a;
    return 0;
}

int link_attachments_add(struct link_attachments *l, int fd, const struct link_site *sites, size_t count,
                         struct link_attachment **ret)
{
    struct link_attachment *a = NULL;
    int r = add_attachment(l, fd, sites, count, &a);
    if (r < 0) {
        l->stats.no_room += r != -EINVAL;
        return r;
    }
    *ret = a;
    link_attachments_turn(l);
    return 0;
}

void link_attachments_remove(struct link_attachments *l, struct link_attachment *a)
{
    a->is_removed = true;
    link_attachments_turn(l);
}

bool link_attachments_has_new_room(struct link_attachments *l)
{
    const bool has_new_room = l->has_new_room;
    l->has_new_room = false;
    return has_new_room;
}

void link_attachments_pause(struct link_attachments *l, bool paused)
{
    l->paused = paused;
    link_attachments_turn(l);
}

/* ---- life cycle ---- */

int link_attachments_new(struct link_bpf *bpf, struct link_attachments **ret)
{
    _cleanup_(link_attachments_freep) struct link_attachments *l = calloc(1, sizeof(*l));
    if (!l)
        return -ENOMEM;
    l->bpf = bpf;
    l->control = -1;
    l->max = files_max();
    int r = start_helper(l);
    if (r == 0)
        r = wait_for_helper(l);
    if (r < 0)
        return r;
    *ret = take_ptr(l);
    return 0;
}

void link_attachments_free(struct link_attachments *l)
{
    if (!l)
        return;
    stop_helper(l, END_WAIT_MS, KILLED_WAIT_MS);
    while (l->all)
        attachment_free(l, l->all);
    free(l);
}

void link_attachments_stats(const struct link_attachments *l, struct link_attachments_stats *ret)
{
    *ret = l->stats;
    ret->cpu_ns += process_cpu_ns(l);
    ret->pid = l->control < 0 ? 0 : (int)l->pid;
}
