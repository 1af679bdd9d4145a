/* The agent's side of the helper; see file_opener.h.
 *
 * Each question has a socket of its own, so that questions do not wait for each other. One that was not
 * answered in time keeps its socket: the late answer tells that the file system lives again. Until then no
 * second question is put to that mount, so a dead one costs one wait and one thread of the helper. Which
 * mount a file lies on is told by /proc/PID/mountinfo, without touching any file system. */
#include "resolve/file_opener.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/mounts.h"
#include "resolve/far_file.h"
#include "resolve/file_wait.h"

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
#define PAUSE_NS       1000000000ull /* of what could not be read, doubled each time */
#define PAUSE_MAX_NS   (64 * PAUSE_NS)
#define RESTS_MAX      32
#define FRESH_START_NS (60 * 1000000000ull) /* between two helpers, when one is given up */
#define PROCESS_KEY    (1ull << 63)         /* of a process; of a mount: */
#define MOUNT_KEY      (1ull << 62)

struct rest {
    uint64_t key; /* of a mount or a process; 0: free */
    int socket;   /* of the question that is not answered yet; -1: it has been */
    uint64_t until_ns, pause_ns;
};

struct file_opener {
    pthread_mutex_t lock;
    int control; /* -1: no helper runs */
    pid_t pid;
    uint64_t started_ns;
    uint64_t ended_cpu_ns; /* of helpers before this one */
    struct rest rests[RESTS_MAX];
    uint64_t asked, timed_out, refused, starts;
};

int file_opener_new(struct file_opener **ret)
{
    struct file_opener *o = calloc(1, sizeof(*o));
    if (!o)
        return -ENOMEM;
    pthread_mutex_init(&o->lock, NULL);
    o->control = -1;
    for (size_t i = 0; i < RESTS_MAX; i++)
        o->rests[i].socket = -1;
    *ret = o;
    return 0;
}

/* ---- the process ---- */

static uint64_t helper_cpu_ns(const struct file_opener *o)
{
    clockid_t clock;
    struct timespec t;
    if (o->control < 0 || clock_getcpuclockid(o->pid, &clock) != 0 || clock_gettime(clock, &t) < 0)
        return 0;
    return (uint64_t)t.tv_sec * 1000000000ull + (uint64_t)t.tv_nsec;
}

/* Does not wait for a helper that waits itself: init will. */
static void stop(struct file_opener *o)
{
    if (o->control < 0)
        return;
    o->ended_cpu_ns += helper_cpu_ns(o);
    close(o->control);
    o->control = -1;
    kill(o->pid, SIGKILL);
    for (int i = 0; i < 100 && waitpid(o->pid, NULL, WNOHANG) == 0; i++)
        nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
}

static void forget_rests(struct file_opener *o)
{
    for (size_t i = 0; i < RESTS_MAX; i++) {
        closep(&o->rests[i].socket);
        o->rests[i] = (struct rest){.socket = -1};
    }
}

void file_opener_free(struct file_opener *o)
{
    if (!o)
        return;
    forget_rests(o);
    stop(o);
    pthread_mutex_destroy(&o->lock);
    free(o);
}

static int start(struct file_opener *o)
{
    const struct timeval send_timeout = {.tv_sec = SEND_MAX_S};
    int pair[2];
    if (o->control >= 0)
        return 0;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return -errno;
    pid_t pid = fork();
    if (pid == 0)
        file_helper_run(pair[1]);
    int r = pid < 0 ? -errno : 0;
    close(pair[1]);
    if (r < 0) {
        close(pair[0]);
        return r;
    }
    setsockopt(pair[0], SOL_SOCKET, SO_SNDTIMEO, &send_timeout, sizeof(send_timeout));
    o->control = pair[0];
    o->pid = pid;
    o->started_ns = clock_monotonic_ns();
    o->starts++;
    /* Its first word: what a question waits for is the file, never the helper's own beginning. */
    char word;
    if (file_wait(o->control, 0) == 0 && recv(o->control, &word, 1, MSG_DONTWAIT) == 1)
        return 0;
    stop(o);
    return -EAGAIN;
}

int file_opener_start(struct file_opener *o)
{
    pthread_mutex_lock(&o->lock);
    int r = start(o);
    pthread_mutex_unlock(&o->lock);
    return r;
}

/* ---- what rests ---- */

static struct rest *find_rest(struct file_opener *o, uint64_t key)
{
    for (size_t i = 0; key && i < RESTS_MAX; i++)
        if (o->rests[i].key == key)
            return &o->rests[i];
    return NULL;
}

/* Looks for late answers. What rested without a question is remembered a little longer than it rests, so that
 * the next pause is a longer one. */
static void wake(struct file_opener *o)
{
    const uint64_t now_ns = clock_monotonic_ns();
    for (size_t i = 0; i < RESTS_MAX; i++) {
        struct rest *r = &o->rests[i];
        struct pollfd late = {.fd = r->socket, .events = POLLIN};
        if (late.fd < 0 ? now_ns < r->until_ns + r->pause_ns : poll(&late, 1, 0) <= 0)
            continue;
        closep(&r->socket);
        *r = (struct rest){.socket = -1};
    }
}

static bool anything_rests(const struct file_opener *o)
{
    for (size_t i = 0; i < RESTS_MAX; i++)
        if (o->rests[i].key)
            return true;
    return false;
}

static bool is_resting(struct file_opener *o, uint64_t key)
{
    const struct rest *r = find_rest(o, key);
    return r && (r->socket >= 0 || clock_monotonic_ns() < r->until_ns);
}

/* Takes `socket` (-1: none). When there is no room for what does not answer, somebody makes dead file systems
 * by the dozen: the helper with all its waiting threads is given up, but not often. */
static void add_rest(struct file_opener *o, uint64_t key, int socket)
{
    struct rest *r = find_rest(o, key);
    for (size_t i = 0; !r && i < RESTS_MAX; i++)
        if (!o->rests[i].key)
            r = &o->rests[i];
    for (size_t i = 0; !r && i < RESTS_MAX; i++)
        if (o->rests[i].socket < 0)
            r = &o->rests[i];
    if (!r && clock_monotonic_ns() - o->started_ns > FRESH_START_NS) {
        forget_rests(o);
        stop(o);
        r = &o->rests[0];
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

static bool is_full(const struct file_opener *o)
{
    for (size_t i = 0; i < RESTS_MAX; i++)
        if (o->rests[i].socket < 0)
            return false;
    return clock_monotonic_ns() - o->started_ns <= FRESH_START_NS;
}

void file_opener_blame(struct file_opener *o, uint64_t mount_id)
{
    pthread_mutex_lock(&o->lock);
    if (mount_id && !is_resting(o, MOUNT_KEY | mount_id))
        add_rest(o, MOUNT_KEY | mount_id, -1);
    pthread_mutex_unlock(&o->lock);
}

/* The mount that a path lies on, as the first of the processes sees it that can still be asked. */
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

/* What is to rest if this is not answered. */
static uint64_t key_of(const struct file_ask *ask, uint64_t known)
{
    if (known)
        return known;
    static const struct object_sight ours = {.pid_count = 0};
    return mount_of_path(ask->kind == FILE_ASK_OURS ? &ours : &ask->sight, ask->path);
}

/* ---- questions ---- */

static int send_ask(const struct file_opener *o, const struct file_ask *ask, int answer_socket, int fd)
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(2 * sizeof(int))];
    } descriptors = {0};
    const int fds[] = {answer_socket, fd};
    const size_t bytes = (fd >= 0 ? 2 : 1) * sizeof(*fds);
    struct iovec data = {.iov_base = (void *)ask,
                         .iov_len = offsetof(struct file_ask, path) + strlen(ask->path) + 1};
    struct msghdr message = {
        .msg_iov = &data, .msg_iovlen = 1, .msg_control = &descriptors, .msg_controllen = CMSG_SPACE(bytes)};
    struct cmsghdr *c = CMSG_FIRSTHDR(&message);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(bytes);
    memcpy(CMSG_DATA(c), fds, bytes);
    return sendmsg(o->control, &message, MSG_NOSIGNAL) < 0 ? -errno : 0;
}

/* Sends the question to the helper, to a new one if it has gone. Returns the socket for the answer. */
static int put(struct file_opener *o, const struct file_ask *ask, int fd)
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return -errno;
    int r = start(o);
    if (r == 0)
        r = send_ask(o, ask, pair[1], fd);
    if (r == -EPIPE || r == -ECONNRESET) {
        stop(o);
        r = start(o);
        if (r == 0)
            r = send_ask(o, ask, pair[1], fd);
    }
    close(pair[1]);
    if (r < 0)
        close(pair[0]);
    return r < 0 ? r : pair[0];
}

static int receive_answer(int socket, struct file_answer *ret, int *ret_fd)
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int))];
    } descriptor = {0};
    struct iovec data = {.iov_base = ret, .iov_len = sizeof(*ret)};
    struct msghdr message = {
        .msg_iov = &data, .msg_iovlen = 1, .msg_control = &descriptor, .msg_controllen = sizeof(descriptor)};
    if (recvmsg(socket, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT) != (ssize_t)sizeof(*ret))
        return -EAGAIN; /* the helper has gone, or has no room for another thread */
    const struct cmsghdr *c = CMSG_FIRSTHDR(&message);
    if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS)
        memcpy(ret_fd, CMSG_DATA(c), sizeof(*ret_fd));
    else if (message.msg_flags & MSG_CTRUNC)
        return -EMFILE; /* there was one, and no room for it */
    return 0;
}

static int wait_for_answer(int socket)
{
    pid_t tid;
    if (file_wait(socket, 0) < 0)
        return -ETIMEDOUT;
    if (recv(socket, &tid, sizeof(tid), MSG_DONTWAIT) != sizeof(tid))
        return -EAGAIN;
    return file_wait(socket, tid);
}

/* Puts the question unless what it would touch rests. `key`: that, 0 where it is yet to be found out. */
static int begin(struct file_opener *o, const struct file_ask *ask, int fd, uint64_t key)
{
    pthread_mutex_lock(&o->lock);
    wake(o);
    int r;
    if ((anything_rests(o) && is_resting(o, key_of(ask, key))) || is_full(o)) {
        o->refused++;
        r = -ETIMEDOUT;
    } else {
        o->asked++;
        r = put(o, ask, fd);
    }
    pthread_mutex_unlock(&o->lock);
    return r;
}

/* Returns the descriptor that came, or else the socket, on which a far file is read. */
static int ask_helper(struct file_opener *o, const struct file_ask *ask, int fd, uint64_t key,
                      struct object_identity *ret)
{
    _cleanup_close_ int socket = begin(o, ask, fd, key);
    if (socket < 0)
        return socket;
    int r = wait_for_answer(socket);
    if (r == -ETIMEDOUT) {
        pthread_mutex_lock(&o->lock);
        o->timed_out++;
        add_rest(o, key_of(ask, key), take_fd(&socket));
        pthread_mutex_unlock(&o->lock);
    }
    struct file_answer answer;
    int opened = -1;
    if (r == 0)
        r = receive_answer(socket, &answer, &opened);
    if (r < 0 || answer.error < 0)
        return r < 0 ? r : answer.error;
    *ret = answer.identity;
    return opened >= 0 ? opened : take_fd(&socket);
}

static int fill(struct file_ask *ask, const struct object_sight *sight, const char *path)
{
    const size_t bytes = strlen(path) + 1;
    if (bytes > sizeof(ask->path))
        return -ENAMETOOLONG;
    memcpy(ask->path, path, bytes);
    if (!sight)
        return 0;
    ask->sight = *sight;
    if (sight->build_id_bytes > sizeof(ask->build_id))
        return -EINVAL;
    if (sight->build_id_bytes)
        memcpy(ask->build_id, sight->build_id, sight->build_id_bytes);
    return 0;
}

int file_opener_sight(struct file_opener *o, const struct object_sight *sight, struct object_identity *ret)
{
    struct file_ask ask = {.kind = FILE_ASK_SIGHT};
    int r = fill(&ask, sight, sight->path);
    return r < 0 ? r : ask_helper(o, &ask, -1, 0, ret);
}

int file_opener_again(struct file_opener *o, int far_fd, const struct object_identity *identity)
{
    struct file_ask ask = {.kind = FILE_ASK_AGAIN};
    struct object_identity unused;
    return ask_helper(o, &ask, far_fd, MOUNT_KEY | identity->mount_id, &unused);
}

int file_opener_beside(struct file_opener *o, const struct object_sight *sight, const char *path)
{
    struct file_ask ask = {.kind = FILE_ASK_BESIDE};
    struct object_identity unused;
    int r = fill(&ask, sight, path);
    return r < 0 ? r : ask_helper(o, &ask, -1, 0, &unused);
}

int file_opener_ours(struct file_opener *o, const char *path)
{
    struct file_ask ask = {.kind = FILE_ASK_OURS};
    struct object_identity unused;
    int r = fill(&ask, NULL, path);
    return r < 0 ? r : ask_helper(o, &ask, -1, 0, &unused);
}

int file_opener_read_proc(struct file_opener *o, int proc_fd, uint32_t pid, const char *name,
                          size_t max_bytes, struct buf *to)
{
    struct file_ask ask = {.kind = FILE_ASK_PROC};
    struct object_identity unused;
    int r = fill(&ask, NULL, name);
    if (r < 0)
        return r;
    _cleanup_close_ int fd = ask_helper(o, &ask, proc_fd, PROCESS_KEY | pid, &unused);
    if (fd < 0)
        return fd;
    r = far_file_read_all(fd, max_bytes, to);
    if (r == -ETIMEDOUT) {
        pthread_mutex_lock(&o->lock);
        o->timed_out++;
        add_rest(o, PROCESS_KEY | pid, take_fd(&fd));
        pthread_mutex_unlock(&o->lock);
    }
    return r;
}

/* ---- figures ---- */

void file_opener_figures(struct file_opener *o, struct file_opener_figures *ret)
{
    pthread_mutex_lock(&o->lock);
    *ret = (struct file_opener_figures){
        .asked = o->asked,
        .timed_out = o->timed_out,
        .refused = o->refused,
        .starts = o->starts,
        .cpu_ns = o->ended_cpu_ns + helper_cpu_ns(o),
    };
    for (size_t i = 0; i < RESTS_MAX; i++)
        ret->resting += o->rests[i].key != 0;
    pthread_mutex_unlock(&o->lock);
}
