/* The mapping of an ELF object. It is mapped by this library and not by dlopen: unloading replaces the stubs with
 * return instructions and the semaphores with zeros, so that a thread may call a stub at any moment.
 *
 * A forked child must renew its mapping before it calls a stub. The kernel copies an optimised uprobe (the patched nop)
 * into the child, but not the trampoline page that it calls (seen on 6.18): the child would crash, even after the
 * tracer has detached. */
#pragma once

#include <sys/types.h>

#include "image.h"

struct probe_object {
    uint8_t *place; /* NULL: not mapped yet; otherwise constant for the object's lifetime */
    size_t text_segment_size, data_segment_size;
    uint8_t *is_ours; /* after the segments, in a page that the kernel wipes in a forked child: 0 means that the
                       * mapping must be renewed */
    int fd;           /* kept open for tracers that open /proc/PID/fd/N; -1: not loaded */
    dev_t device;
    ino_t inode;
};

/* Maps `image`, the content of file `fd`, at the object's address, or chooses an address on the first load. Takes
 * ownership of `fd`, also on failure. The image must be the one of the first load. Returns 0 or the kernel's -errno. */
int probe_object_load(struct probe_object *object, const struct probe_image *image, int fd);

/* Whether stubs may be called; if not, call probe_object_renew first. */
static inline int probe_object_is_ours(const struct probe_object *object)
{
    return __atomic_load_n(object->is_ours, __ATOMIC_RELAXED);
}

/* In a child: maps the file again, so that the kernel installs exactly the uprobes of tracers that attach to this
 * process. */
void probe_object_renew(struct probe_object *object);

void probe_object_unload(struct probe_object *object);

/* Unloads the object and unmaps its memory. No thread may call a stub any more. */
void probe_object_done(struct probe_object *object);
