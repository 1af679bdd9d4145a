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

static void put_member(struct buf *out, const char *name, const char *value)
{
    buf_printf(out, ",\"%s\":", name);
    buf_put_json_string(out, value);
}

void attach_report_put_json(const struct attach_report *report, struct buf *out)
{
    buf_putc(out, '[');
    for (size_t i = 0; i < report->count; i++) {
        const struct attach_entry *e = &report->entries[i];
        buf_printf(out, "%s{\"attached\":%s", i ? "," : "", e->attached ? "true" : "false");
        put_member(out, "probe", e->probe);
        put_member(out, "rung", e->rung);
        put_member(out, "not_better", e->not_better);
        put_member(out, "truth", e->truth);
        buf_putc(out, '}');
    }
    buf_putc(out, ']');
}
