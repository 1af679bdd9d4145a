/* Whether this program runs under qemu-user, as the cross build's tests do. The process is then the emulator's: files
 * of /proc opened by a path "/proc/self/..." or "/proc/OWN-PID/..." are emulated for us, all others (also the same
 * ones through a directory descriptor, as libresolve opens them) show the emulator. Header only: each test is a
 * program of its own. */
#pragma once

#include "base/cleanup.h"

#include <elf.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <unistd.h>

static inline int emulated_machine_of(const char *path)
{
    _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
    Elf64_Ehdr header;
    return fd >= 0 && pread(fd, &header, sizeof(header), 0) == sizeof(header) ? header.e_machine : -1;
}

/* The same link by an emulated path and by one that emulators pass through. */
static inline bool is_emulated(void)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/self/task/%d/exe", getpid());
    int real = emulated_machine_of(path);
    return real >= 0 && real != emulated_machine_of("/proc/self/exe");
}

/* For tests of files in /proc for this process, and of CPU time. `print_message` and `skip` are cmocka's. */
#define skip_if_emulated()                                                                                             \
    do {                                                                                                               \
        if (is_emulated()) {                                                                                           \
            print_message("runs under qemu-user: /proc and CPU time are the emulator's\n");                            \
            skip();                                                                                                    \
        }                                                                                                              \
    } while (0)
