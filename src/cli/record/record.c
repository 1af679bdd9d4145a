/* `sonde record`: records one profile of the node, of processes, of containers or of a command into a file. The suffix
 * of the file's name selects the format. */
#include "base/buf.h"
#include "base/child.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/ready_fd.h"
#include "base/units.h"
#include "cli/output.h"
#include "cli/record/record_args.h"
#include "cli/subcommands.h"
#include "config/memory.h"
#include "export/export.h"
#include "model/profile.h"
#include "pipeline/loop.h"
#include "pipeline/pipeline.h"
#include "recording/record_event.h"
#include "recording/record_filters.h"
#include "recording/record_lines.h"
#include "recording/record_pods.h"
#include "resolve/interpreter/interpreters.h"
#include "sources/attach/privileges.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/sysinfo.h>

#define PROFILE_MAX_BYTES (256 << 20)
#define UNWIND_BYTES      (64 << 20)
#define MEMORY_BYTES      (128 << 20) /* resolvers and rings; more than the agent's, as a recording is short-lived */
#define RING_MIN_BYTES    ((size_t)4 << 20)
#define RING_MAX_BYTES    ((size_t)16 << 20)
#define RING_SECONDS      5    /* capacity for timed samples: reading files may block a loop iteration this long */
#define SAMPLE_BYTES      4096 /* upper estimate of a sample's size */

/* Owns the objects behind its pointers, except `event`. */
struct recording {
    int reserved_fd; /* recorded processes may use up all other descriptors; -1: none */
    struct profile *profile;
    struct child child; /* COMMAND */
    struct pipeline *pipeline;
    struct record_pods *pods; /* NULL: no pod is selected by name or label */
    struct loop *loop;
    struct record_event *replayed_event; /* the event of the replayed recording */
    const struct record_event *event;    /* NULL: samples are of time */
    uint64_t sum;                        /* of the values of all samples */
    uint64_t start_ns;
    uint64_t duration_ns;
    uint64_t first_sample_ns, last_sample_ns, first_value;
    bool show_progress;
    int ready_fd;                            /* -1: --ready-fd not given */
    uint32_t prepared_pids[TASK_FILTER_MAX]; /* their unwind tables are loaded before "ready" is written */
    size_t prepared_count;
    bool cpu_samples, waits; /* whether any were recorded */
    struct record_lines_stats lines;
};

struct record_outputs {
    const struct exporter *exporter; /* of the profile */
    struct output profile, events;   /* events: only with --record-events */
};

/* Frees in the reverse order of creation. A COMMAND that still runs is terminated. */
static void recording_end(struct recording *rec)
{
    record_event_free(rec->replayed_event);
    loop_free(rec->loop);
    record_pods_free(rec->pods);
    pipeline_free(rec->pipeline);
    child_end(&rec->child);
    profile_free(rec->profile);
    closep(&rec->reserved_fd);
}

static int take_sample(void *context, const struct sample *sample)
{
    struct recording *rec = context;
    if (!rec->first_sample_ns || sample->time_ns < rec->first_sample_ns) /* waits arrive by thread, not in time order */
        rec->first_sample_ns = sample->time_ns;
    const bool is_wait = sample->type == &sample_type_off_cpu;
    if (!is_wait && !rec->cpu_samples)
        rec->first_value = sample->value;
    rec->sum += sample->value;
    if (sample->time_ns > rec->last_sample_ns)
        rec->last_sample_ns = sample->time_ns;
    if (is_wait)
        rec->waits = true;
    else
        rec->cpu_samples = true;
    return profile_add(rec->profile, sample);
}

/* ---- sources ---- */

/* The kernel zeroes the ring when it is created; with a large ring that takes longer than a short recording. */
static size_t ring_bytes(const struct record_args *args)
{
    const size_t samples = (size_t)args->rate_hz * (size_t)get_nprocs() * RING_SECONDS;
    if (args->type != &sample_type_cpu || samples > RING_MAX_BYTES / SAMPLE_BYTES)
        return RING_MAX_BYTES;
    return samples * SAMPLE_BYTES > RING_MIN_BYTES ? samples * SAMPLE_BYTES : RING_MIN_BYTES;
}

/* What --off-cpu and --wall ask for. */
static void make_config(const struct record_args *args, struct config *ret)
{
    config_defaults(ret);
    config_enable_signals(ret, false);
    config_put_bool(ret, "links.enabled", args->links);
    config_put_bool(ret, "profile.enabled", args->type != &sample_type_off_cpu);
    config_put_bool(ret, "off_cpu.enabled", args->type == &sample_type_off_cpu || args->type == &sample_type_wall);
    config_put_duration(ret, "off_cpu.min_wait", args->min_wait_ns);
    config_put_duration(ret, "off_cpu.sample_wait", args->sample_wait_ns);
    config_put_bool(ret, "off_cpu.wakers", args->wakers);
}

/* ---- the file ---- */

static const struct exporter *choose_format(const char *path)
{
    const struct exporter *exporter = strcmp(path, "-") == 0 ? exporter_by_name("folded") : exporter_by_path(path);
    if (!exporter)
        log_error("record: '%s': unknown format: the name must end in .pb.gz, .folded, .html or .json", path);
    return exporter;
}

/* Checks, before recording, that the files can be written. 0, or -errno after logging. */
static int check_outputs(const struct record_args *args, struct record_outputs *ret)
{
    struct record_outputs outputs = {.exporter = choose_format(args->output)};
    if (!outputs.exporter)
        return -EINVAL;
    int r = output_check("record", args->output, &outputs.profile);
    if (r == 0 && args->record_events)
        r = output_check("record", args->record_events, &outputs.events);
    if (r < 0)
        return r;
    *ret = outputs;
    return 0;
}

/* Closes `reserved_fd` first, so that a descriptor is free for the output file. */
static int write_profile(const struct profile *profile, const struct exporter *exporter, const struct output *output,
                         int reserved_fd)
{
    _cleanup_buf_ struct buf content = {0};
    int r = exporter->write(profile, &content);
    close(reserved_fd);
    if (r < 0)
        return log_errno(r, "record: cannot write the profile as %s", exporter->name);
    return output_write(output, exporter->suffix, content.data, content.size);
}

/* ---- progress and summary ---- */

#define RECORDED_TEXT_BYTES RECORD_EVENT_TEXT_BYTES

/* "4711 samples" */
static const char *format_recorded(const struct recording *rec, char out[RECORDED_TEXT_BYTES])
{
    const uint64_t count = pipeline_samples(rec->pipeline);
    if (rec->event)
        return record_event_format(rec->event, count, rec->sum, out);
    const struct sample_type *type = rec->profile->type;
    snprintf(out, RECORDED_TEXT_BYTES, "%llu %s", (unsigned long long)count,
             type == &sample_type_wall ? "samples and waits" : type->counts);
    return out;
}

static bool show_progress(void *context)
{
    struct recording *rec = context;
    record_pods_follow(rec->pods, rec->pipeline);
    if (!rec->show_progress)
        return true;
    struct losses losses;
    pipeline_losses(rec->pipeline, &losses);
    char elapsed[32], total[32], recorded[RECORDED_TEXT_BYTES];
    units_format_duration(clock_monotonic_ns() - rec->start_ns, elapsed, sizeof(elapsed));
    fprintf(
        stderr, "\r\033[Krecording: %s%s%s, %s, %llu lost  (Ctrl-C stops and writes the profile)", elapsed,
        rec->duration_ns ? " of " : "",
        rec->duration_ns ? units_format_duration(rec->duration_ns, total, sizeof(total)) : "",
        format_recorded(rec, recorded),
        (unsigned long long)(losses.count[LOSS_RING_FULL] + losses.count[LOSS_THROTTLED] + losses.count[LOSS_MISSED]));
    fflush(stderr);
    return true;
}

static bool notify_ready(void *context)
{
    struct recording *rec = context;
    if (rec->ready_fd < 0)
        return true;
    if (!pipeline_prepare(rec->pipeline, rec->prepared_pids, rec->prepared_count))
        return false;
    ready_fd_notify(&rec->ready_fd);
    return true;
}

/* "; 12 % of the stacks are incomplete (101 unnamed, 9 interpreted)", if `are_stacks`; else "; 3 ring_full". */
static void put_losses(const struct losses *losses, bool are_stacks)
{
    const char *separator = "; ";
    if (are_stacks && losses->incomplete_stacks) {
        fprintf(stderr, "; %u %% of the stacks are incomplete", losses_incomplete_percent(losses));
        separator = " (";
    }
    for (int i = 0; i < LOSS_COUNT; i++) {
        if (!losses->count[i] || loss_is_of_stack(i) != are_stacks)
            continue;
        fprintf(stderr, "%s%llu %s", separator, (unsigned long long)losses->count[i], loss_name(i));
        separator = are_stacks ? ", " : "; ";
    }
    fprintf(stderr, "%s", are_stacks && losses->incomplete_stacks ? ")" : "");
}

static void report_end(const struct recording *rec, const char *path)
{
    if (rec->show_progress)
        fprintf(stderr, "\r\033[K");
    struct losses losses;
    pipeline_losses(rec->pipeline, &losses);
    char recorded[RECORDED_TEXT_BYTES];
    fprintf(stderr, "sonde: wrote %s: %s of %u processes", strcmp(path, "-") == 0 ? "standard output" : path,
            format_recorded(rec, recorded), rec->profile->resource_count);
    _cleanup_buf_ struct buf summary = {0};
    pipeline_summarize(rec->pipeline, &summary);
    fprintf(stderr, "%s", summary.data ? summary.data : "");
    put_losses(&losses, true);
    put_losses(&losses, false);
    if (rec->profile->dropped)
        fprintf(stderr, "; %llu dropped (memory)", (unsigned long long)rec->profile->dropped);
    record_lines_report(&rec->lines);
    fprintf(stderr, "\n");
}

/* Warns of interpreters whose frames appear as C functions of the interpreter. */
static void explain_unread_interpreters(const struct interpreters *interpreters)
{
    size_t from = 0;
    for (const char *name; (name = interpreters_unsupported(interpreters, &from));)
        log_warning(
            "record: frames of %s cannot be read: its version or build is not supported (sonde-record(1), LOSSES)",
            name);
}

/* Notes in an empty profile why it is empty: that is no error. */
static void explain_no_samples(const struct record_args *args, struct profile *profile)
{
    _cleanup_buf_ struct buf out = {0};
    char period[32], duration[32];
    units_format_duration(profile->period, period, sizeof(period));
    if (!args->replay)
        record_filters_explain(&args->filters, &out);
    if (args->replay)
        buf_printf(&out, "%s holds no CPU samples", args->replay);
    else if (args->event)
        record_event_explain_none(args->event, &out);
    else if (args->type == &sample_type_off_cpu)
        buf_printf(&out, "no selected thread waited%s", args->min_wait_ns ? " as long as --min-wait" : "");
    else if (profile->duration_ns < profile->period)
        buf_printf(&out, "the recording lasted %s, and a sample is due only every %s: use -F for a higher rate",
                   units_format_duration(profile->duration_ns, duration, sizeof(duration)), period);
    else
        buf_printf(
            &out,
            "no selected thread was sampled on a CPU: a sample is due every %s of CPU time (-F %lld), and waiting threads use none (--off-cpu)",
            period, (long long)args->rate_hz);
    snprintf(profile->nothing, sizeof(profile->nothing), "%s", out.data ? out.data : "");
}

/* Warns of missing data in the written profile. */
static void explain_gaps(const struct recording *rec)
{
    explain_unread_interpreters(pipeline_interpreters(rec->pipeline));
    if (pipeline_missed_runtime(rec->pipeline))
        log_warning(
            "record: a Node.js or Java process started during the recording, and its functions have no names: record it by PID (-p), or the whole node (-a)");
    if (rec->profile->nothing[0])
        log_warning("record: %s", rec->profile->nothing);
}

/* ---- the recording ---- */

static void log_refused(const struct attach_report *report)
{
    for (size_t i = 0; i < report->count; i++)
        if (!report->entries[i].attached)
            log_error("%s: not attached (%s)", report->entries[i].probe, report->entries[i].fallback_reason);
}

/* --wall needs both sources: with one alone, part of a thread's time would pass for all of it. */
static bool has_wall_sources(const struct attach_report *report)
{
    static const char *const probes[] = {"CPU samples", "off-CPU time"};
    size_t attached = 0;
    for (size_t i = 0; i < report->count; i++)
        for (size_t j = 0; j < array_size(probes); j++)
            attached += report->entries[i].attached && strcmp(report->entries[i].probe, probes[j]) == 0;
    return attached == array_size(probes);
}

/* A replay has the records of all signals, whichever the options enable. */
static void plan_memory(const struct record_args *args, struct config config, struct memory_plan *ret)
{
    if (args->replay)
        config_enable_signals(&config, true);
    memory_plan_make(&config, MEMORY_BYTES, get_nprocs_conf(), false, ret);
    ret->bytes[MEMORY_SAMPLE_RING] = ret->bytes[MEMORY_WAIT_RING] = ring_bytes(args);
    ret->bytes[MEMORY_UNWIND_TABLES] = UNWIND_BYTES;
}

static int open_pipeline(const struct record_args *args, const char *record_events, struct recording *rec)
{
    const int child_pid = rec->child.pid;
    struct config config;
    make_config(args, &config);
    struct memory_plan memory;
    plan_memory(args, config, &memory);
    struct pipeline_options options = {
        .config = &config,
        .sample_hz = (uint32_t)args->rate_hz,
        .filter.skip_self = true,
        .memory = &memory,
        .lines = args->lines,
        .record_events = record_events,
        .replay = args->replay,
        .cri_socket = args->cri_socket,
    };
    int r = record_filters_set(&args->filters, &options.filter);
    if (r == 0)
        r = record_pods_new(&args->filters, args->cri_socket, &options.filter, &rec->pods);
    options.pod_labels = record_pods_labels(rec->pods);
    if (r == 0 && args->event)
        r = record_event_find(args->event, &options.filter, args->command ? args->command[0] : NULL, &options.event);
    if (r < 0)
        return r;
    rec->prepared_count = options.filter.pid_count;
    memcpy(rec->prepared_pids, options.filter.pids, sizeof(rec->prepared_pids));
    if (child_pid > 0) {
        if (options.filter.pid_count == TASK_FILTER_MAX) {
            log_error("record: COMMAND counts as a process: at most %d more can be selected with -p",
                      TASK_FILTER_MAX - 1);
            return -EINVAL;
        }
        options.filter.pids[options.filter.pid_count++] = (uint32_t)child_pid;
    }
    options.runtimes_if_seen = child_pid <= 0 && !args->wakers; /* with wakers: any process may be one */
    struct attach_report report = {0};
    struct pipeline_sink sink = {.context = rec, .sample = take_sample};
    r = pipeline_new(&options, &sink, &report, &rec->pipeline);
    if (r < 0) {
        log_refused(&report);
        if (!args->replay)
            privileges_explain();
        return r;
    }
    if (args->type == &sample_type_wall && !args->replay && !has_wall_sources(&report)) {
        log_refused(&report);
        log_error("record: --wall needs CPU samples and waits");
        return -EOPNOTSUPP;
    }
    return pipeline_start(rec->pipeline);
}

/* Derives the times of a replay from its records. The start date is unknown: record times count from the boot of the
 * machine that recorded them. */
static int set_replayed_times(struct recording *rec)
{
    const struct sample_event *event = pipeline_replayed_event(rec->pipeline);
    rec->profile->start_unix_ns = 0;
    rec->profile->duration_ns = rec->last_sample_ns - rec->first_sample_ns;
    rec->profile->period = rec->first_value;
    if (rec->waits)
        rec->profile->type = rec->cpu_samples ? &sample_type_wall : &sample_type_off_cpu;
    int r = event ? record_event_of_replay(event, &rec->replayed_event) : 0;
    rec->event = rec->replayed_event;
    return r == 0 && event ? record_event_set(rec->event, rec->profile) : r;
}

/* Creates the profile that matches the command line. */
static int new_profile(const struct record_args *args, struct profile **ret)
{
    _cleanup_(profile_freep) struct profile *profile = NULL;
    int r = profile_new(PROFILE_MAX_BYTES, &profile);
    if (r < 0)
        return r;
    profile->period = args->type == &sample_type_off_cpu ? 0 : 1000000000ull / (uint64_t)args->rate_hz;
    r = args->event ? record_event_set(args->event, profile) : profile_set_type(profile, args->type);
    if (r < 0)
        return r;
    *ret = take_ptr(profile);
    return 0;
}

/* Opens everything that a recording needs, up to the point where COMMAND can start. */
static int prepare_recording(const struct record_args *args, const struct record_outputs *outputs,
                             struct recording *rec)
{
    int r = new_profile(args, &rec->profile);
    if (r == 0 && args->command)
        r = child_prepare(&rec->child, "record", args->command);
    if (r == 0)
        r = open_pipeline(args, args->record_events ? outputs->events.path : NULL, rec);
    return r < 0 ? r : loop_new(rec->pipeline, LOOP_OF_COMMAND, &rec->loop);
}

static int start_recording(const struct record_args *args, struct recording *rec)
{
    rec->profile->start_unix_ns = clock_unix_ns();
    rec->start_ns = clock_monotonic_ns();
    notify_ready(rec); /* before COMMAND starts: it may end before the first loop iteration */
    return args->command ? child_release(&rec->child) : 0;
}

/* Records until the duration is over, COMMAND ends or a signal arrives. On failure, the recorded data is kept. */
static int run_recording(struct recording *rec, struct loop_end *ret_end)
{
    const struct loop_options until = {
        .duration_ns = rec->duration_ns,
        .context = rec,
        .tick = show_progress,
        .ready = notify_ready,
        .child_pid = rec->child.pid,
    };
    int r = loop_run(rec->loop, &until, ret_end);
    if (r == 0 && ret_end->child_exited)
        rec->child.pid = 0; /* already reaped */
    rec->profile->duration_ns = clock_monotonic_ns() - rec->start_ns;
    return r;
}

/* Completes the profile and writes it. */
static int write_recording(const struct record_args *args, const struct record_outputs *outputs, bool is_complete,
                           struct recording *rec)
{
    int r = args->replay ? set_replayed_times(rec) : 0;
    if (r < 0)
        return r;
    if (is_complete && pipeline_samples(rec->pipeline) == 0)
        explain_no_samples(args, rec->profile);
    if (args->lines)
        record_lines_add(&rec->profile, pipeline_line_objects(rec->pipeline), args->inlines, rec->show_progress,
                         PROFILE_MAX_BYTES, &rec->lines);
    return write_profile(rec->profile, outputs->exporter, &outputs->profile, take_fd(&rec->reserved_fd));
}

/* Returns the exit status of the recorded command, 0 without one, or -errno. */
static int record_profile(const struct record_args *args)
{
    struct record_outputs outputs;
    int r = check_outputs(args, &outputs);
    if (r == 0 && args->lines)
        r = record_lines_check();
    if (r < 0)
        return r;
    _cleanup_(recording_end) struct recording rec = {
        .reserved_fd = eventfd(0, EFD_CLOEXEC),
        .child = CHILD_NONE,
        .event = args->event,
        .duration_ns = args->duration_ns,
        .show_progress = isatty(STDERR_FILENO),
        .ready_fd = (int)args->ready_fd,
    };
    r = prepare_recording(args, &outputs, &rec);
    if (r == 0)
        r = start_recording(args, &rec);
    if (r < 0)
        return r;
    struct loop_end end;
    int ended = run_recording(&rec, &end); /* on failure too, the recorded data is written */
    r = write_recording(args, &outputs, ended == 0, &rec);
    if (r < 0)
        return r;
    report_end(&rec, args->output);
    explain_gaps(&rec);
    r = pipeline_record_events_error(rec.pipeline);
    if (r < 0 || ended < 0)
        return r < 0 ? r : ended;
    return end.child_exited && !end.signal ? child_exit_status(end.child_status)
                                           : 0; /* Ctrl-C ends both, in either order */
}

static int run_record(int argc, char **argv)
{
    struct record_args args;
    int r = record_args_parse(argc, argv, &args);
    if (r != 0)
        return r < 0 ? r : 0;
    _cleanup_(record_event_freep) struct record_event *event = args.event;
    return record_profile(&args);
}

const struct subcommand subcommand_record = {
    .name = "record",
    .synopsis =
        "[-a | -p PID | -c CONTAINER | -C NAME | -u USER] [-F HZ | --event EVENT | --off-cpu | --wall | --gpu] [--wakers] [-d SECONDS] [-o FILE] [-- COMMAND...]",
    .summary = "Record a profile of CPU time, off-CPU time or events into a file",
    .details =
        "Formats by the file's ending: .pb.gz (pprof, for `go tool pprof`), .folded (stacks, for flamegraph.pl),\n"
        ".html (a self-contained flame graph), .json (speedscope). When several of -p, -c (or --pod, --cgroup), -C and -u are given, a thread must match all of them.\n"
        "Events: page-faults, minor-faults, major-faults, context-switches, cpu-migrations, cycles, instructions, cache-references, cache-misses,\n"
        "branches, branch-misses, mmap, brk, tracepoint:SUBSYSTEM:NAME, usdt:PROVIDER:PROBE, usdt:/PATH:PROVIDER:PROBE.\n"
        "The exit status is that of COMMAND.",
    .run = run_record,
};
