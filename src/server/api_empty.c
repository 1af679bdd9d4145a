/* Reasons of empty answers; see api_empty.h. */
#include "server/api_empty.h"

#include "base/rfc3339.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define DAY_NS     UINT64_C(86400000000000)
#define NAME_BYTES 32

static const struct api_value *value_of(const struct api_values *v, bool is_baseline, const char *name)
{
    char full[NAME_BYTES];
    snprintf(full, sizeof(full), "%s%s", is_baseline ? "baseline_" : "", name);
    return api_values_find(v, full);
}

void api_subjects_put_sql(const struct api_values *v, bool is_baseline, struct buf *sql)
{
    _cleanup_buf_ struct buf text = {0};
    const char *side = is_baseline ? "baseline_" : "";
    buf_printf(
        &text,
        "SELECT count(), countIf(chosen), countIf(chosen AND within), toUnixTimestamp64Nano(minIf(moment, chosen)), "
        "toUnixTimestamp64Nano(maxIf(moment, chosen)) FROM (SELECT toDateTime64(time, 9) AS moment, "
        "({%sservice:String} = '' OR service = {%sservice:String}) AND "
        "({%shost:String} = '' OR host = {%shost:String}) AS chosen, "
        "moment >= {%sfrom:DateTime64(9)} AND moment < {%sto:DateTime64(9)} AS within FROM (%s))",
        side, side, side, side, side, side, v->endpoint->subjects_sql);
    if (buf_error(&text) == 0)
        api_values_put_sql(v, text.data, sql);
    else
        sql->error = sql->error ? sql->error : buf_error(&text);
}

int api_subjects_read(const char *text, struct api_subjects *ret)
{
    struct api_subjects s;
    if (sscanf(text, "%" SCNu64 "\t%" SCNu64 "\t%" SCNu64 "\t%" SCNu64 "\t%" SCNu64, &s.all, &s.chosen, &s.within,
               &s.from_ns, &s.to_ns) != 5)
        return -EINVAL;
    *ret = s;
    return 0;
}

/* "cpu samples" */
static void put_subject(const struct api_values *v, struct buf *out)
{
    const struct api_value *kind = api_values_find(v, "kind");
    buf_printf(out, "%s%s%s", kind ? kind->text : "", kind ? " " : "", v->endpoint->subject);
}

/* " of the service shop on the host node-1" */
static void put_selection(const struct api_values *v, bool is_baseline, struct buf *out)
{
    const struct api_value *service = value_of(v, is_baseline, "service"), *host = value_of(v, is_baseline, "host");
    if (service && service->text[0])
        buf_printf(out, " of the service %s", service->text);
    if (host && host->text[0])
        buf_printf(out, " of the host %s", host->text);
}

void api_subjects_explain(const struct api_values *v, bool is_baseline, const struct api_subjects *s, uint64_t now_ns,
                          unsigned keep_days, struct buf *out)
{
    char from[RFC3339_BYTES], to[RFC3339_BYTES];
    const struct api_value *end = value_of(v, is_baseline, "to"), *route = api_values_find(v, "route");
    /* A comparison is empty, too, where only the other side has no samples. */
    const bool is_filtered = !api_values_find(v, "baseline_to") || (route && route->is_given);
    if (is_baseline)
        buf_puts(out, "the baseline: ");
    if (s->within) {
        buf_printf(out, "there are %" PRIu64 " ", s->within);
        put_subject(v, out);
        put_selection(v, is_baseline, out);
        buf_printf(out, " in this time%s", is_filtered ? ", but none that the other parameters choose" : "");
        return;
    }
    buf_puts(out, "the server has no ");
    put_subject(v, out);
    if (s->all)
        put_selection(v, is_baseline, out);
    if (!s->chosen)
        buf_printf(out, " in the %u days that it keeps", keep_days);
    else if (end && end->number + (keep_days + 1) * DAY_NS < now_ns)
        buf_printf(out, " of this time: it keeps %u days", keep_days);
    else
        buf_printf(out, " of this time: it has %" PRIu64 ", from %s to %s", s->chosen,
                   rfc3339_format_ns(s->from_ns, from), rfc3339_format_ns(s->to_ns, to));
    if (s->all && !s->chosen)
        buf_printf(out, "; it has %" PRIu64 " of others", s->all);
}
