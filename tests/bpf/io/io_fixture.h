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

/* Set-up and tear-down of the program. */
int open_source(void **state);
/* Of the accesses of this process and its children, from here on. */
int open_access_source(void **state);
int close_source(void **state);

/* Set-up and tear-down of each test; fails where other operations are lost than those of `lost`. */
int begin(void **state);
int end(void **state);

/* Skips the test where the kernel does not show that. */
void need(const char *unseen);

/* In the test's file system. */
int open_file(const char *name, int flags);

/* Runs `work` in a child, and fails unless it returns 0; 77: skips. */
void in_child(int (*work)(void));
