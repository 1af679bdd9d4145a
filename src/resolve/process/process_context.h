/* The resource that a process's SDK publishes about itself, the same that its spans carry: the message
 * ProcessContext of OTEP 4719. A pure parser of bytes that the process controls. */
#pragma once

#include "resolve/proc/identity.h"

#define PROCESS_CONTEXT_ATTRIBUTES_BYTES 4096

struct process_context {
    struct identity_service service;
    char attributes[PROCESS_CONTEXT_ATTRIBUTES_BYTES]; /* all other attributes, sorted by key, in the format of struct
                                                          resource's `attributes` */
    unsigned left_out; /* number of attributes dropped: too many, too long, not UTF-8, with control characters, or
                          neither string nor integer */
};

/* 0, -EBADMSG: malformed message, or -ENOMEM. */
int process_context_parse(const void *payload, size_t size, struct process_context *ret);
