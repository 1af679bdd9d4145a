/* Files of a temporary directory, and their sights. Header only: each test is a program of its own. */
#pragma once

#include "base/cleanup.h"
#include "resolve/object/objects.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "../../emulated.h"

/* Files are opened by path with openat2: all supported kernels have it, some emulators do not. */
#define skip_without_openat2()                                                                                         \
    do {                                                                                                               \
        const struct open_how how_ = {.flags = O_PATH | O_CLOEXEC};                                                    \
        _cleanup_close_ int fd_ = (int)syscall(SYS_openat2, AT_FDCWD, "/", &how_, sizeof(how_));                       \
        if (fd_ < 0 && errno == ENOSYS && is_emulated()) {                                                             \
            print_message("runs under qemu-user, which has no openat2\n");                                             \
            skip();                                                                                                    \
        }                                                                                                              \
    } while (0)

struct place {
    char directory[64], path[96];
};

static inline void make_place(struct place *p)
{
    snprintf(p->directory, sizeof(p->directory), "/tmp/sonde-objects-XXXXXX");
    assert_non_null(mkdtemp(p->directory));
    snprintf(p->path, sizeof(p->path), "%s/program", p->directory);
}

static inline void remove_place(struct place *p)
{
    unlink(p->path);
    rmdir(p->directory);
}

static inline void write_file(const char *path, const void *data, size_t size)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0755);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, data, size), size);
    close(fd);
}

static inline struct object_sight sight_of(const char *path)
{
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    return (struct object_sight){
        .path = path,
        .device = st.st_dev,
        .inode = st.st_ino,
        .start = 0x1000,
        .end = 0x2000,
        .pids = {(uint32_t)getpid()},
        .pid_count = 1,
    };
}
