/* Columns of the tables, and the statements about them; see tables.h. */
#include "server/tables.h"

#include "base/cleanup.h"

#include <inttypes.h>
#include <string.h>

#define NAME "LowCardinality(String)"
#define MAP  "Map(LowCardinality(String), String)"
#define TIME "DateTime64(9)"

struct column {
    const char *name, *type;
    const char *codec; /* NULL: the table's */
    const char *value; /* computed by the engine, not inserted; NULL: inserted */
    bool is_hidden;    /* such a column, which is ours: not in SELECT * */
};

/* What views select from a Map, so that they do not read the whole Map of each row. */
#define MAP_VALUE(name, type, value_of_map)                                                                            \
    {                                                                                                                  \
        name, type, .value = value_of_map, .is_hidden = true                                                           \
    }

static const struct column traces_columns[] = {
    {"Timestamp", TIME, "Delta(8), ZSTD(1)"},
    {"TraceId", "String"},
    {"SpanId", "String"},
    {"ParentSpanId", "String"},
    {"TraceState", "String"},
    {"SpanName", NAME},
    {"SpanKind", NAME},
    {"ServiceName", NAME},
    {"ResourceAttributes", MAP},
    {"ScopeName", "String"},
    {"ScopeVersion", "String"},
    {"SpanAttributes", MAP},
    {"Duration", "UInt64"},
    {"StatusCode", NAME},
    {"StatusMessage", "String"},
    {"Events.Timestamp", "Array(" TIME ")"},
    {"Events.Name", "Array(" NAME ")"},
    {"Events.Attributes", "Array(" MAP ")"},
    {"Links.TraceId", "Array(String)"},
    {"Links.SpanId", "Array(String)"},
    {"Links.TraceState", "Array(String)"},
    {"Links.Attributes", "Array(" MAP ")"},
    MAP_VALUE("HostName", NAME, "ResourceAttributes['host.name']"),
    MAP_VALUE("Method", NAME, "SpanAttributes['http.request.method']"),
    MAP_VALUE("Route", NAME,
              "multiIf(SpanAttributes['http.route'] != '', SpanAttributes['http.route'], "
              "SpanAttributes['rpc.method'] != '', SpanAttributes['rpc.method'], SpanName)"),
    MAP_VALUE("Status", NAME,
              "if(SpanAttributes['http.response.status_code'] != '', SpanAttributes['http.response.status_code'], "
              "SpanAttributes['rpc.response.status_code'])"),
    MAP_VALUE("Slow", "Bool", "SpanAttributes['sonde.slow'] = 'true'"),
    MAP_VALUE("Weight", "UInt64",
              "if(ScopeName = 'sonde', toUInt64OrZero(SpanAttributes['sonde.sampling.weight']), 1)"),
    {0},
};

static const struct column logs_columns[] = {
    {"Timestamp", TIME, "Delta(8), ZSTD(1)"},
    {"TimestampTime", "DateTime", .value = "toDateTime(Timestamp)"},
    {"TraceId", "String"},
    {"SpanId", "String"},
    {"TraceFlags", "UInt8"},
    {"SeverityText", NAME},
    {"SeverityNumber", "UInt8"},
    {"ServiceName", NAME},
    {"Body", "String"},
    {"ResourceSchemaUrl", NAME},
    {"ResourceAttributes", MAP},
    {"ScopeSchemaUrl", NAME},
    {"ScopeName", "String"},
    {"ScopeVersion", NAME},
    {"ScopeAttributes", MAP},
    {"LogAttributes", MAP},
    {"EventName", "String"},
    {0},
};

/* Of all tables of metrics: which metric, and when. */
#define METRIC_COLUMNS                                                                                                 \
    {"ResourceAttributes", MAP}, {"ResourceSchemaUrl", "String"}, {"ScopeName", "String"}, {"ScopeVersion", "String"}, \
        {"ScopeAttributes", MAP}, {"ScopeDroppedAttrCount", "UInt32"}, {"ScopeSchemaUrl", "String"},                   \
        {"ServiceName", NAME}, {"MetricName", "String"}, {"MetricDescription", "String"}, {"MetricUnit", "String"},    \
        {"Attributes", MAP}, {"StartTimeUnix", TIME, "Delta(8), ZSTD(1)"}, {"TimeUnix", TIME, "Delta(8), ZSTD(1)"},    \
    {                                                                                                                  \
        "Flags", "UInt32"                                                                                              \
    }
#define EXEMPLAR_COLUMNS                                                                                               \
    {"Exemplars.FilteredAttributes", "Array(" MAP ")"}, {"Exemplars.TimeUnix", "Array(" TIME ")"},                     \
        {"Exemplars.Value", "Array(Float64)"}, {"Exemplars.SpanId", "Array(String)"},                                  \
    {                                                                                                                  \
        "Exemplars.TraceId", "Array(String)"                                                                           \
    }

static const struct column gauges_columns[] = {METRIC_COLUMNS, {"Value", "Float64"}, EXEMPLAR_COLUMNS, {0}};

static const struct column sums_columns[] = {METRIC_COLUMNS,          {"Value", "Float64"},
                                             EXEMPLAR_COLUMNS,        {"AggregationTemporality", "Int32"},
                                             {"IsMonotonic", "Bool"}, {0}};

static const struct column histograms_columns[] = {METRIC_COLUMNS,
                                                   {"Count", "UInt64", "Delta(8), ZSTD(1)"},
                                                   {"Sum", "Float64"},
                                                   {"Min", "Float64"},
                                                   {"Max", "Float64"},
                                                   {"BucketCounts", "Array(UInt64)"},
                                                   {"ExplicitBounds", "Array(Float64)"},
                                                   EXEMPLAR_COLUMNS,
                                                   {"AggregationTemporality", "Int32"},
                                                   {0}};

static const struct column exponentials_columns[] = {METRIC_COLUMNS,
                                                     {"Count", "UInt64", "Delta(8), ZSTD(1)"},
                                                     {"Sum", "Float64"},
                                                     {"Min", "Float64"},
                                                     {"Max", "Float64"},
                                                     {"Scale", "Int32"},
                                                     {"ZeroCount", "UInt64"},
                                                     {"PositiveOffset", "Int32"},
                                                     {"PositiveBucketCounts", "Array(UInt64)"},
                                                     {"NegativeOffset", "Int32"},
                                                     {"NegativeBucketCounts", "Array(UInt64)"},
                                                     EXEMPLAR_COLUMNS,
                                                     {"AggregationTemporality", "Int32"},
                                                     {0}};

static const struct column summaries_columns[] = {METRIC_COLUMNS,
                                                  {"Count", "UInt64", "Delta(8), ZSTD(1)"},
                                                  {"Sum", "Float64"},
                                                  {"ValueAtQuantiles.Quantile", "Array(Float64)"},
                                                  {"ValueAtQuantiles.Value", "Array(Float64)"},
                                                  {0}};

/* Agents round their times (otlp.timestamp_resolution). */
static const struct column profile_samples_columns[] = {
    {"Timestamp", TIME, "GCD, Delta(8), ZSTD(1)"},
    {"HostName", NAME},
    {"ServiceName", NAME},
    {"ProfileType", NAME},
    {"Unit", NAME},
    {"Value", "Int64", "T64, ZSTD(1)"},
    {"PeriodType", NAME},
    {"Period", "Int64"},
    {"StackHash", "UInt64"},
    {"ResourceHash", "UInt64"},
    {"ThreadId", "UInt64"},
    {"ThreadName", NAME},
    {"TraceId", "String"},
    {"SpanId", "String"},
    {"SampleAttributes", MAP},
    {"CaptureId", NAME, .value = "SampleAttributes['sonde.capture.id']", .is_hidden = true},
    {0}};

/* Each stack, frame and resource once a day: Functions are the names of Frames, the outermost first. */
static const struct column profile_stacks_columns[] = {
    {"Day", "Date"}, {"StackHash", "UInt64"}, {"Functions", "Array(" NAME ")"}, {"Frames", "Array(UInt64)"}, {0}};

static const struct column profile_frames_columns[] = {{"Day", "Date"},
                                                       {"FrameHash", "UInt64"},
                                                       {"Function", "String"},
                                                       {"SystemName", "String"},
                                                       {"File", NAME},
                                                       {"Line", "UInt64"},
                                                       {"Type", NAME},
                                                       {"Mapping", NAME},
                                                       {"BuildId", NAME},
                                                       {"Address", "UInt64"},
                                                       {0}};

static const struct column profile_resources_columns[] = {
    {"Day", "Date"}, {"ResourceHash", "UInt64"}, {"ServiceName", NAME}, {"ResourceAttributes", MAP}, {0}};

/* What agents report by OpAMP. Attributes and Config are empty in reports that do not repeat them. */
static const struct column agent_reports_columns[] = {{"Timestamp", TIME, "Delta(8), ZSTD(1)"},
                                                      {"InstanceUid", "String"},
                                                      {"HostName", NAME},
                                                      {"ServiceName", NAME},
                                                      {"ServiceVersion", NAME},
                                                      {"KernelRelease", NAME},
                                                      {"HostArch", NAME},
                                                      {"IsLast", "Bool"},
                                                      {"Healthy", "Nullable(Bool)"},
                                                      {"Status", NAME},
                                                      {"Problems", "String"},
                                                      {"Detail", NAME},
                                                      {"LostEvents", "Nullable(UInt64)"},
                                                      {"IdentifyingAttributes", MAP},
                                                      {"NonIdentifyingAttributes", MAP},
                                                      {"Config", "String"},
                                                      {0}};

/* What became of captures, and who asked for each: a row for each of its states. */
static const struct column captures_columns[] = {{"Timestamp", TIME, "Delta(8), ZSTD(1)"},
                                                 {"CaptureId", "String"},
                                                 {"State", NAME},
                                                 {"Reason", "String"},
                                                 {"Samples", "Nullable(UInt64)"},
                                                 {"HostName", NAME},
                                                 {"Kind", NAME},
                                                 {"Seconds", "UInt32"},
                                                 {"Pid", "UInt32"},
                                                 {"Container", "String"},
                                                 {"Service", "String"},
                                                 {"TokenHash", "String"},
                                                 {"ClientAddress", "String"},
                                                 {0}};

#define KEYS_AND_VALUES(map)                                                                                           \
    "INDEX keys_" map " mapKeys(" map ") TYPE bloom_filter(0.01), "                                                    \
    "INDEX values_" map " mapValues(" map ") TYPE bloom_filter(0.01), "
#define TRACE_ID "INDEX trace_id TraceId TYPE bloom_filter(0.001), "

#define METRIC_INDEXES                                                                                                 \
    "INDEX keys_ResourceAttributes mapKeys(ResourceAttributes) TYPE bloom_filter(0.01), "                              \
    "INDEX values_ResourceAttributes mapValues(ResourceAttributes) TYPE bloom_filter(0.01), "                          \
    "INDEX keys_Attributes mapKeys(Attributes) TYPE bloom_filter(0.01), "                                              \
    "INDEX values_Attributes mapValues(Attributes) TYPE bloom_filter(0.01)"
/* The points of a series, of one resource, follow each other: their columns repeat. */
#define METRIC_ORDER "ServiceName, MetricName, Attributes, ResourceAttributes, toUnixTimestamp64Nano(TimeUnix)"
#define METRIC_CODEC "ZSTD(3)" /* a third of what ZSTD(1) makes of repeated maps, for the same CPU time */

#define METRIC_TABLE(kind, columns)                                                                                    \
    {                                                                                                                  \
        "otel_metrics_" kind, columns, METRIC_INDEXES, "toDate(TimeUnix)", METRIC_ORDER, .codec = METRIC_CODEC         \
    }

static const struct {
    const char *name;
    const struct column *columns;
    const char *indexes, *day, *order;
    bool is_set;       /* rows with the same `order` are the same, and one of them is kept */
    unsigned granules; /* rows of each; 0: 8,192. Fewer are read for one trace or attribute, and indexes are larger */
    const char *codec; /* NULL: ZSTD(1) */
} tables[TABLE_COUNT] = {
    [TABLE_TRACES] = {"otel_traces", traces_columns,
                      TRACE_ID KEYS_AND_VALUES("ResourceAttributes")
                          KEYS_AND_VALUES("SpanAttributes") "INDEX duration Duration TYPE minmax",
                      "toDate(Timestamp)", "ServiceName, SpanName, toDateTime(Timestamp)", .granules = 2048},
    [TABLE_LOGS] = {"otel_logs", logs_columns,
                    TRACE_ID KEYS_AND_VALUES("ResourceAttributes")
                        KEYS_AND_VALUES("LogAttributes") "INDEX body Body TYPE tokenbf_v1(32768, 3, 0) GRANULARITY 8",
                    "toDate(TimestampTime)", "ServiceName, TimestampTime, Timestamp"},
    [TABLE_GAUGES] = METRIC_TABLE("gauge", gauges_columns),
    [TABLE_SUMS] = METRIC_TABLE("sum", sums_columns),
    [TABLE_HISTOGRAMS] = METRIC_TABLE("histogram", histograms_columns),
    [TABLE_EXPONENTIALS] = METRIC_TABLE("exponential_histogram", exponentials_columns),
    [TABLE_SUMMARIES] = METRIC_TABLE("summary", summaries_columns),
    [TABLE_PROFILE_SAMPLES] = {"profile_samples", profile_samples_columns,
                               TRACE_ID "INDEX stack StackHash TYPE bloom_filter(0.01)", "toDate(Timestamp)",
                               "ServiceName, ProfileType, HostName, Timestamp"},
    [TABLE_PROFILE_STACKS] = {"profile_stacks", profile_stacks_columns, NULL, "Day", "StackHash", true},
    [TABLE_PROFILE_FRAMES] = {"profile_frames", profile_frames_columns, NULL, "Day", "FrameHash", true},
    [TABLE_PROFILE_RESOURCES] = {"profile_resources", profile_resources_columns, NULL, "Day", "ResourceHash", true},
    [TABLE_AGENT_REPORTS] = {"agent_reports", agent_reports_columns, NULL, "toDate(Timestamp)", "HostName, Timestamp"},
    [TABLE_CAPTURES] = {"captures", captures_columns, NULL, "toDate(Timestamp)", "CaptureId, Timestamp"},
};

const char *table_name(enum table table)
{
    return tables[table].name;
}

static void put_column(struct buf *sql, enum table table, const struct column *c)
{
    const char *codec = c->codec ? c->codec : tables[table].codec;
    buf_printf(sql, "`%s` %s", c->name, c->type);
    if (c->value)
        buf_printf(sql, " %s %s", c->is_hidden ? "MATERIALIZED" : "DEFAULT", c->value);
    buf_printf(sql, " CODEC(%s)", codec ? codec : "ZSTD(1)");
}

void table_put_create(struct buf *sql, enum table table)
{
    buf_printf(sql, "CREATE TABLE IF NOT EXISTS " TABLES_DATABASE ".%s (", tables[table].name);
    for (const struct column *c = tables[table].columns; c->name; c++) {
        if (c != tables[table].columns)
            buf_puts(sql, ", ");
        put_column(sql, table, c);
    }
    if (tables[table].indexes)
        buf_printf(sql, ", %s", tables[table].indexes);
    /* fsync: the spool forgets a segment that the engine has taken. Statistics of columns cost a tenth of a small
     * insertion and a byte a row, and help no query here. */
    buf_printf(sql,
               ") ENGINE = %s PARTITION BY %s ORDER BY (%s) "
               "SETTINGS index_granularity = %u, ttl_only_drop_parts = 1, fsync_after_insert = 1, "
               "fsync_part_directory = 1, auto_statistics_types = ''",
               tables[table].is_set ? "ReplacingMergeTree" : "MergeTree", tables[table].day, tables[table].order,
               tables[table].granules ? tables[table].granules : 8192);
}

void table_put_migrate(struct buf *sql, enum table table, unsigned keep_days)
{
    buf_printf(sql, "ALTER TABLE " TABLES_DATABASE ".%s ", tables[table].name);
    for (const struct column *c = tables[table].columns; c->name; c++) {
        buf_puts(sql, "(ADD COLUMN IF NOT EXISTS ");
        put_column(sql, table, c);
        buf_puts(sql, "), ");
    }
    /* Parts have one day each, and go as a whole: rows need not be written again when the time changes. The engine's
     * log of insertions takes no record any more after one that a full disk cut, has it before the part is there, and
     * is not synced: the loader knows what is inserted. */
    buf_printf(sql,
               "(MODIFY TTL %s + INTERVAL %u DAY), (MODIFY SETTING non_replicated_deduplication_window = 0) "
               "SETTINGS materialize_ttl_after_modify = 0",
               tables[table].day, keep_days);
}

/* A type as a file has it. The engine would look up each value of a LowCardinality while it reads a row, which takes
 * eight times as long as to read it as a String; the insertion converts the whole column. */
static void put_file_type(struct buf *sql, const char *type)
{
    for (const char *at; (at = strstr(type, NAME)) != NULL; type = at + strlen(NAME)) {
        buf_append(sql, type, (size_t)(at - type));
        buf_puts(sql, "String");
    }
    buf_puts(sql, type);
}

static void put_columns(struct buf *sql, const struct column *columns, bool with_types)
{
    const char *separator = "";
    for (const struct column *c = columns; c->name; c++) {
        if (c->value)
            continue;
        buf_printf(sql, "%s`%s`", separator, c->name);
        if (with_types) {
            buf_putc(sql, ' ');
            put_file_type(sql, c->type);
        }
        separator = ", ";
    }
}

void tables_put_last_blocks(struct buf *sql)
{
    buf_puts(sql, "SELECT ");
    for (enum table table = 0; table < TABLE_COUNT; table++)
        buf_printf(sql, "%smaxIf(toUInt64(max_block_number), table = '%s')", table ? ", " : "", tables[table].name);
    buf_puts(sql, " FROM system.parts WHERE database = '" TABLES_DATABASE "' AND active");
}

void table_put_insert(struct buf *sql, enum table table, const char *path, uint64_t after_block)
{
    buf_printf(sql, "INSERT INTO " TABLES_DATABASE ".%s (", tables[table].name);
    put_columns(sql, tables[table].columns, false);
    buf_printf(sql, ") SELECT * FROM file('%s', 'RowBinary', '", path);
    put_columns(sql, tables[table].columns, true);
    /* One block, so that each day is one part: all or nothing. */
    buf_printf(sql,
               "') WHERE toString(%s) NOT IN (SELECT partition FROM system.parts WHERE database = '" TABLES_DATABASE
               "' AND table = '%s' AND active AND max_block_number > %" PRIu64
               ") SETTINGS max_threads = 1, max_insert_threads = 1, min_insert_block_size_rows = 1000000000, "
               "min_insert_block_size_bytes = 1000000000000, input_format_parallel_parsing = 0",
               table == TABLE_LOGS ? "toDate(Timestamp)" : tables[table].day, tables[table].name, after_block);
}
