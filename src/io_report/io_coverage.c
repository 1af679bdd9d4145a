/* Coverage from the limitations of the attach method; see io_coverage.h. */
#include "io_report/io_coverage.h"

#include <stdio.h>
#include <string.h>

#define SEPARATOR "; " /* of attach_entry_limited */

/* "io_uring is not seen", but not what the method costs. */
static bool is_unseen(const char *limitation, size_t size)
{
    return memmem(limitation, size, "not seen", 8) || memmem(limitation, size, "not counted", 11) ||
           memmem(limitation, size, "lost", 4);
}

void io_coverage_set(const struct attach_entry *attached, uint64_t duration_ns, struct coverage *ret)
{
    char unseen[sizeof(attached->limitation)] = "";
    int length = 0;
    for (const char *at = attached->limitation; *at;) {
        const char *end = strstr(at, SEPARATOR);
        const size_t size = end ? (size_t)(end - at) : strlen(at);
        if (is_unseen(at, size))
            length += snprintf(unseen + length, sizeof(unseen) - (size_t)length, "%s%.*s", length ? SEPARATOR : "",
                               (int)size, at);
        at += size + (end ? strlen(SEPARATOR) : 0);
    }
    *ret = (struct coverage){.asked_ns = duration_ns, .observed_ns = duration_ns};
    if (length)
        coverage_add_gap(ret, COVERAGE_METHOD, duration_ns, "Not observed by this method (%s): %s.", attached->method,
                         unseen);
}
