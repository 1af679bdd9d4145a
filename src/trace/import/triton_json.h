/* Parses one object of Triton trace JSON in a buffer that the caller fills: no copies, integers only, single pass.
 * Strict in structure, because an unknown record is better reported than guessed; lenient inside strings, where
 * Triton itself writes bytes that JSON does not allow (they are counted). Input may be an arbitrary file
 * (triton_file.h). */
#pragma once

#include "trace/model/triton_trace.h"

#include <stdlib.h>

#define TRITON_JSON_PADDING                                                                                            \
    64 /* bytes after `end` that may be read; their content is irrelevant, except for a NUL at `end` */
#define TRITON_JSON_DEPTH      64 /* nesting of skipped values */
#define TRITON_JSON_STAMPS_MAX (1u << 20)

struct triton_json {
    const char *at, *end;
    const char *why;             /* reason of an error */
    bool incomplete;             /* the object continues after `end` */
    bool odd;                    /* a string contains bytes that JSON does not allow, or bytes above 127 */
    bool escaped;                /* a string contains a backslash */
    struct triton_stamp *stamps; /* owned; grows */
    size_t stamp_capacity;
    struct triton_facts facts; /* storage for the facts of the record */
};

/* Parses the object at `p->at`, which must be '{', and advances past it. -EBADMSG: `p->why` is the reason, `p->at`
 * the position; -EAGAIN: incomplete, `p->at` is undefined; -ENOMEM. Strings are not unescaped: see
 * triton_json_unescape. */
int triton_json_object(struct triton_json *p, struct triton_record *ret);

/* Unescapes all strings of a record in place, modifying the buffer. */
void triton_json_unescape(struct triton_json *p, struct triton_record *record);

static inline const char *triton_json_space(const char *at)
{
    while (*at == ' ' || *at == '\n' || *at == '\t' || *at == '\r') /* NUL at the end */
        at++;
    return at;
}
