/* Attaches a BPF program to code addresses in files, in every present and future process that maps them, or in one. A
 * helper process attaches, because the kernel waits for the memory lock of each such process, possibly forever
 * (link_helper.h). If the site has a semaphore, the kernel increments it in each process, and decrements it when the
 * attaching process ends for any reason. */
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
    uint32_t pid;              /* this process only; 0: every process that maps the file */
};

#define USER_PROBE_SITES_MAX 256

/* The caller keeps the descriptors and may close them afterwards; it frees `*ret`. -ETIMEDOUT: the kernel blocks the
 * helper. */
int user_probes_attach(struct bpf_program *program, const struct user_probe_site *sites, size_t count,
                       struct user_probes **ret);
/* False when the helper process has ended unexpectedly. */
bool user_probes_are_on(struct user_probes *u);
/* Detaches; waits a limited time for completion. */
void user_probes_free(struct user_probes *u);
DEFINE_FREEP(user_probes)
