/* Kernel tracepoints by name, as tracefs lists them; works also where tracefs is not mounted. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct bpf_link;
struct bpf_program;

/* Reads the tracepoint's ID for perf_event_open(2). Names must not contain '/'. -ENOENT: no such tracepoint, -EACCES
 * or -EPERM: no permission, -ENODEV: no tracefs. */
int tracepoint_id(const char *subsystem, const char *name, uint64_t *ret);

/* Lists the tracepoints of a subsystem, or all subsystems (NULL), sorted, as many as fit: "a, b, c, ..." */
void tracepoint_list(const char *subsystem, char *ret, size_t size);

/* Runs the program at every hit on every CPU until the caller destroys the link. */
int tracepoint_attach(struct bpf_program *program, const char *subsystem, const char *name, struct bpf_link **ret);
