/* Opens an object's file; see object_elf.h. */
#include "resolve/object/object_elf.h"

#include <errno.h>

int object_open_elf(const struct object *o, struct elf_file **ret)
{
    _cleanup_close_ int fd = object_open(o);
    if (fd < 0)
        return fd;
    int r = elf_open(fd, ret);
    if (r == 0)
        take_fd(&fd);
    if (r == -ETIMEDOUT)
        object_unreadable(o);
    return r;
}
