/* The devices of the fake library (tests/gpu/fake_nvml.c), for tests of sources. */
#pragma once

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static char script_path[64];

/* Replaces the devices. */
static inline void script_write(const char *lines)
{
    char next[80];
    snprintf(next, sizeof(next), "%s.next", script_path);
    FILE *f = fopen(next, "we");
    if (!f || fputs(lines, f) < 0 || fclose(f) != 0 || rename(next, script_path) != 0)
        abort();
}

/* Whether a call of the library hangs. Forgets it. */
static inline bool script_hangs(void)
{
    char path[80];
    snprintf(path, sizeof(path), "%s.hangs", script_path);
    return unlink(path) == 0;
}

static inline int script_begin(void **state)
{
    (void)state;
    snprintf(script_path, sizeof(script_path), "/tmp/sonde-test-gpu-XXXXXX");
    const int fd = mkstemp(script_path);
    if (fd < 0)
        return -1;
    close(fd);
    return setenv("SONDE_FAKE_NVML", script_path, 1);
}

static inline int script_end(void **state)
{
    (void)state;
    return unlink(script_path);
}
