/* Attaching a program to places in files that programs run, in every process that maps them, now and later. Done by a
 * process of its own: to attach, the kernel waits for the memory lock of each such process, for ever if it comes to the
 * worst (link_helper.h). Where a place has a semaphore, the kernel counts it up in each process, and down again when
 * the attaching process is gone, however that came to be. */
#pragma once

#include "base/cleanup.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct bpf_program;
struct user_probes;

struct user_probe_site {
    int fd; /* of the file */
    uint64_t file_offset;
    uint64_t semaphore_offset; /* in the file; 0: none */
};

#define USER_PROBE_SITES_MAX 256

/* Descriptors are the caller's and may be closed afterwards. -ETIMEDOUT: the kernel holds the attaching process up. */
int user_probes_attach(struct bpf_program *program, const struct user_probe_site *sites, size_t count,
                       struct user_probes **ret);
/* False when the process that holds them was ended by somebody. */
bool user_probes_are_on(struct user_probes *u);
/* Detaches; waits for that, but not for ever. */
void user_probes_free(struct user_probes *u);
DEFINE_FREEP(user_probes)
