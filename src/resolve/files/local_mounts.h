/* Which file systems lie in this machine's memory or on its disks, so that opening and reading their files does not
 * wait for another machine or program. */
#pragma once

#include "base/cleanup.h"

#include <stdbool.h>
#include <stdint.h>

/* By statfs.f_type. overlayfs is none, because of its lower layers. */
bool local_file_system(uint32_t magic);

/* The local mounts of our own mount namespace. Not thread-safe. */
struct local_mounts;

/* The caller frees `*ret`. -errno: the list of mounts cannot be read. */
int local_mounts_new(struct local_mounts **ret);
void local_mounts_free(struct local_mounts *l);
DEFINE_FREEP(local_mounts)

/* By the ID that statx reports. The list is read again after it has changed. */
bool local_mounts_has(struct local_mounts *l, uint64_t mount_id);
