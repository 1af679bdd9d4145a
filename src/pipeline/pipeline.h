/* The pipeline: defines the order of the stages. It owns sources and resolvers, and passes finished samples and
 * requests to a sink. All calls come from one thread. */
#pragma once

#include "base/cleanup.h"
#include "config/config.h"
#include "model/attach.h"
#include "model/loss.h"
#include "model/metric.h"
#include "model/node_event.h"
#include "model/opaque_port.h"
#include "model/request.h"
#include "model/sample.h"
#include "model/service_call.h"
#include "model/task_filter.h"
#include "sources/sampling/sampling_rule_table.h"
#include "sources/source.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;
struct cuda_activity;
struct interpreters;
struct line_objects;
struct pipeline;
struct pods;
struct process_threads;
struct sample_event;

/* Receives finished records; called from within pipeline_turn. */
struct pipeline_sink {
    void *context;
    int (*sample)(void *context, const struct sample *sample);   /* borrows; returns like profile_add; NULL: none */
    int (*request)(void *context, struct request *request);      /* takes ownership; NULL: none */
    int (*event)(void *context, const struct node_event *event); /* borrows; -errno: not kept; NULL: none */
    void (*opaque)(void *context, const struct opaque_traffic *traffic);      /* borrows; NULL: none */
    void (*calls)(void *context, const struct service_call_traffic *traffic); /* likewise */
};

struct pipeline_options {
    const struct config *config; /* which signals are enabled, and their settings; NULL: the defaults */
    struct task_filter filter;   /* which tasks are monitored */
    uint32_t sample_hz;          /* see struct source_services */
    const struct sampling_rules *rules;
    const struct sample_event *event;
    /* How the memory is divided; NULL: memory_bytes, among the parts of the pipeline. */
    const struct memory_plan *memory;
    uint64_t memory_bytes;
    double unwind_share;        /* of one CPU, for building unwind tables; 0: unlimited */
    bool runtimes_if_seen;      /* load the unwinders of Node and Java only if one of filter.pids runs such a runtime */
    size_t cache_entries;       /* of each cache, a power of two; 0: derived from their memory. Does not change the
                                 * output; for tests */
    bool lines;                 /* keep the files of native frames, to resolve source lines (pipeline_line_objects) */
    const char *cri_socket;     /* of the container runtime; "": the default paths; NULL: no pod names */
    const char *pod_labels;     /* labels of pods that become attributes, separated by commas; "": none */
    struct span_seed span_seed; /* of the spans of requests; zeros: they have none */
    const char *record_events;  /* file to write every event record to; NULL: none */
    const char *replay;         /* file to read event records from instead of the kernel; NULL: the kernel */
};

/* Opens and attaches the sources. `report` is filled also on failure. Sources that cannot attach are skipped; the
 * call fails only if none of the wanted sources could attach (-EPERM, ...). Options and sink are copied; `event` must
 * outlive the pipeline and the profiles it fills, because the type of its samples refers to it. The caller frees
 * `*ret`. */
int pipeline_new(const struct pipeline_options *options, const struct pipeline_sink *sink, struct attach_report *report,
                 struct pipeline **ret);
void pipeline_free(struct pipeline *p);
DEFINE_FREEP(pipeline)

/* Starts all sources, once: process lifecycle events first, so that no process of a sample is missed. -errno: a source
 * cannot start (logged); `p` can only be freed. */
int pipeline_start(struct pipeline *p);
/* Between turns: publishes the mappings of the processes `pids` as if each had been sampled. True when the next stack
 * of each process can be unwound completely in the kernel; false: call again after the next turn. True where nothing
 * can be prepared (a replay). */
bool pipeline_prepare(struct pipeline *p, const uint32_t *pids, size_t count);
/* Stops the sources. In-flight records are flushed; the next turns return them. Failures are logged. */
void pipeline_stop(struct pipeline *p);

/* Processes the available records in time order. Where the calling thread has limits (turn_time_begin), it stops when
 * they are reached; the next turn goes on, and only then reads the sources again. Returns the number of event records
 * that it processed, or -errno: a source or the recording is broken, and so will later turns be; -ENODATA: end of a
 * replay. */
int pipeline_turn(struct pipeline *p);
/* After the last turn: drops the records and waits that the turns had no time for, and counts them as
 * LOSS_NOT_RESOLVED. Returns their number. */
uint64_t pipeline_drop_rest(struct pipeline *p);

/* Restricts sampling to these cgroups and their descendants from now on; only for a pipeline that was opened with
 * cgroups. -ENOSPC: too many. */
int pipeline_set_cgroups(struct pipeline *p, const uint64_t *ids, size_t count);
/* pipeline_ask_for_pods schedules a query of the container runtime; pipeline_pods returns its last reply, borrowed
 * until the next turn; NULL: none. */
void pipeline_ask_for_pods(struct pipeline *p);
struct pods *pipeline_pods(const struct pipeline *p);

/* Replaces the sampling rules. -EOPNOTSUPP: the loaded programs cannot apply them (sampling_rules_can_replace), or the
 * pipeline was opened without rules. */
int pipeline_set_sampling_rules(struct pipeline *p, const struct sampling_rules *rules);
/* The pods that match rules by pod name or label (sources/sampling/sampling_rule_table.h). */
void pipeline_set_sampling_pods(struct pipeline *p, const struct sampling_pod *pods, size_t count);

/* Descriptors that become readable when there are records to process. Returns their number. */
size_t pipeline_poll_fds(struct pipeline *p, int *ret_fds, size_t max);

/* Sets the level of detail of all sources; see source.h. */
void pipeline_shed(struct pipeline *p, enum source_detail detail);
/* The levels that change the output of an open signal: a bit `1u << enum source_detail` for each. */
unsigned pipeline_detail_levels(const struct pipeline *p);
/* Passes to `take`, in words for users, the signals at the level `detail`: the reduced ones, or (`is_reduced`
 * false) the complete ones. Any thread. */
void pipeline_describe_detail(const struct pipeline *p, enum source_detail detail, bool is_reduced,
                              void (*take)(void *context, const char *what), void *context);

/* Whether samples of this type are taken now: false if not requested, not attached or disabled by the budget. */
bool pipeline_monitors(const struct pipeline *p, const struct sample_type *type);

/* How many samples of this type were recorded, without those that random sampling skips; 0: unknown. */
uint64_t pipeline_recorded(const struct pipeline *p, const struct sample_type *type);

/* Flushes records in progress: the next turns return the time so far, and a later one the rest. */
void pipeline_flush(struct pipeline *p);

/* All losses since the start, of sources and of later stages: sets `ret`. */
void pipeline_losses(const struct pipeline *p, struct losses *ret);
void pipeline_metrics(const struct pipeline *p, const struct losses *losses, struct metric_set *set);
/* Changes the limits of the caches in MEMORY_RESIZABLE. */
void pipeline_set_memory(struct pipeline *p, const struct memory_plan *memory);
/* Trims caches; costs recomputation, does not change the output. */
void pipeline_trim(struct pipeline *p);
const struct interpreters *pipeline_interpreters(const struct pipeline *p);
/* Whether a Node or Java process (or one that may be starting) was seen although their unwinders are not loaded. */
bool pipeline_missed_runtime(const struct pipeline *p);
/* The files of the frames that were passed to the sink; NULL: not requested. */
const struct line_objects *pipeline_line_objects(const struct pipeline *p);
/* What processes do with libcuda, and the threads of one that may hang: borrowed; empty or NULL if no signal
 * fills them. */
const struct cuda_activity *pipeline_cuda_activity(const struct pipeline *p);
struct process_threads *pipeline_threads(struct pipeline *p);
/* The sampling event of a replay, once its record has been read; NULL: time-based samples. */
const struct sample_event *pipeline_replayed_event(const struct pipeline *p);
/* Why --record-events ended early (-ENOSPC and the like); 0: it did not. */
int pipeline_record_events_error(const struct pipeline *p);
/* Samples passed to the sink since the start, including off-CPU samples. */
uint64_t pipeline_samples(const struct pipeline *p);
/* Off-CPU samples among pipeline_samples: waits and run-queue times, each occurrence counted. */
uint64_t pipeline_waits_given(const struct pipeline *p);
/* Appends what the signals say about what the samples lack: "; 12 without a known waker". */
void pipeline_summarize(const struct pipeline *p, struct buf *text);
/* Statistics of rule `number` of the current ones; SAMPLING_RULES_MAX: of threads that match no rule. All zero if there
 * are no rules or no CPU samples. */
struct sampling_rule_stats pipeline_sampling_rule(const struct pipeline *p, uint32_t number);
uint64_t pipeline_kernel_bytes(const struct pipeline *p); /* BPF maps and rings */
uint64_t pipeline_run_time_ns(const struct pipeline *p);  /* of BPF programs */
/* CPU time of the helper processes that open files (resolve/files/file_opener.h) and attach links
 * (sources/link/link.h). */
uint64_t pipeline_helper_cpu_ns(struct pipeline *p);
