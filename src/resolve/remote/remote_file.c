/* Reads a file over a socket; see remote_file.h. Symbol names and table rows are read in small pieces that lie close
 * together, so a few blocks of the file are cached. */
#include "resolve/remote/remote_file.h"

#include "base/clock.h"
#include "resolve/remote/file_wait.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>

#define SLEEP_MAX_NS 2000000000ull /* total time the reader may sleep in the file system, per opened file */
#define WAIT_MAX_MS  5000
#define BLOCK_BYTES  16384u
#define BLOCKS       4

struct block {
    uint64_t offset;
    size_t size; /* 0: empty */
    uint64_t used;
    uint8_t data[BLOCK_BYTES];
};

struct reading {
    int fd;
    int error;
    pid_t tid; /* the helper thread that serves this file; 0: not known yet */
    uint64_t slept_ns, waited_ns;
};

struct remote_file {
    struct reading reading;
    uint64_t reads;
    struct block blocks[BLOCKS];
};

bool remote_file_is(int fd)
{
    struct stat st;
    return fstat(fd, &st) == 0 && S_ISSOCK(st.st_mode);
}

/* Sends one request and returns its result. */
static int64_t send_request(struct reading *r, uint64_t offset, void *data, size_t size)
{
    const struct file_read request = {.offset = offset, .size = size};
    struct file_piece piece;
    struct iovec parts[] = {{.iov_base = &piece, .iov_len = sizeof(piece)}, {.iov_base = data, .iov_len = size}};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
    if (send(r->fd, &request, sizeof(request), MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
        return -ETIMEDOUT; /* the helper has exited: retry later with a new one */
    ssize_t n = file_wait(r->fd, r->tid, WAIT_MAX_MS) == 0 ? recvmsg(r->fd, &message, MSG_DONTWAIT) : -1;
    if (n < (ssize_t)sizeof(piece))
        return -ETIMEDOUT;
    n -= (ssize_t)sizeof(piece);
    r->slept_ns += piece.slept_ns;
    return offset < FILE_READER && piece.result >= 0 && piece.result != n ? -EIO : piece.result;
}

/* Reads at most FILE_READ_BYTES; returns the number of bytes. Applies the deadlines; once one has passed, every
 * later call fails at once. */
static int64_t send_request_in_time(struct reading *r, uint64_t offset, void *data, size_t size)
{
    const uint64_t start_ns = clock_monotonic_ns();
    int64_t n = r->tid ? r->tid : send_request(r, FILE_READER, NULL, 0);
    if (n > 0 && !r->error && r->slept_ns < SLEEP_MAX_NS && r->waited_ns < WAIT_MAX_MS * 1000000ull) {
        r->tid = (pid_t)n;
        n = send_request(r, offset, data, size);
    } else {
        n = -ETIMEDOUT;
    }
    r->waited_ns += clock_monotonic_ns() - start_ns;
    if (n == -ETIMEDOUT)
        r->error = -ETIMEDOUT;
    return n;
}

int remote_file_new(int fd, struct remote_file **ret, uint64_t *ret_size)
{
    struct remote_file *f = calloc(1, sizeof(*f));
    if (!f)
        return -ENOMEM;
    f->reading.fd = fd;
    int64_t size = send_request_in_time(&f->reading, FILE_SIZE, NULL, 0);
    if (size < 0) {
        free(f);
        return (int)size;
    }
    *ret = f;
    *ret_size = (uint64_t)size;
    return 0;
}

void remote_file_free(struct remote_file *f)
{
    free(f);
}

int remote_file_error(const struct remote_file *f)
{
    return f->reading.error;
}

static int read_whole(struct remote_file *f, uint64_t offset, uint8_t *data, size_t size)
{
    while (size) {
        int64_t n = send_request_in_time(&f->reading, offset, data, size < FILE_READ_BYTES ? size : FILE_READ_BYTES);
        if (n <= 0)
            return n == -ETIMEDOUT ? -ETIMEDOUT : -EIO;
        offset += (uint64_t)n;
        data += n;
        size -= (size_t)n;
    }
    return 0;
}

/* The cached block that holds `offset`, read if necessary. NULL when the read fails; see f->reading.error. */
static const struct block *block_at(struct remote_file *f, uint64_t offset)
{
    struct block *oldest = &f->blocks[0];
    f->reads++;
    for (size_t i = 0; i < BLOCKS; i++) {
        struct block *b = &f->blocks[i];
        if (offset >= b->offset && offset - b->offset < b->size) {
            b->used = f->reads;
            return b;
        }
        if (b->used < oldest->used)
            oldest = b;
    }
    uint64_t start = offset - offset % BLOCK_BYTES;
    int64_t n = send_request_in_time(&f->reading, start, oldest->data, BLOCK_BYTES);
    oldest->size = n > 0 ? (size_t)n : 0;
    oldest->offset = start;
    oldest->used = f->reads;
    return offset - start < oldest->size ? oldest : NULL;
}

int remote_file_read(struct remote_file *f, uint64_t offset, void *data, size_t size)
{
    uint8_t *to = data;
    if (size >= BLOCK_BYTES)
        return read_whole(f, offset, to, size);
    while (size) {
        const struct block *b = block_at(f, offset);
        if (!b)
            return f->reading.error ? f->reading.error : -EIO;
        size_t at = (size_t)(offset - b->offset), n = b->size - at < size ? b->size - at : size;
        memcpy(to, b->data + at, n);
        offset += n;
        to += n;
        size -= n;
    }
    return 0;
}
