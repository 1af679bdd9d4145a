/* Backing files of ELF objects. A memfd is sealed, so that a process that opens it through /proc cannot truncate it
 * under the mapping. A file in a directory is used only if no other user may write to it and its content equals the
 * expected image, because it will be executed. */
#include "file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif

static int write_all(int fd, const struct probe_image *image)
{
    for (size_t done = 0; done < image->size;) {
        ssize_t n = write(fd, image->bytes + done, image->size - done);
        if (n < 0 && errno != EINTR)
            return -errno;
        done += n > 0 ? (size_t)n : 0;
    }
    return 0;
}

int probe_file_in_memory(const char *provider, const struct probe_image *image)
{
    /* Never executed as a program; MFD_NOEXEC_SEAL declares that since Linux 6.3, and older kernels reject the flag. */
    int fd = memfd_create(provider, MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);
    if (fd < 0 && errno == EINVAL)
        fd = memfd_create(provider, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return -errno;
    int r = write_all(fd, image);
    if (r < 0) {
        close(fd);
        return r;
    }
    fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
    return fd;
}

static int content_equals(int fd, const struct probe_image *image)
{
    uint8_t part[4096];
    size_t done = 0;
    while (done < image->size) {
        ssize_t n = pread(fd, part, sizeof(part), (off_t)done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0 || (size_t)n > image->size - done || memcmp(part, image->bytes + done, (size_t)n) != 0)
            return 0;
        done += (size_t)n;
    }
    return 1;
}

static int open_checked(const char *path, const struct probe_image *image)
{
    struct stat status;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return -errno;
    if (fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && (status.st_uid == geteuid() || status.st_uid == 0) &&
        (status.st_mode & (S_IWGRP | S_IWOTH)) == 0 && (size_t)status.st_size == image->size &&
        content_equals(fd, image))
        return fd;
    close(fd);
    return -EPERM;
}

/* A file on a noexec mount can be created but not attached to; none is to be left there. Tests the temporary file, to
 * which no tracer can be attached yet. */
static int check_executable(int fd, const struct probe_image *image)
{
    void *place = mmap(NULL, image->size, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
    if (place == MAP_FAILED)
        return -errno;
    munmap(place, image->size);
    return 0;
}

static int create_file(const char *path, const struct probe_image *image)
{
    char unfinished[PATH_MAX];
    if (snprintf(unfinished, sizeof(unfinished), "%s.XXXXXX", path) >= (int)sizeof(unfinished))
        return -ENAMETOOLONG;
    int fd = mkostemp(unfinished, O_CLOEXEC);
    if (fd < 0)
        return -errno;
    int r = write_all(fd, image);
    if (r == 0 && fchmod(fd, 0644) < 0)
        r = -errno;
    if (r == 0)
        r = check_executable(fd, image);
    /* link, not rename: of several processes that start together, all must use the file that was created first. */
    if (r == 0 && link(unfinished, path) < 0 && errno != EEXIST)
        r = -errno;
    unlink(unfinished);
    close(fd);
    return r;
}

int probe_file_in_directory(const char *directory, const char *provider, const struct probe_image *image)
{
    char path[PATH_MAX], id[2 * PROBE_BUILD_ID_SIZE + 1];
    for (size_t i = 0; i < PROBE_BUILD_ID_SIZE; i++)
        snprintf(id + 2 * i, 3, "%02x", image->build_id[i]);
    if (snprintf(path, sizeof(path), "%s/%s-%s.so", directory, provider, id) >= (int)sizeof(path))
        return -ENAMETOOLONG;
    int fd = open_checked(path, image);
    if (fd == -ENOENT) {
        int r = create_file(path, image);
        fd = r < 0 ? r : open_checked(path, image);
    }
    return fd;
}
