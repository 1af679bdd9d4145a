/* Traffic that cannot be read as HTTP, on connections that servers of this node accepted. Plain data. */
#pragma once

#include <stdint.h>

enum opaque_protocol {
    OPAQUE_UNKNOWN, /* neither of the following: a database, HTTP/1 that is read by io_uring, ... */
    OPAQUE_TLS,
    OPAQUE_PROTOCOLS
};

/* "unknown protocol", "TLS" */
const char *opaque_protocol_name(enum opaque_protocol protocol);

/* The traffic since the last record of the same port, process and protocol. Strings are borrowed. */
struct opaque_traffic {
    uint64_t time_ns; /* CLOCK_MONOTONIC */
    uint16_t port; /* that the server listens on; 0: of servers that did not fit the kernel's table, without a name */
    enum opaque_protocol protocol;
    const char *process;  /* the name of its service, or of the program */
    uint64_t bytes;       /* received and sent */
    uint64_t connections; /* that began */
};

/* A port over some time. */
struct opaque_port {
    uint16_t port; /* as above */
    enum opaque_protocol protocol;
    char process[64];
    double bytes_per_second;
    uint64_t connections; /* that began, since the agent's start */
};
