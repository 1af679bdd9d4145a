/* Formats a method as HotSpot does in its perf map and logs, "java.lang.Object
 * java.util.HashMap.get(java.lang.Object)", from the names in the class file: "java/util/HashMap", "get",
 * "(Ljava/lang/Object;)Ljava/lang/Object;". Pure. */
#pragma once

#include "base/buf.h"

#include <stddef.h>

struct hotspot_text {
    const char *data; /* as in the class file: arbitrary bytes */
    size_t size;
    size_t whole; /* original length; if larger than `size`, the text was truncated */
};

/* Appends the name as valid UTF-8 without a NUL. Truncated components end with "..."; a malformed signature is omitted.
 * Control characters become '?'. Errors of buf.h. */
int hotspot_name_write(const struct hotspot_text *holder, const struct hotspot_text *name,
                       const struct hotspot_text *signature, struct buf *to);
