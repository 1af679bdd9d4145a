/* The messages of OTLP in JSON; see otlp_json.h. */
#include "server/otlp_json.h"

#include "lib/otlp/fields.h"

typedef const struct otlp_json_field fields[];

/* ---- common.proto, resource.proto ---- */

static const struct otlp_json_field any_value[8];

static fields key_value = {
    {"key", KEY_VALUE_KEY, OTLP_JSON_STRING, NULL}, {"value", KEY_VALUE_VALUE, OTLP_JSON_MESSAGE, any_value}, {0}};
static fields values = {{"values", ARRAY_VALUES, OTLP_JSON_MESSAGES, any_value}, {0}};
static fields pairs = {{"values", ARRAY_VALUES, OTLP_JSON_MESSAGES, key_value}, {0}};
static const struct otlp_json_field any_value[8] = {{"stringValue", ANY_VALUE_STRING, OTLP_JSON_STRING, NULL},
                                                    {"boolValue", ANY_VALUE_BOOL, OTLP_JSON_BOOL, NULL},
                                                    {"intValue", ANY_VALUE_INT, OTLP_JSON_VARINT, NULL},
                                                    {"doubleValue", ANY_VALUE_DOUBLE, OTLP_JSON_DOUBLE, NULL},
                                                    {"arrayValue", ANY_VALUE_ARRAY, OTLP_JSON_MESSAGE, values},
                                                    {"kvlistValue", ANY_VALUE_MAP, OTLP_JSON_MESSAGE, pairs},
                                                    {"bytesValue", ANY_VALUE_BYTES, OTLP_JSON_BASE64, NULL},
                                                    {0}};
static fields resource = {{"attributes", RESOURCE_ATTRIBUTES, OTLP_JSON_MESSAGES, key_value}, {0}};
static fields scope = {{"name", SCOPE_NAME, OTLP_JSON_STRING, NULL},
                       {"version", SCOPE_VERSION, OTLP_JSON_STRING, NULL},
                       {"attributes", SCOPE_ATTRIBUTES, OTLP_JSON_MESSAGES, key_value},
                       {"droppedAttributesCount", SCOPE_DROPPED_ATTRIBUTES, OTLP_JSON_VARINT, NULL},
                       {0}};

/* A request has resources, these have scopes, these have items: with the same numbers in all signals. */
#define SCHEMA_URL                                                                                                     \
    {                                                                                                                  \
        "schemaUrl", 3, OTLP_JSON_STRING, NULL                                                                         \
    }
#define REQUEST(signal, resources, scopes, items, item)                                                                \
    static fields signal##_of_scope = {{"scope", SCOPE_SPANS_SCOPE, OTLP_JSON_MESSAGE, scope},                         \
                                       {items, SCOPE_SPANS_SPANS, OTLP_JSON_MESSAGES, item},                           \
                                       SCHEMA_URL,                                                                     \
                                       {0}};                                                                           \
    static fields signal##_of_resource = {{"resource", RESOURCE_SPANS_RESOURCE, OTLP_JSON_MESSAGE, resource},          \
                                          {scopes, RESOURCE_SPANS_SCOPE_SPANS, OTLP_JSON_MESSAGES, signal##_of_scope}, \
                                          SCHEMA_URL,                                                                  \
                                          {0}};                                                                        \
    fields otlp_json_##signal = {{resources, TRACES_RESOURCE_SPANS, OTLP_JSON_MESSAGES, signal##_of_resource}, {0}}

/* ---- trace.proto ---- */

static fields event = {{"timeUnixNano", EVENT_TIME, OTLP_JSON_FIXED64, NULL},
                       {"name", EVENT_NAME, OTLP_JSON_STRING, NULL},
                       {"attributes", EVENT_ATTRIBUTES, OTLP_JSON_MESSAGES, key_value},
                       {0}};
static fields span_link = {{"traceId", SPAN_LINK_TRACE_ID, OTLP_JSON_HEX, NULL},
                           {"spanId", SPAN_LINK_SPAN_ID, OTLP_JSON_HEX, NULL},
                           {"traceState", SPAN_LINK_TRACE_STATE, OTLP_JSON_STRING, NULL},
                           {"attributes", SPAN_LINK_ATTRIBUTES, OTLP_JSON_MESSAGES, key_value},
                           {0}};
static fields status = {
    {"message", STATUS_MESSAGE, OTLP_JSON_STRING, NULL}, {"code", STATUS_CODE, OTLP_JSON_VARINT, NULL}, {0}};
static fields span = {{"traceId", SPAN_TRACE_ID, OTLP_JSON_HEX, NULL},
                      {"spanId", SPAN_ID, OTLP_JSON_HEX, NULL},
                      {"traceState", SPAN_TRACE_STATE, OTLP_JSON_STRING, NULL},
                      {"parentSpanId", SPAN_PARENT_ID, OTLP_JSON_HEX, NULL},
                      {"name", SPAN_NAME, OTLP_JSON_STRING, NULL},
                      {"kind", SPAN_KIND, OTLP_JSON_VARINT, NULL},
                      {"startTimeUnixNano", SPAN_START, OTLP_JSON_FIXED64, NULL},
                      {"endTimeUnixNano", SPAN_END, OTLP_JSON_FIXED64, NULL},
                      {"attributes", SPAN_ATTRIBUTES, OTLP_JSON_MESSAGES, key_value},
                      {"events", SPAN_EVENTS, OTLP_JSON_MESSAGES, event},
                      {"links", SPAN_LINKS, OTLP_JSON_MESSAGES, span_link},
                      {"status", SPAN_STATUS, OTLP_JSON_MESSAGE, status},
                      {0}};
REQUEST(traces, "resourceSpans", "scopeSpans", "spans", span);

/* ---- logs.proto ---- */

static fields record = {{"timeUnixNano", LOG_TIME, OTLP_JSON_FIXED64, NULL},
                        {"observedTimeUnixNano", LOG_OBSERVED_TIME, OTLP_JSON_FIXED64, NULL},
                        {"severityNumber", LOG_SEVERITY_NUMBER, OTLP_JSON_VARINT, NULL},
                        {"severityText", LOG_SEVERITY_TEXT, OTLP_JSON_STRING, NULL},
                        {"body", LOG_BODY, OTLP_JSON_MESSAGE, any_value},
                        {"attributes", LOG_ATTRIBUTES, OTLP_JSON_MESSAGES, key_value},
                        {"flags", LOG_FLAGS, OTLP_JSON_FIXED32, NULL},
                        {"traceId", LOG_TRACE_ID, OTLP_JSON_HEX, NULL},
                        {"spanId", LOG_SPAN_ID, OTLP_JSON_HEX, NULL},
                        {"eventName", LOG_EVENT_NAME, OTLP_JSON_STRING, NULL},
                        {0}};
REQUEST(logs, "resourceLogs", "scopeLogs", "logRecords", record);

/* ---- metrics.proto ---- */

static fields exemplar = {{"timeUnixNano", EXEMPLAR_TIME, OTLP_JSON_FIXED64, NULL},
                          {"asDouble", EXEMPLAR_AS_DOUBLE, OTLP_JSON_DOUBLE, NULL},
                          {"asInt", EXEMPLAR_AS_INT, OTLP_JSON_FIXED64, NULL},
                          {"spanId", EXEMPLAR_SPAN_ID, OTLP_JSON_HEX, NULL},
                          {"traceId", EXEMPLAR_TRACE_ID, OTLP_JSON_HEX, NULL},
                          {"filteredAttributes", EXEMPLAR_ATTRIBUTES, OTLP_JSON_MESSAGES, key_value},
                          {0}};
#define POINT_TIMES                                                                                                    \
    {"startTimeUnixNano", POINT_START, OTLP_JSON_FIXED64, NULL},                                                       \
    {                                                                                                                  \
        "timeUnixNano", POINT_TIME, OTLP_JSON_FIXED64, NULL                                                            \
    }
static fields number_point = {POINT_TIMES,
                              {"asDouble", NUMBER_POINT_AS_DOUBLE, OTLP_JSON_DOUBLE, NULL},
                              {"asInt", NUMBER_POINT_AS_INT, OTLP_JSON_FIXED64, NULL},
                              {"exemplars", NUMBER_POINT_EXEMPLARS, OTLP_JSON_MESSAGES, exemplar},
                              {"attributes", NUMBER_POINT_ATTRIBUTES, OTLP_JSON_MESSAGES, key_value},
                              {"flags", NUMBER_POINT_FLAGS, OTLP_JSON_VARINT, NULL},
                              {0}};
static fields histogram_point = {POINT_TIMES,
                                 {"count", HISTOGRAM_POINT_COUNT, OTLP_JSON_FIXED64, NULL},
                                 {"sum", HISTOGRAM_POINT_SUM, OTLP_JSON_DOUBLE, NULL},
                                 {"bucketCounts", HISTOGRAM_POINT_BUCKETS, OTLP_JSON_FIXED64S, NULL},
                                 {"explicitBounds", HISTOGRAM_POINT_BOUNDS, OTLP_JSON_DOUBLES, NULL},
                                 {"exemplars", HISTOGRAM_POINT_EXEMPLARS, OTLP_JSON_MESSAGES, exemplar},
                                 {"attributes", HISTOGRAM_POINT_ATTRIBUTES, OTLP_JSON_MESSAGES, key_value},
                                 {"flags", HISTOGRAM_POINT_FLAGS, OTLP_JSON_VARINT, NULL},
                                 {"min", HISTOGRAM_POINT_MIN, OTLP_JSON_DOUBLE, NULL},
                                 {"max", HISTOGRAM_POINT_MAX, OTLP_JSON_DOUBLE, NULL},
                                 {0}};
static fields buckets = {
    {"offset", BUCKETS_OFFSET, OTLP_JSON_ZIGZAG, NULL}, {"bucketCounts", BUCKETS_COUNTS, OTLP_JSON_VARINTS, NULL}, {0}};
static fields exponential_point = {POINT_TIMES,
                                   {"attributes", EXPONENTIAL_POINT_ATTRIBUTES, OTLP_JSON_MESSAGES, key_value},
                                   {"count", EXPONENTIAL_POINT_COUNT, OTLP_JSON_FIXED64, NULL},
                                   {"sum", EXPONENTIAL_POINT_SUM, OTLP_JSON_DOUBLE, NULL},
                                   {"scale", EXPONENTIAL_POINT_SCALE, OTLP_JSON_ZIGZAG, NULL},
                                   {"zeroCount", EXPONENTIAL_POINT_ZERO_COUNT, OTLP_JSON_FIXED64, NULL},
                                   {"positive", EXPONENTIAL_POINT_POSITIVE, OTLP_JSON_MESSAGE, buckets},
                                   {"negative", EXPONENTIAL_POINT_NEGATIVE, OTLP_JSON_MESSAGE, buckets},
                                   {"flags", EXPONENTIAL_POINT_FLAGS, OTLP_JSON_VARINT, NULL},
                                   {"exemplars", EXPONENTIAL_POINT_EXEMPLARS, OTLP_JSON_MESSAGES, exemplar},
                                   {"min", EXPONENTIAL_POINT_MIN, OTLP_JSON_DOUBLE, NULL},
                                   {"max", EXPONENTIAL_POINT_MAX, OTLP_JSON_DOUBLE, NULL},
                                   {0}};
static fields quantile = {
    {"quantile", SUMMARY_QUANTILE, OTLP_JSON_DOUBLE, NULL}, {"value", SUMMARY_VALUE, OTLP_JSON_DOUBLE, NULL}, {0}};
static fields summary_point = {POINT_TIMES,
                               {"count", SUMMARY_POINT_COUNT, OTLP_JSON_FIXED64, NULL},
                               {"sum", SUMMARY_POINT_SUM, OTLP_JSON_DOUBLE, NULL},
                               {"quantileValues", SUMMARY_POINT_QUANTILES, OTLP_JSON_MESSAGES, quantile},
                               {"attributes", SUMMARY_POINT_ATTRIBUTES, OTLP_JSON_MESSAGES, key_value},
                               {"flags", SUMMARY_POINT_FLAGS, OTLP_JSON_VARINT, NULL},
                               {0}};
#define POINTS(point)                                                                                                  \
    {                                                                                                                  \
        "dataPoints", METRIC_DATA_POINTS, OTLP_JSON_MESSAGES, point                                                    \
    }
#define TEMPORALITY                                                                                                    \
    {                                                                                                                  \
        "aggregationTemporality", METRIC_DATA_TEMPORALITY, OTLP_JSON_VARINT, NULL                                      \
    }
static fields gauge = {POINTS(number_point), {0}};
static fields sum = {
    POINTS(number_point), TEMPORALITY, {"isMonotonic", METRIC_DATA_IS_MONOTONIC, OTLP_JSON_BOOL, NULL}, {0}};
static fields histogram = {POINTS(histogram_point), TEMPORALITY, {0}};
static fields exponential = {POINTS(exponential_point), TEMPORALITY, {0}};
static fields summary = {POINTS(summary_point), {0}};
static fields metric = {{"name", METRIC_NAME, OTLP_JSON_STRING, NULL},
                        {"description", METRIC_DESCRIPTION, OTLP_JSON_STRING, NULL},
                        {"unit", METRIC_UNIT, OTLP_JSON_STRING, NULL},
                        {"gauge", METRIC_DATA_GAUGE, OTLP_JSON_MESSAGE, gauge},
                        {"sum", METRIC_DATA_SUM, OTLP_JSON_MESSAGE, sum},
                        {"histogram", METRIC_DATA_HISTOGRAM, OTLP_JSON_MESSAGE, histogram},
                        {"exponentialHistogram", METRIC_DATA_EXPONENTIAL, OTLP_JSON_MESSAGE, exponential},
                        {"summary", METRIC_DATA_SUMMARY, OTLP_JSON_MESSAGE, summary},
                        {0}};
REQUEST(metrics, "resourceMetrics", "scopeMetrics", "metrics", metric);
