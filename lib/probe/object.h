/* An object's place in memory. It is mapped by ourselves and not by dlopen: an object that is unloaded gives
 * its place to instructions that return and to semaphores that stay 0, so that a thread which is about to
 * call a stub may do so at any moment.
 *
 * A process that was forked off must renew its copy before it calls a stub. What a kernel has put in place of
 * an optimised nop is copied into the child, but not the page that it calls (seen on 6.18): the child would
 * die of it, even after the consumer has gone. */
#pragma once

#include <sys/types.h>

#include "image.h"

struct probe_object {
    uint8_t *place; /* NULL: has none yet; otherwise the same for the object's life */
    size_t text_segment_size, data_segment_size;
    uint8_t *is_ours; /* behind the segments, in a page that the kernel wipes in a forked child: 0 says that
                         the copy is to be renewed */
    int fd;           /* kept open for those who open /proc/PID/fd/N; -1: not loaded */
    dev_t device;
    ino_t inode;
};

/* Maps `image`, whose bytes are in the file `fd` (takes it, also on failure), into the object's place, or
 * finds it one. The image must be that of its first loading. What the kernel says. */
int probe_object_load(struct probe_object *object, const struct probe_image *image, int fd);

/* Whether a stub may be called; if not, probe_object_renew makes it so. */
static inline int probe_object_is_ours(const struct probe_object *object)
{
    return __atomic_load_n(object->is_ours, __ATOMIC_RELAXED);
}

/* In a child: maps the file anew, so that the kernel attaches whoever is attached to this process as well,
 * and nobody else. */
void probe_object_renew(struct probe_object *object);

void probe_object_unload(struct probe_object *object);

/* Unloads it and gives its place back. No thread may call a stub any more. */
void probe_object_done(struct probe_object *object);
