/* What was attached, and why not better; see attach.h. */
#include "model/attach.h"

#include <stdio.h>
#include <string.h>

struct attach_entry *attach_report_add(struct attach_report *report, const char *probe)
{
    if (report->count < ATTACH_ENTRIES_MAX)
        report->count++;
    struct attach_entry *entry = &report->entries[report->count - 1];
    *entry = (struct attach_entry){0};
    snprintf(entry->probe, sizeof(entry->probe), "%s", probe);
    return entry;
}

void attach_entry_refused(struct attach_entry *entry, const char *rung, int error)
{
    size_t used = strlen(entry->not_better);
    snprintf(entry->not_better + used, sizeof(entry->not_better) - used, "%s%s: %s", used ? "; " : "", rung,
             strerror(error < 0 ? -error : error));
}
