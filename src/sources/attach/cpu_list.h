/* A set of CPUs, parsed from /sys/devices/system/cpu/online: "0-3,5,8-11". Plain data. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CPU_LIST_MAX 8192 /* the kernel's limit (NR_CPUS) */

struct cpu_list {
    uint64_t bits[CPU_LIST_MAX / 64];
};

/* -EINVAL: not a CPU list; -ERANGE: a CPU number of CPU_LIST_MAX or more. `*ret` is unchanged on failure. */
int cpu_list_parse(const char *text, struct cpu_list *ret);
/* Reads the online CPUs; errors as cpu_list_parse, or the error of reading the file. */
int cpu_list_online(struct cpu_list *ret);

static inline bool cpu_list_has(const struct cpu_list *list, unsigned cpu)
{
    return cpu < CPU_LIST_MAX && (list->bits[cpu / 64] >> (cpu % 64) & 1);
}
