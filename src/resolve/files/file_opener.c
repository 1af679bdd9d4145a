/* The agent's side of the file helper; see file_opener.h.
 *
 * Each request has its own socket, so requests do not wait for each other. A request that was not answered in time
 * keeps its socket: a late reply means that the file system responds again. Until then no other request is sent for
 * that mount, so a dead mount costs one wait and one helper thread. The mount of a file is found in
 * /proc/PID/mountinfo, which touches no file system. */
#include "resolve/files/file_opener.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/descriptors.h"
#include "base/helper_process.h"
#include "base/mounts.h"
#include "base/turn_time.h"
#include "resolve/remote/file_wait.h"
#include "resolve/remote/remote_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>

#define SEND_MAX_S     1
#define PAUSE_NS       1000000000ull /* first backoff after a failed read, doubled each time */
#define PAUSE_MAX_NS   (64 * PAUSE_NS)
#define BACKOFFS_MAX   32
#define FRESH_START_NS (60 * 1000000000ull) /* minimum age of a helper before it is replaced */
#define PROCESS_KEY    (1ull << 63)         /* backoff key of a process */
#define MOUNT_KEY      (1ull << 62)
#define PERF_MAP_KEY   (1ull << 61) /* of a process, for its perf map only */
#define CONTEXT_KEY                                                                                                    \
    (1ull << 60) /* of a process, for its context only, which may lie in memory of the process's choice */
#define MEMORY_KEY (1ull << 59) /* of a process, for reads of its other memory */

struct backoff {
    uint64_t key; /* of a mount or a process; 0: free */
    int socket;   /* of the request that is still unanswered; -1: none */
    uint64_t until_ns, pause_ns;
};

struct file_opener {
    pthread_mutex_t lock;
    int control; /* -1: no helper runs */
    pid_t pid;
    pid_t slow_pid; /* a killed helper that has not been reaped yet; 0: none */
    uint64_t started_ns;
    uint64_t ended_cpu_ns; /* of earlier helpers */
    struct backoff backoffs[BACKOFFS_MAX];
    struct {        /* the request that was not answered for lack of CPU time */
        int socket; /* -1: none */
        pid_t tid;  /* the thread that accepted it; 0: no thread yet */
    } starved;
    uint64_t requests, timed_out, refused, starts;
};

int file_opener_new(struct file_opener **ret)
{
    struct file_opener *o = calloc(1, sizeof(*o));
    if (!o)
        return -ENOMEM;
    pthread_mutex_init(&o->lock, NULL);
    o->control = o->starved.socket = -1;
    for (size_t i = 0; i < BACKOFFS_MAX; i++)
        o->backoffs[i].socket = -1;
    *ret = o;
    return 0;
}

/* ---- helper process ---- */

static uint64_t helper_cpu_ns(const struct file_opener *o)
{
    return o->control < 0 ? 0 : clock_process_cpu_ns(o->pid);
}

/* Does not wait for a helper that is blocked itself: a later call, or init, reaps it. */
static void stop_helper(struct file_opener *o)
{
    if (o->control < 0)
        return;
    o->ended_cpu_ns += helper_cpu_ns(o);
    close(o->control);
    o->control = -1;
    kill(o->pid, SIGKILL);
    if (o->slow_pid)
        waitpid(o->slow_pid, NULL, WNOHANG);
    bool waits = true;
    for (int i = 0; i < 100 && (waits = waitpid(o->pid, NULL, WNOHANG) == 0); i++)
        nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
    o->slow_pid = waits ? o->pid : 0;
}

static void clear_backoffs(struct file_opener *o)
{
    for (size_t i = 0; i < BACKOFFS_MAX; i++) {
        closep(&o->backoffs[i].socket);
        o->backoffs[i] = (struct backoff){.socket = -1};
    }
}

void file_opener_free(struct file_opener *o)
{
    if (!o)
        return;
    clear_backoffs(o);
    closep(&o->starved.socket);
    stop_helper(o);
    pthread_mutex_destroy(&o->lock);
    free(o);
}

static int start_helper(struct file_opener *o)
{
    const struct timeval send_timeout = {.tv_sec = SEND_MAX_S};
    pid_t pid;
    int socket;
    if (o->control >= 0)
        return 0;
    const int r = helper_process_fork(&pid, &socket);
    if (r < 0)
        return r;
    if (pid == 0)
        file_helper_run(socket);
    setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &send_timeout, sizeof(send_timeout));
    o->control = socket;
    o->pid = pid;
    o->started_ns = clock_monotonic_ns();
    o->starts++;
    /* Waits until the helper runs, so that the deadline of a request covers the file only, never the helper's start. */
    char word;
    if (file_wait(o->control, 0, turn_time_wait_ms(FILE_WAIT_MAX_MS)) == 0 &&
        recv(o->control, &word, 1, MSG_DONTWAIT) == 1)
        return 0;
    stop_helper(o);
    return -EAGAIN;
}

int file_opener_start(struct file_opener *o)
{
    pthread_mutex_lock(&o->lock);
    int r = start_helper(o);
    pthread_mutex_unlock(&o->lock);
    return r;
}

/* ---- backoff ---- */

static struct backoff *find_backoff(struct file_opener *o, uint64_t key)
{
    for (size_t i = 0; key && i < BACKOFFS_MAX; i++)
        if (o->backoffs[i].key == key)
            return &o->backoffs[i];
    return NULL;
}

/* Ends the backoffs whose late reply has come or whose time is over. A backoff without a pending request is kept for
 * another pause_ns, so that a repeated failure doubles the pause. */
static void expire_backoffs(struct file_opener *o)
{
    const uint64_t now_ns = clock_monotonic_ns();
    for (size_t i = 0; i < BACKOFFS_MAX; i++) {
        struct backoff *r = &o->backoffs[i];
        struct pollfd late = {.fd = r->socket, .events = POLLIN};
        if (late.fd < 0 ? now_ns < r->until_ns + r->pause_ns : poll(&late, 1, 0) <= 0)
            continue;
        closep(&r->socket);
        *r = (struct backoff){.socket = -1};
    }
}

static bool has_backoffs(const struct file_opener *o)
{
    for (size_t i = 0; i < BACKOFFS_MAX; i++)
        if (o->backoffs[i].key)
            return true;
    return false;
}

static bool is_backed_off(struct file_opener *o, uint64_t key)
{
    const struct backoff *r = find_backoff(o, key);
    return r && (r->socket >= 0 || clock_monotonic_ns() < r->until_ns);
}

/* Takes `socket` (-1: none). When all BACKOFFS_MAX entries have a pending request, the file systems are failing in
 * numbers (possibly on purpose): the helper is replaced together with its blocked threads, but at most every
 * FRESH_START_NS. */
static void add_backoff(struct file_opener *o, uint64_t key, int socket)
{
    struct backoff *r = find_backoff(o, key);
    for (size_t i = 0; !r && i < BACKOFFS_MAX; i++)
        if (!o->backoffs[i].key)
            r = &o->backoffs[i];
    for (size_t i = 0; !r && i < BACKOFFS_MAX; i++)
        if (o->backoffs[i].socket < 0)
            r = &o->backoffs[i];
    if (!r && clock_monotonic_ns() - o->started_ns > FRESH_START_NS) {
        clear_backoffs(o);
        stop_helper(o);
        r = &o->backoffs[0];
    }
    if (!r) {
        closep(&socket);
        return;
    }
    if (r->key != key)
        r->pause_ns = PAUSE_NS;
    else if (r->pause_ns < PAUSE_MAX_NS)
        r->pause_ns *= 2;
    closep(&r->socket);
    r->key = key;
    r->socket = socket;
    r->until_ns = clock_monotonic_ns() + r->pause_ns;
}

static bool has_only_pending_backoffs(const struct file_opener *o)
{
    for (size_t i = 0; i < BACKOFFS_MAX; i++)
        if (o->backoffs[i].socket < 0)
            return false;
    return clock_monotonic_ns() - o->started_ns <= FRESH_START_NS;
}

void file_opener_report_timeout(struct file_opener *o, uint64_t mount_id)
{
    pthread_mutex_lock(&o->lock);
    if (mount_id && !is_backed_off(o, MOUNT_KEY | mount_id))
        add_backoff(o, MOUNT_KEY | mount_id, -1);
    pthread_mutex_unlock(&o->lock);
}

/* The backoff key of the mount that a path lies on, in the mount namespace of the first process that still exists. */
static uint64_t mount_of_path(const struct object_sight *sight, const char *path)
{
    for (size_t i = 0; i <= sight->pid_count; i++) {
        _cleanup_buf_ struct buf text = {0};
        char name[40] = "/proc/self/mountinfo";
        if (i < sight->pid_count)
            snprintf(name, sizeof(name), "/proc/%" PRIu32 "/mountinfo", sight->pids[i]);
        if (buf_read_file(&text, name, MOUNTS_MAX_BYTES) == 0 && text.size)
            return MOUNT_KEY | mounts_find(text.data, path);
    }
    return MOUNT_KEY;
}

/* The backoff key if this request times out. `known`: 0 where it has to be looked up. */
static uint64_t key_of(const struct file_request *request, uint64_t known)
{
    if (known)
        return known;
    static const struct object_sight ours = {.pid_count = 0};
    return mount_of_path(request->kind == FILE_REQUEST_OWN_ROOT ? &ours : &request->sight, request->path);
}

/* ---- requests ---- */

static int send_request(const struct file_opener *o, const struct file_request *request, int reply_socket, int fd)
{
    const struct descriptors with = {.fds = {reply_socket, fd}};
    return descriptors_send(o->control, request, offsetof(struct file_request, path) + strlen(request->path) + 1, &with,
                            0);
}

/* Sends the request to the helper, and to a new one if that has exited. Returns the socket for the reply. */
static int send_to_helper(struct file_opener *o, const struct file_request *request, int fd)
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return -errno;
    int r = start_helper(o);
    if (r == 0)
        r = send_request(o, request, pair[1], fd);
    if (r == -EPIPE || r == -ECONNRESET) {
        stop_helper(o);
        r = start_helper(o);
        if (r == 0)
            r = send_request(o, request, pair[1], fd);
    }
    close(pair[1]);
    if (r < 0)
        close(pair[0]);
    return r < 0 ? r : pair[0];
}

static int receive_reply(int socket, struct file_reply *ret, int *ret_fd)
{
    _cleanup_(descriptors_close) struct descriptors with;
    if (descriptors_receive(socket, ret, sizeof(*ret), &with, MSG_DONTWAIT) != (ssize_t)sizeof(*ret))
        return -EAGAIN; /* the helper has exited, or could not start another thread */
    *ret_fd = take_fd(&with.fds[0]);
    return with.lost ? -EMFILE : 0;
}

/* Sets `*ret_tid` once a helper thread has accepted the request. */
static int wait_for_reply(int socket, unsigned max_ms, pid_t *ret_tid)
{
    const uint64_t start_ns = clock_monotonic_ns();
    pid_t tid;
    int r = file_wait(socket, 0, max_ms);
    if (r < 0)
        return r;
    if (recv(socket, &tid, sizeof(tid), MSG_DONTWAIT) != sizeof(tid))
        return -EAGAIN;
    *ret_tid = tid;
    const uint64_t waited_ms = (clock_monotonic_ns() - start_ns) / 1000000;
    return file_wait(socket, tid, waited_ms < max_ms ? max_ms - (unsigned)waited_ms : 0);
}

/* True until the helper has made progress since it was found without CPU time. */
static bool is_starved(struct file_opener *o)
{
    struct pollfd late = {.fd = o->starved.socket, .events = POLLIN};
    if (late.fd < 0)
        return false;
    if (poll(&late, 1, 0) <= 0 && !(o->starved.tid && file_wait_sleeps(o->starved.tid)))
        return true;
    closep(&o->starved.socket);
    o->starved.socket = -1;
    return false;
}

/* Sends the request unless its mount or process is backed off. `key`: the backoff key; 0: not looked up yet. */
static int begin_request(struct file_opener *o, const struct file_request *request, int fd, uint64_t key,
                         unsigned *ret_max_ms)
{
    pthread_mutex_lock(&o->lock);
    expire_backoffs(o);
    int r;
    *ret_max_ms = turn_time_wait_ms(FILE_WAIT_MAX_MS);
    if ((has_backoffs(o) && is_backed_off(o, key_of(request, key))) || has_only_pending_backoffs(o)) {
        o->refused++;
        r = -ETIMEDOUT;
    } else if (!*ret_max_ms || is_starved(o)) {
        o->refused++;
        r = -EAGAIN;
    } else {
        o->requests++;
        r = send_to_helper(o, request, fd);
    }
    pthread_mutex_unlock(&o->lock);
    return r;
}

/* Accounts for the end `r` of a request. Takes `socket` when the reply is still pending. */
static void finish_request(struct file_opener *o, int r, uint64_t key, pid_t tid, int *socket)
{
    pthread_mutex_lock(&o->lock);
    if (r == -ETIMEDOUT) {
        o->timed_out++;
        add_backoff(o, key, take_fd(socket));
    } else if (r == -EBUSY) {
        o->refused++;
        closep(&o->starved.socket);
        o->starved.socket = take_fd(socket);
        o->starved.tid = tid;
    }
    pthread_mutex_unlock(&o->lock);
}

/* Returns the received descriptor, or else the socket over which a remote file is read. */
static int ask_helper(struct file_opener *o, const struct file_request *request, int fd, uint64_t key,
                      struct object_identity *ret)
{
    unsigned max_ms;
    pid_t tid = 0;
    _cleanup_close_ int socket = begin_request(o, request, fd, key, &max_ms);
    if (socket < 0)
        return socket;
    int r = wait_for_reply(socket, max_ms, &tid);
    finish_request(o, r, r == -ETIMEDOUT ? key_of(request, key) : 0, tid, &socket);
    struct file_reply reply;
    int opened = -1;
    if (r == 0)
        r = receive_reply(socket, &reply, &opened);
    if (r < 0)
        return r == -EBUSY ? -EAGAIN : r;
    if (reply.error < 0)
        return reply.error;
    *ret = reply.identity;
    return opened >= 0 ? opened : take_fd(&socket);
}

static int fill_request(struct file_request *request, const struct object_sight *sight, const char *path)
{
    const size_t bytes = strlen(path) + 1;
    if (bytes > sizeof(request->path))
        return -ENAMETOOLONG;
    memcpy(request->path, path, bytes);
    if (!sight)
        return 0;
    request->sight = *sight;
    if (sight->build_id_bytes > sizeof(request->build_id))
        return -EINVAL;
    if (sight->build_id_bytes)
        memcpy(request->build_id, sight->build_id, sight->build_id_bytes);
    return 0;
}

int file_opener_sight(struct file_opener *o, const struct object_sight *sight, struct object_identity *ret)
{
    struct file_request request = {.kind = FILE_REQUEST_SIGHT};
    int r = fill_request(&request, sight, sight->path);
    return r < 0 ? r : ask_helper(o, &request, -1, 0, ret);
}

int file_opener_reopen(struct file_opener *o, int path_fd, const struct object_identity *identity)
{
    struct file_request request = {.kind = FILE_REQUEST_REOPEN};
    struct object_identity unused;
    return ask_helper(o, &request, path_fd, MOUNT_KEY | identity->mount_id, &unused);
}

int file_opener_in_process_root(struct file_opener *o, const struct object_sight *sight, const char *path)
{
    struct file_request request = {.kind = FILE_REQUEST_PROCESS_ROOT};
    struct object_identity unused;
    int r = fill_request(&request, sight, path);
    return r < 0 ? r : ask_helper(o, &request, -1, 0, &unused);
}

int file_opener_in_own_root(struct file_opener *o, const char *path)
{
    struct file_request request = {.kind = FILE_REQUEST_OWN_ROOT};
    struct object_identity unused;
    int r = fill_request(&request, NULL, path);
    return r < 0 ? r : ask_helper(o, &request, -1, 0, &unused);
}

int file_opener_read_proc(struct file_opener *o, int proc_fd, uint32_t pid, const char *name, size_t max_bytes,
                          struct buf *to)
{
    struct file_request request = {.kind = FILE_REQUEST_PROC};
    struct object_identity unused;
    int r = fill_request(&request, NULL, name);
    if (r < 0)
        return r;
    request.max_bytes = max_bytes;
    _cleanup_close_ int fd = ask_helper(o, &request, proc_fd, PROCESS_KEY | pid, &unused);
    return fd < 0 ? fd : buf_read_fd(to, fd, max_bytes);
}

int file_opener_perf_map(struct file_opener *o, int proc_fd, uint32_t pid, uint64_t not_before_ns)
{
    struct file_request request = {.kind = FILE_REQUEST_PERF_MAP, .not_before_ns = not_before_ns};
    struct object_identity unused;
    return ask_helper(o, &request, proc_fd, PERF_MAP_KEY | pid, &unused);
}

int file_opener_context(struct file_opener *o, int proc_fd, uint32_t pid, const struct process_context_place *known,
                        struct buf *to)
{
    struct file_request request = {.kind = FILE_REQUEST_CONTEXT, .context = *known};
    struct object_identity unused;
    _cleanup_close_ int fd = ask_helper(o, &request, proc_fd, CONTEXT_KEY | pid, &unused);
    return fd < 0 ? fd : buf_read_fd(to, fd, sizeof(*known) + PROCESS_CONTEXT_MAX_BYTES);
}

int file_opener_memory(struct file_opener *o, int proc_fd, uint32_t pid, uint64_t address, size_t size, struct buf *to)
{
    struct file_request request = {.kind = FILE_REQUEST_MEMORY, .address = address, .max_bytes = size};
    struct object_identity unused;
    _cleanup_close_ int fd = ask_helper(o, &request, proc_fd, MEMORY_KEY | pid, &unused);
    return fd < 0 ? fd : buf_read_fd(to, fd, size);
}

/* ---- statistics ---- */

void file_opener_stats(struct file_opener *o, struct file_opener_stats *ret)
{
    pthread_mutex_lock(&o->lock);
    *ret = (struct file_opener_stats){
        .requests = o->requests,
        .timed_out = o->timed_out,
        .refused = o->refused,
        .starts = o->starts,
        .cpu_ns = o->ended_cpu_ns + helper_cpu_ns(o),
    };
    for (size_t i = 0; i < BACKOFFS_MAX; i++)
        ret->backed_off += o->backoffs[i].key != 0;
    pthread_mutex_unlock(&o->lock);
}
