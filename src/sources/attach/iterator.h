/* Reads what a BPF iterator writes. */
#pragma once

#include <errno.h>
#include <stddef.h>
#include <unistd.h>

/* Reads the next elements, again where the kernel asks for that. Returns their bytes; 0: the iterator has ended;
 * -errno.
 */
static inline ssize_t iterator_read(int fd, void *page, size_t bytes)
{
    ssize_t n;
    do
        n = read(fd, page, bytes);
    while (n < 0 && (errno == EINTR || errno == EAGAIN));
    return n < 0 ? -errno : n;
}
