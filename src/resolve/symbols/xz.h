/* Unpacks xz data piece by piece. Runs in a confined process (name_process.h): liblzma parses the bytes. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct xz;

#define XZ_UNPACKED_MAX ((size_t)16 << 20)

/* Takes the next `size` bytes of the result. 0, or -errno, which ends the unpacking. */
typedef int xz_take(void *context, const void *data, size_t size);

/* The caller frees `*ret`. 0, -ENOMEM. */
int xz_new(xz_take *take, void *context, struct xz **ret);
void xz_free(struct xz *x);

/* Unpacks the next `size` bytes. 0; -ENOEXEC: no valid xz data, or they end early (`is_last`); -EFBIG: the result
 * exceeds XZ_UNPACKED_MAX; errors of `take`. After an error, no more may be added. */
int xz_add(struct xz *x, const void *data, size_t size, bool is_last);
