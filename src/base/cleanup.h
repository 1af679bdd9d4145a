/* Cleanup attributes that free at the end of a scope, and the two moves that transfer ownership.
 *
 *     _cleanup_(buf_freep) struct buf *b = NULL;      freed on every return
 *     *ret_buf = take_ptr(b);                         ... unless it was handed over
 *
 * A module `foo` supports this with DEFINE_FREEP(foo) after its foo_free. */
#pragma once

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define _cleanup_(f) __attribute__((cleanup(f)))

#define take_ptr(p)                                                                                                    \
    ({                                                                                                                 \
        __typeof__(p) *take_p_ = &(p), take_v_ = *take_p_;                                                             \
        *take_p_ = NULL;                                                                                               \
        take_v_;                                                                                                       \
    })

static inline int take_fd(int *fd)
{
    int v = *fd;
    *fd = -1;
    return v;
}

#define DEFINE_FREEP(foo)                                                                                              \
    static inline void foo##_freep(struct foo **p)                                                                     \
    {                                                                                                                  \
        foo##_free(*p);                                                                                                \
    }

static inline void freep(void *p)
{
    free(*(void **)p);
}

static inline void closep(int *fd)
{
    if (*fd >= 0)
        close(*fd);
}

static inline void fclosep(FILE **f)
{
    if (*f)
        fclose(*f);
}

static inline void closedirp(DIR **d)
{
    if (*d)
        closedir(*d);
}

#define _cleanup_free_     _cleanup_(freep)
#define _cleanup_close_    _cleanup_(closep)
#define _cleanup_fclose_   _cleanup_(fclosep)
#define _cleanup_closedir_ _cleanup_(closedirp)

#define array_size(a)      (sizeof(a) / sizeof((a)[0]))
