/* How HotSpot itself writes a method for people (its perf map, its logs): "java.lang.Object
 * java.util.HashMap.get(java.lang.Object)", of the names that its classes have: "java/util/HashMap", "get",
 * "(Ljava/lang/Object;)Ljava/lang/Object;". */
#pragma once

#include "base/buf.h"

#include <stddef.h>

struct hotspot_text {
    const char *data; /* as it is in a class: any bytes */
    size_t size;
    size_t whole; /* how long it was; more than `size`: the rest is missing */
};

/* Appends the name, in proper UTF-8, without a NUL. What was cut ends with "..."; of a signature that makes no sense
 * nothing is written. */
int hotspot_name_write(const struct hotspot_text *holder, const struct hotspot_text *name,
                       const struct hotspot_text *signature, struct buf *to);
