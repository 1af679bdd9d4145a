/* Tables of the I/O source as a test fills them, in place of sources/io. */
#pragma once

#include "probes/io.h"

#include <stddef.h>
#include <stdint.h>

#define FAKE_CGROUP 7
#define FAKE_MOUNT  9

/* Empties all tables. */
void fake_clear(void);

/* Adds operations to a counter, each of `ns`. `bytes`: of all of them. */
void fake_count(uint32_t process, uint8_t operation, uint64_t file, uint64_t operations, uint64_t bytes);
void fake_count_key(const struct io_key *key, uint64_t operations, uint64_t bytes);
void fake_use(const char *command, uint32_t process, uint8_t operation, uint64_t file, const struct io_use *use);
void fake_fail(uint32_t process, uint8_t operation, uint32_t error, uint64_t count);
/* The name that the kernel's table has of a process. */
void fake_name(uint32_t process, const char *command);

/* How many counters the table has. */
size_t fake_counters(void);

/* The PID of a process that has ended; another one with each call. */
uint32_t fake_ended_process(void);
