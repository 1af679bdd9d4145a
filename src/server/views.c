/* The text of the views; see views.h. Conditions on their plain columns (time, day, host, service) reach the tables'
 * partitions and indexes: a view must not hide these columns in a window function or an ARRAY JOIN. */
#include "server/views.h"

#include "server/tables.h"

#include <inttypes.h>
#include <string.h>
#include <xxhash.h>

#define COMMENT       "made by sonde server, "
#define COMMENT_BYTES 64

#define SEGMENT_MS    "toUInt64OrZero(attributes['sonde.duration_ns']) / 1e6"

/* No report of the agent: longer than the longest opamp.interval, and than AGENTS_ROW_NS. */
#define SILENT "Timestamp < now() - INTERVAL 10 MINUTE"

/* A stack is the same in all of a day's samples. Columns of stacks are computed before the join with samples, which are
 * many more. */
#define SAMPLES(value, condition)                                                                                      \
    "SELECT Timestamp AS time, day, HostName AS host, ServiceName AS service, " value                                  \
    ", stack, function, caller, ThreadName AS thread, ThreadId AS thread_id, "                                         \
    "TraceId AS trace_id, SpanId AS span_id, SampleAttributes AS labels, StackHash AS stack_hash, "                    \
    "ResourceHash AS resource_hash "                                                                                   \
    "FROM (SELECT *, CaptureId, toDate(Timestamp) AS day FROM otel.profile_samples WHERE " condition ") AS samples "   \
    "ANY LEFT JOIN (SELECT Day AS day, StackHash, Functions AS stack, Functions[-1] AS function, "                     \
    "Functions[-2] AS caller "                                                                                         \
    "FROM otel.profile_stacks) AS stacks USING (day, StackHash)"

#define CPU_MS "if(Unit = 'nanoseconds', Value, Value * Period) / 1e6 AS cpu_ms"

static const struct view {
    const char *name, *select;
} views[] = {
    {"requests",
     "SELECT Timestamp AS time, HostName AS host, ServiceName AS service, "
     "if(ScopeName = 'sonde', 'sonde', 'sdk') AS source, Method AS method, Route AS route, Status AS status, "
     "Duration / 1e6 AS duration_ms, toBool(CAST(StatusCode, 'String') = 'Error') AS failed, Slow AS slow, "
     "SpanAttributes['sonde.cause'] AS cause, "
     "mapApply((key, value) -> (substring(key, 17, length(key) - 19), toUInt64OrZero(value) / 1e6), "
     "mapFilter((key, value) -> startsWith(key, 'sonde.component.'), SpanAttributes)) AS parts_ms, "
     "SpanAttributes['sonde.upstream'] AS upstream, SpanAttributes['sonde.upstream.call'] AS upstream_call, "
     "Weight AS weight, "
     "TraceId AS trace_id, SpanId AS span_id, ParentSpanId AS parent_span_id, "
     "SpanAttributes AS attributes, ResourceAttributes AS resource "
     "FROM otel.otel_traces WHERE SpanKind = 'Server'"},
    {"slow_requests",
     "SELECT time, host, service, method, route, status, duration_ms, cause, parts_ms, upstream, upstream_call, "
     "trace_id, span_id FROM otel.requests WHERE slow"},
    {"request_segments",
     "SELECT Timestamp AS time, ResourceAttributes['host.name'] AS host, ServiceName AS service, "
     "if(SpanAttributes['http.route'] != '', SpanAttributes['http.route'], SpanAttributes['rpc.method']) AS route, "
     "begin, kind, " SEGMENT_MS " AS duration_ms, attributes['sonde.owner'] AS owner, "
     "attributes['sonde.process'] AS process, attributes['thread.name'] AS thread, "
     "attributes['sonde.detail'] AS detail, attributes['sonde.notes'] AS notes, "
     "toBool(attributes['sonde.inferred'] = 'true') AS inferred, TraceId AS trace_id, SpanId AS span_id "
     "FROM otel.otel_traces "
     "ARRAY JOIN Events.Timestamp AS begin, Events.Name AS kind, Events.Attributes AS attributes "
     "WHERE ScopeName = 'sonde' AND SpanKind = 'Server'"},
    {"routes_per_minute", "SELECT toStartOfMinute(time) AS minute, host, service, source, method, route, "
                          "sum(weight) AS requests, sumIf(weight, failed) AS failed_requests, count() AS recorded, "
                          "countIf(slow) AS slow_recorded, quantileExactWeighted(0.5)(duration_ms, weight) AS p50_ms, "
                          "quantileExactWeighted(0.99)(duration_ms, weight) AS p99_ms, max(duration_ms) AS max_ms "
                          "FROM otel.requests GROUP BY minute, host, service, source, method, route"},
    /* Counters grow while their series lives. The growth of an hour is the difference to the hour before, or to 0 where
     * the series began that day. */
    {"io_by_job",
     "SELECT day, hour, host, manager, job_id, mountpoint, fstype, layer, "
     "sumIf(growth, metric = 'sonde_io_read_bytes') AS read_bytes, "
     "sumIf(growth, metric = 'sonde_io_write_bytes') AS write_bytes, "
     "sumIf(growth, metric = 'sonde_io_operations') AS operations, "
     "sumIf(growth, metric = 'sonde_io_errors') AS errors "
     "FROM (SELECT day, host, metric, Attributes['manager'] AS manager, Attributes['job_id'] AS job_id, "
     "Attributes['mountpoint'] AS mountpoint, Attributes['fstype'] AS fstype, Attributes['layer'] AS layer, "
     "arraySort(groupArray((slot, highest))) AS slots, "
     "if(StartTimeUnix >= toDateTime(day), 0, min(lowest)) AS before "
     "FROM (SELECT toDate(TimeUnix) AS day, toStartOfHour(toDateTime(TimeUnix)) AS slot, "
     "ResourceAttributes['host.name'] AS host, MetricName AS metric, Attributes, StartTimeUnix, "
     "min(Value) AS lowest, max(Value) AS highest FROM otel.otel_metrics_sum WHERE ServiceName = 'sonde' "
     "AND MetricName IN ('sonde_io_read_bytes', 'sonde_io_write_bytes', 'sonde_io_operations', 'sonde_io_errors') "
     "GROUP BY day, slot, host, metric, Attributes, StartTimeUnix) "
     "GROUP BY day, host, metric, Attributes, StartTimeUnix) "
     "ARRAY JOIN arrayMap(p -> p.1, slots) AS hour, "
     "arrayPopFront(arrayDifference(arrayConcat([before], arrayMap(p -> p.2, slots)))) AS growth "
     "GROUP BY day, hour, host, manager, job_id, mountpoint, fstype, layer"},
    {"cpu_samples", SAMPLES(CPU_MS, "CaptureId = '' AND (ProfileType = 'cpu' OR (ProfileType = 'samples' AND "
                                    "PeriodType = 'cpu'))")},
    {"capture_samples", SAMPLES("CaptureId AS capture_id, if(ProfileType = 'off_cpu', 'off_cpu', 'cpu') AS kind, "
                                "if(kind = 'cpu', if(Unit = 'nanoseconds', Value, Value * Period), 0) / 1e6 AS cpu_ms, "
                                "if(kind = 'off_cpu', Value, 0) / 1e6 AS off_cpu_ms",
                                "CaptureId != ''")},
    {"off_cpu_samples", SAMPLES("Value / 1e6 AS off_cpu_ms", "CaptureId = '' AND ProfileType = 'off_cpu'")},
    {"events",
     "SELECT Timestamp AS time, ResourceAttributes['host.name'] AS host, ServiceName AS service, "
     "if(EventName != '', EventName, LogAttributes['event.name']) AS name, SeverityText AS severity, Body AS text, "
     "LogAttributes AS attributes, TraceId AS trace_id FROM otel.otel_logs WHERE name != '' "
     "UNION ALL SELECT moment AS time, ResourceAttributes['host.name'] AS host, ServiceName AS service, name, "
     "'' AS severity, details['exception.message'] AS text, details AS attributes, TraceId AS trace_id "
     "FROM otel.otel_traces "
     "ARRAY JOIN Events.Timestamp AS moment, Events.Name AS name, Events.Attributes AS details "
     "WHERE ScopeName != 'sonde'"},
    /* From reports of agents (OpAMP), from their metrics, and from spans of anything; the losses of a host are in both
     * of the first two. A report has a status, and in full also the configuration. */
    {"hosts",
     "SELECT host, max(seen) AS last_seen, max(agent) AS agent_version, max(release) AS kernel, "
     "max(architecture) AS machine, max(is_healthy) AS healthy, max(state) AS status, max(level) AS detail, "
     "max(errors) AS problems, coalesce(max(reported), sum(lost)) AS lost_events, max(count) AS spans, "
     "max(text) AS config "
     "FROM (SELECT ResourceAttributes['host.name'] AS host, toDateTime(max(TimeUnix)) AS seen, "
     "argMax(Attributes['version'], TimeUnix) AS agent, argMax(Attributes['kernel'], TimeUnix) AS release, "
     "argMax(Attributes['machine'], TimeUnix) AS architecture, NULL::Nullable(Bool) AS is_healthy, '' AS state, "
     "'' AS level, '' AS errors, NULL::Nullable(UInt64) AS reported, 0 AS lost, 0 AS count, '' AS text "
     "FROM otel.otel_metrics_sum WHERE ServiceName = 'sonde' AND MetricName = 'sonde_build_info' "
     "AND TimeUnix > now() - INTERVAL 1 DAY GROUP BY host "
     "UNION ALL SELECT ResourceAttributes['host.name'] AS host, toDateTime(max(TimeUnix)) AS seen, '', '', '', "
     "NULL, '', '', '', NULL, toUInt64(argMax(Value, TimeUnix)) AS lost, 0, '' "
     "FROM otel.otel_metrics_sum WHERE ServiceName = 'sonde' AND MetricName = 'sonde_self_losses' "
     "AND TimeUnix > now() - INTERVAL 1 DAY GROUP BY host, Attributes['reason'] "
     "UNION ALL SELECT HostName AS host, toDateTime(max(Timestamp)) AS seen, argMax(ServiceVersion, Timestamp), "
     "argMax(KernelRelease, Timestamp), "
     "transform(argMax(HostArch, Timestamp), ['amd64', 'arm64'], ['x86_64', 'aarch64'], argMax(HostArch, Timestamp)), "
     "argMax(tuple(if(IsLast, NULL, if(" SILENT ", false, Healthy))), Timestamp).1, "
     "argMax(if(IsLast, 'stopped', if(" SILENT ", 'silent', toString(Status))), Timestamp), argMax(Detail, Timestamp), "
     "argMax(Problems, Timestamp), argMax(LostEvents, Timestamp), 0, 0, argMaxIf(Config, Timestamp, Config != '') "
     "FROM otel.agent_reports WHERE ServiceName = 'sonde' AND Timestamp > now() - INTERVAL 1 DAY GROUP BY host "
     "UNION ALL SELECT HostName AS host, toDateTime(max(Timestamp)) AS seen, '', '', '', "
     "NULL, '', '', '', NULL, 0, count(), '' FROM otel.otel_traces WHERE Timestamp > now() - INTERVAL 1 DAY "
     "GROUP BY host) WHERE host != '' GROUP BY host"},
};

size_t views_count(void)
{
    return sizeof(views) / sizeof(views[0]);
}

const char *view_name(size_t view)
{
    return views[view].name;
}

static void put_comment(size_t view, char comment[COMMENT_BYTES])
{
    const char *select = views[view].select;
    snprintf(comment, COMMENT_BYTES, COMMENT "%016" PRIx64, (uint64_t)XXH3_64bits(select, strlen(select)));
}

void view_put_find(struct buf *sql, size_t view)
{
    buf_printf(sql, "SELECT comment FROM system.tables WHERE database = '" TABLES_DATABASE "' AND name = '%s'",
               views[view].name);
}

enum view_state view_state(size_t view, const char *found, size_t size)
{
    char comment[COMMENT_BYTES];
    put_comment(view, comment);
    if (size == 0)
        return VIEW_IS_MISSING;
    if (size == strlen(comment) + 1 && memcmp(found, comment, size - 1) == 0) /* and the end of the line */
        return VIEW_IS_CURRENT;
    return size >= strlen(COMMENT) && memcmp(found, COMMENT, strlen(COMMENT)) == 0 ? VIEW_IS_OLD : VIEW_IS_FOREIGN;
}

void view_put_create(struct buf *sql, size_t view)
{
    char comment[COMMENT_BYTES];
    put_comment(view, comment);
    buf_printf(sql, "CREATE OR REPLACE VIEW " TABLES_DATABASE ".%s AS %s COMMENT '%s'", views[view].name,
               views[view].select, comment);
}
