/* What a process's SDK says of it: the message ProcessContext of OTEP 4719, which is the resource that its spans are
 * sent with. Pure, of bytes that a process wrote as it liked. */
#pragma once

#include "resolve/proc/identity.h"

#define PROCESS_CONTEXT_ATTRIBUTES_BYTES 4096

struct process_context {
    struct identity_service service;
    char attributes[PROCESS_CONTEXT_ATTRIBUTES_BYTES]; /* all others, as `attributes` of struct resource has them, by
                                                          key */
    unsigned
        left_out; /* attributes: too many, too long, not UTF-8, with control characters, or neither text nor integer */
};

/* -EBADMSG: it is no such message. */
int process_context_parse(const void *payload, size_t size, struct process_context *ret);
