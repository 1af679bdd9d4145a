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

/* Whether a call of the library hangs, and its process sleeps in it. Forgets it. */
static inline bool script_hangs(void)
{
    char path[80], state = 0;
    int pid = 0;
    snprintf(path, sizeof(path), "%s.hangs", script_path);
    FILE *sign = fopen(path, "re");
    if (!sign || fscanf(sign, "%d", &pid) != 1)
        pid = 0;
    if (sign)
        fclose(sign);
    char stat_path[32];
    snprintf(stat_path, sizeof(stat_path), "/proc/%d/stat", pid);
    FILE *stat = pid ? fopen(stat_path, "re") : NULL;
    if (!stat || fscanf(stat, "%*d (%*[^)]) %c", &state) != 1)
        state = 0;
    if (stat)
        fclose(stat);
    return state == 'S' && unlink(path) == 0;
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
