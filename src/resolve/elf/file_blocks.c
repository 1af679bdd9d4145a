/* Keeps the last block of a file that was read; see file_blocks.h. */
#include "resolve/elf/file_blocks.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#define BLOCK_BYTES 4096 /* a power of two */
#define SMALL_BYTES 512  /* larger reads do not take a block's place */

uint64_t file_blocks_number(void)
{
    static atomic_uint_least64_t last;
    return atomic_fetch_add(&last, 1) + 1;
}

static int read_file(int fd, uint64_t offset, void *data, size_t size)
{
    for (size_t done = 0; done < size;) {
        ssize_t n = pread(fd, (char *)data + done, size - done, (off_t)(offset + done));
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return -EIO;
        done += (size_t)n;
    }
    return 0;
}

/* Not of each thread: it would lie on the stacks of all, which are copied. */
static struct {
    pthread_mutex_t lock;
    uint64_t number, start; /* number 0: none */
    uint8_t bytes[BLOCK_BYTES];
} block = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Makes it the block that starts there. False: the file has become shorter. */
static bool fill_block(int fd, uint64_t number, uint64_t start, size_t size)
{
    if (block.number == number && block.start == start)
        return true;
    block.number = 0;
    if (read_file(fd, start, block.bytes, size) < 0)
        return false;
    block.number = number;
    block.start = start;
    return true;
}

int file_blocks_read(int fd, uint64_t number, uint64_t file_bytes, uint64_t offset, void *data, size_t size)
{
    const uint64_t start = offset & ~(uint64_t)(BLOCK_BYTES - 1), rest = file_bytes - start;
    if (size > SMALL_BYTES || offset - start > BLOCK_BYTES - size || pthread_mutex_trylock(&block.lock) != 0)
        return read_file(fd, offset, data, size);
    const bool is_filled = fill_block(fd, number, start, rest < BLOCK_BYTES ? (size_t)rest : BLOCK_BYTES);
    if (is_filled)
        memcpy(data, block.bytes + (offset - start), size);
    pthread_mutex_unlock(&block.lock);
    return is_filled ? 0 : read_file(fd, offset, data, size);
}
