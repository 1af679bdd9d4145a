/* `sonde record`: one profile of the node, some processes, a container or a command, into a file of the format that its
 * name asks for (output.h). */
#include "agent/loop.h"
#include "agent/pipeline.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/ready_fd.h"
#include "base/units.h"
#include "cli/child.h"
#include "cli/output.h"
#include "cli/privileges.h"
#include "cli/record_event.h"
#include "cli/record_filters.h"
#include "cli/record_lines.h"
#include "cli/record_pods.h"
#include "cli/subcommands.h"
#include "export/export.h"
#include "model/profile.h"
#include "resolve/interpreter/interpreters.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/sysinfo.h>

#define DEFAULT_HZ        99
#define PROFILE_MAX_BYTES (256 << 20)
#define MEMORY_BYTES      (128 << 20) /* resolvers and rings: a recording ends, so it may take more than the agent */
#define RING_MIN_BYTES    ((size_t)4 << 20)
#define RING_MAX_BYTES    ((size_t)16 << 20)
#define RING_SECONDS      5    /* of samples that come at a rate: a turn may wait so long for files */
#define SAMPLE_BYTES      4096 /* more than most have */

struct recording {
    struct pipeline *pipeline;
    struct profile *profile;
    const struct record_event *event;    /* NULL: samples are of time */
    struct record_event *replayed_event; /* the same, of a replay */
    struct record_pods *pods;            /* NULL: none are chosen by name or label */
    uint64_t weight;                     /* of all samples */
    uint64_t start_ns;
    uint64_t duration_ns;
    uint64_t first_sample_ns, last_sample_ns, first_weight_ns;
    bool show_progress;
    int ready_fd;                              /* -1: no process waits for it */
    uint32_t prepared_pids[SOURCE_FILTER_MAX]; /* whose unwind tables are in place before that */
    size_t prepared_count;
    bool cpu_samples, waits; /* any came */
    struct record_lines_stats lines;
};

struct request_for_recording { /* what the command line asked for */
    bool all;
    struct record_filters whom;
    struct option_texts events;
    struct record_event *event; /* NULL: none */
    int64_t rate_hz, ready_fd;
    uint64_t duration_ns;
    const char *output, *record_events, *replay, *cri_socket;
    bool links;
    bool lines, inlines;
    bool off_cpu, wall, wakers;
    enum profile_time time;
    uint64_t min_wait_ns, sample_wait_ns;
    char **command; /* NULL: none */
};

static int take_sample(void *context, const struct sample *sample)
{
    struct recording *rec = context;
    if (!rec->first_sample_ns ||
        sample->time_ns < rec->first_sample_ns) /* waits come thread by thread, not in order of time */
        rec->first_sample_ns = sample->time_ns;
    if (!sample->wait_reason && !rec->cpu_samples)
        rec->first_weight_ns = sample->weight_ns;
    rec->weight += sample->weight_ns;
    if (sample->time_ns > rec->last_sample_ns)
        rec->last_sample_ns = sample->time_ns;
    if (sample->wait_reason)
        rec->waits = true;
    else
        rec->cpu_samples = true;
    return profile_add(rec->profile, sample);
}

/* ---- what to look at ---- */

/* The kernel clears all of it at the start, which costs more than a short recording. */
static size_t ring_bytes(const struct request_for_recording *asked)
{
    const size_t samples = (size_t)asked->rate_hz * (size_t)get_nprocs() * RING_SECONDS;
    if (asked->time != PROFILE_CPU_TIME || samples > RING_MAX_BYTES / SAMPLE_BYTES)
        return RING_MAX_BYTES;
    return samples * SAMPLE_BYTES > RING_MIN_BYTES ? samples * SAMPLE_BYTES : RING_MIN_BYTES;
}

static int make_source_options(const struct request_for_recording *asked, struct source_options *ret)
{
    *ret = (struct source_options){
        .sample_hz = (uint32_t)asked->rate_hz,
        .skip_self = true,
        .ring_bytes = ring_bytes(asked),
        .table_bytes = 64 << 20,
        .links = asked->links,
        .time = asked->time,
        .min_wait_ns = asked->min_wait_ns,
        .sample_wait_ns = asked->sample_wait_ns,
        .wakers = asked->wakers,
    };
    return record_filters_set(&asked->whom, ret);
}

/* ---- the file ---- */

static const struct exporter *choose_format(const char *path)
{
    const struct exporter *exporter = strcmp(path, "-") == 0 ? exporter_by_name("folded") : exporter_by_path(path);
    if (!exporter)
        log_error("record: '%s': the ending tells the format, and this is none of .pb.gz, .folded, .html, .json", path);
    return exporter;
}

/* `kept_fd` is given up for the output's. */
static int write_profile(const struct profile *profile, const struct exporter *exporter, const struct output *output,
                         int kept_fd)
{
    _cleanup_buf_ struct buf content = {0};
    int r = exporter->write(profile, &content);
    close(kept_fd);
    if (r < 0)
        return log_errno(r, "record: the profile cannot be made into %s", exporter->name);
    return output_write(output, exporter->suffix, content.data, content.size);
}

/* ---- what a person sees meanwhile and after ---- */

#define RECORDED_TEXT_BYTES RECORD_EVENT_TEXT_BYTES

/* "4711 samples" */
static const char *what_is_recorded(const struct recording *rec, char out[RECORDED_TEXT_BYTES])
{
    static const char *const names[PROFILE_EVENTS] = {"samples", "waits", "samples and waits"};
    const uint64_t count = pipeline_samples(rec->pipeline);
    if (rec->event)
        return record_event_tell(rec->event, count, rec->weight, out);
    snprintf(out, RECORDED_TEXT_BYTES, "%llu %s", (unsigned long long)count, names[rec->profile->time]);
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
        stderr, "\r\033[Krecording: %s%s%s, %s, %llu lost  (Ctrl-C ends it and keeps them)", elapsed,
        rec->duration_ns ? " of " : "",
        rec->duration_ns ? units_format_duration(rec->duration_ns, total, sizeof(total)) : "",
        what_is_recorded(rec, recorded),
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

/* What no record tells of: with it, and what is in the profile, all waiting time is accounted for. */
static void report_untold_waits(const struct recording *rec)
{
    const struct off_cpu_totals waits = pipeline_waits(rec->pipeline);
    char time[32];
    if (waits.short_count)
        fprintf(stderr, "; not told: %llu of %s in all, shorter than --min-wait", (unsigned long long)waits.short_count,
                units_format_duration(waits.short_ns, time, sizeof(time)));
    if (waits.left_out)
        fprintf(stderr, "; left out by chance: %llu of %s in all, for which the others stand",
                (unsigned long long)waits.left_out, units_format_duration(waits.left_out_ns, time, sizeof(time)));
    if (waits.lost)
        fprintf(stderr, "; lost: %llu of %s in all", (unsigned long long)waits.lost,
                units_format_duration(waits.lost_ns, time, sizeof(time)));
    if (waits.unknown)
        fprintf(stderr, "; lost: %llu of threads that were too many, nobody knows how long",
                (unsigned long long)waits.unknown);
    if (waits.wakers_unseen)
        fprintf(stderr, "; %llu of which the waker was not seen", (unsigned long long)waits.wakers_unseen);
}

static void report_end(const struct recording *rec, const char *path)
{
    if (rec->show_progress)
        fprintf(stderr, "\r\033[K");
    struct losses losses;
    pipeline_losses(rec->pipeline, &losses);
    char recorded[RECORDED_TEXT_BYTES];
    fprintf(stderr, "sonde: wrote %s: %s of %u processes", strcmp(path, "-") == 0 ? "standard output" : path,
            what_is_recorded(rec, recorded), rec->profile->resource_count);
    report_untold_waits(rec);
    for (int i = 0; i < LOSS_COUNT; i++)
        if (losses.count[i])
            fprintf(stderr, "; %llu %s", (unsigned long long)losses.count[i], loss_name(i));
    if (rec->profile->dropped)
        fprintf(stderr, "; %llu dropped (memory)", (unsigned long long)rec->profile->dropped);
    record_lines_report(&rec->lines);
    fprintf(stderr, "\n");
}

/* Their frames are C functions of the interpreter: what to know of the samples that count as "interpreted". */
static void explain_unread_interpreters(const struct interpreters *interpreters)
{
    size_t from = 0;
    for (const char *name; (name = interpreters_unsupported(interpreters, &from));)
        log_warning(
            "record: frames of a %s cannot be read, for its version or the way it was built (sonde-record(1), WHAT IS MISSING)",
            name);
}

/* An empty profile is no failure, but hardly what was wanted. */
static void explain_no_samples(const struct request_for_recording *asked, const struct profile *profile)
{
    char period[32], duration[32];
    units_format_duration(profile->period_ns, period, sizeof(period));
    if (asked->replay) {
        log_warning("record: %s holds no CPU samples", asked->replay);
        return;
    }
    record_filters_explain(&asked->whom);
    if (asked->event)
        record_event_explain_none(asked->event);
    else if (asked->time == PROFILE_OFF_CPU_TIME)
        log_warning("record: nothing that was to be looked at waited%s",
                    asked->min_wait_ns ? " as long as --min-wait says" : "");
    else if (profile->duration_ns < profile->period_ns)
        log_warning("record: it lasted %s, and a sample is due every %s only: -F samples more often",
                    units_format_duration(profile->duration_ns, duration, sizeof(duration)), period);
    else
        log_warning(
            "record: nothing that was to be looked at was seen on a CPU: a sample stands for %s of CPU time (-F %lld), and who waits uses none",
            period, (long long)asked->rate_hz);
}

/* ---- the recording ---- */

static void log_refused(const struct attach_report *report)
{
    for (size_t i = 0; i < report->count; i++)
        if (!report->entries[i].attached)
            log_error("%s: not attached (%s)", report->entries[i].probe, report->entries[i].fallback_reason);
}

/* One half of a thread's time would be told as all of it. */
static bool has_both(const struct attach_report *report)
{
    static const char *const halves[] = {"cpu samples", "waits of threads"};
    size_t attached = 0;
    for (size_t i = 0; i < report->count; i++)
        for (size_t j = 0; j < array_size(halves); j++)
            attached += report->entries[i].attached && strcmp(report->entries[i].probe, halves[j]) == 0;
    return attached == array_size(halves);
}

static int open_pipeline(const struct request_for_recording *asked, const char *record_events, struct recording *rec,
                         int child_pid)
{
    struct pipeline_options options = {
        .memory_bytes = MEMORY_BYTES,
        .lines = asked->lines,
        .record_events = record_events,
        .replay = asked->replay,
        .cri_socket = asked->cri_socket,
    };
    int r = make_source_options(asked, &options.sources);
    if (r == 0)
        r = record_pods_new(&asked->whom, asked->cri_socket, &options.sources, &rec->pods);
    options.pod_labels = record_pods_labels(rec->pods);
    if (r == 0 && asked->event)
        r = record_event_find(asked->event, &options.sources, asked->command ? asked->command[0] : NULL);
    if (r < 0)
        return r;
    rec->prepared_count = options.sources.pid_count;
    memcpy(rec->prepared_pids, options.sources.pids, sizeof(rec->prepared_pids));
    if (child_pid > 0) {
        if (options.sources.pid_count == SOURCE_FILTER_MAX) {
            log_error("record: COMMAND is a process too: no more than %d beside it", SOURCE_FILTER_MAX - 1);
            return -EINVAL;
        }
        options.sources.pids[options.sources.pid_count++] = (uint32_t)child_pid;
    }
    options.runtimes_if_seen = child_pid <= 0 && !asked->wakers; /* anybody may be a waker */
    struct attach_report report = {0};
    struct pipeline_sink sink = {.context = rec, .sample = take_sample};
    r = pipeline_new(&options, &sink, &report, &rec->pipeline);
    if (r < 0) {
        log_refused(&report);
        if (!asked->replay)
            privileges_explain();
        return r;
    }
    if (asked->time == PROFILE_WALL_TIME && !asked->replay && !has_both(&report)) {
        log_refused(&report);
        log_error("record: --wall needs CPU samples and waits");
        return -EOPNOTSUPP;
    }
    return pipeline_start(rec->pipeline);
}

/* As shells tell it. */
static int status_of_command(int status)
{
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* Of a replay, only the records tell; not which day it was, for their clock began with the machine that they are of. */
static int set_replayed_times(struct recording *rec)
{
    const struct sample_event *event = pipeline_replayed_event(rec->pipeline);
    rec->profile->start_unix_ns = 0;
    rec->profile->duration_ns = rec->last_sample_ns - rec->first_sample_ns;
    rec->profile->period_ns = rec->first_weight_ns;
    if (rec->waits)
        rec->profile->time = rec->cpu_samples ? PROFILE_WALL_TIME : PROFILE_OFF_CPU_TIME;
    int r = event ? record_event_of_replay(event, &rec->replayed_event) : 0;
    rec->event = rec->replayed_event;
    return r == 0 && event ? record_event_set(rec->event, rec->profile) : r;
}

/* The exit status of the command that was recorded, 0 without one, -errno. */
static int record(const struct request_for_recording *asked)
{
    const struct exporter *exporter = choose_format(asked->output);
    struct output output, wire = {0};
    if (!exporter)
        return -EINVAL;
    int r = output_check("record", asked->output, &output);
    if (r == 0 && asked->record_events)
        r = output_check("record", asked->record_events, &wire);
    if (r == 0 && asked->lines)
        r = record_lines_check();
    if (r < 0)
        return r;
    _cleanup_close_ int kept_for_output = eventfd(0, EFD_CLOEXEC); /* what is recorded may need all other descriptors */
    _cleanup_(profile_freep) struct profile *profile = NULL;
    r = profile_new(PROFILE_MAX_BYTES, &profile);
    if (r < 0)
        return r;
    profile->period_ns = asked->time == PROFILE_OFF_CPU_TIME ? 0 : 1000000000ull / (uint64_t)asked->rate_hz;
    profile->time = asked->time;
    r = asked->event ? record_event_set(asked->event, profile) : 0;
    if (r < 0)
        return r;
    _cleanup_(child_end) struct child child = CHILD_NONE;
    if (asked->command) {
        r = child_prepare(&child, asked->command);
        if (r < 0)
            return r;
    }
    struct recording rec = {
        .profile = profile,
        .event = asked->event,
        .duration_ns = asked->duration_ns,
        .show_progress = isatty(STDERR_FILENO),
        .ready_fd = (int)asked->ready_fd,
    };
    r = open_pipeline(asked, asked->record_events ? wire.path : NULL, &rec, child.pid);
    _cleanup_(pipeline_freep) struct pipeline *pipeline = rec.pipeline;
    _cleanup_(record_pods_freep) struct record_pods *pods = rec.pods;
    if (r < 0)
        return r;
    _cleanup_(loop_freep) struct loop *loop = NULL;
    r = loop_new(pipeline, &loop);
    if (r < 0)
        return r;
    profile->start_unix_ns = clock_unix_ns();
    rec.start_ns = clock_monotonic_ns();
    notify_ready(&rec); /* before COMMAND, which may end sooner than the loop turns */
    if (asked->command) {
        r = child_release(&child);
        if (r < 0)
            return r;
    }
    struct loop_options until = {
        .duration_ns = asked->duration_ns,
        .context = &rec,
        .tick = show_progress,
        .ready = notify_ready,
        .child_pid = child.pid,
    };
    struct loop_end end;
    int ended = loop_run(loop, &until, &end); /* whatever ended it: what was recorded is kept */
    if (ended == 0 && end.child_exited)
        child.pid = 0; /* waited for */
    profile->duration_ns = clock_monotonic_ns() - rec.start_ns;
    r = asked->replay ? set_replayed_times(&rec) : 0;
    _cleanup_(record_event_freep) struct record_event *replayed_event = rec.replayed_event;
    if (r < 0)
        return r;
    if (asked->lines) {
        record_lines_add(&profile, pipeline_line_objects(pipeline), asked->inlines, rec.show_progress,
                         PROFILE_MAX_BYTES, &rec.lines);
        rec.profile = profile;
    }
    r = write_profile(profile, exporter, &output, take_fd(&kept_for_output));
    if (r == 0)
        report_end(&rec, asked->output);
    if (r == 0)
        explain_unread_interpreters(pipeline_interpreters(pipeline));
    if (r == 0 && pipeline_missed_runtime(pipeline))
        log_warning(
            "record: a Node or a Java began meanwhile, whose functions have no names here; record it by its own number, or all (-a)");
    if (r == 0 && ended == 0 && pipeline_samples(pipeline) == 0)
        explain_no_samples(asked, profile);
    if (r == 0)
        r = pipeline_record_events_error(pipeline);
    if (r < 0 || ended < 0)
        return r < 0 ? r : ended;
    return end.child_exited && !end.signal ? status_of_command(end.child_status)
                                           : 0; /* Ctrl-C ends both, either one first */
}

static int run(int argc, char **argv)
{
    struct request_for_recording asked = {.output = "profile.pb.gz", .cri_socket = "", .ready_fd = -1};
    int64_t period = 0;
    const struct option_spec specs[] = {
        {'a', "all", OPTION_FLAG, &asked.all, NULL, "the whole node (the default without -p, -c, -C, COMMAND)", 0, 0},
        {'p', "pid", OPTION_TEXTS, &asked.whom.pids, "PID", "this process and the children it starts; may be repeated",
         0, 0},
        {'c', "container", OPTION_TEXTS, &asked.whom.containers, "CONTAINER",
         "a container, by its ID or the first digits of it (4 or more); may be repeated", 0, 0},
        {'C', "command", OPTION_TEXTS, &asked.whom.commands, "NAME",
         "threads of this name (comm), or of a process of this name; may be repeated", 0, 0},
        {'u', "user", OPTION_TEXTS, &asked.whom.users, "USER",
         "threads of this user, by name or number (ps -eo euser); may be repeated", 0, 0},
        {0, "pod", OPTION_TEXTS, &asked.whom.pods, "POD",
         "a Kubernetes pod, by its NAMESPACE/NAME or its UID; may be repeated", 0, 0},
        {0, "pod-label", OPTION_TEXTS, &asked.whom.pod_labels, "KEY=VALUE",
         "the pods with this label, or with all of several separated by commas, also those that come meanwhile; may be repeated",
         0, 0},
        {0, "cri-socket", OPTION_TEXT, &asked.cri_socket, "PATH",
         "where the container runtime is asked for pods (containerd's, CRI-O's and the like are found)", 0, 0},
        {0, "cgroup", OPTION_TEXTS, &asked.whom.cgroups, "PATH",
         "a cgroup with all below it, such as system.slice/nginx.service; may be repeated", 0, 0},
        {'F', "rate", OPTION_INTEGER, &asked.rate_hz, "HZ", "samples a second and CPU, up to 20000 (default 99)", 1,
         20000},
        {'d', "duration", OPTION_DURATION, &asked.duration_ns, "SECONDS",
         "how long; or with a unit: 500ms, 5m (default: until Ctrl-C, or COMMAND ends)", 1000000, 86400000000000},
        {'o', "output", OPTION_TEXT, &asked.output, "FILE",
         "FILE.pb.gz, .folded, .html or .json; - is folded text (default profile.pb.gz)", 0, 0},
        {0, "event", OPTION_TEXTS, &asked.events, "EVENT",
         "samples of this and not of the clock, each weighing what it stands for (below)", 0, 0},
        {0, "period", OPTION_INTEGER, &period, "N", "with --event: one of so many is taken, and stands for all of them",
         1, INT64_MAX},
        {0, "off-cpu", OPTION_FLAG, &asked.off_cpu, NULL,
         "where threads wait, for what and how long, instead of where they use CPU time", 0, 0},
        {0, "wall", OPTION_FLAG, &asked.wall, NULL, "both: where threads use CPU time and where they wait", 0, 0},
        {0, "wakers", OPTION_FLAG, &asked.wakers, NULL,
         "with --off-cpu or --wall: above each wait who ended it, with the waker's stack upside down", 0, 0},
        {0, "min-wait", OPTION_DURATION, &asked.min_wait_ns, "TIME",
         "... tell no waits shorter than that (10us), but how many they were", 1, 3600000000000},
        {0, "sample-waits", OPTION_DURATION, &asked.sample_wait_ns, "TIME",
         "... take waits shorter than that by chance, the likelier the longer; each stands for that much (1ms)", 1,
         4000000000},
        {0, "links", OPTION_FLAG, &asked.links, NULL,
         "attach to programs that trace requests with libsonde, so that samples say which request they are of", 0, 0},
        {0, "lines", OPTION_FLAG, &asked.lines, NULL,
         "also the source file and line of native frames, where there is debug information; looked for at the end", 0,
         0},
        {0, "inlines", OPTION_FLAG, &asked.inlines, NULL,
         "... and the functions that were inlined there, as frames of their own", 0, 0},
        {0, "ready-fd", OPTION_INTEGER, &asked.ready_fd, "FD",
         "write \"ready\" to this descriptor when it counts, and the unwind tables of -p PID are in place", 0,
         INT32_MAX},
        {0, "record-events", OPTION_TEXT, &asked.record_events, "FILE",
         "also keep every record from the kernel, for --replay", 0, 0},
        {0, "replay", OPTION_TEXT, &asked.replay, "FILE",
         "read the records of FILE instead of the kernel; needs no rights", 0, 0},
        {0},
    };
    int operands, r = options_parse(&subcommand_record, specs, argc, argv, &operands);
    if (r != 0)
        return r < 0 ? r : 0;
    if (operands > 0) {
        argv[1 + operands] = NULL;
        asked.command = argv + 1;
    }
    bool narrowed = record_filters_narrow(&asked.whom) || asked.command;
    if (asked.all && narrowed) {
        log_error("record: -a is the whole node; leave it out to choose processes");
        return -EINVAL;
    }
    if (asked.events.count && (asked.off_cpu || asked.wall || asked.rate_hz)) {
        log_error(
            "record: --event samples by its own count and not by time: --off-cpu, --wall and -F do not go with it");
        return -EINVAL;
    }
    if (asked.off_cpu && asked.rate_hz) {
        log_error("record: --off-cpu tells every wait: -F is of CPU samples");
        return -EINVAL;
    }
    if (asked.off_cpu && asked.wall) {
        log_error("record: --wall is --off-cpu and CPU time together; leave one of them out");
        return -EINVAL;
    }
    if ((asked.min_wait_ns || asked.sample_wait_ns || asked.wakers) && !asked.off_cpu && !asked.wall) {
        log_error("record: %s with --off-cpu or --wall",
                  asked.wakers ? "--wakers goes" : "--min-wait and --sample-waits go");
        return -EINVAL;
    }
    if (asked.replay && (narrowed || asked.record_events || asked.rate_hz || asked.duration_ns || asked.off_cpu ||
                         asked.wall || asked.wakers || asked.events.count)) {
        log_error("record: --replay takes what was recorded: only -o, --lines and --inlines go with it");
        return -EINVAL;
    }
    if (asked.ready_fd >= 0 && ready_fd_check((int)asked.ready_fd) < 0) {
        log_error("record: --ready-fd: descriptor %lld is not open for writing", (long long)asked.ready_fd);
        return -EINVAL;
    }
    asked.lines |= asked.inlines;
    r = record_event_new(&asked.events, period, &asked.event);
    if (r < 0)
        return r;
    _cleanup_(record_event_freep) struct record_event *event = asked.event;
    asked.time = event           ? PROFILE_EVENTS
                 : asked.wall    ? PROFILE_WALL_TIME
                 : asked.off_cpu ? PROFILE_OFF_CPU_TIME
                                 : PROFILE_CPU_TIME;
    if (!asked.rate_hz)
        asked.rate_hz = DEFAULT_HZ;
    return record(&asked);
}

const struct verb subcommand_record = {
    .name = "record",
    .synopsis =
        "[-a | -p PID | -c CONTAINER | -C NAME | -u USER] [-F HZ | --event EVENT | --off-cpu | --wall] [--wakers] [-d SECONDS] [-o FILE] [-- COMMAND...]",
    .summary = "Record a profile of CPU time, of waiting time or of events into a file",
    .details =
        "Formats by the file's ending: .pb.gz (pprof, for `go tool pprof`), .folded (stacks, for flamegraph.pl),\n"
        ".html (a self-contained flame graph), .json (speedscope). Where several of -p, -c (or --pod, --cgroup), -C and -u are given, all must hold.\n"
        "Events: page-faults, minor-faults, major-faults, context-switches, cpu-migrations, cycles, instructions, cache-references, cache-misses,\n"
        "branches, branch-misses, mmap, brk, tracepoint:SUBSYSTEM:NAME, usdt:PROVIDER:PROBE, usdt:/PATH:PROVIDER:PROBE.\n"
        "The exit status is that of COMMAND.",
    .run = run,
};
