/* Reading over a socket; see far_file.h. Names and rows are read in small pieces that lie close together, so
 * some blocks of the file are kept. */
#include "resolve/far_file.h"

#include "base/clock.h"
#include "resolve/file_helper.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>

#define DEADLINE_NS 1000000000ull /* for one answer */
#define PATIENCE_NS 2000000000ull /* for all answers of one opening */
#define BLOCK_BYTES 16384u
#define BLOCKS      4

struct block {
    uint64_t offset;
    size_t size; /* 0: empty */
    uint64_t used;
    uint8_t data[BLOCK_BYTES];
};

struct far_file {
    int fd;
    int error;
    uint64_t waited_ns;
    uint64_t reads;
    struct block blocks[BLOCKS];
};

bool far_file_is(int fd)
{
    struct stat st;
    return fstat(fd, &st) == 0 && S_ISSOCK(st.st_mode);
}

/* One question; how many bytes there were, or -errno. */
static int64_t ask(int fd, uint64_t offset, void *data, size_t size, uint64_t deadline_ns)
{
    const struct file_read asked = {.offset = offset, .size = size};
    int64_t result;
    struct iovec parts[] = {{.iov_base = &result, .iov_len = sizeof(result)},
                            {.iov_base = data, .iov_len = size}};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
    if (send(fd, &asked, sizeof(asked), MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
        return -ETIMEDOUT; /* the helper has gone: another one will do it */
    struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
    int ready;
    do
        ready = poll(&poll_fd, 1, (int)(deadline_ns / 1000000));
    while (ready < 0 && errno == EINTR);
    ssize_t n = ready > 0 ? recvmsg(fd, &message, MSG_DONTWAIT) : -1;
    if (n < (ssize_t)sizeof(result))
        return -ETIMEDOUT;
    n -= (ssize_t)sizeof(result);
    return offset != FILE_SIZE && result >= 0 && result != n ? -EIO : result;
}

/* At most FILE_READ_BYTES; how many there were. */
static int64_t ask_in_time(struct far_file *f, uint64_t offset, void *data, size_t size)
{
    if (f->error)
        return f->error;
    uint64_t left_ns = PATIENCE_NS > f->waited_ns ? PATIENCE_NS - f->waited_ns : 0;
    uint64_t start_ns = clock_monotonic_ns();
    int64_t n =
        left_ns ? ask(f->fd, offset, data, size, left_ns < DEADLINE_NS ? left_ns : DEADLINE_NS) : -ETIMEDOUT;
    f->waited_ns += clock_monotonic_ns() - start_ns;
    if (n == -ETIMEDOUT)
        f->error = -ETIMEDOUT;
    return n;
}

int far_file_new(int fd, struct far_file **ret, uint64_t *ret_size)
{
    struct far_file *f = calloc(1, sizeof(*f));
    if (!f)
        return -ENOMEM;
    f->fd = fd;
    int64_t size = ask_in_time(f, FILE_SIZE, NULL, 0);
    if (size < 0) {
        free(f);
        return (int)size;
    }
    *ret = f;
    *ret_size = (uint64_t)size;
    return 0;
}

void far_file_free(struct far_file *f)
{
    free(f);
}

int far_file_error(const struct far_file *f)
{
    return f->error;
}

static int read_whole(struct far_file *f, uint64_t offset, uint8_t *data, size_t size)
{
    while (size) {
        int64_t n = ask_in_time(f, offset, data, size < FILE_READ_BYTES ? size : FILE_READ_BYTES);
        if (n <= 0)
            return n == -ETIMEDOUT ? -ETIMEDOUT : -EIO;
        offset += (uint64_t)n;
        data += n;
        size -= (size_t)n;
    }
    return 0;
}

/* The block that holds `offset`; NULL: not read, see f->error. */
static const struct block *block_at(struct far_file *f, uint64_t offset)
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
    int64_t n = ask_in_time(f, start, oldest->data, BLOCK_BYTES);
    oldest->size = n > 0 ? (size_t)n : 0;
    oldest->offset = start;
    oldest->used = f->reads;
    return offset - start < oldest->size ? oldest : NULL;
}

int far_file_read(struct far_file *f, uint64_t offset, void *data, size_t size)
{
    uint8_t *to = data;
    if (size >= BLOCK_BYTES)
        return read_whole(f, offset, to, size);
    while (size) {
        const struct block *b = block_at(f, offset);
        if (!b)
            return f->error ? f->error : -EIO;
        size_t at = (size_t)(offset - b->offset), n = b->size - at < size ? b->size - at : size;
        memcpy(to, b->data + at, n);
        offset += n;
        to += n;
        size -= n;
    }
    return 0;
}

int far_file_read_all(int fd, size_t max_bytes, struct buf *to)
{
    _cleanup_free_ char *piece = malloc(FILE_READ_BYTES);
    if (!piece)
        return -ENOMEM;
    uint64_t end_ns = clock_monotonic_ns() + PATIENCE_NS;
    for (uint64_t offset = 0; offset < max_bytes;) {
        size_t wanted = max_bytes - offset < FILE_READ_BYTES ? max_bytes - offset : FILE_READ_BYTES;
        int64_t n = clock_monotonic_ns() < end_ns ? ask(fd, offset, piece, wanted, DEADLINE_NS) : -ETIMEDOUT;
        if (n <= 0)
            return (int)n;
        int r = buf_append(to, piece, (size_t)n);
        if (r < 0)
            return r;
        offset += (uint64_t)n;
    }
    return 0;
}
