/* Encodes what an agent reports over OpAMP (AgentToServer). Pure. docs/server.md describes the contents. */
#pragma once

#include "base/buf.h"

#include <stdbool.h>
#include <stdint.h>

#include "lib/otlp/opamp_fields.h"

#define OPAMP_COMPONENTS_MAX 3

/* Of a part of the agent, or of all of it. */
struct opamp_component {
    const char *name; /* a constant; NULL: all */
    bool is_healthy;
    char status[96];
    char last_error[480]; /* "" if it is healthy */
};

struct opamp_health {
    struct opamp_component all, components[OPAMP_COMPONENTS_MAX];
    size_t component_count;
    uint64_t start_unix_ns, status_unix_ns;
};

/* Who the agent is. Borrowed strings. */
struct opamp_description {
    const char *host_name, *kernel, *machine; /* of uname */
    const char *attributes;                   /* of this node: a valid attribute_list */
};

/* A CPU or off-CPU profile that a server asks for: of a process, a container or a service. */
struct opamp_capture {
    char id[OPAMP_CAPTURE_ID_BYTES];
    bool is_known; /* false: it has members of a later version */
    bool is_off_cpu;
    uint32_t seconds, pid;
    char container[OPAMP_CAPTURE_TEXT_BYTES], service[OPAMP_CAPTURE_TEXT_BYTES]; /* pid 0, "" here: any */
};

struct opamp_capture_state {
    char id[OPAMP_CAPTURE_ID_BYTES];   /* "": there is none */
    uint32_t state;                    /* CAPTURE_RUNNING and so on */
    char why[OPAMP_CAPTURE_WHY_BYTES]; /* "" unless it failed or is refused */
    uint64_t samples;                  /* that the receiver has */
};

/* The members that are NULL are left out: the server has them from an earlier message. */

struct opamp_agent_message {
    const uint8_t *instance_uid; /* OPAMP_UID_BYTES */
    uint64_t sequence;
    const struct opamp_description *description;
    const struct opamp_health *health;
    const char *config; /* in force, as YAML */
    bool takes_captures;
    const struct opamp_capture_state *capture;
    bool is_last; /* the agent ends */
};

/* Errors are sticky in `out`. */
void opamp_agent_write(const struct opamp_agent_message *m, struct buf *out);
