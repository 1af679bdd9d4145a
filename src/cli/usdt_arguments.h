/* The arguments of a native probe by name and type, as its declaration has them, else as its operands do
 * ("arg0", "arg1", ...); and their values in words. */
#pragma once

#include "base/buf.h"
#include "resolve/usdt/usdt_probes.h"

#include <linux/types.h>

#include "probes/usdt.h"

enum usdt_type { NATIVE_SIGNED, NATIVE_UNSIGNED, NATIVE_POINTER, NATIVE_TEXT, NATIVE_DOUBLE };

struct usdt_argument {
    char name[32];
    enum usdt_type type;
};

struct usdt_arguments {
    struct usdt_argument all[NATIVE_ARGUMENTS_MAX];
    size_t count;
};

void usdt_arguments_read(const struct usdt_site *site, struct usdt_arguments *ret);

/* By its name, or "arg0" and so on; -1: there is none. */
int usdt_arguments_find(const struct usdt_arguments *a, const char *name);

/* A bit for each that is a text. */
uint32_t usdt_arguments_texts(const struct usdt_arguments *a);

/* -8, 0x7f00, 2.5, "text". What could not be read is "?", a text that could not "?" and its address, one that
 * was cut ends in "...". */
void usdt_arguments_put(const struct usdt_arguments *a, const struct usdt_firing *f, size_t index, struct buf *out);

/* The same as JSON: -8, "0x7f00", 2.5 or "nan", "text", null where there is no text, {"cut":"te"},
 * {"unread":true}. */
void usdt_arguments_put_json(const struct usdt_arguments *a, const struct usdt_firing *f, size_t index,
                             struct buf *out);
