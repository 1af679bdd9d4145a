/* Unpacks xz data in the confined process (name_process.h). Not thread-safe. */
#pragma once

#include "resolve/symbols/name_process.h"

#include <stddef.h>
#include <stdint.h>

/* Unpacks `packed` into `*ret`, which the caller frees. Waits for at most about a second. -EAGAIN: the process is busy,
 * or was not given a CPU: a later call may succeed. -EPERM: these data took too long, now or before; -ENOEXEC: no valid
 * xz data; -EFBIG: more than XZ_UNPACKED_MAX; -ENOMEM. */
int unpacker_unpack(struct name_process *p, const void *packed, size_t size, uint8_t **ret, size_t *ret_size);
