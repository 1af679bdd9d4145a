/* The table of threads (probes/link.h) from user space: how what stands in it comes to be believed no more.
 * Nothing is taken out from under a program that writes there. Nothing here waits. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* What all threads were known to work for until now is believed no more; nor, if `for_good`, is what is heard
 * from now on, until this is called again. `*ret_count`: how many threads worked for something then, as far
 * as that could be read. 0 or -errno: then all is as it was. */
int link_table_forget_all(int table_fd, bool for_good, uint64_t *ret_count);

/* The same of one process's threads, and of no other's; `program_fd` is of forget_thread (probes/link.bpf.c).
 * -errno: some may be believed still. */
int link_table_forget_process(int table_fd, int program_fd, uint32_t pid, uint64_t *ret_count);

/* Gives the room back. Only while nothing is attached: a program that has looked its entry up would go on
 * writing to what is another thread's by then. */
void link_table_clear(int table_fd);
