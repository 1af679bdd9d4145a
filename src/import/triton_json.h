/* One object of Triton's trace JSON out of a buffer that the caller fills: no copies, numbers as integers, every byte
 * looked at once. Strict in structure, for a record that is not understood is better reported than guessed at; lenient
 * inside strings, where Triton itself writes bytes that JSON does not allow (they are counted). Given to files of any
 * kind by triton_file.h. */
#pragma once

#include "model/triton_trace.h"

#include <stdlib.h>

#define TRITON_JSON_PADDING                                                                                            \
    64 /* bytes behind `end` that may be read; what stands there does not matter but for a NUL at `end` */
#define TRITON_JSON_DEPTH      64 /* of values that are skipped */
#define TRITON_JSON_STAMPS_MAX (1u << 20)

struct triton_json {
    const char *at, *end;
    const char *why;             /* it is no good */
    bool incomplete;             /* it goes on behind `end` */
    bool odd;                    /* a string held bytes that JSON does not allow, or bytes above 127 */
    bool escaped;                /* a string held a backslash */
    struct triton_stamp *stamps; /* owned, grows */
    size_t stamp_capacity;
    struct triton_facts facts; /* of the record, if it has any */
};

/* Parses the object at `p->at`, which must be '{', and moves there behind it. -EBADMSG: `p->why` tells why, `p->at`
 * where; -EAGAIN: incomplete, `p->at` is of no use; -ENOMEM. Texts stay as they are in the buffer:
 * triton_json_unescape. */
int triton_json_object(struct triton_json *p, struct triton_record *ret);

/* Skips any value at `p->at`; errors as above. */
int triton_json_skip(struct triton_json *p);

/* Resolves the backslashes of every text of a record, in place: the buffer's bytes change. */
void triton_json_unescape(struct triton_json *p, struct triton_record *record);

static inline const char *triton_json_space(const char *at)
{
    while (*at == ' ' || *at == '\n' || *at == '\t' || *at == '\r') /* NUL at the end */
        at++;
    return at;
}
