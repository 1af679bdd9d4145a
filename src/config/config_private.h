/* The table of keys and their values, shared by the files of this directory. */
#pragma once

#include "config/config.h"
#include "model/setting.h"

/* One key: its description, and whose it is. */
struct config_key {
    const struct setting *setting;
    size_t number; /* in the table of keys */
    size_t signal; /* index in all_signals[]; SIZE_MAX: a key of the core */
};

/* Finds a key by its name or by a name that it had before (config_renamed.c). False: unknown. */
bool config_find_key(const char *name, struct config_key *ret);

/* The value of this key comes from the environment, until it is set otherwise or dropped. */
void config_mark_inherited(struct config *c, const char *name);
/* Resets those values to their defaults. */
void config_drop_inherited(struct config *c);

/* Whether a key, or a former name of one, is in this section. */
bool config_has_section(const struct config *c, const char *section);
/* Writes the error for a key or section that does not exist: `where`, its name, and the keys of its section or else the
 * nearest key. */
void config_unknown_error(const struct config *c, const char *where, const char *name, char error[CONFIG_ERROR_BYTES]);

/* A former name of a key. It is accepted, with a warning, until the release `until`. */
struct renamed_key {
    const char *former, *name, *until;
    const char *change;        /* how the meaning of the value changed, for the warning; "": it did not */
    bool is_share_of_all_cpus; /* the value was a share of all CPUs, and is a share of one now */
};

/* NULL: `name` is not a former name. */
const struct renamed_key *config_find_renamed(const char *name);
/* Whether a former name begins with `prefix`. */
bool config_has_renamed(const char *prefix);

#define CONFIG_CONVERTED_BYTES 32
/* Logs a warning that names `where`, both names and the value to write. Returns the value under the new name: `value`,
 * or `converted`, which is written. A value that cannot be converted is returned unchanged, for the error message. */
const char *config_convert_renamed(const struct renamed_key *key, const char *where, const char *value,
                                   char converted[CONFIG_CONVERTED_BYTES]);

/* Whether the value is free text, limited by the size of its field. */
bool config_value_is_text(const struct setting *k);
/* Whether its field holds a terminated string: free text, or one of several words. */
bool config_value_is_string(const struct setting *k);
/* Stores `value` in `field`; free text must fit. False: it is not allowed, and the field may be changed. */
bool config_value_set(const struct setting *k, void *field, const char *value);
/* The part of a list that is not allowed, of `*ret_length` bytes, if this setting is a list. NULL: no such part. */
const char *config_value_find_bad(const struct setting *k, const char *value, int *ret_length);
/* Writes the value as a file may hold it. True: something secret was left out. */
bool config_value_print(const struct setting *k, const void *field, char *ret, size_t size);
