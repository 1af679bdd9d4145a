/* See gpu_hang_observe.h. A pipeline without an agent: the same sources that an agent with cuda.enabled has, and the
 * CPU profile of this process. */
#include "gpu_report/gpu_hang_observe.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/units.h"
#include "client/agent_client.h"
#include "config/config.h"
#include "gpu_report/gpu_hang_report.h"
#include "gpu_report/gpu_view.h"
#include "pipeline/loop.h"
#include "pipeline/pipeline.h"
#include "resolve/proc/proc_files.h"
#include "signals/cuda_activity.h"
#include "sources/attach/privileges.h"
#include "sources/gpu/nccl_ras_client.h"
#include "sources/gpu/nvml_client.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define MEMORY_BYTES   (64 << 20)
#define SAMPLE_HZ      99
#define OBSERVE_NS     5000000000ull  /* at least: calls of libcuda are counted after a second or so */
#define ASK_NS         3500000000ull  /* for the threads: where they are at the end */
#define OBSERVE_MAX_NS 15000000000ull /* stacks may wait for unwind tables, and calls for the library to be found */
#define POLL_NS        1000000000ull
#define EVENTS_S       3600

struct observation {
    uint32_t pid, inner_pid; /* inner: in its own PID namespace */
    struct pipeline *pipeline;
    struct nvml_client *gpus;
    uint64_t start_ns;
    bool is_asked;
    struct cuda_activity_process first, last; /* of its calls; pid 0: they are not counted yet */
    uint64_t first_ns, last_ns;
    struct gpu_list next; /* the poll that is being received */
    uint64_t polls;
    bool has_device;
    uint32_t device;
    bool is_shared;
    unsigned busy_min;
    struct nccl_ras_client ras;
    bool has_first, has_second;
    struct nccl_status first_ranks;
    uint64_t ranks_ns; /* when `first_ranks` was complete */
};

/* ---- GPUs ---- */

/* Of several GPUs the one that is busiest: the others wait for it. */
static void end_poll(struct observation *o)
{
    const struct gpu_device *busiest = NULL;
    double most = -1, busy;
    for (size_t i = 0; i < o->next.process_count; i++) {
        const struct gpu_process *p = &o->next.processes[i];
        const struct gpu_device *device = p->h.pid == o->pid ? gpu_list_device_of(&o->next, p) : NULL;
        if (!device)
            continue;
        if (!gpu_view_busy(device, &busy))
            busy = 0;
        if (!busiest || busy > most) {
            busiest = device;
            most = busy;
        }
    }
    for (size_t i = 0; busiest && i < o->next.process_count; i++)
        o->is_shared |= o->next.processes[i].device == busiest->index && o->next.processes[i].h.pid != o->pid;
    o->next.device_count = o->next.process_count = 0;
    if (!busiest)
        return;
    o->busy_min = gpu_view_busy(busiest, &busy) && (!o->polls || busy < o->busy_min) ? (unsigned)busy : o->busy_min;
    o->has_device = true;
    o->device = busiest->index;
    o->polls++;
}

static void take_gpu_record(void *context, const struct record_header *record)
{
    struct observation *o = context;
    if (record->kind == RECORD_GPU_DEVICE)
        gpu_list_add_device(&o->next, (const struct gpu_device *)record);
    else if (record->kind == RECORD_GPU_PROCESS)
        gpu_list_add_process(&o->next, (const struct gpu_process *)record);
    else if (record->kind == RECORD_GPU_POLL)
        end_poll(o);
}

/* ---- the loop ---- */

static void follow_calls(struct observation *o)
{
    const struct cuda_activity *activity = pipeline_cuda_activity(o->pipeline);
    const struct cuda_activity_process *calls = cuda_activity_find(activity, o->pid);
    if (!calls)
        return;
    if (!o->first.pid) {
        o->first = *calls;
        o->first_ns = activity->read_ns;
    }
    o->last = *calls;
    o->last_ns = activity->read_ns;
}

/* Asks NCCL at once, and again NCCL_APART_NS later if the process has ranks. */
static void follow_ranks(struct observation *o, uint64_t now_ns)
{
    if (o->has_first && !o->has_second && o->ras.state == NCCL_RAS_IDLE && now_ns - o->ranks_ns >= NCCL_APART_NS)
        nccl_ras_ask(&o->ras, NCCL_RAS_PORT, &o->inner_pid, 1, now_ns);
    if (nccl_ras_turn(&o->ras, now_ns) != NCCL_RAS_ANSWERED || !o->ras.parser.status.count || o->has_second)
        return;
    if (o->has_first) {
        o->has_second = true;
        return;
    }
    o->first_ranks = o->ras.parser.status;
    o->ranks_ns = now_ns;
    o->has_first = true;
    nccl_ras_end(&o->ras);
}

/* After each turn. Never ready: it is called until the loop ends. */
static bool follow(void *context)
{
    struct observation *o = context;
    const uint64_t now_ns = clock_monotonic_ns();
    nvml_client_turn(o->gpus, now_ns, take_gpu_record, o);
    follow_calls(o);
    follow_ranks(o, now_ns);
    if (pipeline_prepare(o->pipeline, &o->pid, 1) && !o->is_asked && now_ns - o->start_ns >= ASK_NS) {
        process_threads_ask(pipeline_threads(o->pipeline), o->pid, now_ns);
        o->is_asked = true;
    }
    return false;
}

/* Whether there is more to observe. */
static bool is_unfinished(void *context)
{
    struct observation *o = context;
    const uint64_t now_ns = clock_monotonic_ns(), observed_ns = now_ns - o->start_ns;
    if (proc_is_gone(o->pid))
        return false;
    return observed_ns < OBSERVE_MAX_NS &&
           (observed_ns < OBSERVE_NS || !process_threads_is_ready(pipeline_threads(o->pipeline), now_ns) ||
            (o->has_first && !o->has_second && o->ras.state != NCCL_RAS_FAILED));
}

/* ---- the report ---- */

/* Whether the process has launched nothing since the event: a hang that has ended is none. */
static bool is_current(const char *address, uint32_t pid, const struct agent_event *event)
{
    _cleanup_free_ struct agent_gpu *gpu = malloc(sizeof(*gpu));
    if (!gpu || agent_client_gpu(address, gpu) < 0)
        return false;
    const struct agent_gpu_process *p = agent_gpu_find(gpu, pid);
    const unsigned needed = 1u << AGENT_GPU_LAUNCHES | 1u << AGENT_GPU_GRAPH_LAUNCHES;
    return p && (p->known & needed) == needed &&
           p->counts[AGENT_GPU_LAUNCHES] + p->counts[AGENT_GPU_GRAPH_LAUNCHES] == (double)event->launches;
}

/* The agent's last report of a hang of this process, if it lasts, to be freed; NULL: none. */
static struct agent_event *find_event(const char *address, uint32_t pid)
{
    _cleanup_free_ struct agent_event *events = NULL;
    struct coverage coverage;
    size_t count = 0;
    if (agent_client_events(address, EVENTS_S, &coverage, &events, &count) < 0)
        return NULL;
    for (size_t i = 0; i < count; i++) /* newest first */
        if (strcmp(events[i].name, "gpu.hang") == 0 && events[i].pid == pid) {
            events[0] = events[i];
            return is_current(address, pid, &events[0]) ? take_ptr(events) : NULL;
        }
    return NULL;
}

/* One that is in a call of libcuda or NCCL comes first. */
static const struct process_thread *read_threads(const struct observation *o, size_t *ret_count, size_t *ret_omitted)
{
    struct process_threads *answer = pipeline_threads(o->pipeline);
    const struct process_thread *threads = process_threads_read(answer, 0, ret_count, ret_omitted);
    for (size_t i = 0; i < *ret_count; i++)
        if (threads[i].call[0])
            return process_threads_read(answer, threads[i].tid, ret_count, ret_omitted);
    return threads;
}

static void put_report(struct observation *o, const char *agent_address, struct buf *out)
{
    _cleanup_free_ struct agent_event *event = find_event(agent_address, o->pid);
    _cleanup_buf_ struct buf ranks = {0};
    const struct nccl_communicator *stuck =
        o->has_second ? nccl_status_stuck(&o->first_ranks, &o->ras.parser.status, 0) : NULL;
    const uint64_t unix_ns = clock_unix_ns();
    char command[GPU_COMMAND_BYTES];
    struct gpu_hang_report report = {.pid = o->pid,
                                     .command = gpu_view_command(o->pid, command),
                                     .observed_ns = clock_monotonic_ns() - o->start_ns,
                                     .counts_calls = o->last_ns > o->first_ns,
                                     .counted_ns = o->last_ns - o->first_ns,
                                     .launches = o->last.launches - o->first.launches,
                                     .has_device = o->has_device,
                                     .device = o->device,
                                     .is_shared = o->is_shared,
                                     .busy_min = o->busy_min,
                                     .event = event ? event->text : "",
                                     .event_ago_ns =
                                         event && unix_ns > event->time_unix_ns ? unix_ns - event->time_unix_ns : 0};
    if (stuck)
        nccl_communicator_put(stuck, &ranks);
    report.ranks = ranks.data ? ranks.data : "";
    report.threads = read_threads(o, &report.thread_count, &report.omitted);
    gpu_hang_put(&report, out);
}

static int open_pipeline(struct observation *o, struct pipeline **ret)
{
    struct config config;
    struct attach_report attached = {0};
    const struct pipeline_sink sink = {0};
    config_defaults(&config);
    config_enable_signals(&config, false);
    config_put_bool(&config, "cuda.enabled", true);
    config_put_bool(&config, "profile.enabled", true);
    const struct pipeline_options options = {.config = &config,
                                             .filter = {.pids = {o->pid}, .pid_count = 1},
                                             .sample_hz = SAMPLE_HZ,
                                             .memory_bytes = MEMORY_BYTES,
                                             .runtimes_if_seen = true};
    int r = pipeline_new(&options, &sink, &attached, ret);
    if (r >= 0)
        return pipeline_start(*ret);
    for (size_t i = 0; i < attached.count; i++)
        if (!attached.entries[i].attached)
            log_error("%s: not attached (%s)", attached.entries[i].probe, attached.entries[i].fallback_reason);
    privileges_explain();
    return r;
}

int gpu_hang_observe(uint32_t pid, const char *agent_address, struct buf *out)
{
    _cleanup_free_ struct observation *o = calloc(1, sizeof(*o));
    _cleanup_(nvml_client_freep) struct nvml_client *gpus = NULL;
    _cleanup_(pipeline_freep) struct pipeline *pipeline = NULL;
    _cleanup_(loop_freep) struct loop *loop = NULL;
    struct loop_end end;
    char duration[32];
    if (!o)
        return -ENOMEM;
    if (proc_is_gone(pid))
        return log_errno(-ESRCH, "why: there is no process %" PRIu32, pid);
    o->pid = pid;
    o->inner_pid = proc_innermost_pid(pid);
    o->busy_min = UINT32_MAX;
    int r = nvml_client_new(POLL_NS, &gpus) ?: open_pipeline(o, &pipeline) ?: loop_new(pipeline, LOOP_OF_COMMAND, &loop);
    if (r < 0)
        return r;
    o->gpus = gpus;
    o->pipeline = pipeline;
    o->start_ns = clock_monotonic_ns();
    nccl_ras_ask(&o->ras, NCCL_RAS_PORT, &o->inner_pid, 1, o->start_ns);
    log_info("observing process %" PRIu32 " for %s", pid,
             units_format_duration(OBSERVE_NS, duration, sizeof(duration)));
    r = loop_run(loop, &(struct loop_options){.context = o, .tick = is_unfinished, .ready = follow}, &end);
    nccl_ras_end(&o->ras);
    if (r < 0)
        return r;
    if (end.signal)
        return -ECANCELED;
    put_report(o, agent_address, out);
    return buf_error(out);
}
