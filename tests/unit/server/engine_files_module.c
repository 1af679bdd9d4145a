/* A library that writes, as the engine's does; see test_engine_files.c. */
#include <sys/types.h>
#include <unistd.h>

ssize_t module_write(int fd, const void *data, size_t size);
int module_fsync(int fd);

ssize_t module_write(int fd, const void *data, size_t size)
{
    return write(fd, data, size);
}

int module_fsync(int fd)
{
    return fsync(fd);
}
