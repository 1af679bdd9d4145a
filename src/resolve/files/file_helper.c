/* The file helper's process; see file_helper.h. It shares no writable memory with the agent, holds none of its
 * descriptors, and ends with it. */
#include "resolve/files/file_helper.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/descriptors.h"
#include "base/helper_process.h"
#include "resolve/files/local_mounts.h"
#include "resolve/files/perf_map_file.h"
#include "resolve/proc/maps_query.h"
#include "resolve/remote/remote_file.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>

#define STACK_BYTES ((size_t)512 << 10)
#define IDLE_MAX    3

#ifndef MFD_NOEXEC_SEAL /* since Linux 6.3 */
#define MFD_NOEXEC_SEAL 8U
#endif

struct job {
    int socket, fd; /* fd -1: the request came without one */
    struct file_request request;
};

static bool is_local(int fd)
{
    struct statfs fs;
    return fstatfs(fd, &fs) == 0 && local_file_system((uint32_t)fs.f_type);
}

static int open_by_descriptor(int fd, int flags)
{
    char name[40];
    snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
    int opened = open(name, flags | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    return opened < 0 ? -errno : opened;
}

static int new_copy(void)
{
    int copy = memfd_create("sonde-files", MFD_CLOEXEC | MFD_NOEXEC_SEAL);
    if (copy < 0) /* Linux before 6.3 */
        copy = memfd_create("sonde-files", MFD_CLOEXEC);
    return copy < 0 ? -errno : copy;
}

/* Copies everything from `from` on into a memfd, so that the requester need not come back for every page that the
 * kernel writes. The memfd's offset stays 0. -EBADMSG: `whole` is set and the file ends before `max_bytes`. */
static int copy_of(int fd, uint64_t from, uint64_t max_bytes, bool whole)
{
    _cleanup_close_ int copy = new_copy();
    _cleanup_free_ char *piece = malloc(FILE_READ_BYTES);
    if (copy < 0 || !piece)
        return -ENOMEM;
    ssize_t n = 1;
    for (uint64_t size = 0; size < max_bytes && n > 0; size += (uint64_t)n) {
        n = pread(fd, piece, max_bytes - size < FILE_READ_BYTES ? max_bytes - size : FILE_READ_BYTES,
                  (off_t)(from + size));
        if (n < 0 || (n == 0 && whole))
            return n < 0 ? -errno : -EBADMSG;
        if (pwrite(copy, piece, (size_t)n, (off_t)size) != n)
            return -ENOSPC;
    }
    explicit_bzero(piece, FILE_READ_BYTES); /* it may contain secrets */
    return take_fd(&copy);
}

static int copy_of_buf(const struct buf *text)
{
    _cleanup_close_ int copy = new_copy();
    if (copy >= 0 && pwrite(copy, text->data, text->size, 0) != (ssize_t)text->size)
        return -ENOSPC;
    return take_fd(&copy);
}

/* Copies only the executable mappings. Fails where the kernel cannot select them. */
static int copy_of_maps(int fd, uint64_t max_bytes)
{
    _cleanup_buf_ struct buf lines = {.max_bytes = max_bytes};
    int r = maps_query_executable(fd, &lines);
    return r < 0 && r != -EFBIG ? r : copy_of_buf(&lines);
}

static int copy_of_context(const struct job *job)
{
    _cleanup_buf_ struct buf text = {0};
    int r = process_context_copy(job->fd, &job->request.context, &text);
    return r < 0 ? r : copy_of_buf(&text);
}

static int copy_of_memory(const struct job *job)
{
    _cleanup_close_ int memory_fd = openat(job->fd, "mem", O_RDONLY | O_CLOEXEC);
    if (memory_fd < 0)
        return -errno;
    return copy_of(memory_fd, job->request.address, job->request.max_bytes, true);
}

static int open_copy(const struct job *job)
{
    _cleanup_close_ int fd = openat(job->fd, job->request.path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    int copy = strcmp(job->request.path, "maps") == 0 ? copy_of_maps(fd, job->request.max_bytes) : -ENOTTY;
    return copy < 0 ? copy_of(fd, 0, job->request.max_bytes, false)
                    : copy; /* fall back on any error: emulators and sandboxes refuse unknown ioctls in many ways */
}

static int open_requested_file(struct job *job, struct object_identity *ret)
{
    struct file_request *request = &job->request;
    int fd = -EINVAL;
    request->sight.path = request->path;
    request->sight.build_id = request->build_id;
    switch (request->kind) {
    case FILE_REQUEST_SIGHT:
        fd = object_file_open(&request->sight, ret);
        break;
    case FILE_REQUEST_REOPEN:
        fd = open_by_descriptor(job->fd, O_RDONLY);
        break;
    case FILE_REQUEST_PROCESS_ROOT:
        fd = object_file_open_in_process_root(&request->sight, request->path);
        break;
    case FILE_REQUEST_OWN_ROOT:
        fd = object_file_open_in_own_root(request->path);
        break;
    case FILE_REQUEST_PROC:
        fd = open_copy(job);
        break;
    case FILE_REQUEST_PERF_MAP:
        fd = perf_map_file_open(job->fd, request->not_before_ns);
        break;
    case FILE_REQUEST_CONTEXT:
        fd = copy_of_context(job);
        break;
    case FILE_REQUEST_MEMORY:
        fd = copy_of_memory(job);
        break;
    }
    if (fd >= 0) {
        const bool is_copy = request->kind == FILE_REQUEST_PROC || request->kind == FILE_REQUEST_CONTEXT ||
                             request->kind == FILE_REQUEST_MEMORY;
        ret->is_remote = request->kind == FILE_REQUEST_REOPEN || (!is_copy && !is_local(fd));
        ret->mount_id = object_file_mount(fd);
    }
    return fd;
}

static int send_reply(int socket, const struct file_reply *reply, int fd)
{
    return descriptors_send(socket, reply, sizeof(*reply), &(struct descriptors){.fds = {fd, -1}}, 0);
}

static int64_t size_of(int fd)
{
    struct stat st;
    return fstat(fd, &st) < 0 ? -errno : st.st_size;
}

static uint64_t voluntary_switches(void)
{
    struct rusage usage;
    return getrusage(RUSAGE_THREAD, &usage) == 0 ? (uint64_t)usage.ru_nvcsw : 0;
}

static int64_t read_piece(int fd, const struct file_read *read_request, void *data, size_t size)
{
    if (read_request->offset == FILE_READER)
        return gettid();
    if (read_request->offset == FILE_SIZE)
        return size_of(fd);
    ssize_t n = pread(fd, data, size, (off_t)read_request->offset);
    return n < 0 ? -errno : n;
}

/* Serves reads of a remote file until the other side closes the socket. */
static void serve_reads(int socket, int fd)
{
    struct {
        struct file_piece piece;
        char data[FILE_READ_BYTES];
    } *reply = malloc(sizeof(*reply));
    struct file_read read_request;
    while (reply && recv(socket, &read_request, sizeof(read_request), 0) == sizeof(read_request)) {
        size_t size = read_request.size < FILE_READ_BYTES ? read_request.size : FILE_READ_BYTES;
        const uint64_t switches_before = voluntary_switches(), start_ns = clock_monotonic_ns();
        int64_t n = read_piece(fd, &read_request, reply->data, size);
        reply->piece.result = n;
        reply->piece.slept_ns = voluntary_switches() == switches_before ? 0 : clock_monotonic_ns() - start_ns;
        size = n < 0 || read_request.offset >= FILE_READER ? 0 : (size_t)n;
        if (send(socket, reply, sizeof(reply->piece) + size, MSG_NOSIGNAL) < 0)
            break;
    }
    free(reply);
}

static void serve_request(struct job *job)
{
    struct file_reply reply = {0};
    const pid_t tid = gettid();
    send(job->socket, &tid, sizeof(tid), MSG_NOSIGNAL);
    int fd = open_requested_file(job, &reply.identity);
    reply.error = fd < 0 ? fd : 0;
    const bool is_remote = fd >= 0 && reply.identity.is_remote;
    if (is_remote && job->request.kind == FILE_REQUEST_SIGHT) {
        int path_fd = open_by_descriptor(fd, O_PATH);
        reply.error = path_fd < 0 ? path_fd : 0;
        send_reply(job->socket, &reply, path_fd);
        closep(&path_fd);
    } else if (send_reply(job->socket, &reply, is_remote ? -1 : fd) == 0 && is_remote) {
        serve_reads(job->socket, fd);
    }
    close(job->socket); /* first, because the closes below may block */
    closep(&job->fd);
    closep(&fd);
}

/* Receives the next request; false when the agent has closed the control socket. */
static bool receive_request(int control, struct job *ret)
{
    struct descriptors with;
    const ssize_t n = descriptors_receive(control, &ret->request, sizeof(ret->request), &with, 0);
    ret->socket = with.fds[0];
    ret->fd = with.fds[1];
    return n > (ssize_t)offsetof(struct file_request, path);
}

/* All threads run the same loop. A thread that accepts a request first makes sure that another thread is listening,
 * since it may block itself. IDLE_MAX threads stay idle, the others end. */
struct helper {
    int control;
    atomic_uint idle;
    pthread_attr_t detached;
};

static void *worker_main(void *arg);

static void dispatch_request(struct helper *h, struct job *job)
{
    pthread_t thread;
    if (job->socket < 0 || (atomic_load(&h->idle) == 0 && pthread_create(&thread, &h->detached, worker_main, h) != 0)) {
        closep(&job->socket); /* closing the socket without a reply means: retry later */
        closep(&job->fd);
        return;
    }
    serve_request(job);
}

static void *worker_main(void *arg)
{
    struct helper *h = arg;
    struct job *job = malloc(sizeof(*job));
    do {
        atomic_fetch_add(&h->idle, 1);
        if (!job || !receive_request(h->control, job))
            _exit(0);
        atomic_fetch_sub(&h->idle, 1);
        dispatch_request(h, job);
    } while (atomic_load(&h->idle) < IDLE_MAX);
    free(job);
    return NULL;
}

_Noreturn void file_helper_run(int control)
{
    helper_process_keep_only(&control, 1);
    helper_process_become("sonde-files");
    mallopt(M_ARENA_MAX, 1);

    struct helper h = {.control = control};
    pthread_attr_init(&h.detached);
    pthread_attr_setdetachstate(&h.detached, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&h.detached, STACK_BYTES);
    if (send(control, "", 1, MSG_NOSIGNAL) != 1) /* reports that the helper runs */
        _exit(1);
    for (;;)
        worker_main(&h);
}
