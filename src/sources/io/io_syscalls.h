/* Which system calls are I/O of file systems, for the BPF programs. */
#pragma once

#include "probes/io.h"

/* Fill the table of IO_MAX_SYSCALLS entries, all zero, by system call number: of this architecture's own programs, and
 * of 32-bit ones on x86-64 (elsewhere nothing: their I/O is not counted). */
void io_syscalls_fill(struct io_syscall *table);
void io_syscalls_fill_32(struct io_syscall *table);
