/* The table of 32-bit programs on x86-64; see io_syscalls.h. */
#include "sources/io/io_syscalls.h"

#if defined(__x86_64__)
#include <asm/unistd_32.h>
#include <stddef.h>

#include "sources/io/io_syscall_table.h"

void io_syscalls_fill_32(struct io_syscall *table)
{
    fill(table);
}
#else
void io_syscalls_fill_32(struct io_syscall *table)
{
    (void)table;
}
#endif
