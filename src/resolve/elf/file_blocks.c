/* Keeps the last block of a file that was read; see file_blocks.h. */
#include "resolve/elf/file_blocks.h"

#include <errno.h>
#include <stdatomic.h>
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

int file_blocks_read(int fd, uint64_t number, uint64_t file_bytes, uint64_t offset, void *data, size_t size)
{
    static _Thread_local struct {
        uint64_t number, start; /* number 0: none */
        uint8_t bytes[BLOCK_BYTES];
    } block;
    const uint64_t start = offset & ~(uint64_t)(BLOCK_BYTES - 1);
    if (size > SMALL_BYTES || offset - start > BLOCK_BYTES - size)
        return read_file(fd, offset, data, size);
    if (block.number != number || block.start != start) {
        const size_t wanted = file_bytes - start < BLOCK_BYTES ? (size_t)(file_bytes - start) : BLOCK_BYTES;
        block.number = 0;
        if (read_file(fd, start, block.bytes, wanted) < 0)
            return read_file(fd, offset, data, size); /* the file has become shorter */
        block.number = number;
        block.start = start;
    }
    memcpy(data, block.bytes + (offset - start), size);
    return 0;
}
