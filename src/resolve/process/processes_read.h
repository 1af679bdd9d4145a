/* Reads processes from /proc; see processes_read.c. */
#pragma once

#include "resolve/process/processes_table.h"

uint64_t processes_boot_offset_ns(void); /* CLOCK_BOOTTIME minus CLOCK_MONOTONIC */
struct process_entry *processes_read_new(struct processes *p, uint32_t pid);
/* A /proc/PID descriptor for proc_files.h if `pid` is still the process of the entry (NULL: any process with that
 * PID); -ESRCH if not. */
int processes_open_same(const struct processes *p, const struct process_entry *e, uint32_t pid,
                        struct proc_stat *ret_stat);
void processes_complete(struct processes *p, struct process_entry *e);
void processes_identify(struct processes *p, struct process_entry *e);
/* According to /proc. `ret_others`: whether threads other than the main one remain. */
bool processes_is_alive(const struct processes *p, const struct process_entry *e, bool *ret_others);
