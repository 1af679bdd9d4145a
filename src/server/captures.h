/* The profiles that clients ask agents for. Each is given to the agents of its host, one at a time for each host,
 * until an agent says how it went, or CAPTURES_FORGET_NS are over. Bounded; thread-safe. */
#pragma once

#include "base/address.h"
#include "base/cleanup.h"
#include "lib/otlp/opamp_fields.h"
#include "server/agents.h"

#include <stdbool.h>
#include <stdint.h>

#define CAPTURES_MAX         64
#define CAPTURES_FORGET_NS   (900 * 1000000000ull) /* from the request: more than the longest interval of reports */
#define CAPTURES_TOKEN_BYTES 17

struct capture {
    char id[OPAMP_CAPTURE_ID_BYTES];
    uint32_t state; /* CAPTURE_RUNNING and so on; 0: no agent has it */
    uint64_t asked_ns;
    char host[AGENT_TEXT_BYTES];
    bool is_off_cpu;
    uint32_t seconds, pid;
    char container[OPAMP_CAPTURE_TEXT_BYTES], service[OPAMP_CAPTURE_TEXT_BYTES]; /* pid 0, "" here: any */
    char token[CAPTURES_TOKEN_BYTES]; /* of who asks: the first hexadecimal digits of its hash */
    char address[ADDRESS_TEXT_BYTES];
};

struct captures;

/* 0 or -ENOMEM. */
int captures_new(struct captures **ret);
void captures_free(struct captures *c);
DEFINE_FREEP(captures)

/* 0. -EBUSY: there are CAPTURES_MAX. */
int captures_add(struct captures *c, const struct capture *capture);
/* The capture that an agent of the host has to begin now. False: none. */
bool captures_next(struct captures *c, const char *host, struct capture *ret);
/* Copies the capture of this host, if it has another state than `state`. False: there is none, or it has that state. */
bool captures_find(struct captures *c, const char *host, const char *id, uint32_t state, struct capture *ret);
/* The capture has this state, if it is known. It is forgotten when it has ended. */
void captures_set_state(struct captures *c, const char *id, uint32_t state);
/* Forgets a capture whose time is over, and copies it. False: there is none. */
bool captures_expire(struct captures *c, uint64_t now_ns, struct capture *ret);
