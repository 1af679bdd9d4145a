/* The arguments of a native probe by name and type, as its declaration has them, else as its operands do
 * ("arg0", "arg1", ...); and their values in words. */
#pragma once

#include "base/buf.h"
#include "resolve/usdt/native_probes.h"

#include <linux/types.h>

#include "probes/native.h"

enum native_type { NATIVE_SIGNED, NATIVE_UNSIGNED, NATIVE_POINTER, NATIVE_TEXT, NATIVE_DOUBLE };

struct native_argument {
    char name[32];
    enum native_type type;
};

struct native_arguments {
    struct native_argument all[NATIVE_ARGUMENTS_MAX];
    size_t count;
};

void native_arguments_read(const struct native_site *site, struct native_arguments *ret);

/* By its name, or "arg0" and so on; -1: there is none. */
int native_arguments_find(const struct native_arguments *a, const char *name);

/* A bit for each that is a text. */
uint32_t native_arguments_texts(const struct native_arguments *a);

/* -8, 0x7f00, 2.5, "text". What could not be read is "?", a text that could not "?" and its address, one that
 * was cut ends in "...". */
void native_arguments_put(const struct native_arguments *a, const struct native_firing *f, size_t index,
                          struct buf *out);

/* The same as JSON: -8, "0x7f00", 2.5 or "nan", "text", null where there is no text, {"cut":"te"},
 * {"unread":true}. */
void native_arguments_put_json(const struct native_arguments *a, const struct native_firing *f, size_t index,
                               struct buf *out);
