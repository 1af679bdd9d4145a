/* Supervision of the engine process, and requests to it; see engine.h. */
#include "server/engine.h"

#include "base/clock.h"
#include "base/descriptors.h"
#include "base/log.h"
#include "base/signal_mask.h"
#include "server/engine_process.h"
#include "server/engine_wire.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#define SECOND_NS       1000000000ull
#define START_NS        (60 * SECOND_NS)
#define INSERT_NS       (120 * SECOND_NS)
#define QUERY_NS        ((ENGINE_QUERY_S + 5) * SECOND_NS) /* the engine's own limit comes first */
#define TURN_NS         (10 * SECOND_NS)                   /* that a query waits for others, or for a start */
#define END_NS          (15 * SECOND_NS)
#define RESTART_MAX_S   30 /* between starts that fail; the first is tried again after one second */
#define HIGH_DESCRIPTOR 64

struct engine_session {
    int socket;
    bool is_used;
};

struct engine {
    struct engine_options o;
    char days[16], memory[24];
    pthread_t supervisor;
    pthread_mutex_t lock; /* of all that follows */
    pthread_cond_t changed;
    struct engine_session sessions[ENGINE_SESSIONS];
    pid_t pid; /* 0: not running */
    bool is_ready, ends, is_refused;
};

/* ---- the process ---- */

/* In the child of a process with threads: only async-signal-safe calls. */
static void become_engine(const int *sockets, char **arguments, char **environment, pid_t parent)
{
    sigset_t none;
    sigemptyset(&none);
    for (int i = 0; i < ENGINE_SESSIONS; i++)
        if (dup2(sockets[i], ENGINE_FIRST_SOCKET + i) < 0)
            _exit(127);
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != parent || sigprocmask(SIG_SETMASK, &none, NULL) < 0)
        _exit(127);
    execve("/proc/self/exe", arguments, environment);
    _exit(127);
}

/* The engine's environment has only the time zone: SQL can read it. */
static pid_t fork_engine(struct engine *e, const int *sockets)
{
    char zone[256];
    const char *tz = getenv("TZ");
    snprintf(zone, sizeof(zone), "TZ=%s", tz && *tz ? tz : "UTC");
    char *environment[] = {zone, NULL};
    char *arguments[] = {"sonde-engine",         "server", "--engine-process", (char *)e->o.library,
                         (char *)e->o.directory, e->days,  e->memory,          NULL};
    const pid_t parent = getpid(), pid = fork();
    if (pid == 0)
        become_engine(sockets, arguments, environment, parent);
    return pid < 0 ? -errno : pid;
}

static int make_sockets(int *ours, int *theirs)
{
    for (int i = 0; i < ENGINE_SESSIONS; i++) {
        int pair[2];
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
            return -errno;
        ours[i] = pair[0];
        theirs[i] = fcntl(pair[1], F_DUPFD_CLOEXEC, HIGH_DESCRIPTOR); /* so that dup2 overwrites none of them */
        close(pair[1]);
        if (theirs[i] < 0)
            return -errno;
    }
    return 0;
}

static int wait_until_ready(const int *sockets)
{
    const uint64_t deadline_ns = clock_monotonic_ns() + START_NS;
    struct engine_reply ready;
    char why[1024] = "";
    int r = engine_wire_receive(sockets[0], &ready, sizeof(ready), deadline_ns);
    if (r == 0 && ready.size < sizeof(why))
        r = engine_wire_receive(sockets[0], why, ready.size, deadline_ns);
    if (r == 0 && ready.error == 0)
        return 0;
    if (why[0])
        log_error("the engine cannot start: %s", why);
    return r < 0 ? r : ready.error;
}

static bool is_used(const struct engine *e)
{
    for (int i = 0; i < ENGINE_SESSIONS; i++)
        if (e->sessions[i].is_used)
            return true;
    return false;
}

static void hang_up(struct engine *e)
{
    for (int i = 0; i < ENGINE_SESSIONS; i++)
        shutdown(e->sessions[i].socket, SHUT_RDWR);
}

/* 0: it is ready. */
static int start_process(struct engine *e)
{
    int ours[ENGINE_SESSIONS], theirs[ENGINE_SESSIONS];
    memset(ours, -1, sizeof(ours));
    memset(theirs, -1, sizeof(theirs));
    int r = make_sockets(ours, theirs);
    const pid_t pid = r < 0 ? r : fork_engine(e, theirs);
    for (int i = 0; i < ENGINE_SESSIONS; i++)
        closep(&theirs[i]);
    r = pid < 0 ? (int)pid : wait_until_ready(ours);
    if (r < 0) {
        for (int i = 0; i < ENGINE_SESSIONS; i++)
            closep(&ours[i]);
        if (pid > 0) {
            kill(pid, SIGKILL);
            waitpid(pid, NULL, 0);
        }
        return r;
    }
    pthread_mutex_lock(&e->lock);
    for (int i = 0; i < ENGINE_SESSIONS; i++)
        e->sessions[i] = (struct engine_session){.socket = ours[i]};
    e->pid = pid;
    e->is_ready = true;
    if (e->ends) /* engine_free came while it started, and waits for its end */
        kill(pid, SIGKILL);
    pthread_cond_broadcast(&e->changed);
    pthread_mutex_unlock(&e->lock);
    return 0;
}

static void wait_for_end(struct engine *e)
{
    siginfo_t info;
    int status = 0;
    while (waitid(P_PID, (id_t)e->pid, &info, WEXITED | WNOWAIT) < 0 && errno == EINTR)
        ;
    pthread_mutex_lock(&e->lock);
    waitpid(e->pid, &status, 0);
    e->pid = 0;
    e->is_ready = false;
    hang_up(e); /* those who wait for a reply */
    while (is_used(e))
        pthread_cond_wait(&e->changed, &e->lock);
    for (int i = 0; i < ENGINE_SESSIONS; i++)
        closep(&e->sessions[i].socket);
    if (!e->ends)
        log_warning("the engine ended (%s %d) and is started again", WIFSIGNALED(status) ? "signal" : "status",
                    WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    pthread_cond_broadcast(&e->changed);
    pthread_mutex_unlock(&e->lock);
}

static bool ends_within(struct engine *e, unsigned seconds)
{
    const struct timespec until = clock_timespec_of(clock_monotonic_ns() + seconds * SECOND_NS);
    pthread_mutex_lock(&e->lock);
    while (!e->ends && pthread_cond_timedwait(&e->changed, &e->lock, &until) == 0)
        ;
    const bool ends = e->ends;
    pthread_mutex_unlock(&e->lock);
    return ends;
}

/* This thread must be the one that forks: the kernel ends the process with the thread (PR_SET_PDEATHSIG). */
static void *supervise(void *engine)
{
    struct engine *e = engine;
    for (unsigned pause_s = 0; !ends_within(e, pause_s);) {
        const int r = start_process(e);
        if (r == 0) {
            wait_for_end(e);
            pause_s = 0;
            continue;
        }
        if (r == -ENOTSUP) {
            pthread_mutex_lock(&e->lock);
            e->is_refused = true;
            pthread_mutex_unlock(&e->lock);
            return NULL;
        }
        pause_s = pause_s == 0 ? 1 : 2 * pause_s < RESTART_MAX_S ? 2 * pause_s : RESTART_MAX_S;
        log_errno(r, "the engine does not start; it is tried again in %u s", pause_s);
    }
    return NULL;
}

static struct engine *new_engine(const struct engine_options *options)
{
    struct engine *e = calloc(1, sizeof(*e));
    if (!e)
        return NULL;
    e->o = *options;
    snprintf(e->days, sizeof(e->days), "%u", options->keep_days);
    snprintf(e->memory, sizeof(e->memory), "%" PRIu64, options->memory_bytes);
    for (int i = 0; i < ENGINE_SESSIONS; i++)
        e->sessions[i].socket = -1;
    pthread_mutex_init(&e->lock, NULL);
    clock_cond_init(&e->changed);
    return e;
}

static void free_engine(struct engine *e)
{
    pthread_cond_destroy(&e->changed);
    pthread_mutex_destroy(&e->lock);
    free(e);
}

int engine_start(const struct engine_options *options, struct engine **ret)
{
    struct engine *e = new_engine(options);
    const int r = e ? signal_mask_create_thread(&e->supervisor, supervise, e) : -ENOMEM;
    if (e && r < 0)
        free_engine(e);
    if (r == 0)
        *ret = e;
    return r;
}

bool engine_is_refused(struct engine *e)
{
    pthread_mutex_lock(&e->lock);
    const bool is_refused = e->is_refused;
    pthread_mutex_unlock(&e->lock);
    return is_refused;
}

int engine_migrate(const struct engine_options *options)
{
    struct engine *e = new_engine(options);
    int r = e ? start_process(e) : -ENOMEM;
    if (e && r == 0) {
        e->ends = true;
        hang_up(e); /* it ends in order */
        wait_for_end(e);
    }
    if (e)
        free_engine(e);
    return r;
}

void engine_free(struct engine *e)
{
    if (!e)
        return;
    const uint64_t end_ns = clock_monotonic_ns() + END_NS;
    const struct timespec until = clock_timespec_of(end_ns);
    pthread_mutex_lock(&e->lock);
    e->ends = true;
    pthread_cond_broadcast(&e->changed);
    hang_up(e); /* it ends in order */
    while (e->pid && pthread_cond_timedwait(&e->changed, &e->lock, &until) == 0)
        ;
    if (e->pid)
        kill(e->pid, SIGKILL);
    pthread_mutex_unlock(&e->lock);
    pthread_join(e->supervisor, NULL);
    free_engine(e);
}

/* ---- requests ---- */

/* Takes one of the sessions from `first` to `last`. -EAGAIN: the engine is not running; -EBUSY. */
static int take_session(struct engine *e, int first, int last, struct engine_session **ret)
{
    const struct timespec until = clock_timespec_of(clock_monotonic_ns() + TURN_NS);
    int r = 0;
    pthread_mutex_lock(&e->lock);
    for (;;) {
        for (int i = first; e->is_ready && i <= last; i++)
            if (!e->sessions[i].is_used) {
                e->sessions[i].is_used = true;
                *ret = &e->sessions[i];
                pthread_mutex_unlock(&e->lock);
                return 0;
            }
        if (r != 0 || e->ends)
            break;
        r = pthread_cond_timedwait(&e->changed, &e->lock, &until);
    }
    r = e->is_ready ? -EBUSY : -EAGAIN;
    pthread_mutex_unlock(&e->lock);
    return r;
}

/* A session whose request failed is in an unknown state: the engine that did not answer is ended. */
static void give_back_session(struct engine *e, struct engine_session *session, int error)
{
    pthread_mutex_lock(&e->lock);
    session->is_used = false;
    if (error == -ETIMEDOUT && e->pid)
        kill(e->pid, SIGKILL);
    pthread_cond_broadcast(&e->changed);
    pthread_mutex_unlock(&e->lock);
}

static int receive_reply(int socket, uint64_t deadline_ns, struct buf *out)
{
    struct engine_reply reply;
    int r = engine_wire_receive(socket, &reply, sizeof(reply), deadline_ns);
    if (r < 0)
        return r;
    if (reply.size > ENGINE_RESULT_MAX_BYTES)
        return -EPIPE;
    char chunk[16384];
    for (uint64_t left = reply.size; left;) {
        const size_t size = left < sizeof(chunk) ? left : sizeof(chunk);
        r = engine_wire_receive(socket, chunk, size, deadline_ns);
        if (r < 0)
            return r;
        buf_append(out, chunk, size);
        left -= size;
    }
    return reply.error < 0 ? reply.error : buf_error(out);
}

/* For the loader: by the first session. */
static int load_request(struct engine *e, const struct engine_request *request, int fd, struct buf *out)
{
    const struct descriptors with = {.fds = {fd, -1}};
    struct engine_session *session;
    int r = take_session(e, 0, 0, &session);
    if (r < 0)
        return r;
    const uint64_t deadline_ns = clock_monotonic_ns() + INSERT_NS;
    r = descriptors_send(session->socket, request, sizeof(*request), &with, 0);
    r = r < 0 ? -EPIPE : receive_reply(session->socket, deadline_ns, out);
    give_back_session(e, session, r);
    return r;
}

int engine_last_blocks(struct engine *e, uint64_t ret[TABLE_COUNT], struct buf *why)
{
    _cleanup_buf_ struct buf out = {0};
    const int r = load_request(e, &(struct engine_request){.kind = ENGINE_LAST_BLOCKS}, -1, &out);
    if (r < 0) {
        buf_append(why, out.data, out.size);
        return r;
    }
    if (out.size != TABLE_COUNT * sizeof(*ret))
        return -EPROTO;
    memcpy(ret, out.data, out.size);
    return 0;
}

int engine_insert(struct engine *e, enum table table, uint64_t after_block, int rows_fd, struct buf *why)
{
    return load_request(e, &(struct engine_request){.kind = ENGINE_INSERT, .table = table, .after_block = after_block},
                        rows_fd, why);
}

int engine_query(struct engine *e, const char *sql, size_t size, const char *format, struct buf *out)
{
    struct engine_request request = {.kind = ENGINE_QUERY, .size = size};
    struct engine_session *session;
    if (size > ENGINE_QUERY_MAX_BYTES || strlen(format) >= sizeof(request.format))
        return -E2BIG;
    snprintf(request.format, sizeof(request.format), "%s", format);
    int r = take_session(e, 1, ENGINE_SESSIONS - 1, &session);
    if (r < 0)
        return r;
    const uint64_t deadline_ns = clock_monotonic_ns() + QUERY_NS;
    r = engine_wire_send(session->socket, &request, sizeof(request), deadline_ns)
            ?: engine_wire_send(session->socket, sql, size, deadline_ns)
            ?: receive_reply(session->socket, deadline_ns, out);
    give_back_session(e, session, r);
    return r;
}
