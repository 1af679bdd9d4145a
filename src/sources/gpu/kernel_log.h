/* Follows the kernel log for the errors of NVIDIA's driver. */
#pragma once

#include <linux/types.h>

#include "probes/gpu.h"

#include <stdint.h>

/* Opens /dev/kmsg at its present end. Returns the descriptor, or -errno. */
int kernel_log_open(void);

/* Passes each Xid that was logged since, at most a bounded number in one call. Returns how many records of the log were
 * overwritten before they were read, or -errno. */
int kernel_log_read(int fd, void (*take)(void *context, const struct gpu_xid *xid), void *context);
