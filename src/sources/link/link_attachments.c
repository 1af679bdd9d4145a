/* The agent's side of the attaching process; see link_attachments.h. Every attachment is brought from how it
 * is to how it should be by one question at a time, and a bounded number of questions is under way. A process
 * that has gone took all attachments with it: what they told is believed no more, and a new one is started,
 * not too often. */
#include "sources/link/link_attachments.h"

#include "base/clock.h"
#include "base/descriptors.h"
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

#define SECOND_NS      1000000000ull
#define ASKED_MAX      16 /* under way at a time */
#define TRIES_MAX      6
#define RETRY_NS       SECOND_NS /* doubled each time */
#define START_AGAIN_NS (10 * SECOND_NS)
#define FIRST_WORD_MS  5000
#define END_WAIT_MS    3000 /* for all to be detached in order */
#define KILLED_WAIT_MS 2000
#define FILES_SHARE    8 /* of the descriptors that we may have, one in so many is a file here */

struct link_attachment {
    struct link_attachment *prev, *next;
    uint32_t place;
    uid_t owner; /* of the file: has a share of the places */
    int fd;      /* of the file, to attach again */
    struct link_site sites[LINK_SITES_MAX];
    size_t count;
    bool is_removed; /* nobody wants it any more */
    bool is_on;
    bool is_asked; /* to be switched, which is not answered yet */
    bool is_late;  /* counted as such */
    unsigned tries;
    uint64_t retry_ns;
    uint64_t due_ns; /* since when it has been to be switched; 0: it is not, or pauses */
};

struct link_attachments {
    struct link_bpf *bpf;
    int control; /* -1: no process runs */
    pid_t pid;
    pid_t slow_pid; /* of one that had not ended when it was last waited for; 0: none */
    uint64_t started_ns;
    struct link_attachment *all;
    struct link_attachment *places[LINK_FILES_MAX];
    size_t asked;
    size_t max; /* files */
    bool asleep;
    bool has_new_room;
    struct link_attachments_stats figures;
};

/* ---- the process ---- */

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
    clockid_t clock;
    struct timespec t;
    if (l->control < 0 || clock_getcpuclockid(l->pid, &clock) != 0 || clock_gettime(clock, &t) < 0)
        return 0;
    return (uint64_t)t.tv_sec * SECOND_NS + (uint64_t)t.tv_nsec;
}

/* One that does not end, because the kernel does not let it, is left to the next turns, or to init: it holds
 * nothing of ours. */
static void stop(struct link_attachments *l, unsigned patience_ms, unsigned killed_patience_ms)
{
    if (l->control < 0)
        return;
    l->figures.cpu_ns += process_cpu_ns(l);
    close(l->control);
    l->control = -1;
    if (has_ended(l->pid, patience_ms))
        return;
    kill(l->pid, SIGKILL);
    if (!has_ended(l->pid, killed_patience_ms))
        l->slow_pid = l->pid;
}

static int hear_first_word(struct link_attachments *l)
{
    struct pollfd heard = {.fd = l->control, .events = POLLIN};
    struct link_answer said;
    if (poll(&heard, 1, FIRST_WORD_MS) <= 0)
        return -ETIMEDOUT;
    if (recv(l->control, &said, sizeof(said), MSG_DONTWAIT) != sizeof(said))
        return -ECHILD;
    l->asked = 0;
    return said.error;
}

static int start(struct link_attachments *l)
{
    int pair[2];
    l->started_ns = clock_monotonic_ns();
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return -errno;
    const pid_t pid = fork();
    if (pid == 0)
        link_helper_run(pair[1], l->bpf);
    int r = pid < 0 ? -errno : 0;
    close(pair[1]);
    if (r < 0) {
        close(pair[0]);
        return r;
    }
    l->control = pair[0];
    l->pid = pid;
    l->asked = 1; /* for its first word */
    l->figures.starts++;
    return 0;
}

static void lose_process(struct link_attachments *l)
{
    struct link_attachment *a;
    uint64_t count;
    stop(l, 0, 0);
    /* They may be heard to enter, not to leave. */
    if (link_table_forget_all(bpf_map__fd(l->bpf->maps.thread_links), true, &count) == 0)
        l->figures.forgotten += count;
    DL_FOREACH(l->all, a)
    {
        a->is_on = a->is_asked = false;
    }
    l->asked = 0;
}

/* ---- how things are, and how they should be ---- */

static bool is_to_be_on(const struct link_attachments *l, const struct link_attachment *a)
{
    return !a->is_removed && !l->asleep && a->tries < TRIES_MAX;
}

static int ask_to_switch(struct link_attachments *l, const struct link_attachment *a, bool on)
{
    struct link_ask ask = {.kind = on              ? LINK_ASK_ATTACH
                                   : a->is_removed ? LINK_ASK_DETACH
                                                   : LINK_ASK_DETACH_AND_FORGET,
                           .place = a->place,
                           .site_count = a->count};
    memcpy(ask.sites, a->sites, sizeof(ask.sites));
    const struct descriptors with = {.fds = {on ? a->fd : -1, -1}};
    const int r = descriptors_send(l->control, &ask, sizeof(ask), &with, MSG_DONTWAIT);
    l->asked += r == 0;
    return r;
}

static bool is_settled(const struct link_attachments *l, const struct link_attachment *a)
{
    return !a->is_asked && a->is_on == is_to_be_on(l, a);
}

/* What was refused waits for its next try, and all for a process that can be asked, by our own will: nothing
 * holds them up. */
static bool is_due(const struct link_attachments *l, const struct link_attachment *a, uint64_t now_ns)
{
    const bool pauses = !a->is_asked && !a->is_on && now_ns < a->retry_ns;
    return l->control >= 0 && !is_settled(l, a) && !pauses;
}

/* 0: there is nothing to do, or it is being done. */
static int bring_on(struct link_attachments *l, struct link_attachment *a, uint64_t now_ns)
{
    const bool on = is_to_be_on(l, a);
    if (!is_due(l, a, now_ns) || a->is_asked || l->asked == ASKED_MAX)
        return 0;
    int r = ask_to_switch(l, a, on);
    a->is_asked = r == 0;
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
    if (waits_ns > l->figures.waits_ns)
        l->figures.waits_ns = waits_ns;
    if (waits_ns < LINK_LATE_NS || a->is_late)
        return;
    a->is_late = true;
    l->figures.late++;
}

static void attachment_free(struct link_attachments *l, struct link_attachment *a)
{
    DL_DELETE(l->all, a);
    l->places[a->place] = NULL;
    l->has_new_room = true;
    closep(&a->fd);
    free(a);
}

static void take_answer(struct link_attachments *l, const struct link_answer *said, uint64_t now_ns)
{
    struct link_attachment *a = said->place < LINK_FILES_MAX ? l->places[said->place] : NULL;
    l->asked--;
    l->figures.forgotten += said->forgotten;
    if (!a || !a->is_asked)
        return;
    a->is_asked = false;
    a->is_on = !a->is_on && said->error == 0;
    if (said->error == 0) {
        a->tries = 0;
        return;
    }
    a->retry_ns = now_ns + (RETRY_NS << a->tries++);
    l->figures.refused++;
}

/* False: the process has gone. */
static bool take_answers(struct link_attachments *l, uint64_t now_ns)
{
    struct link_answer said;
    ssize_t n;
    while ((n = recv(l->control, &said, sizeof(said), MSG_DONTWAIT)) == sizeof(said))
        take_answer(l, &said, now_ns);
    return n < 0 && (errno == EAGAIN || errno == EINTR);
}

static void revive(struct link_attachments *l, uint64_t now_ns)
{
    if (l->all && now_ns - l->started_ns >= START_AGAIN_NS)
        (void)start(l);
}

void link_attachments_turn(struct link_attachments *l)
{
    const uint64_t now_ns = clock_monotonic_ns();
    struct link_attachment *a, *next;
    if (l->control >= 0 && !take_answers(l, now_ns))
        lose_process(l);
    if (l->slow_pid && has_ended(l->slow_pid, 0))
        l->slow_pid = 0;
    if (l->control < 0)
        revive(l, now_ns);
    l->figures.attached = l->figures.waiting = l->figures.waits_ns = 0;
    DL_FOREACH_SAFE(l->all, a, next)
    {
        if (bring_on(l, a, now_ns) < 0)
            lose_process(l);
        count_late(l, a, now_ns);
        l->figures.waiting += !is_settled(l, a);
        l->figures.attached += a->is_on;
        if (a->is_removed && !a->is_on && !a->is_asked)
            attachment_free(l, a);
    }
}

/* ---- what is wanted ---- */

static size_t files_max(void)
{
    struct rlimit limit;
    const size_t share = getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur / FILES_SHARE : 16;
    return share < LINK_FILES_MAX ? share : LINK_FILES_MAX;
}

/* False: none, or the owner has its share: half of what the others leave, so that nobody can take all. */
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

/* As libsonde's objects have them; see attach() in link_helper.c. */
static bool are_usable(const struct link_site *sites, size_t count)
{
    size_t enters = 0;
    for (size_t i = 0; count <= LINK_SITES_MAX && i < count; i++)
        enters += !sites[i].is_leave;
    return enters == 1 && count > 1;
}

static int add(struct link_attachments *l, int fd, const struct link_site *sites, size_t count,
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
    int r = add(l, fd, sites, count, &a);
    if (r < 0) {
        l->figures.no_room += r != -EINVAL;
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

void link_attachments_sleep(struct link_attachments *l, bool asleep)
{
    l->asleep = asleep;
    link_attachments_turn(l);
}

/* ---- life ---- */

int link_attachments_new(struct link_bpf *bpf, struct link_attachments **ret)
{
    _cleanup_(link_attachments_freep) struct link_attachments *l = calloc(1, sizeof(*l));
    if (!l)
        return -ENOMEM;
    l->bpf = bpf;
    l->control = -1;
    l->max = files_max();
    int r = start(l);
    if (r == 0)
        r = hear_first_word(l);
    if (r < 0)
        return r;
    *ret = take_ptr(l);
    return 0;
}

void link_attachments_free(struct link_attachments *l)
{
    if (!l)
        return;
    stop(l, END_WAIT_MS, KILLED_WAIT_MS);
    while (l->all)
        attachment_free(l, l->all);
    free(l);
}

void link_attachments_stats(const struct link_attachments *l, struct link_attachments_stats *ret)
{
    *ret = l->figures;
    ret->cpu_ns += process_cpu_ns(l);
    ret->pid = l->control < 0 ? 0 : (int)l->pid;
}
