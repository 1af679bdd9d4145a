/* The CPU time of the node by command, from CPU samples of the last minutes. Bounded. Thread-safe: the pipeline adds,
 * HTTP threads read. */
#pragma once

#include "base/cleanup.h"

#include <stddef.h>
#include <stdint.h>

#define CPU_USERS_MAX     32 /* commands at a time; the time of others has no name */
#define CPU_COMMAND_BYTES 16

struct cpu_user {
    char command[CPU_COMMAND_BYTES]; /* "rustc" */
    uint64_t ns;
};

struct cpu_users;

/* The caller frees `*ret`. -ENOMEM. */
int cpu_users_new(struct cpu_users **ret);
void cpu_users_free(struct cpu_users *u);
DEFINE_FREEP(cpu_users)

/* Adds CPU time of a process with this command at `time_ns` (CLOCK_MONOTONIC; late times count for the present). */
void cpu_users_add(struct cpu_users *u, const char *command, uint64_t ns, uint64_t time_ns);

/* Writes at most `max` of the commands with CPU time in [since, now), most first, to whole slots of five seconds, at
 * most five minutes back. Returns how many; `*ret_all_ns`: the CPU time of all, also of those without a name;
 * `*ret_span_ns`: the length of the interval that it is of, 0 before the first sample. */
size_t cpu_users_list(struct cpu_users *u, uint64_t since_ns, uint64_t now_ns, struct cpu_user *ret, size_t max,
                      uint64_t *ret_all_ns, uint64_t *ret_span_ns);
