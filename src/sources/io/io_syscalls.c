/* The table of this architecture's own programs; see io_syscalls.h. */
#include "sources/io/io_syscalls.h"

#include <asm/unistd.h>
#include <stddef.h>

#include "sources/io/io_syscall_table.h"

void io_syscalls_fill(struct io_syscall *table)
{
    fill(table);
}
