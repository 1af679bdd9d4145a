/* Invalidates entries of the thread table (probes/link.h) from user space. Never deletes an entry that a running
 * program may write to. Does not block. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Invalidates the links of all threads. With `for_good`, links recorded from now on are invalid as well, until the
 * next call. `*ret_count`: how many threads had a valid link, as far as could be read. On -errno nothing has changed.
 */
int link_table_forget_all(int table_fd, bool for_good, uint64_t *ret_count);

/* Likewise for the threads of one process; `program_fd` is that of forget_thread (probes/link.bpf.c). On -errno some
 * links may still be valid. */
int link_table_forget_process(int table_fd, int program_fd, uint32_t pid, uint64_t *ret_count);

/* Deletes all entries. Only while nothing is attached: a running program that has looked up its entry could otherwise
 * write to one that belongs to another thread. */
void link_table_clear(int table_fd);
