/* The helper's process; see file_helper.h. It shares no memory that changes with the agent, holds none of its
 * descriptors, and ends with it. */
#include "resolve/file_helper.h"

#include "base/cleanup.h"
#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>

#define STACK_BYTES ((size_t)512 << 10)
#define IDLE_MAX    3

struct job {
    int socket, fd; /* fd -1: none was sent */
    struct file_ask ask;
};

/* File systems of this machine's own memory and disks. All others may wait for somebody: so may overlayfs,
 * for what lies below it. */
static bool is_near(int fd)
{
    static const uint32_t types[] = {
        EXT4_SUPER_MAGIC, XFS_SUPER_MAGIC,   BTRFS_SUPER_MAGIC, TMPFS_MAGIC,       RAMFS_MAGIC,
        F2FS_SUPER_MAGIC, SQUASHFS_MAGIC,    0xe0f5e1e2,        ISOFS_SUPER_MAGIC, 0x2fc12fc1,
        0xca451a4e,       MSDOS_SUPER_MAGIC, 0x2011bab0,        HUGETLBFS_MAGIC, /* erofs, zfs, bcachefs and
                                                                                    exfat have no name in
                                                                                    every header */
    };
    struct statfs fs;
    if (fstatfs(fd, &fs) < 0)
        return false;
    for (size_t i = 0; i < array_size(types); i++)
        if ((uint32_t)fs.f_type == types[i])
            return true;
    return false;
}

static uint64_t mount_of(int fd)
{
    struct statx st = {0};
    return statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_MNT_ID, &st) == 0 ? st.stx_mnt_id : 0;
}

static int open_by_descriptor(int fd, int flags)
{
    char name[40];
    snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
    int opened = open(name, flags | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    return opened < 0 ? -errno : opened;
}

static int open_asked(struct job *job, struct object_identity *ret)
{
    struct file_ask *ask = &job->ask;
    int fd = -EINVAL;
    ask->sight.path = ask->path;
    ask->sight.build_id = ask->build_id;
    switch (ask->kind) {
    case FILE_ASK_SIGHT:
        fd = object_file_open(&ask->sight, ret);
        break;
    case FILE_ASK_AGAIN:
        fd = open_by_descriptor(job->fd, O_RDONLY);
        break;
    case FILE_ASK_BESIDE:
        fd = object_file_open_beside(&ask->sight, ask->path);
        break;
    case FILE_ASK_OURS:
        fd = object_file_open_ours(ask->path);
        break;
    case FILE_ASK_PROC:
        fd = openat(job->fd, ask->path, O_RDONLY | O_CLOEXEC);
        fd = fd < 0 ? -errno : fd;
        break;
    }
    if (fd >= 0) {
        ret->is_far = ask->kind == FILE_ASK_PROC || ask->kind == FILE_ASK_AGAIN || !is_near(fd);
        ret->mount_id = mount_of(fd);
    }
    return fd;
}

static int send_answer(int socket, const struct file_answer *answer, int fd)
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control = {0};
    struct iovec data = {.iov_base = (void *)answer, .iov_len = sizeof(*answer)};
    struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1};
    if (fd >= 0) {
        message.msg_control = &control;
        message.msg_controllen = sizeof(control);
        struct cmsghdr *c = CMSG_FIRSTHDR(&message);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof(fd));
        memcpy(CMSG_DATA(c), &fd, sizeof(fd));
    }
    return sendmsg(socket, &message, MSG_NOSIGNAL) < 0 ? -errno : 0;
}

static int64_t size_of(int fd)
{
    struct stat st;
    return fstat(fd, &st) < 0 ? -errno : st.st_size;
}

static uint64_t sleeps(void)
{
    struct rusage usage;
    return getrusage(RUSAGE_THREAD, &usage) == 0 ? (uint64_t)usage.ru_nvcsw : 0;
}

static int64_t read_piece(int fd, const struct file_read *asked, void *data, size_t size)
{
    if (asked->offset == FILE_READER)
        return gettid();
    if (asked->offset == FILE_SIZE)
        return size_of(fd);
    ssize_t n = pread(fd, data, size, (off_t)asked->offset);
    return n < 0 ? -errno : n;
}

/* Until the other side closes the socket. */
static void serve_reads(int socket, int fd)
{
    struct {
        struct file_piece piece;
        char data[FILE_READ_BYTES];
    } *answer = malloc(sizeof(*answer));
    struct file_read asked;
    while (answer && recv(socket, &asked, sizeof(asked), 0) == sizeof(asked)) {
        size_t size = asked.size < FILE_READ_BYTES ? asked.size : FILE_READ_BYTES;
        const uint64_t sleeps_before = sleeps(), start_ns = clock_monotonic_ns();
        int64_t n = read_piece(fd, &asked, answer->data, size);
        answer->piece.result = n;
        answer->piece.slept_ns = sleeps() == sleeps_before ? 0 : clock_monotonic_ns() - start_ns;
        size = n < 0 || asked.offset >= FILE_READER ? 0 : (size_t)n;
        if (send(socket, answer, sizeof(answer->piece) + size, MSG_NOSIGNAL) < 0)
            break;
    }
    free(answer);
}

static void do_job(struct job *job)
{
    struct file_answer answer = {0};
    const pid_t tid = gettid();
    send(job->socket, &tid, sizeof(tid), MSG_NOSIGNAL);
    int fd = open_asked(job, &answer.identity);
    answer.error = fd < 0 ? fd : 0;
    const bool far = fd >= 0 && answer.identity.is_far;
    if (far && job->ask.kind == FILE_ASK_SIGHT) {
        int path_fd = open_by_descriptor(fd, O_PATH);
        answer.error = path_fd < 0 ? path_fd : 0;
        send_answer(job->socket, &answer, path_fd);
        closep(&path_fd);
    } else if (send_answer(job->socket, &answer, far ? -1 : fd) == 0 && far) {
        serve_reads(job->socket, fd);
    }
    close(job->socket); /* first: what follows may wait */
    closep(&job->fd);
    closep(&fd);
}

static void take_descriptors(struct msghdr *message, struct job *job)
{
    struct cmsghdr *c = CMSG_FIRSTHDR(message);
    int fds[2] = {-1, -1};
    if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS) {
        size_t bytes = c->cmsg_len - CMSG_LEN(0);
        memcpy(fds, CMSG_DATA(c), bytes < sizeof(fds) ? bytes : sizeof(fds));
    }
    job->socket = fds[0];
    job->fd = fds[1];
}

/* The next thing asked for; false when nobody asks any more. */
static bool receive(int control, struct job *ret)
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(2 * sizeof(int))];
    } descriptors = {0};
    struct iovec data = {.iov_base = &ret->ask, .iov_len = sizeof(ret->ask)};
    struct msghdr message = {.msg_iov = &data,
                             .msg_iovlen = 1,
                             .msg_control = &descriptors,
                             .msg_controllen = sizeof(descriptors)};
    if (recvmsg(control, &message, MSG_CMSG_CLOEXEC) <= (ssize_t)offsetof(struct file_ask, path))
        return false;
    take_descriptors(&message, ret);
    return true;
}

/* All threads are alike: each takes what is asked for next, having seen to it that another one listens while
 * it waits itself. A few stay idle, the others end. */
struct helper {
    int control;
    atomic_uint idle;
    pthread_attr_t detached;
};

static void *work(void *arg);

static void work_once(struct helper *h, struct job *job)
{
    pthread_t thread;
    if (job->socket < 0 ||
        (atomic_load(&h->idle) == 0 && pthread_create(&thread, &h->detached, work, h) != 0)) {
        closep(&job->socket); /* answer enough: not now */
        closep(&job->fd);
        return;
    }
    do_job(job);
}

static void *work(void *arg)
{
    struct helper *h = arg;
    struct job *job = malloc(sizeof(*job));
    do {
        atomic_fetch_add(&h->idle, 1);
        if (!job || !receive(h->control, job))
            _exit(0);
        atomic_fetch_sub(&h->idle, 1);
        work_once(h, job);
    } while (atomic_load(&h->idle) < IDLE_MAX);
    free(job);
    return NULL;
}

/* Only the control socket is left: a file, a lock or a pipe that a helper which cannot be ended kept open
 * would be held up with it. */
static int keep_only(int control)
{
    const int kept = 3;
    int nothing = open("/dev/null", O_RDWR);
    for (int fd = 0; fd < 3; fd++)
        if (nothing < 0 || dup2(nothing, fd) < 0)
            close(fd);
    if (control != kept && dup2(control, kept) < 0)
        return -errno;
    fcntl(kept, F_SETFD, FD_CLOEXEC);
    if (syscall(SYS_close_range, kept + 1, ~0U, 0) < 0)
        for (int fd = kept + 1; fd < (int)sysconf(_SC_OPEN_MAX); fd++)
            close(fd);
    return kept;
}

_Noreturn void file_helper_run(int control)
{
    /* It is the agent who decides when to end; a Ctrl-C reaches us as well, and its last turn needs us. */
    static const int ignored[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE, SIGUSR1, SIGUSR2};
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    prctl(PR_SET_NAME, "sonde-files");
    for (size_t i = 0; i < array_size(ignored); i++)
        signal(ignored[i], SIG_IGN);
    signal(SIGCHLD, SIG_DFL);
    if (chdir("/") < 0)
        _exit(1);
    control = keep_only(control);
    mallopt(M_ARENA_MAX, 1);

    struct helper h = {.control = control};
    pthread_attr_init(&h.detached);
    pthread_attr_setdetachstate(&h.detached, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&h.detached, STACK_BYTES);
    if (send(control, "", 1, MSG_NOSIGNAL) != 1) /* we are here */
        _exit(1);
    for (;;)
        work(&h);
}
