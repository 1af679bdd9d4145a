/* See process_context_file.h. The publisher sets the time of publication to 0, writes the payload, and sets the time
 * again. The payload is consistent when the header is the same before and after it was copied. */
#include "resolve/files/process_context_file.h"

#include "base/cleanup.h"
#include "resolve/proc/maps.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define VERSION        2
#define TRIES          4
#define PAUSE_NS       1000000
#define MAPS_MAX_BYTES (16 << 20)
#define MAPPINGS_MAX   16 /* with the context's name; a process normally has one */

struct header {
    char signature[8];
    uint32_t version, payload_size;
    uint64_t published_ns, payload;
};
_Static_assert(sizeof(struct header) == 32, "the layout");

static int read_at(int memory_fd, uint64_t address, void *to, size_t size)
{
    return pread(memory_fd, to, size, (off_t)address) == (ssize_t)size ? 0 : -EBADMSG;
}

static int read_header(int memory_fd, uint64_t address, struct header *ret)
{
    return read_at(memory_fd, address, ret, sizeof(*ret)) < 0 ||
                   memcmp(ret->signature, "OTEL_CTX", sizeof(ret->signature)) != 0 || ret->version != VERSION
               ? -ENOENT
               : 0;
}

/* One attempt; -EAGAIN: the context was being changed. */
static int try_copy(int memory_fd, uint64_t address, const struct process_context_place *known, struct buf *to)
{
    struct header before, after;
    int r = read_header(memory_fd, address, &before);
    if (r < 0 || !before.published_ns)
        return r < 0 ? r : -EAGAIN;
    const struct process_context_place place = {.address = address, .published_ns = before.published_ns};
    if (place.address == known->address && place.published_ns == known->published_ns)
        return -EALREADY;
    const bool fits = before.payload_size > 0 && before.payload_size <= PROCESS_CONTEXT_MAX_BYTES;
    _cleanup_free_ char *payload = malloc(fits ? before.payload_size : 1);
    if (!payload)
        return -ENOMEM;
    const int copied = fits ? read_at(memory_fd, before.payload, payload, before.payload_size) : -EBADMSG;
    r = read_header(memory_fd, address, &after);
    if (r < 0)
        return r;
    if (memcmp(&before, &after, sizeof(before)) != 0)
        return -EAGAIN;
    if (copied < 0)
        return copied;
    r = buf_append(to, &place, sizeof(place));
    return r < 0 ? r : buf_append(to, payload, before.payload_size);
}

static int copy_with_retries(int memory_fd, uint64_t address, const struct process_context_place *known, struct buf *to)
{
    int r = try_copy(memory_fd, address, known, to);
    for (int i = 1; r == -EAGAIN && i < TRIES; i++) {
        nanosleep(&(struct timespec){.tv_nsec = PAUSE_NS}, NULL);
        r = try_copy(memory_fd, address, known, to);
    }
    return r;
}

static bool starts_with(const struct maps_line *m, const char *prefix)
{
    return m->path_bytes >= strlen(prefix) && memcmp(m->path, prefix, strlen(prefix)) == 0;
}

static bool is_context(const struct maps_line *m)
{
    return !m->executable && m->end - m->start >= sizeof(struct header) &&
           (starts_with(m, "/memfd:OTEL_CTX") || starts_with(m, "[anon_shmem:OTEL_CTX]") ||
            starts_with(m, "[anon:OTEL_CTX]"));
}

static int search_mappings(int proc_fd, int memory_fd, const struct process_context_place *known, struct buf *to)
{
    int fd = openat(proc_fd, "maps", O_RDONLY | O_CLOEXEC);
    _cleanup_fclose_ FILE *maps = fd >= 0 ? fdopen(fd, "r") : NULL;
    if (!maps) {
        const int r = -errno;
        closep(&fd);
        return r;
    }
    _cleanup_free_ char *line = NULL;
    size_t capacity = 0, bytes = 0, found = 0;
    ssize_t size;
    while (bytes < MAPS_MAX_BYTES && found < MAPPINGS_MAX && (size = getline(&line, &capacity, maps)) > 0) {
        struct cursor text = cursor_make(line, (size_t)size);
        struct maps_line m;
        bytes += (size_t)size;
        if (!maps_next(&text, &m) || !is_context(&m))
            continue;
        int r = copy_with_retries(memory_fd, m.start, known, to);
        if (r != -ENOENT)
            return r;
        found++;
    }
    return -ENOENT;
}

int process_context_copy(int proc_fd, const struct process_context_place *known, struct buf *to)
{
    _cleanup_close_ int memory_fd = openat(proc_fd, "mem", O_RDONLY | O_CLOEXEC);
    if (memory_fd < 0)
        return errno == ENOENT ? -ESRCH : -errno;
    int r = known->address ? copy_with_retries(memory_fd, known->address, known, to) : -ENOENT;
    return r == -ENOENT ? search_mappings(proc_fd, memory_fd, known, to) : r;
}
