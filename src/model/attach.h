/* What was attached to the kernel and on which method of its ladder: filled by sources when they open, printed by
 * `sonde doctor`, exported as metrics. Plain data, bounded; texts are copied and cut to fit. */
#pragma once

#include "base/buf.h"

#include <stdbool.h>
#include <stddef.h>

struct attach_entry {
    char probe[48];  /* what is looked at: "cpu samples", "requests" */
    char method[48]; /* the way that was taken: "perf event, cpu-clock"; "" when none could be */
    bool attached;
    char fallback_reason[512]; /* why no better method: "fentry: Operation not permitted" */
    char limitation[256];      /* what is missing or less exact on this method; "" when nothing */
};

#define ATTACH_ENTRIES_MAX 32
struct attach_report {
    struct attach_entry entries[ATTACH_ENTRIES_MAX];
    size_t count;
};

/* A new entry, or the last one again when the report is full; never NULL. `probe` is copied. */
struct attach_entry *attach_report_add(struct attach_report *report, const char *probe);
/* Appends "method: reason" to entry->fallback_reason. */
void attach_entry_refused(struct attach_entry *entry, const char *method, int error);

/* As a JSON array of {"probe","attached","method","fallback_reason","limitation"}: what `sonde doctor --json` and the
 * API's status show. */
void attach_report_put_json(const struct attach_report *report, struct buf *out);
