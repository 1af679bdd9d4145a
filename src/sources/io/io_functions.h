/* The kernel functions that carry out system calls about files, as an attach method of the I/O programs: only these
 * calls cost something. Used by sources/io alone. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct io_bpf;

/* Whether one program can be attached to many functions, which is tried with an empty one: it takes less time than to
 * load all. 0 or -errno. */
int io_functions_try(void);

/* Before loading: whether the programs of this method are loaded. */
void io_functions_choose(struct io_bpf *bpf, bool is_used);

/* After loading: attaches those that skeletons do not attach themselves, to all functions that this kernel has. The
 * links belong to `bpf`. -errno: a function cannot be attached to. */
int io_functions_attach(struct io_bpf *bpf);

/* Beginnings of calls that the kernel did not run a program for (attach/missed_runs.h). Ends are not among them: the
 * programs count a call without one when its thread begins the next (io_stats.unended). */
uint64_t io_functions_missed(struct io_bpf *bpf);
