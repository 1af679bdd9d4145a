/* Reads a server's answer over OpAMP (ServerToAgent). Pure; the bytes are untrusted. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "export/opamp_agent.h"
#include "otlp/partial_success.h"

struct opamp_reply {
    bool wants_full_state;
    bool has_new_uid; /* the agent has to use another instance UID from now on */
    uint8_t new_uid[OPAMP_UID_BYTES];
    bool has_error;                    /* the server could not use the message, and says why: */
    char error[OTLP_PARTIAL_WHY_SIZE]; /* one line; "": without a reason */
    bool has_capture;                  /* the server asks for a profile; not checked, but bounded and terminated */
    struct opamp_capture capture;
    uint64_t retry_ns; /* when to report again after this error; 0: as usual */
};

/* 0. -EBADMSG: the answer is invalid. -ENXIO: it is for an agent with another instance UID. */
int opamp_reply_read(const void *body, size_t size, const uint8_t uid[OPAMP_UID_BYTES], struct opamp_reply *ret);
