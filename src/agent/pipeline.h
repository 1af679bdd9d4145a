/* The pipeline: the one place that knows the order of the stages. It owns sources and resolvers, and hands finished
 * samples and requests to a sink. All calls come from one thread. */
#pragma once

#include "base/cleanup.h"
#include "model/attach.h"
#include "model/loss.h"
#include "model/metric.h"
#include "model/request.h"
#include "model/sample.h"
#include "sources/offcpu/offcpu.h"
#include "sources/sampling/sampling_rule_table.h"
#include "sources/source.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct interpreters;
struct line_objects;
struct pipeline;
struct pods;
struct sample_event;

/* Where finished records go; called from within pipeline_turn. */
struct pipeline_sink {
    void *context;
    int (*sample)(void *context,
                  const struct sample *sample);             /* borrows; as profile_add; NULL: no CPU samples wanted */
    int (*request)(void *context, struct request *request); /* takes; NULL: no requests wanted */
};

struct pipeline_options {
    struct source_options sources;
    bool runtimes_if_seen; /* what walks Node and Java is left out where none of sources.pids has one */
    uint64_t memory_bytes; /* bound of everything that it holds; shared out inside */
    size_t cache_entries;  /* of each cache, a power of two; 0: as many as there is memory for. Changes no output: for
                              the tests that say so */
    bool lines; /* the files of native frames are kept, for their source lines at the end (pipeline_line_objects) */
    const char
        *cri_socket; /* of the container runtime, which tells of pods; "": the usual ones; NULL: nobody is asked */
    const char *pod_labels;    /* labels of pods that become attributes, separated by commas; "": none */
    const char *record_events; /* file to write every wire record to; NULL: none */
    const char *replay;        /* file to read them from, instead of the kernel; NULL: the kernel */
};

/* Opens and attaches. `report` is filled also on failure; sources that cannot attach are left out, and the call fails
 * only when none of the wanted ones could (-EPERM, ...). Options and sink are copied. */
int pipeline_new(const struct pipeline_options *options, const struct pipeline_sink *sink, struct attach_report *report,
                 struct pipeline **ret);
void pipeline_free(struct pipeline *p);
DEFINE_FREEP(pipeline)

int pipeline_start(struct pipeline *p);
/* Between turns: publishes what these processes map, as if each had been sampled. True when the next stack of each is
 * walked whole in the kernel; false: ask again after the next turn. True where nothing can be prepared (a replay). */
bool pipeline_prepare(struct pipeline *p, const uint32_t *pids, size_t count);
/* What is under way is told as far as it has come, by the turns that follow. */
void pipeline_stop(struct pipeline *p);

/* Takes all there is, in order, to the sink. Never waits. Returns the number of wire records, or -errno; -ENODATA: a
 * replay has come to its end. */
int pipeline_turn(struct pipeline *p);

/* Only samples of these cgroups from now on, and of what is below them; for a pipeline that was opened with some.
 * -ENOSPC: too many. */
int pipeline_set_cgroups(struct pipeline *p, const uint64_t *ids, size_t count);
/* The container runtime is asked again soon; what it last said of pods. Borrowed until the next turn; NULL: nothing. */
void pipeline_ask_for_pods(struct pipeline *p);
struct pods *pipeline_pods(const struct pipeline *p);

/* Whom rules by names and labels of pods mean (sources/sampling/sampling_rule_table.h). */
void pipeline_set_sampling_pods(struct pipeline *p, const struct sampling_pod *pods, size_t count);

/* Descriptors that become readable when a turn is worth it. */
size_t pipeline_poll_fds(struct pipeline *p, int *ret_fds, size_t max);

/* How much the sources look at; see source.h. */
void pipeline_shed(struct pipeline *p, enum source_detail detail);

/* Whether waits are told now: not asked for, not attached or shed they are not. */
bool pipeline_looks_at_waits(const struct pipeline *p);

/* What threads wait for that have waited for long already is told by the next turns, and the rest of it later. */
void pipeline_tell_waits(struct pipeline *p);

void pipeline_losses(const struct pipeline *p, struct losses *ret);
void pipeline_metrics(const struct pipeline *p, const struct losses *losses, struct metric_set *set);
/* Gives back what caches hold; costs work, changes no output. */
void pipeline_trim(struct pipeline *p);
const struct interpreters *pipeline_interpreters(const struct pipeline *p);
bool pipeline_missed_runtime(const struct pipeline *p); /* a Node or a Java (that may just have begun), after what walks
                                                           them had been left out */
/* The files of the frames that were handed to the sink; NULL: not asked for. */
const struct line_objects *pipeline_line_objects(const struct pipeline *p);
/* What the samples of a replay are of, when it has come that far; NULL: of time. */
const struct sample_event *pipeline_replayed_event(const struct pipeline *p);
int pipeline_record_events_error(
    const struct pipeline *p);                       /* -ENOSPC and the like: why --record-events ended early; 0 */
uint64_t pipeline_samples(const struct pipeline *p); /* handed to the sink since the start, waits among them */
uint64_t pipeline_waits_given(
    const struct pipeline *p); /* of these: waits and times in the run queue, with what they stand for */
struct off_cpu_totals
pipeline_waits(const struct pipeline *p); /* zeros: not asked for; of a replay, but wakers_unseen */
/* Of sources.rules the one of this number, SAMPLING_RULES_MAX: of who is none; zeros: there are no rules, or no CPU
 * samples. */
struct sampling_rule_stats pipeline_sampling_rule(const struct pipeline *p, uint32_t number);
uint64_t pipeline_kernel_bytes(const struct pipeline *p); /* BPF maps and rings */
uint64_t pipeline_run_time_ns(const struct pipeline *p);  /* of BPF programs */
uint64_t pipeline_helper_cpu_ns(struct pipeline *p); /* of the processes that open files (resolve/files/file_opener.h)
                                                        and attach links (sources/link/link.h) */
