/* Arguments of a USDT probe: names and types from its declaration (libsonde), otherwise from the operands of the note
 * ("arg0", "arg1", ...); and formatting of their values. */
#pragma once

#include "base/buf.h"
#include "resolve/usdt/usdt_probes.h"

#include <linux/types.h>

#include "probes/usdt.h"

enum usdt_type { USDT_SIGNED, USDT_UNSIGNED, USDT_POINTER, USDT_TEXT, USDT_DOUBLE };

struct usdt_argument {
    char name[32];
    enum usdt_type type;
};

struct usdt_arguments {
    struct usdt_argument all[USDT_ARGUMENTS_MAX];
    size_t count;
};

/* Parses the arguments of `site`. At most USDT_ARGUMENTS_MAX are kept. */
void usdt_arguments_read(const struct usdt_site *site, struct usdt_arguments *ret);

/* Index of the argument with this name, or of "arg0" and so on; -1: none. */
int usdt_arguments_find(const struct usdt_arguments *a, const char *name);

/* Bit mask of the string arguments. */
uint32_t usdt_arguments_texts(const struct usdt_arguments *a);

/* Appends the value: -8, 0x7f00, 2.5, "text". An unreadable value is "?", an unreadable string "?" and its address; a
 * truncated string ends in "...". */
void usdt_arguments_put(const struct usdt_arguments *a, const struct usdt_firing *f, size_t index, struct buf *out);

/* Appends the value as JSON: -8, "0x7f00", 2.5 or "nan", "text", null for a NULL string, {"cut":"te"} for a truncated
 * one,
 * {"unread":true} for an unreadable value. */
void usdt_arguments_put_json(const struct usdt_arguments *a, const struct usdt_firing *f, size_t index,
                             struct buf *out);
