/* An event of the node as an agent reports it. Plain data. */
#pragma once

#include <stdint.h>

struct agent_event {
    uint64_t time_unix_ns, duration_ns;
    uint64_t pid, launches; /* of the attributes process.pid and launches; 0: it has none */
    char name[64];
    char text[640];
    char attributes[16384]; /* a JSON object */
};
