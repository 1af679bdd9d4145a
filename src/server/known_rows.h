/* The rows of profile_stacks, profile_frames and profile_resources that are stored since the start, so that they are
 * not stored again with every packet: agents repeat their stacks, which are most of a packet. Only saves work: what it
 * has forgotten is stored once more, and the tables keep one row of equal ones. Thread-safe. */
#pragma once

#include "base/cleanup.h"
#include "server/tables.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct known_rows;

/* 0 or -errno. A set that has `max` members forgets all of them before it takes more. */
int known_rows_new(size_t max, struct known_rows **ret);
void known_rows_free(struct known_rows *k);
DEFINE_FREEP(known_rows)

/* The member of a row: its table, day and hash. */
uint64_t known_rows_key(enum table table, uint16_t day, uint64_t hash);

bool known_rows_has(struct known_rows *k, uint64_t key);
/* To be called when the rows are on disk. */
void known_rows_add(struct known_rows *k, const uint64_t *keys, size_t count);
void known_rows_forget(struct known_rows *k);
