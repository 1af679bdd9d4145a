/* Field numbers and values of OTLP's messages (opentelemetry-proto), by the names of its .proto files. Shared by
 * libsonde, which writes traces, metrics and the process context, and by the agent and its tools, which read and write
 * them. */
#pragma once

/* common.proto, resource.proto */
enum { KEY_VALUE_KEY = 1, KEY_VALUE_VALUE = 2 };
enum {
    ANY_VALUE_STRING = 1,
    ANY_VALUE_BOOL = 2,
    ANY_VALUE_INT = 3,
    ANY_VALUE_DOUBLE = 4,
    ANY_VALUE_ARRAY = 5,
    ANY_VALUE_MAP = 6,
    ANY_VALUE_BYTES = 7
};
enum { ARRAY_VALUES = 1 }; /* and the pairs of a map */
enum { SCOPE_NAME = 1, SCOPE_VERSION = 2, SCOPE_ATTRIBUTES = 3, SCOPE_DROPPED_ATTRIBUTES = 4 };
enum { RESOURCE_ATTRIBUTES = 1 };

/* trace.proto */
enum { TRACES_RESOURCE_SPANS = 1 }; /* of TracesData, and of ExportTraceServiceRequest (trace_service.proto) */
enum { RESOURCE_SPANS_RESOURCE = 1, RESOURCE_SPANS_SCOPE_SPANS = 2 };
enum { SCOPE_SPANS_SCOPE = 1, SCOPE_SPANS_SPANS = 2 };
enum {
    SPAN_TRACE_ID = 1,
    SPAN_ID = 2,
    SPAN_TRACE_STATE = 3,
    SPAN_PARENT_ID = 4,
    SPAN_NAME = 5,
    SPAN_KIND = 6,
    SPAN_START = 7,
    SPAN_END = 8,
    SPAN_ATTRIBUTES = 9,
    SPAN_EVENTS = 11,
    SPAN_DROPPED_EVENTS = 12,
    SPAN_LINKS = 13,
    SPAN_STATUS = 15,
    SPAN_FLAGS = 16
};
enum { SPAN_KIND_SERVER = 2 };
enum { SPAN_FLAG_SAMPLED = 1, SPAN_FLAG_KNOWS_REMOTE = 0x100, SPAN_FLAG_IS_REMOTE = 0x200 };
enum { SPAN_LINK_TRACE_ID = 1, SPAN_LINK_SPAN_ID = 2, SPAN_LINK_TRACE_STATE = 3, SPAN_LINK_ATTRIBUTES = 4 };
enum { EVENT_TIME = 1, EVENT_NAME = 2, EVENT_ATTRIBUTES = 3 };
enum { STATUS_MESSAGE = 2, STATUS_CODE = 3 };
enum { STATUS_CODE_ERROR = 2 };

/* logs.proto; its messages above log records have the numbers of those above spans */
enum {
    LOG_TIME = 1,
    LOG_SEVERITY_NUMBER = 2,
    LOG_SEVERITY_TEXT = 3,
    LOG_BODY = 5,
    LOG_ATTRIBUTES = 6,
    LOG_FLAGS = 8,
    LOG_TRACE_ID = 9,
    LOG_SPAN_ID = 10,
    LOG_OBSERVED_TIME = 11,
    LOG_EVENT_NAME = 12
};
enum { SEVERITY_WARN = 13, SEVERITY_ERROR = 17 };

/* metrics.proto */
enum { METRICS_RESOURCE_METRICS = 1 }; /* of MetricsData, and of ExportMetricsServiceRequest (metrics_service.proto) */
enum { RESOURCE_METRICS_RESOURCE = 1, RESOURCE_METRICS_SCOPE_METRICS = 2 };
enum { SCOPE_METRICS_SCOPE = 1, SCOPE_METRICS_METRICS = 2 };
enum {
    METRIC_NAME = 1,
    METRIC_DESCRIPTION = 2,
    METRIC_UNIT = 3,
    METRIC_DATA_GAUGE = 5,
    METRIC_DATA_SUM = 7,
    METRIC_DATA_HISTOGRAM = 9,
    METRIC_DATA_EXPONENTIAL = 10,
    METRIC_DATA_SUMMARY = 11
};
/* Of Gauge, Sum and Histogram, as far as each has them. */
enum { METRIC_DATA_POINTS = 1, METRIC_DATA_TEMPORALITY = 2, METRIC_DATA_IS_MONOTONIC = 3 };
enum { TEMPORALITY_CUMULATIVE = 2 };
enum { POINT_START = 2, POINT_TIME = 3 }; /* of all points */
enum {
    NUMBER_POINT_START = 2,
    NUMBER_POINT_TIME = 3,
    NUMBER_POINT_AS_DOUBLE = 4,
    NUMBER_POINT_EXEMPLARS = 5,
    NUMBER_POINT_AS_INT = 6,
    NUMBER_POINT_ATTRIBUTES = 7,
    NUMBER_POINT_FLAGS = 8
};
enum {
    HISTOGRAM_POINT_START = 2,
    HISTOGRAM_POINT_TIME = 3,
    HISTOGRAM_POINT_COUNT = 4,
    HISTOGRAM_POINT_SUM = 5,
    HISTOGRAM_POINT_BUCKETS = 6,
    HISTOGRAM_POINT_BOUNDS = 7,
    HISTOGRAM_POINT_EXEMPLARS = 8,
    HISTOGRAM_POINT_ATTRIBUTES = 9,
    HISTOGRAM_POINT_FLAGS = 10,
    HISTOGRAM_POINT_MIN = 11,
    HISTOGRAM_POINT_MAX = 12
};
enum {
    EXPONENTIAL_POINT_ATTRIBUTES = 1,
    EXPONENTIAL_POINT_COUNT = 4,
    EXPONENTIAL_POINT_SUM = 5,
    EXPONENTIAL_POINT_SCALE = 6,
    EXPONENTIAL_POINT_ZERO_COUNT = 7,
    EXPONENTIAL_POINT_POSITIVE = 8,
    EXPONENTIAL_POINT_NEGATIVE = 9,
    EXPONENTIAL_POINT_FLAGS = 10,
    EXPONENTIAL_POINT_EXEMPLARS = 11,
    EXPONENTIAL_POINT_MIN = 12,
    EXPONENTIAL_POINT_MAX = 13
};
enum { BUCKETS_OFFSET = 1, BUCKETS_COUNTS = 2 };
enum {
    SUMMARY_POINT_COUNT = 4,
    SUMMARY_POINT_SUM = 5,
    SUMMARY_POINT_QUANTILES = 6,
    SUMMARY_POINT_ATTRIBUTES = 7,
    SUMMARY_POINT_FLAGS = 8
};
enum { SUMMARY_QUANTILE = 1, SUMMARY_VALUE = 2 };
enum {
    EXEMPLAR_TIME = 2,
    EXEMPLAR_AS_DOUBLE = 3,
    EXEMPLAR_SPAN_ID = 4,
    EXEMPLAR_TRACE_ID = 5,
    EXEMPLAR_AS_INT = 6,
    EXEMPLAR_ATTRIBUTES = 7
};

/* process_context.proto */
enum { PROCESS_CONTEXT_RESOURCE = 1, PROCESS_CONTEXT_ATTRIBUTES = 2 };
