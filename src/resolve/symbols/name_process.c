/* The confined process; see name_process.h. Messages go over a SOCK_SEQPACKET socket. */
#include "resolve/symbols/name_process.h"

#include "base/clock.h"
#include "base/helper_process.h"
#include "base/sandbox.h"
#include "base/turn_time.h"
#include "resolve/symbols/demangle.h"
#include "resolve/symbols/xz.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>

#define END_MAX_NS   1000000000ull
#define REST_FACTOR  100 /* after an input that took too long: at most 1 % of a CPU is lost to such inputs */
#define REST_MIN_NS  1000000000ull
#define REFUSED_MAX  1024 /* inputs that took too long, by their hash; a newer one replaces an older one */
#define DATA_BYTES   ((uint64_t)64 << 20)
#define MESSAGE_HEAD offsetof(struct name_message, data)

struct name_process {
    pid_t pid; /* 0: there is no process */
    int socket;
    uint32_t number; /* of the last task */
    enum name_task task;
    bool is_owed; /* its result has not arrived yet */
    uint64_t hash, cpu_max_ns;
    uint64_t began_cpu_ns; /* CPU time of the process at that moment */
    uint64_t rests_until_ns;
    uint64_t refused[REFUSED_MAX]; /* 0: none */
    struct name_task_counts counts[NAME_TASKS];
    struct name_message message; /* the last one sent or received */
};

/* Whether a message that arrived is whole. */
static bool message_is_valid(const struct name_message *m, ssize_t bytes)
{
    return bytes >= (ssize_t)MESSAGE_HEAD && m->size <= NAME_MESSAGE_BYTES && (size_t)bytes == MESSAGE_HEAD + m->size;
}

/* ---- the process ---- */

static bool read_message(int socket, struct name_message *ret)
{
    ssize_t bytes;
    do
        bytes = read(socket, ret, sizeof(*ret));
    while (bytes < 0 && errno == EINTR);
    return message_is_valid(ret, bytes) && ret->task < NAME_TASKS;
}

static bool write_message(int socket, const struct name_message *m)
{
    return write(socket, m, MESSAGE_HEAD + m->size) >= 0;
}

static bool demangle_message(int socket, const struct name_message *request)
{
    struct name_message reply = {.number = request->number, .task = NAME_TASK_DEMANGLE, .is_last = true};
    if (!request->size || request->data[request->size - 1])
        return false;
    demangle(request->data, reply.data);
    reply.size = (uint32_t)strlen(reply.data) + 1;
    return write_message(socket, &reply);
}

struct unpacked {
    int socket;
    uint32_t number;
};

static int write_unpacked(void *context, const void *data, size_t size)
{
    const struct unpacked *u = context;
    struct name_message reply = {.number = u->number, .task = NAME_TASK_UNPACK};
    for (size_t at = 0; at < size; at += reply.size) {
        reply.size = (uint32_t)(size - at < NAME_MESSAGE_BYTES ? size - at : NAME_MESSAGE_BYTES);
        memcpy(reply.data, (const char *)data + at, reply.size);
        if (!write_message(u->socket, &reply))
            return -EPIPE;
    }
    return 0;
}

/* Unpacks the messages of one task, which begin with `request`. After an error their rest is read and ignored. */
static bool unpack_messages(int socket, struct name_message *request)
{
    const uint32_t number = request->number;
    struct unpacked to = {.socket = socket, .number = number};
    struct xz *xz = NULL;
    int r = xz_new(write_unpacked, &to, &xz);
    for (;;) {
        if (r == 0)
            r = xz_add(xz, request->data, request->size, request->is_last);
        if (request->is_last)
            break;
        if (!read_message(socket, request) || request->number != number || request->task != NAME_TASK_UNPACK)
            return false;
    }
    xz_free(xz);
    const struct name_message end = {
        .number = number, .task = NAME_TASK_UNPACK, .is_last = true, .error = (int16_t)(r < 0 ? r : 0)};
    return write_message(socket, &end);
}

_Noreturn static void run_process(int socket, int parent_pid)
{
    const struct sandbox_limits limits = {.data_bytes = DATA_BYTES, .cpu_seconds = SANDBOX_CPU_UNLIMITED};
    struct name_message request;
    int listener = -1;
    helper_process_keep_only(&socket, 1);
    helper_process_become("sonde-names");
    if (sandbox_enter(&limits, parent_pid, &listener) < 0)
        _exit(1);
    closep(&listener); /* nothing is to be opened: every open call fails */
    while (read_message(socket, &request))
        if (!(request.task == NAME_TASK_UNPACK ? unpack_messages(socket, &request)
                                               : demangle_message(socket, &request)))
            break;
    _exit(0);
}

/* ---- its start and end ---- */

static int start_process(struct name_process *p)
{
    const int parent_pid = getpid();
    pid_t pid;
    int socket;
    const int r = helper_process_fork(&pid, &socket);
    if (r < 0)
        return r;
    if (pid == 0)
        run_process(socket, parent_pid);
    p->pid = pid;
    p->socket = socket;
    return 0;
}

static void end_process(struct name_process *p)
{
    const uint64_t start_ns = clock_monotonic_ns();
    if (!p->pid)
        return;
    closep(&p->socket);
    kill(p->pid, SIGKILL);
    while (waitpid(p->pid, NULL, WNOHANG) == 0 && clock_monotonic_ns() - start_ns < END_MAX_NS)
        poll(NULL, 0, 1);
    p->pid = 0;
    p->is_owed = false;
}

/* Ends the process, remembers the input that it worked on, and leaves it ended in proportion to the time it lost. */
static void give_up(struct name_process *p, uint64_t cpu_ns)
{
    const uint64_t rest_ns = cpu_ns * REST_FACTOR;
    p->refused[p->hash % REFUSED_MAX] = p->hash;
    p->rests_until_ns = clock_monotonic_ns() + (rest_ns > REST_MIN_NS ? rest_ns : REST_MIN_NS);
    p->counts[p->task].refused++;
    end_process(p);
}

int name_process_new(struct name_process **ret)
{
    struct name_process *p = calloc(1, sizeof(*p));
    if (!p)
        return -ENOMEM;
    p->socket = -1;
    (void)!start_process(p);
    *ret = p;
    return 0;
}

void name_process_free(struct name_process *p)
{
    if (!p)
        return;
    end_process(p);
    free(p);
}

/* ---- tasks ---- */

int name_process_receive(struct name_process *p, int wait_ms, const struct name_message **ret)
{
    struct pollfd readable = {.fd = p->socket, .events = POLLIN};
    int r = -EAGAIN;
    if (poll(&readable, 1, wait_ms) > 0) {
        const ssize_t bytes = recv(p->socket, &p->message, sizeof(p->message), MSG_DONTWAIT);
        if (message_is_valid(&p->message, bytes))
            r = 0;
        else if (bytes >= 0 || (errno != EAGAIN && errno != EINTR))
            r = -EPIPE;
    }
    const uint64_t now_cpu_ns = clock_process_cpu_ns(p->pid); /* 0: it has ended */
    const uint64_t cpu_ns = now_cpu_ns > p->began_cpu_ns ? now_cpu_ns - p->began_cpu_ns : 0;
    if (r == 0 && p->message.number == p->number) {
        p->is_owed = !p->message.is_last;
        *ret = &p->message;
    } else if (r == 0) {
        r = -EAGAIN;
    }
    if (r != 0 && (r == -EPIPE || cpu_ns > p->cpu_max_ns)) {
        give_up(p, cpu_ns);
        return -EPIPE;
    }
    return r;
}

/* Makes sure that there is a process that waits for a task. 0 or -EAGAIN. */
static int get_ready(struct name_process *p)
{
    const struct name_message *late;
    if (!turn_time_wait_ms(1))
        return -EAGAIN;
    while (p->is_owed)
        if (name_process_receive(p, 0, &late) == -EAGAIN)
            return -EAGAIN;
    if (p->pid)
        return 0;
    return clock_monotonic_ns() < p->rests_until_ns || start_process(p) < 0 ? -EAGAIN : 0;
}

int name_process_begin(struct name_process *p, enum name_task task, uint64_t input_hash, uint64_t cpu_max_ns)
{
    const uint64_t hash = input_hash ? input_hash : 1;
    if (p->refused[hash % REFUSED_MAX] == hash)
        return -EPERM;
    if (get_ready(p) < 0) {
        p->counts[task].unanswered++;
        return -EAGAIN;
    }
    p->number++;
    p->task = task;
    p->hash = hash;
    p->cpu_max_ns = cpu_max_ns;
    p->began_cpu_ns = clock_process_cpu_ns(p->pid);
    p->counts[task].begun++;
    return 0;
}

int name_process_send(struct name_process *p, const void *data, size_t size, bool is_last)
{
    struct name_message *m = &p->message;
    m->number = p->number;
    m->task = (uint8_t)p->task;
    m->is_last = is_last;
    m->error = 0;
    m->size = (uint32_t)size;
    memcpy(m->data, data, size);
    if (send(p->socket, m, MESSAGE_HEAD + size, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0) {
        p->is_owed = true;
        return 0;
    }
    if (errno == EAGAIN || errno == EINTR || p->is_owed) /* has it ended by the input? name_process_receive says so */
        return -EAGAIN;
    end_process(p); /* it ended while it waited for a task: no input's fault */
    p->counts[p->task].unanswered++;
    return -EPIPE;
}

void name_process_abandon(struct name_process *p)
{
    p->counts[p->task].unanswered++;
    if (p->task != NAME_TASK_DEMANGLE)
        end_process(p);
}

const struct name_task_counts *name_process_counts(const struct name_process *p, enum name_task task)
{
    return &p->counts[task];
}
