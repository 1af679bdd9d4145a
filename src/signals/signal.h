/* One signal: what the kernel reports about one subject (CPU samples, off-CPU time, requests, ...), from its BPF
 * program to finished samples and requests. Its source (sources/source.h) is the kernel side; the functions here
 * consume what the source records, and also what a recording holds.
 *
 * A signal is added by its own files and one line in the table in meson.build. The pipeline names no signal: settings,
 * metrics, checks of its records and their consumption come from here. The agent, the exporters and the subcommands
 * know the types of samples (model/sample_type.h) and the requests, but not which program recorded them.
 *
 * All functions are called by the pipeline thread. `self` is what `create` returned. */
#pragma once

#include "model/loss.h"
#include "model/memory_plan.h"
#include "model/metric.h"
#include "model/node_event.h"
#include "model/opaque_port.h"
#include "model/request.h"
#include "model/sample.h"
#include "model/service_call.h"
#include "model/setting.h"
#include "model/task_filter.h"
#include "sources/events/record_type.h"
#include "sources/source.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;
struct cuda_activity;
struct event_record;
struct flight_recorder;
struct interpreters;
struct process;
struct process_threads;
struct processes;
struct recent_samples;
struct recent_waits;
struct sample_resolver;

/* What the pipeline lends to all signals. Borrowed until `destroy`. */
struct signal_services {
    const struct task_filter *filter;
    struct processes *processes;
    struct sample_resolver *resolver;
    struct interpreters *interpreters; /* the code registry */
    struct losses *losses;
    const struct sample_type *event_type;  /* sampled instead of CPU time; its name is NULL: no event */
    uint64_t memory_bytes;                 /* size of the signal's memory.kept part; valid during `create` */
    double agent_cpus;                     /* how many CPUs the whole agent may use; 0: the least */
    struct flight_recorder *recorder;      /* NULL: disabled, refused by the kernel, or a replay */
    struct recent_samples *recent_samples; /* where threads ran; NULL: requests are not wanted */
    struct recent_waits *recent_waits;     /* where they waited; likewise */
    struct cuda_activity *cuda_activity;   /* what processes do with libcuda */
    struct process_threads *threads;       /* of one process that may hang; NULL: no signal fills them */

    struct span_seed span_seed; /* zeros: requests are not exported as spans */

    void *pipeline; /* the context of: */
    /* Delivers a finished sample, request, node event, traffic that cannot be read or calls of services. emit_request
     * takes ownership, the others borrow. emit_request, emit_opaque and emit_calls are NULL where their data is not
     * wanted. */
    void (*emit_sample)(void *pipeline, const struct sample *sample);
    void (*emit_request)(void *pipeline, struct request *request);
    void (*emit_event)(void *pipeline, const struct node_event *event);
    void (*emit_opaque)(void *pipeline, const struct opaque_traffic *traffic);
    void (*emit_calls)(void *pipeline, const struct service_call_traffic *traffic);
    /* A stack of this process was recorded at `time_ns`: what the kernel lacks to unwind its next stacks is published.
     * Cheap if nothing is lacking. */
    void (*note_stack)(void *pipeline, uint32_t pid, uint64_t cgroup_id, uint64_t time_ns);
    void (*note_process_event)(void *pipeline, const struct record_header *record); /* RECORD_PROCESS_* */
    void (*note_sample_event)(void *pipeline, const struct event_record *record);   /* what a recording sampled */
};

/* Processes that started or mapped code in this turn. */
struct mapped_processes {
    const uint32_t *pids;
    size_t count;
    bool is_incomplete; /* there may be more: all processes should be scanned */
};

/* The memory that a signal needs, as parts of the agent's (memory_plan.h), and beside them. */
struct signal_memory {
    enum memory_part ring;   /* source_services.ring_bytes */
    enum memory_part tables; /* source_services.table_bytes */
    enum memory_part kept;   /* signal_services.memory_bytes */
    uint32_t fixed_bytes;    /* tables of a fixed size, in the kernel and beside it */
};

#define SIGNAL_SETTINGS_MAX_BYTES 64

/* Every signal's settings begin with whether it is enabled. */
struct signal_settings {
    bool enabled;
};

enum signal_flags {
    SIGNAL_ALWAYS = 1,    /* opened whenever any other one is; it provides nothing alone */
    SIGNAL_AUXILIARY = 2, /* provides nothing alone, and the others work without it */
    SIGNAL_UNWINDS = 4,   /* its programs use the unwind tables and contexts */
    SIGNAL_LINKS = 8,     /* it fills the table of linked threads, which is created for it */
    SIGNAL_EVENTS = 16,   /* it emits node events */
    SIGNAL_THREADS = 32,  /* it fills the list of a process's threads (process_threads.h), which is created for it */
};

struct signal {
    const char *name; /* of its directories: "offcpu" */
    const struct source *source;
    unsigned flags;

    /* It is opened only where all signals of this list are enabled; ends with NULL. NULL: always. */
    const struct signal *const *serves;

    struct signal_memory memory;

    const struct sample_type *sample_type; /* of the samples that it provides; NULL: it provides none */

    /* The records that it writes to batches, and their consumers. Ends with an entry of kind 0. NULL: nothing. */
    const struct record_type *records;

    /* Its section of the configuration: a struct that begins with struct signal_settings and is also what the source
     * gets as its options; how it begins; and its keys. `settings_bytes`: at most SIGNAL_SETTINGS_MAX_BYTES; 0: it has
     * none and is always enabled. */
    size_t settings_bytes;
    const void *defaults;
    const struct setting *settings; /* ends with an entry of key NULL */

    /* Memory for the flight recorder's rings, one of the shared tables, which are created for this signal. NULL: it
     * does not fill them. */
    uint64_t (*recorder_bytes)(const void *settings);

    /* With these settings, records concern also processes that the task filter excludes. NULL: never;
     * signal_is_node_wide: always. */
    bool (*is_node_wide)(const void *settings);

    /* Makes what consumes the records (signal_create_plain: no state of its own). `services` are borrowed until
     * `destroy`, `settings` during the call. `source` is the opened source's state, which outlives `self`; NULL in a
     * replay. Sets *ret_self to NULL if there is nothing to do. -errno: `destroy` is not called. NULL: nothing ever;
     * `self` is then NULL. */
    int (*create)(const struct signal_services *services, const void *settings, void *source, void **ret_self);
    void (*destroy)(void *self);

    /* The rest may be NULL; called only with a `self`. */
    void (*start)(void *self); /* process lifecycle events are recorded from here on; samples will follow */
    /* A process is about to execute another program: samples that wait for its mappings must be resolved now. */
    void (*before_exec)(void *self, uint32_t pid);
    /* This thread has exited; tid 0: the whole process is gone and forgotten. */
    void (*exited)(void *self, uint32_t pid, uint32_t tid);
    /* The records of a turn have been taken. Work that can wait for the next turn asks base/turn_time.h. */
    void (*turn)(void *self, const struct mapped_processes *mapped);
    uint64_t (*pending)(const void *self); /* the number of waits that it keeps for the next turn */
    void (*metrics)(void *self, struct metric_set *set);
    /* As its source's levels, for work shed where records are consumed. */
    const struct source_level *levels;
    void (*shed)(void *self, enum source_detail detail);
    /* Appends the missing data to the summary of a recording: "; 12 without a known waker". */
    void (*summarize)(void *self, struct buf *text);
};

/* The `create` of a signal without a state of its own: its `self` is the `const struct signal_services`. */
int signal_create_plain(const struct signal_services *services, const void *settings, void *source, void **ret_self);
bool signal_is_node_wide(const void *settings);

/* The first setting of every section: `key` is "<section>.enabled". */
#define SIGNAL_ENABLED(key, help)                                                                                      \
    {                                                                                                                  \
        key, SETTING_BOOL, offsetof(struct signal_settings, enabled), sizeof(bool), 0, 0, "true or false", help        \
    }
