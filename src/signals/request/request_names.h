/* Provides diagnose_request with names: of processes, threads, files and peers, and with stacks. */
#pragma once

#include "diagnose/request.h"
#include "resolve/process/processes.h"
#include "sources/sampling/cgroup_memory.h"

#define SERVED_PORTS_MAX 256

/* The ports of processes that served requests: the latest one whose PID has this remainder. Initially zeros. */
struct served_ports {
    struct {
        uint32_t pid;
        uint16_t port;
    } ports[SERVED_PORTS_MAX];
};

void served_ports_note(struct served_ports *s, uint32_t pid, uint16_t port);
/* The port that the process serves requests on; 0: not known. */
uint16_t served_ports_find(const struct served_ports *s, uint32_t pid);

/* All members are borrowed. */
struct request_namer {
    const struct flight_recorder *recorder; /* NULL: no recorder */
    const struct recent_samples *recent_samples;
    struct recent_waits *recent_waits;
    struct processes *processes; /* NULL: their resources are not known */
    void *source;                /* of requests; NULL: a replay */
    const struct served_ports *served;
    struct cgroup_names *cgroups;
    uint64_t cgroup_id;                    /* the last one that was named: */
    char cgroup[CGROUP_MEMORY_TEXT_BYTES]; /* its text */
};

/* Valid as long as `n`. */
struct request_names request_names_by(struct request_namer *n);
