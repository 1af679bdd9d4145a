/* Makes the nth allocation fail, by counting: for test programs linked with
 * -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc. Loop: for (allocations_fail_at(0); ...; allocations_fail_at(n)).
 * Only calls from our own objects are wrapped; the C library's and zlib's own are not. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static size_t allocations_left = SIZE_MAX;
static bool allocations_failed;

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *old, size_t size);

static inline bool allocation_fails(void)
{
    if (allocations_left == SIZE_MAX)
        return false;
    if (allocations_left > 0) {
        allocations_left--;
        return false;
    }
    allocations_failed = true;
    allocations_left = SIZE_MAX; /* only this one fails: later code must cope with a single failure */
    return true;
}

/* The allocation after `n` more fails; SIZE_MAX: none. */
static inline void allocations_fail_at(size_t n)
{
    allocations_left = n;
    allocations_failed = false;
}

void *__wrap_malloc(size_t size)
{
    return allocation_fails() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    return allocation_fails() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *old, size_t size)
{
    return allocation_fails() ? NULL : __real_realloc(old, size);
}
