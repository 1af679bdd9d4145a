/* The table of keys, shared by config.c and config_file.c. */
#pragma once

#include "config/config.h"
#include "model/setting.h"

/* One key: its description, and whose it is. */
struct config_key {
    const struct setting *setting;
    size_t number; /* in the table of keys */
    size_t signal; /* index in all_signals[]; SIZE_MAX: a key of the core */
};

/* False: unknown. */
bool config_find_key(const char *name, struct config_key *ret);

#define CONFIG_KNOWN_BYTES 768 /* of the names of all keys */
/* Lists the keys that begin with `prefix`, as "a, b, c". */
void config_list_keys(const char *prefix, char *out, size_t size);
