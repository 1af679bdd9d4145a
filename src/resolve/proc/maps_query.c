/* PROCMAP_QUERY (Linux 6.11, commit bfc69fd05ef9); see maps_query.h and ioctl_procmap_query in
 * include/uapi/linux/fs.h. Runs in the file helper: querying the mappings of a process that is blocked in a dead
 * file system may block as long. */
#include "resolve/proc/maps_query.h"

#include <errno.h>
#include <limits.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>

/* Missing from Debian 12's headers. */
struct procmap_query {
    uint64_t size;
    uint64_t query_flags;
    uint64_t query_addr;
    uint64_t vma_start, vma_end;
    uint64_t vma_flags;
    uint64_t vma_page_size;
    uint64_t vma_offset;
    uint64_t inode;
    uint32_t dev_major, dev_minor;
    uint32_t vma_name_size; /* in: size of the buffer; out: length of the name with its NUL, 0 when it has none */
    uint32_t build_id_size;
    uint64_t vma_name_addr;
    uint64_t build_id_addr;
};

enum {
    VMA_READABLE = 0x01,
    VMA_WRITABLE = 0x02,
    VMA_EXECUTABLE = 0x04,
    VMA_SHARED = 0x08,
    COVERING_OR_NEXT_VMA = 0x10,
};

#define PROCMAP_QUERY _IOWR('f', 17, struct procmap_query)

/* Escapes line feeds as the kernel does. */
static void append_escaped_name(struct buf *to, const char *name)
{
    for (; *name; name++)
        if (*name == '\n')
            buf_puts(to, "\\012");
        else
            buf_putc(to, *name);
}

static void append_maps_line(struct buf *to, const struct procmap_query *q, const char *name)
{
    buf_printf(to, "%08llx-%08llx %c%cx%c %08llx %02x:%02x %llu ", (unsigned long long)q->vma_start,
               (unsigned long long)q->vma_end, q->vma_flags & VMA_READABLE ? 'r' : '-',
               q->vma_flags & VMA_WRITABLE ? 'w' : '-', q->vma_flags & VMA_SHARED ? 's' : 'p',
               (unsigned long long)q->vma_offset, q->dev_major, q->dev_minor, (unsigned long long)q->inode);
    append_escaped_name(to, name);
    buf_putc(to, '\n');
}

int maps_query_executable(int maps_fd, struct buf *to)
{
    char name[PATH_MAX];
    for (uint64_t at = 0;;) {
        struct procmap_query q = {
            .size = sizeof(q),
            .query_flags = COVERING_OR_NEXT_VMA | VMA_EXECUTABLE,
            .query_addr = at,
            .vma_name_size = sizeof(name),
            .vma_name_addr = (uintptr_t)name,
        };
        name[0] = '\0';
        if (ioctl(maps_fd, PROCMAP_QUERY, &q) < 0) {
            if (errno == ENOENT) /* no more mappings */
                return buf_error(to);
            if (errno != ENAMETOOLONG)
                return -errno;
            q.vma_name_size = 0; /* list it without its name: a path longer than PATH_MAX cannot be opened anyway */
            if (ioctl(maps_fd, PROCMAP_QUERY, &q) < 0)
                return -errno;
        }
        if (q.vma_name_size == 0)
            name[0] = '\0';
        append_maps_line(to, &q, name);
        if (q.vma_end <= at || buf_error(to))
            return buf_error(to);
        at = q.vma_end;
    }
}
