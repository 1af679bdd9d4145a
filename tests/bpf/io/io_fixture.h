/* What all I/O tests share: the source, a file system of its own, and a page of bytes. */
#pragma once

#include "../watch.h"
#include "io_mount.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#define PAGE 4096

extern void *source;
extern struct io_mount m;
extern char page[64 * PAGE];
extern uint64_t lost;        /* operations, as the test expects it */
extern char limitation[256]; /* what the source cannot see */

#define NO_URING "io_uring is not seen"
#define NO_AIO   "Linux AIO is not seen"
#define NO_PAGES "mmap is not seen"

/* Runs the tests by each attach method that this kernel has: it may lack the methods for functions. With `by_access`,
 * of this process and its children. For `main`. */
int run_by_each_method(const struct CMUnitTest *tests, size_t count, const struct io_options *options);

/* Set-up and tear-down of each test; fails if any operation is lost that `lost` does not count. */
int begin(void **state);
int end(void **state);

/* Operations that the source has lost since it was opened. */
uint64_t count_lost(void);

/* Skips the test where the kernel does not show that. */
void need(const char *unseen);

/* In the test's file system. */
int open_file(const char *name, int flags);

/* Runs `work` in a child, and fails unless it returns 0; 77: skips. */
void in_child(int (*work)(void));
