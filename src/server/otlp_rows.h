/* Decodes OTLP requests (protobuf) into rows of the tables. The bytes are untrusted. */
#pragma once

#include "base/buf.h"
#include "base/cursor.h"
#include "server/tables.h"

#define OTLP_ROWS_MAX_BYTES ((size_t)32 << 20) /* of one request, as rows: each row repeats its resource */
#define OTLP_ROWS_MAX       200000             /* of one request */
#define OTLP_ELEMENTS_MAX   4000000            /* of maps, of one request: the engine needs 20 bytes for each */
#define OTLP_WHY_BYTES      160

struct known_rows;
struct profile_dictionary;

struct otlp_rows {
    uint64_t from_ns, to_ns;  /* rows of other times are rejected: the engine would not keep them. Set by the caller */
    struct known_rows *known; /* rows that need not be stored again. Set by the caller; NULL: none */
    struct buf stored;        /* what these rows add to the known ones when they are stored: uint64_t */
    struct buf tables[TABLE_COUNT];
    uint32_t counts[TABLE_COUNT];
    uint64_t elements;                     /* of maps in the rows */
    uint64_t rejected;                     /* spans, log records, points, samples */
    char why[OTLP_WHY_BYTES];              /* of the first one */
    struct profile_dictionary *dictionary; /* of the request that is being decoded */
};

/* One kind of requests: ExportTraceServiceRequest and so on. */
struct otlp_signal {
    const char *path;                   /* over HTTP */
    const char *method;                 /* over gRPC: the path of its method Export */
    const char *rejected;               /* JSON's name of the number of rejected items */
    const struct otlp_json_field *json; /* the request in JSON; NULL: only protobuf */
    /* Appends the rows of a request. 0; -EBADMSG: it is invalid; -ELOOP: values in values too deep; -EFBIG: it makes
     * too many rows; -ENOMEM. After an error the rows are worthless. */
    int (*decode)(struct cursor request, struct otlp_rows *rows);
};

extern const struct otlp_signal otlp_traces, otlp_logs, otlp_metrics, otlp_profiles;

/* The signal of this path over HTTP, or over gRPC; NULL: none. */
const struct otlp_signal *otlp_signal_of_path(const char *path);
const struct otlp_signal *otlp_signal_of_method(const char *method);

void otlp_rows_clear(struct otlp_rows *rows);
#define _cleanup_otlp_rows_ _cleanup_(otlp_rows_clear)

/* ---- for the decoders ---- */

/* What all rows of a ResourceSpans, ResourceLogs or ResourceMetrics have in common. */
struct otlp_resource {
    struct buf attributes;    /* as a Map */
    struct buf service, host; /* service.name and host.name, as a String each */
    struct cursor schema_url;
    uint64_t elements; /* of the attributes */
};
struct otlp_scope {
    struct cursor name, version, schema_url;
    struct buf attributes; /* as a Map */
    uint64_t dropped_attributes, elements;
};

/* What decodes one span, log record or metric into rows. */
typedef int otlp_decode_item(struct cursor item, const struct otlp_resource *resource, const struct otlp_scope *scope,
                             struct otlp_rows *rows);

/* Walks a request, whose messages have the same field numbers in all signals: resources, scopes, items. */
int otlp_walk(struct cursor request, struct otlp_rows *rows, otlp_decode_item *decode);

/* 0, -ENOMEM, or -EFBIG: the rows of all tables are beyond the limits. To be called after each row. */
int otlp_rows_check(const struct otlp_rows *rows);
/* Counts an item as rejected. */
void otlp_reject(struct otlp_rows *rows, const char *why);
/* Whether an item of this time is kept; otherwise it is rejected. */
bool otlp_accepts_time(struct otlp_rows *rows, uint64_t time_ns);
/* Whether the id has this size and is not zero. */
bool otlp_id_is_valid(struct cursor id, size_t size);
