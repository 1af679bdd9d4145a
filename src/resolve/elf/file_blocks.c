/* Keeps the blocks of files that were read last; see file_blocks.h. */
#include "resolve/elf/file_blocks.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#define BLOCKS      16
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

struct block {
    uint64_t number, start; /* number 0: none */
    uint64_t used;          /* value of `reads` at the last use */
    uint8_t bytes[BLOCK_BYTES];
};

/* Not of each thread: they would lie on the stacks of all, which are copied. */
static struct {
    pthread_mutex_t lock;
    uint64_t reads;
    struct block at[BLOCKS];
} blocks = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* The block that starts there, else the one that was not used for longest. */
static struct block *find_block(uint64_t number, uint64_t start)
{
    struct block *oldest = &blocks.at[0];
    for (size_t i = 0; i < BLOCKS; i++) {
        struct block *b = &blocks.at[i];
        if (b->number == number && b->start == start)
            return b;
        if (b->used < oldest->used)
            oldest = b;
    }
    return oldest;
}

/* The block that starts there. NULL: the file has become shorter. */
static const struct block *read_block(int fd, uint64_t number, uint64_t start, size_t size)
{
    struct block *b = find_block(number, start);
    b->used = ++blocks.reads;
    if (b->number == number && b->start == start)
        return b;
    b->number = 0;
    if (read_file(fd, start, b->bytes, size) < 0)
        return NULL;
    b->number = number;
    b->start = start;
    return b;
}

int file_blocks_read(int fd, uint64_t number, uint64_t file_bytes, uint64_t offset, void *data, size_t size)
{
    const uint64_t start = offset & ~(uint64_t)(BLOCK_BYTES - 1), rest = file_bytes - start;
    if (size > SMALL_BYTES || offset - start > BLOCK_BYTES - size || pthread_mutex_trylock(&blocks.lock) != 0)
        return read_file(fd, offset, data, size);
    const struct block *b = read_block(fd, number, start, rest < BLOCK_BYTES ? (size_t)rest : BLOCK_BYTES);
    if (b)
        memcpy(data, b->bytes + (offset - start), size);
    pthread_mutex_unlock(&blocks.lock);
    return b ? 0 : read_file(fd, offset, data, size);
}
