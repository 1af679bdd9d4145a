/* The table of the JSON API; see api_endpoints.h. Queries use the views (views.c), so that they answer as SQL does. A
 * condition on a parameter that is not given is constant, and the engine drops it. */
#include "server/api_endpoints.h"

#include <string.h>

/* ---- parameters ---- */

#define TIME_PARAMETERS                                                                                                \
    {"from", "The begin of the time (RFC 3339); by default `last` before `to`.", API_TIME},                            \
        {"to", "The end of the time, which is not part of it (RFC 3339); by default now.", API_TIME},                  \
    {                                                                                                                  \
        "last", "The length of the time, such as 15m or 24h, where `from` is not given.", API_DURATION, "1h"           \
    }
#define SERVICE_PARAMETER                                                                                              \
    {                                                                                                                  \
        "service", "Of this service only.", API_TEXT                                                                   \
    }
#define HOST_PARAMETER                                                                                                 \
    {                                                                                                                  \
        "host", "Of this host only.", API_TEXT                                                                         \
    }
#define SOURCE_PARAMETER                                                                                               \
    {                                                                                                                  \
        "source", "As Sonde's agents or as OpenTelemetry SDKs saw it.", API_CHOICE, .choices = "sonde|sdk"             \
    }
#define KIND_PARAMETER                                                                                                 \
    {                                                                                                                  \
        "kind", "CPU time, or the time that threads waited.", API_CHOICE, "cpu", "cpu|off_cpu"                         \
    }
#define ROUTE_OF_SAMPLES_PARAMETER                                                                                     \
    {                                                                                                                  \
        "route", "Of requests of this route only: samples of programs that publish their trace context.", API_TEXT     \
    }
#define LIMIT_PARAMETER(initial)                                                                                       \
    {                                                                                                                  \
        "limit", "The number of rows of a list at most.", API_LIMIT, initial, .max = 10000                             \
    }

static const struct api_parameter service_parameters[] = {
    TIME_PARAMETERS, SERVICE_PARAMETER, HOST_PARAMETER, LIMIT_PARAMETER("1000"), {0}};

static const struct api_parameter route_parameters[] = {
    TIME_PARAMETERS,
    SERVICE_PARAMETER,
    HOST_PARAMETER,
    SOURCE_PARAMETER,
    {"route", "This route only.", API_TEXT},
    LIMIT_PARAMETER("1000"),
    {0},
};

static const struct api_parameter request_parameters[] = {
    TIME_PARAMETERS,
    SERVICE_PARAMETER,
    HOST_PARAMETER,
    SOURCE_PARAMETER,
    {"route", "Of this route only.", API_TEXT},
    {"method", "With this method only, such as GET.", API_TEXT},
    {"status", "With this status only, such as 503.", API_TEXT},
    {"cause", "With this text in the cause, in upper or lower case.", API_TEXT},
    {"min_duration", "That took as long or longer, such as 250ms.", API_DURATION},
    {"failed", "Failed ones, or the others.", API_CHOICE, .choices = "true|false"},
    {"slow", "Slow ones, which have a cause, or the others.", API_CHOICE, .choices = "true|false"},
    {"order", "The longest first, or the latest first.", API_CHOICE, "duration", "duration|time"},
    LIMIT_PARAMETER("100"),
    {0},
};

static const struct api_parameter trace_parameters[] = {
    {"trace_id", "The trace's id, of 32 hexadecimal digits in lower case.", API_TRACE_ID}, {0}};

static const struct api_parameter profile_parameters[] = {
    TIME_PARAMETERS,
    SERVICE_PARAMETER,
    HOST_PARAMETER,
    KIND_PARAMETER,
    ROUTE_OF_SAMPLES_PARAMETER,
    LIMIT_PARAMETER("5000"),
    {0},
};

static const struct api_parameter compare_parameters[] = {
    TIME_PARAMETERS,
    SERVICE_PARAMETER,
    HOST_PARAMETER,
    KIND_PARAMETER,
    ROUTE_OF_SAMPLES_PARAMETER,
    {"baseline_from", "The begin of the baseline's time; together with `baseline_to`.", API_TIME},
    {"baseline_to", "The end of the baseline's time.", API_TIME},
    {"baseline_ago", "The baseline is so long before: 24h for the same time yesterday.", API_DURATION},
    {"baseline_service", "The baseline's service; by default the same.", API_TEXT},
    {"baseline_host", "The baseline's host; by default the same.", API_TEXT},
    LIMIT_PARAMETER("100"),
    {0},
};

static const struct api_parameter io_parameters[] = {
    TIME_PARAMETERS,
    HOST_PARAMETER,
    {"manager", "Of jobs of this manager only, such as slurm.", API_TEXT},
    {"job", "Of this job only.", API_TEXT},
    {"mountpoint", "On this mount only.", API_TEXT},
    LIMIT_PARAMETER("1000"),
    {0},
};

static const struct api_parameter event_parameters[] = {
    TIME_PARAMETERS,         SERVICE_PARAMETER,
    HOST_PARAMETER,          {"name", "With this name only.", API_TEXT},
    LIMIT_PARAMETER("1000"), {0},
};

static const struct api_parameter host_parameters[] = {HOST_PARAMETER, LIMIT_PARAMETER("1000"), {0}};

/* ---- columns ---- */

static const struct api_column service_columns[] = {
    {"service", API_STRING},
    {"hosts", API_INTEGER, .description = "The number of hosts that it ran on."},
    {"spans", API_INTEGER, .description = "Spans of all kinds."},
    {"requests", API_NUMBER_MAP, .description = "Requests by source: what agents and SDKs both saw is in both."},
    {"failed_requests", API_NUMBER_MAP},
    {"cpu_ms", API_NUMBER},
    {"events", API_INTEGER},
    {"last_seen", API_MOMENT, .description = "The latest of these, in the chosen time."},
    {0},
};

static const struct api_column route_columns[] = {
    {"service", API_STRING},
    {"source", API_STRING, .description = "sonde or sdk: what both saw is in two rows."},
    {"method", API_STRING},
    {"route", API_STRING},
    {"hosts", API_INTEGER},
    {"requests", API_INTEGER},
    {"failed_requests", API_INTEGER},
    {"recorded", API_INTEGER, .description = "Requests that are kept one by one: a sample, and slow and failed ones."},
    {"slow_recorded", API_INTEGER},
    {"p50_ms", API_NUMBER},
    {"p90_ms", API_NUMBER},
    {"p99_ms", API_NUMBER},
    {"max_ms", API_NUMBER},
    {"lost_ms", API_NUMBER, .description = "How much longer than p50_ms the slow recorded requests took, in all."},
    {"slow_parts_ms", API_NUMBER_MAP, .description = "The time of the slow recorded requests, by component."},
    {"slowest_cause", API_STRING, .description = "Of the slowest of the slow recorded requests."},
    {"slowest_trace_id", API_STRING, .description = "Of the slowest recorded request."},
    {0},
};

static const struct api_column request_columns[] = {
    {"time", API_MOMENT, .description = "Its begin."},
    {"host", API_STRING},
    {"service", API_STRING},
    {"source", API_STRING},
    {"method", API_STRING},
    {"route", API_STRING},
    {"status", API_STRING},
    {"duration_ms", API_NUMBER},
    {"failed", API_BOOLEAN},
    {"slow", API_BOOLEAN},
    {"cause", API_STRING},
    {"parts_ms", API_NUMBER_MAP, .description = "The components of its latency."},
    {"upstream", API_STRING},
    {"upstream_call", API_STRING},
    {"weight", API_INTEGER, .description = "The number of requests that it represents."},
    {"trace_id", API_STRING},
    {"span_id", API_STRING},
    {0},
};

static const struct api_column segment_columns[] = {
    {"begin", API_MOMENT},
    {"duration_ms", API_NUMBER},
    {"kind", API_STRING, .description = "The component of latency that it counts for."},
    {"host", API_STRING},
    {"service", API_STRING},
    {"owner", API_STRING},
    {"process", API_STRING},
    {"thread", API_STRING},
    {"detail", API_STRING},
    {"notes", API_STRING},
    {"inferred", API_BOOLEAN},
    {"span_id", API_STRING, .description = "The request that it is part of."},
    {0},
};

static const struct api_column span_columns[] = {
    {"time", API_MOMENT},
    {"duration_ms", API_NUMBER},
    {"host", API_STRING},
    {"service", API_STRING},
    {"name", API_STRING},
    {"kind", API_STRING},
    {"failed", API_BOOLEAN},
    {"status_message", API_STRING},
    {"span_id", API_STRING},
    {"parent_span_id", API_STRING},
    {"attributes", API_STRING_MAP},
    {"resource", API_STRING_MAP},
    {0},
};

static const struct api_column stack_columns[] = {
    {"stack", API_STRINGS,
     .description = "Functions, the outermost first. Those beyond the limit are one row, [other stacks]."},
    {"ms", API_NUMBER},
    {0},
};

#define DIFFERENCE_COLUMNS                                                                                             \
    {"ms", API_NUMBER}, {"baseline_ms", API_NUMBER},                                                                   \
        {"share", API_NUMBER, .description = "Of all time of the selection, from 0 to 1."},                            \
        {"baseline_share", API_NUMBER, .description = "Of all time of the baseline."},                                 \
    {                                                                                                                  \
        "change", API_NUMBER, .description = "share - baseline_share."                                                 \
    }

static const struct api_column function_difference_columns[] = {
    {"function", API_STRING, .description = "Its own time, without that of functions that it calls."},
    DIFFERENCE_COLUMNS,
    {0}};
static const struct api_column stack_difference_columns[] = {{"stack", API_STRINGS}, DIFFERENCE_COLUMNS, {0}};

static const struct api_column io_columns[] = {
    {"host", API_STRING},
    {"manager", API_STRING},
    {"job", API_STRING},
    {"mountpoint", API_STRING},
    {"fstype", API_STRING},
    {"layer", API_STRING, .description = "daemon: the daemon of a FUSE file system, whose jobs are in other rows."},
    {"read_bytes", API_NUMBER},
    {"write_bytes", API_NUMBER},
    {"operations", API_NUMBER},
    {"errors", API_NUMBER},
    {0},
};

static const struct api_column event_columns[] = {
    {"time", API_MOMENT},           {"host", API_STRING},     {"service", API_STRING},
    {"name", API_STRING},           {"severity", API_STRING}, {"text", API_STRING},
    {"attributes", API_STRING_MAP}, {"trace_id", API_STRING}, {0},
};

static const struct api_column host_columns[] = {
    {"host", API_STRING},
    {"last_seen", API_MOMENT},
    {"agent_version", API_STRING},
    {"kernel", API_STRING},
    {"machine", API_STRING},
    {"healthy", API_BOOLEAN, .is_nullable = true, .description = "null: the agent does not report it."},
    {"status", API_STRING},
    {"detail", API_STRING},
    {"problems", API_STRING},
    {"lost_events", API_NUMBER},
    {"spans", API_INTEGER},
    {0},
};

/* ---- queries ---- */

#define FROM            "{from:DateTime64(9)}"
#define TO              "{to:DateTime64(9)}"
#define IN_TIME         "time >= " FROM " AND time < " TO
#define IN_DAYS         "day >= toDate(" FROM ") AND day <= toDate(" TO ")"
#define MATCHES(column) "({" column ":String} = '' OR " column " = {" column ":String})"
#define IS(column)      "({" column ":String} = '' OR " column " = ({" column ":String} = 'true'))"
#define OF_HOST         MATCHES("host")
#define OF_SERVICE      MATCHES("service")
#define OF_SOURCE       MATCHES("source")
#define OF_ROUTE        MATCHES("route")
#define MOST            " LIMIT {limit:UInt64} + 1" /* one more: whether there are more */

static const char services_sql[] =
    "SELECT service, uniqExact(host) AS hosts, sum(span_count) AS spans, "
    "mapFilter((source, count) -> source != '', sumMap(map(source, served))) AS requests, "
    "mapFilter((source, count) -> source != '', sumMap(map(source, failures))) AS failed_requests, "
    "sum(ms) AS cpu_ms, sum(event_count) AS events, max(seen) AS last_seen FROM ("
    "SELECT ServiceName AS service, HostName AS host, '' AS source, count() AS span_count, toUInt64(0) AS served, "
    "toUInt64(0) AS failures, toFloat64(0) AS ms, toUInt64(0) AS event_count, max(Timestamp) AS seen "
    "FROM otel_traces WHERE Timestamp >= " FROM " AND Timestamp < " TO " GROUP BY service, host UNION ALL "
    "SELECT service, host, source, 0, sum(weight), sumIf(weight, failed), 0, 0, max(time) "
    "FROM requests WHERE " IN_TIME " GROUP BY service, host, source UNION ALL "
    "SELECT service, host, '', 0, 0, 0, sum(cpu_ms), 0, max(time) "
    "FROM cpu_samples WHERE " IN_DAYS " AND " IN_TIME " GROUP BY service, host UNION ALL "
    "SELECT service, host, '', 0, 0, 0, 0, count(), max(time) "
    "FROM events WHERE " IN_TIME " GROUP BY service, host"
    ") WHERE " OF_SERVICE " AND " OF_HOST " GROUP BY service ORDER BY service" MOST;

/* Attributes, which components and causes are in, are read of slow requests only. */
static const char routes_sql[] =
    "SELECT *, ifNotFinite(slow_ms - if(slow_recorded = 0, 0, slow_recorded * p50_ms), NULL) AS lost_ms FROM ("
    "SELECT service, source, method, route, uniqExact(host) AS hosts, sum(weight) AS requests, "
    "sumIf(weight, failed) AS failed_requests, count() AS recorded, countIf(slow) AS slow_recorded, "
    "if(requests > 0, quantilesExactWeighted(0.5, 0.9, 0.99)(duration_ms, weight), [nan, nan, nan]) AS quantiles, "
    "quantiles[1] AS p50_ms, quantiles[2] AS p90_ms, quantiles[3] AS p99_ms, max(duration_ms) AS max_ms, "
    "sumIf(duration_ms, slow) AS slow_ms, argMax(trace_id, duration_ms) AS slowest_trace_id "
    "FROM requests WHERE " IN_TIME " AND " OF_SERVICE " AND " OF_HOST " AND " OF_SOURCE " AND " OF_ROUTE
    " GROUP BY service, source, method, route) AS all_of_it ANY LEFT JOIN ("
    "SELECT service, source, method, route, sumMap(parts_ms) AS slow_parts_ms, "
    "argMax(cause, duration_ms) AS slowest_cause "
    "FROM requests WHERE slow AND " IN_TIME " AND " OF_SERVICE " AND " OF_HOST " AND " OF_SOURCE " AND " OF_ROUTE
    " GROUP BY service, source, method, route) AS slow_ones USING (service, source, method, route) "
    "ORDER BY lost_ms DESC NULLS LAST, requests DESC, service, source, method, route" MOST;

#define OF_METHOD MATCHES("method")
#define OF_STATUS MATCHES("status")
#define OF_CAUSE  "({cause:String} = '' OR positionCaseInsensitiveUTF8(cause, {cause:String}) > 0)"
#define IS_FAILED IS("failed")
#define IS_SLOW   IS("slow")
static const char requests_sql[] =
    "SELECT * FROM requests WHERE " IN_TIME " AND " OF_SERVICE " AND " OF_HOST " AND " OF_SOURCE " AND " OF_ROUTE
    " AND " OF_METHOD " AND " OF_STATUS " AND " OF_CAUSE " AND " IS_FAILED " AND " IS_SLOW
    " AND duration_ms >= {min_duration:UInt64} / 1e6 "
    "ORDER BY if({order:String} = 'time', toUnixTimestamp64Nano(time), 0) DESC, duration_ms DESC, trace_id, span_id" MOST;

static const char trace_requests_sql[] =
    "SELECT * FROM requests WHERE trace_id = {trace_id:String} ORDER BY time, span_id";
static const char trace_segments_sql[] =
    "SELECT * FROM request_segments WHERE trace_id = {trace_id:String} ORDER BY begin, duration_ms";
static const char trace_spans_sql[] =
    "SELECT Timestamp AS time, Duration / 1e6 AS duration_ms, HostName AS host, ServiceName AS service, "
    "SpanName AS name, SpanKind AS kind, toBool(StatusCode = 'Error') AS failed, StatusMessage AS status_message, "
    "SpanId AS span_id, ParentSpanId AS parent_span_id, SpanAttributes AS attributes, ResourceAttributes AS resource "
    "FROM otel_traces WHERE TraceId = {trace_id:String} ORDER BY time, span_id";

/* Time by stack of a selection, or of the baseline, whose parameters have the prefix `side`. Samples of one kind are
 * added up by stack before the stacks are joined. */
#define OF_SIDE(side)                                                                                                  \
    "day >= toDate({" side "from:DateTime64(9)}) AND day <= toDate({" side "to:DateTime64(9)}) "                       \
    "AND time >= {" side "from:DateTime64(9)} AND time < {" side "to:DateTime64(9)} "                                  \
    "AND ({" side "service:String} = '' OR service = {" side "service:String}) "                                       \
    "AND ({" side "host:String} = '' OR host = {" side "host:String}) "                                                \
    "AND ({route:String} = '' OR trace_id IN (SELECT trace_id FROM requests WHERE route = {route:String} "             \
    "AND time >= {" side "from:DateTime64(9)} - INTERVAL 1 HOUR AND time < {" side "to:DateTime64(9)})) "              \
    "GROUP BY day, stack_hash"
#define SELECTION OF_SIDE("")
#define BASELINE  OF_SIDE("baseline_")
#define STACKS(of_side)                                                                                                \
    "(SELECT Functions AS stack, sum(ms) AS ms FROM ("                                                                 \
    "SELECT day, stack_hash, sum(cpu_ms) AS ms FROM cpu_samples WHERE {kind:String} = 'cpu' AND " of_side              \
    " UNION ALL "                                                                                                      \
    "SELECT day, stack_hash, sum(off_cpu_ms) FROM off_cpu_samples WHERE {kind:String} = 'off_cpu' AND " of_side        \
    ") AS sampled ANY LEFT JOIN profile_stacks ON Day = day AND StackHash = stack_hash GROUP BY stack)"
#define STACKS_OF_SELECTION STACKS(SELECTION)
#define STACKS_OF_BASELINE  STACKS(BASELINE)

static const char profile_sql[] =
    "SELECT if(rank < {limit:UInt64} OR stacks <= {limit:UInt64}, stack, ['[other stacks]']) AS stack, sum(ms) AS ms "
    "FROM (SELECT stack, ms, row_number() OVER (ORDER BY ms DESC, stack) AS rank, count() OVER () AS stacks "
    "FROM " STACKS_OF_SELECTION ") GROUP BY stack ORDER BY ms DESC, stack";

/* Without samples on one side there is nothing to compare: then there are no rows. */
#define COMPARE(name, what)                                                                                            \
    "SELECT *, round(share - baseline_share, 6) AS change FROM (SELECT " name ", sumIf(sides.ms, side = 0) AS ms, "    \
    "sumIf(sides.ms, side = 1) AS baseline_ms, sum(ms) OVER () AS total, sum(baseline_ms) OVER () AS baseline_total, " \
    "round(ms / total, 6) AS share, round(baseline_ms / baseline_total, 6) AS baseline_share FROM ("                   \
    "SELECT " what " AS " name ", ms, 0 AS side FROM " STACKS_OF_SELECTION " UNION ALL "                               \
    "SELECT " what ", ms, 1 FROM " STACKS_OF_BASELINE ") AS sides GROUP BY " name                                      \
    ") WHERE total > 0 AND baseline_total > 0 ORDER BY abs(change) DESC, " name MOST

static const char function_difference_sql[] = COMPARE("function", "stack[-1]");
static const char stack_difference_sql[] = COMPARE("stack", "stack");

#define OF_MANAGER    MATCHES("manager")
#define OF_JOB        "({job:String} = '' OR job_id = {job:String})"
#define OF_MOUNTPOINT MATCHES("mountpoint")
static const char io_sql[] =
    "SELECT host, manager, job_id AS job, mountpoint, fstype, layer, sum(read_bytes) AS read_bytes, "
    "sum(write_bytes) AS write_bytes, sum(operations) AS operations, sum(errors) AS errors "
    "FROM io_by_job WHERE " IN_DAYS " AND hour >= toStartOfHour(" FROM ") AND hour < " TO " AND " OF_HOST
    " AND " OF_MANAGER " AND " OF_JOB " AND " OF_MOUNTPOINT
    " GROUP BY host, manager, job_id, mountpoint, fstype, layer "
    "ORDER BY read_bytes + write_bytes DESC, host, manager, job, mountpoint, layer" MOST;

#define OF_NAME MATCHES("name")
static const char events_sql[] = "SELECT * FROM events WHERE " IN_TIME " AND " OF_SERVICE " AND " OF_HOST
                                 " AND " OF_NAME " ORDER BY time DESC, name" MOST;

static const char hosts_sql[] = "SELECT * FROM hosts WHERE " OF_HOST " ORDER BY host" MOST;

/* ---- why an answer is empty ---- */

#define ALL_EVENTS "SELECT time, service, host FROM events"
static const char all_data[] =
    "SELECT Timestamp AS time, ServiceName AS service, HostName AS host FROM otel_traces UNION ALL "
    "SELECT Timestamp, ServiceName, HostName FROM profile_samples WHERE CaptureId = '' UNION ALL " ALL_EVENTS;
static const char all_requests[] = "SELECT time, service, host FROM requests";
static const char all_samples[] =
    "SELECT Timestamp AS time, ServiceName AS service, HostName AS host FROM profile_samples WHERE CaptureId = '' "
    "AND (ProfileType = 'off_cpu') = ({kind:String} = 'off_cpu')";
static const char all_io[] = "SELECT TimeUnix AS time, '' AS service, ResourceAttributes['host.name'] AS host "
                             "FROM otel_metrics_sum WHERE ServiceName = 'sonde' AND MetricName = 'sonde_io_operations'";
static const char all_events[] = ALL_EVENTS;

/* ---- endpoints ---- */

static const struct api_endpoint endpoints[] = {
    {"services",
     "The services that sent something",
     "Services that sent spans, CPU profiles or events.",
     service_parameters,
     {{"services", service_columns, services_sql}},
     "spans, CPU profiles or events",
     all_data},
    {"routes",
     "Routes, most time lost first",
     "Requests by service, source, method and route, with their latency.",
     route_parameters,
     {{"routes", route_columns, routes_sql}},
     "requests",
     all_requests},
    {"requests",
     "Single requests",
     "Requests that are kept one by one: a sample of all, and slow and failed ones.",
     request_parameters,
     {{"requests", request_columns, requests_sql}},
     "requests",
     all_requests},
    {"requests/{trace_id}",
     "One request whole",
     "All of a trace: the requests with the components of their latency, the segments of their critical path, and the "
     "spans of all services.",
     trace_parameters,
     {{"requests", request_columns, trace_requests_sql},
      {"segments", segment_columns, trace_segments_sql},
      {"spans", span_columns, trace_spans_sql}},
     "no span of this trace has arrived, or it is not kept any more",
     NULL},
    {"profile",
     "A flame graph",
     "Time by stack, over all samples of the selection.",
     profile_parameters,
     {{"stacks", stack_columns, profile_sql}},
     "samples",
     all_samples},
    {"profile/compare",
     "Two flame graphs compared",
     "Functions and stacks by the change of their share of the time. The baseline is of another time, service or host.",
     compare_parameters,
     {{"functions", function_difference_columns, function_difference_sql},
      {"stacks", stack_difference_columns, stack_difference_sql}},
     "samples",
     all_samples},
    {"io",
     "I/O by job and mount",
     "In the hours that the time is in, wholly or in part.",
     io_parameters,
     {{"jobs", io_columns, io_sql}},
     "metrics of I/O",
     all_io},
    {"events",
     "Events, the latest first",
     "Events of nodes, log records with a name, and events of spans.",
     event_parameters,
     {{"events", event_columns, events_sql}},
     "events",
     all_events},
    {"hosts",
     "Hosts",
     "Hosts that sent something in the last day, with the health of their agents.",
     host_parameters,
     {{"hosts", host_columns, hosts_sql}},
     "no such host has sent anything in the last day",
     NULL},
};

size_t api_endpoints_count(void)
{
    return sizeof(endpoints) / sizeof(endpoints[0]);
}

const struct api_endpoint *api_endpoint(size_t number)
{
    return &endpoints[number];
}

const struct api_endpoint *api_endpoint_find(const char *path, const char **ret_id)
{
    const struct api_endpoint *with_id = NULL;
    path += strlen(API_PATH);
    *ret_id = NULL;
    for (const struct api_endpoint *e = endpoints; e < endpoints + api_endpoints_count(); e++) {
        const char *id = strchr(e->path, '{');
        if (!id && strcmp(e->path, path) == 0)
            return e;
        if (id && strncmp(e->path, path, (size_t)(id - e->path)) == 0 && !strchr(path + (id - e->path), '/')) {
            with_id = e;
            *ret_id = path + (id - e->path);
        }
    }
    return with_id;
}

int api_parameter_find(const struct api_endpoint *e, const char *name, size_t size)
{
    for (int i = 0; e->parameters && e->parameters[i].name; i++)
        if (strlen(e->parameters[i].name) == size && memcmp(e->parameters[i].name, name, size) == 0)
            return i;
    return -1;
}
