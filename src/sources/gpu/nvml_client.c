/* See nvml_client.h. */
#include "sources/gpu/nvml_client.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/helper_process.h"
#include "sources/gpu/nvml_child.h"
#include "sources/gpu/nvml_library.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define MESSAGES_MAX                                                                                                   \
    (GPU_DEVICES_MAX + GPU_INSTANCES_MAX + GPU_PROCESSES_MAX + 2) /* of a turn: foreign code may send without end */

#define STAT_MAX_BYTES 1024

struct nvml_client {
    uint64_t interval_ns;
    bool has_library;
    char path[PATH_MAX];
    uint64_t look_ns; /* when to look for the library again */
    struct nvml_progress *progress;
    pid_t pid; /* 0: no process */
    int socket;
    pid_t ended_pid;   /* was killed and has not ended yet: it is blocked in the kernel; 0: none */
    uint64_t start_ns; /* when to start the next process */
    uint64_t poll_ns;  /* when to ask for the next poll */
    bool is_owed;      /* the end of a poll has not arrived yet */
    bool has_failed;   /* the process has reported an error of the library, and ends */
    enum gpu_driver_state state;
    int error;       /* of the library, with GPU_DRIVER_FAILS */
    uint64_t cpu_ns; /* of earlier processes */
};

static void look_for_library(struct nvml_client *c, uint64_t now_ns)
{
    c->has_library = nvml_library_find(c->path);
    c->look_ns = now_ns + NVML_RETRY_NS;
}

int nvml_client_new(uint64_t interval_ns, struct nvml_client **ret)
{
    struct nvml_client *c = calloc(1, sizeof(*c));
    if (!c)
        return -ENOMEM;
    c->interval_ns = interval_ns;
    c->socket = -1;
    look_for_library(c, clock_monotonic_ns());
    *ret = c;
    return 0;
}

/* ---- the process ---- */

static int start_process(struct nvml_client *c)
{
    if (!c->progress) {
        void *shared = mmap(NULL, sizeof(*c->progress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (shared == MAP_FAILED)
            return -errno;
        c->progress = shared;
    }
    atomic_store(&c->progress->since_ns, 0);
    pid_t pid;
    int socket;
    const int r = helper_process_fork(&pid, &socket);
    if (r < 0)
        return r;
    if (pid == 0)
        nvml_child_run(socket, c->progress, c->path);
    c->pid = pid;
    c->socket = socket;
    c->is_owed = c->has_failed = false;
    c->poll_ns = 0;
    return 0;
}

/* A process that is blocked in the kernel ends when its call returns; until then no other one is started. */
static void reap_process(struct nvml_client *c)
{
    if (c->ended_pid && waitpid(c->ended_pid, NULL, WNOHANG) != 0)
        c->ended_pid = 0;
}

static void end_process(struct nvml_client *c, uint64_t now_ns)
{
    if (!c->pid)
        return;
    c->cpu_ns += clock_process_cpu_ns(c->pid);
    kill(c->pid, SIGKILL);
    closep(&c->socket);
    c->ended_pid = c->pid;
    c->pid = 0;
    c->start_ns = now_ns + NVML_RETRY_NS;
    reap_process(c);
}

void nvml_client_free(struct nvml_client *c)
{
    if (!c)
        return;
    end_process(c, 0);
    for (unsigned ms = 0; c->ended_pid && ms < 100; ms++) {
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        reap_process(c);
    }
    if (c->progress)
        munmap(c->progress, sizeof(*c->progress));
    free(c);
}

/* ---- the driver's state ---- */

static const char *function_name(uint32_t function)
{
    static const char *const names[] = {
#define X(member, symbol, parameters) symbol,
        NVML_FUNCTIONS(X)
#undef X
            "loading " NVML_LIBRARY,
    };
    return function <= NVML_LOAD ? names[function] : "an unknown function";
}

/* How long the present call has taken; 0: less than it may. */
static uint64_t overdue_ns(const struct nvml_client *c, uint64_t now_ns)
{
    const uint64_t since_ns = atomic_load(&c->progress->since_ns);
    const bool is_init = atomic_load(&c->progress->function) == NVML_FUNCTION_init;
    if (!since_ns || since_ns > now_ns || now_ns - since_ns <= (is_init ? NVML_INIT_MAX_NS : NVML_CALL_MAX_NS))
        return 0;
    return now_ns - since_ns;
}

struct taking {
    void (*take)(void *context, const struct record_header *record);
    void *context;
    uint64_t now_ns;
};

/* Passes each change of the state or of its error once. */
static void take_state(struct nvml_client *c, struct gpu_driver *record, const struct taking *t)
{
    if (c->state == record->state && c->error == record->error)
        return;
    c->state = record->state;
    c->error = record->error;
    record->h = (struct record_header){.size_bytes = sizeof(*record), .kind = RECORD_GPU_DRIVER, .time_ns = t->now_ns};
    t->take(t->context, &record->h);
}

/* "D nv_wait": the state of the process, and the function of the kernel in which it waits, if that is known. */
static void describe_wait(pid_t pid, char *out, size_t size)
{
    _cleanup_buf_ struct buf stat = {0}, function = {0};
    char path[48];
    snprintf(path, sizeof(path), "/proc/%d/stat", pid);
    const char *end = buf_read_file(&stat, path, STAT_MAX_BYTES) == 0 && stat.data ? strrchr(stat.data, ')') : NULL;
    snprintf(path, sizeof(path), "/proc/%d/wchan", pid);
    const bool waits = buf_read_file(&function, path, STAT_MAX_BYTES) == 0 && function.data && function.data[0] != '0';
    if (end && end[1] == ' ' && end[2])
        snprintf(out, size, "%c%s%s", end[2], waits ? " " : "", waits ? function.data : "");
}

static void take_hang(struct nvml_client *c, uint64_t elapsed_ns, const struct taking *t)
{
    struct gpu_driver record = {
        .state = GPU_DRIVER_HANGS, .elapsed_ns = elapsed_ns, .device = atomic_load(&c->progress->device)};
    snprintf(record.call, sizeof(record.call), "%s", function_name(atomic_load(&c->progress->function)));
    describe_wait(c->pid, record.wait, sizeof(record.wait));
    take_state(c, &record, t);
    end_process(c, t->now_ns);
}

/* ---- polls ---- */

union message {
    struct record_header h;
    struct gpu_device device;
    struct gpu_process process;
    struct gpu_poll poll;
    struct gpu_driver driver;
};

static bool is_whole(const union message *m, ssize_t bytes)
{
    static const size_t sizes[] = {sizeof(m->device), sizeof(m->process), sizeof(m->poll), 0, sizeof(m->driver)};
    const size_t kind = bytes < (ssize_t)sizeof(m->h) ? SIZE_MAX : (size_t)m->h.kind - RECORD_GPU_DEVICE;
    return kind < array_size(sizes) && (size_t)bytes == sizes[kind] && m->h.size_bytes == bytes;
}

static void take_message(struct nvml_client *c, union message *m, const struct taking *t)
{
    m->h.time_ns = t->now_ns;
    if (m->h.kind == RECORD_GPU_DRIVER) {
        c->has_failed = true;
        take_state(c, &m->driver, t);
        return;
    }
    t->take(t->context, &m->h);
    if (m->h.kind != RECORD_GPU_POLL)
        return;
    struct gpu_driver responds = {.state = GPU_DRIVER_RESPONDS, .device = GPU_NO_INSTANCE};
    take_state(c, &responds, t);
    c->is_owed = false;
}

/* The process has ended, or its memory is damaged. After a failure that it has reported, it ends by itself: that is no
 * further failure. */
static void take_end(struct nvml_client *c, const struct taking *t)
{
    struct gpu_driver record = {
        .state = GPU_DRIVER_FAILS, .device = GPU_NO_INSTANCE, .message = "the process sonde-gpu ended unexpectedly"};
    if (!c->has_failed)
        take_state(c, &record, t);
    end_process(c, t->now_ns);
}

/* `error`: why the process cannot be started, negative errno. */
static void take_failed_start(struct nvml_client *c, int error, const struct taking *t)
{
    struct gpu_driver record = {.state = GPU_DRIVER_FAILS, .device = GPU_NO_INSTANCE};
    snprintf(record.message, sizeof(record.message), "the process sonde-gpu cannot be started: %s", strerror(-error));
    take_state(c, &record, t);
    c->start_ns = t->now_ns + NVML_RETRY_NS;
}

static void receive(struct nvml_client *c, const struct taking *t)
{
    union message m;
    for (unsigned i = 0; i < MESSAGES_MAX; i++) {
        const ssize_t bytes = recv(c->socket, &m, sizeof(m), MSG_DONTWAIT);
        if (bytes < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (bytes <= 0 || !is_whole(&m, bytes)) {
            take_end(c, t);
            return;
        }
        take_message(c, &m, t);
    }
}

static void ask_for_poll(struct nvml_client *c, uint64_t now_ns)
{
    if (!c->pid || c->is_owed || now_ns < c->poll_ns)
        return;
    c->is_owed = send(c->socket, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL) == 1;
    c->poll_ns = now_ns + c->interval_ns;
}

void nvml_client_turn(struct nvml_client *c, uint64_t now_ns,
                      void (*take)(void *context, const struct record_header *record), void *context)
{
    const struct taking t = {take, context, now_ns};
    reap_process(c);
    if (c->pid)
        receive(c, &t);
    const uint64_t elapsed_ns = c->pid ? overdue_ns(c, now_ns) : 0;
    if (elapsed_ns)
        take_hang(c, elapsed_ns, &t);
    if (!c->pid && now_ns >= c->look_ns)
        look_for_library(c, now_ns);
    if (!c->pid && c->has_library && !c->ended_pid && now_ns >= c->start_ns) {
        const int r = start_process(c);
        if (r < 0)
            take_failed_start(c, r, &t);
    }
    ask_for_poll(c, now_ns);
}

bool nvml_client_has_library(const struct nvml_client *c)
{
    return c->has_library;
}

uint64_t nvml_client_cpu_ns(const struct nvml_client *c)
{
    return c->cpu_ns + (c->pid ? clock_process_cpu_ns(c->pid) : 0);
}
