/* Tracepoints of the kernel, by name, as tracefs lists them, also where nobody has mounted it. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct bpf_link;
struct bpf_program;

/* Its number for perf_event_open(2). Names hold no '/'. -ENOENT: there is none such, -EACCES or -EPERM: no right to
 * look, -ENODEV: no tracefs. */
int tracepoint_id(const char *subsystem, const char *name, uint64_t *ret);

/* Names of a subsystem's, or of subsystems (NULL), as many as fit, in order: "a, b, c, ..." */
void tracepoint_list(const char *subsystem, char *ret, size_t size);

/* Runs the program at each of its hits, on every CPU, from now on until the link is destroyed. */
int tracepoint_attach(struct bpf_program *program, const char *subsystem, const char *name, struct bpf_link **ret);
