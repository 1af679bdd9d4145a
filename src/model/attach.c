/* How each probe is attached, and why not by a better method; see attach.h. */
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

void attach_entry_unfit(struct attach_entry *entry, const char *method, const char *reason)
{
    size_t used = strlen(entry->fallback_reason);
    snprintf(entry->fallback_reason + used, sizeof(entry->fallback_reason) - used, "%s%s: %s", used ? "; " : "", method,
             reason);
}

void attach_entry_refused(struct attach_entry *entry, const char *method, int error)
{
    attach_entry_unfit(entry, method, strerror(error < 0 ? -error : error));
}

void attach_entry_limited(struct attach_entry *entry, const char *text)
{
    const size_t used = strlen(entry->limitation);
    if (text[0])
        snprintf(entry->limitation + used, sizeof(entry->limitation) - used, "%s%s", used ? "; " : "", text);
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
        put_member(out, "method", e->method);
        put_member(out, "fallback_reason", e->fallback_reason);
        put_member(out, "limitation", e->limitation);
        buf_putc(out, '}');
    }
    buf_putc(out, ']');
}
