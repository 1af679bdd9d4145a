/* The dictionary of a request of profiles: rows that samples refer to by index. Untrusted: each row is decoded once,
 * however many samples or rows refer to it, so that the work is bounded by the size of the request. */
#pragma once

#include "base/buf.h"
#include "base/cursor.h"
#include "lib/otlp/profile_fields.h"

#include <stdint.h>

#define PROFILE_ROWS_MAX   500000 /* of the dictionary */
#define PROFILE_FRAMES_MAX 500000 /* of all locations */
#define PROFILE_DEPTH_MAX  2048   /* frames of a stack */

/* The days for which a frame or stack has a row in the tables: a bit for each. Accepted times are less than 128 days
 * apart. */
struct profile_days {
    uint64_t bits[2];
};

struct profile_attribute {
    struct cursor key;
    struct cursor text; /* of a value that is a string; else empty */
    uint64_t integer;   /* of a value that is one; else 0 */
    size_t first, size; /* key and value as an element of a Map, in `pairs` of the dictionary */
};

struct profile_mapping {
    struct cursor file, build_id;
};

struct profile_function {
    struct cursor name, system_name, file;
};

struct profile_frame_row {
    uint32_t function, mapping; /* indices */
    struct cursor type;         /* "native", "kernel" and so on */
    uint64_t line, address;
    uint64_t hash; /* of the frame, its function and its mapping */
    struct profile_days days;
};

struct profile_location {
    uint32_t first_frame, frames; /* the innermost first: functions inlined at this location have frames */
};

struct profile_link_row {
    struct cursor trace_id, span_id;
};

struct profile_stack_row {
    struct cursor row;
    uint64_t hash; /* valid if it has days */
    struct profile_days days;
};

/* Members have as many elements as their table has rows, and at least one: row 0, which is empty. */
struct profile_dictionary {
    uint32_t counts[OTLP_TABLES + 1], frame_count; /* by enum otlp_table */
    struct cursor *strings;
    struct profile_attribute *attributes;
    struct buf pairs;
    struct profile_mapping *mappings;
    struct profile_function *functions;
    struct profile_location *locations;
    struct profile_frame_row *frames;
    struct profile_link_row *links;
    struct profile_stack_row *stacks;
};

/* Decodes a message ProfilesDictionary. `ret` borrows from `message`, and the caller clears it also after an error. An
 * index that does not exist counts as 0. Returns 0, -EBADMSG, -EFBIG or -ENOMEM. */
int profile_dictionary_read(struct cursor message, struct profile_dictionary *ret);
void profile_dictionary_clear(struct profile_dictionary *d);

/* `index`, or 0 if the table has no such row. */
uint32_t profile_index(const struct profile_dictionary *d, enum otlp_table table, uint64_t index);

/* Finds the frames of a stack, the innermost first: their indices. 0, -EBADMSG, or -EFBIG: it has more than
 * PROFILE_DEPTH_MAX. */
int profile_stack_frames(const struct profile_dictionary *d, const struct profile_stack_row *stack,
                         uint32_t ret[PROFILE_DEPTH_MAX], uint32_t *ret_count);
/* The name of a frame: its function, or file and address. */
void profile_frame_put_name(const struct profile_dictionary *d, const struct profile_frame_row *frame, struct buf *row);
