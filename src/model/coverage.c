/* See coverage.h. */
#include "model/coverage.h"

#include "base/units.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const char *const reason_names[COVERAGE_REASONS + 1] = {"before_start", "budget", "expired", "not_attached",
                                                               "disabled",     "method", "unknown"};

const char *coverage_reason_name(enum coverage_reason reason)
{
    return reason_names[reason];
}

enum coverage_reason coverage_reason_find(const char *name)
{
    int reason = 0;
    while (reason < COVERAGE_REASONS && strcmp(reason_names[reason], name) != 0)
        reason++;
    return (enum coverage_reason)reason;
}

void coverage_add_gap(struct coverage *c, enum coverage_reason reason, uint64_t duration_ns, const char *format, ...)
{
    if (!duration_ns || c->gap_count == COVERAGE_GAPS_MAX)
        return;
    struct coverage_gap *gap = &c->gaps[c->gap_count++];
    va_list arguments;
    *gap = (struct coverage_gap){.reason = reason, .duration_ns = duration_ns};
    va_start(arguments, format);
    vsnprintf(gap->text, sizeof(gap->text), format, arguments);
    va_end(arguments);
}

void coverage_put_nothing(const struct coverage *c, enum coverage_subject subject, struct buf *out)
{
    static const char *const names[] = {"HTTP request", "abnormal request", "HTTP request", "outgoing call",
                                        "event",        "I/O operation"};
    const char *what = names[subject];
    char asked[32], observed[32];
    units_format_duration(c->asked_ns, asked, sizeof(asked));
    units_format_duration(c->observed_ns, observed, sizeof(observed));
    if (c->filtered_out)
        buf_printf(out, "None of the %llu %ss recorded in the last %s matches.", (unsigned long long)c->filtered_out,
                   subject == COVERAGE_ROUTES ? "route" : what, asked);
    else if (c->observed_ns == 0)
        buf_printf(out, "Nothing was observed in the last %s: whether there was an %s is not known.", asked, what);
    else if (c->observed_ns < c->asked_ns)
        buf_printf(out, "No %s was seen in the last %s; only %s of it were observed.", what, asked, observed);
    else
        buf_printf(out, "No %s was seen in the last %s, and all of that time was observed.", what, asked);
}
