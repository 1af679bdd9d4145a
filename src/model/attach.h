/* How each probe is attached to the kernel, and the method in use: filled by the sources when they open,
 * printed by `sonde doctor`, exported as metrics. Plain data, bounded; strings are copied and cut to fit. */
#pragma once

#include "base/buf.h"

#include <stdbool.h>
#include <stddef.h>

struct attach_entry {
    const char *signal; /* that opened it, a constant; NULL: it is of none, or of several */
    char probe[48];     /* the monitored signal: "CPU samples", "requests" */
    char method[48];    /* the attach method in use: "perf event, cpu-clock"; "" when none works */
    bool attached;
    bool has_no_object;        /* attached, but this node has nothing that it could observe: no device */
    char fallback_reason[512]; /* why better methods failed: "fentry: Operation not permitted" */
    char limitation[256];      /* what this method cannot see or measures less exactly; "" when nothing */
};

#define ATTACH_ENTRIES_MAX 32
struct attach_report {
    struct attach_entry entries[ATTACH_ENTRIES_MAX];
    size_t count;
};

/* Appends an entry, or clears and returns the last one when the report is full; never NULL. `probe` is copied. */
struct attach_entry *attach_report_add(struct attach_report *report, const char *probe);
/* Appends "method: reason" to entry->fallback_reason. `error`: an errno, positive or negative. */
void attach_entry_refused(struct attach_entry *entry, const char *method, int error);
/* Likewise, with a reason that is no errno. */
void attach_entry_unfit(struct attach_entry *entry, const char *method, const char *reason);
/* Appends `text` to entry->limitation, unless it is "". */
void attach_entry_limited(struct attach_entry *entry, const char *text);

/* As a JSON array of {"probe","attached","method","fallback_reason","limitation"}, for `sonde doctor --json` and the
 * API's status. */
void attach_report_put_json(const struct attach_report *report, struct buf *out);
