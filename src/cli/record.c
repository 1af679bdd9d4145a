/* `sonde record`: one profile of the node, some processes, a container or a command, into a file of the format that its name asks
 * for. The file is written beside its place and moved there when whole, so that a full disk never leaves half a profile. */
#include "agent/loop.h"
#include "agent/pipeline.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/units.h"
#include "cli/child.h"
#include "cli/file_part.h"
#include "cli/privileges.h"
#include "cli/verbs.h"
#include "export/export.h"
#include "model/profile.h"
#include "sources/cgroup_search.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define PROFILE_MAX_BYTES (256 << 20)
#define MEMORY_BYTES      (128 << 20) /* resolvers and rings: a recording ends, so it may take more than the agent */

struct recording {
    struct pipeline *pipeline;
    struct profile *profile;
    uint64_t start_ns;
    uint64_t duration_ns;
    bool show_progress;
};

struct request_for_recording { /* what the command line asked for */
    bool all;
    struct option_texts pids, containers, commands;
    int64_t rate_hz;
    uint64_t duration_ns;
    const char *output, *record_wire, *replay;
    char **command; /* NULL: none */
};

static int take_sample(void *context, const struct sample *sample)
{
    struct recording *rec = context;
    return profile_add(rec->profile, sample);
}

/* ---- what to look at ---- */

static int add_pids(const struct option_texts *texts, struct source_options *options)
{
    for (size_t i = 0; i < texts->count; i++) {
        int64_t pid;
        if (units_parse_integer(texts->values[i], 1, 1 << 22, &pid) < 0) {
            log_error("record: --pid: '%s' is not a process number", texts->values[i]);
            return -EINVAL;
        }
        if (kill((pid_t)pid, 0) < 0 && errno == ESRCH) {
            log_error("record: there is no process %lld", (long long)pid);
            return -ESRCH;
        }
        options->pids[options->pid_count++] = (uint32_t)pid;
    }
    return 0;
}

static int add_containers(const struct option_texts *texts, struct source_options *options)
{
    for (size_t i = 0; i < texts->count; i++) {
        size_t room = SOURCE_FILTER_MAX - options->cgroup_count;
        int found = cgroup_search_container(texts->values[i], options->cgroup_ids + options->cgroup_count, room);
        if (found == -EINVAL) {
            log_error("record: --container: '%s' is not the ID of a container, nor the first four or more digits of one", texts->values[i]);
            return found;
        }
        if (found <= 0) {
            log_error("record: no container on this node has an ID that begins with '%s'", texts->values[i]);
            return -ESRCH;
        }
        options->cgroup_count += (size_t)found;
    }
    return 0;
}

static int make_source_options(const struct request_for_recording *asked, struct source_options *ret)
{
    *ret = (struct source_options){
        .sample_hz = (uint32_t)asked->rate_hz,
        .skip_self = true,
        .ring_bytes = 16 << 20,
        .table_bytes = 64 << 20,
    };
    for (size_t i = 0; i < asked->commands.count; i++)
        snprintf(ret->commands[ret->command_count++], sizeof(ret->commands[0]), "%s", asked->commands.values[i]);
    int r = add_pids(&asked->pids, ret);
    return r < 0 ? r : add_containers(&asked->containers, ret);
}

/* ---- the file ---- */

/* Says before anything is recorded what would be lost after it. */
static int check_output(const char *path, const struct exporter *exporter)
{
    if (!exporter) {
        log_error("record: '%s': the ending tells the format, and this is none of .pb.gz, .folded, .html, .json", path);
        return -EINVAL;
    }
    if (strcmp(path, "-") == 0)
        return 0;
    struct stat st;
    bool exists = stat(path, &st) == 0;
    if (exists && S_ISDIR(st.st_mode)) {
        log_error("record: %s is a directory", path);
        return -EISDIR;
    }
    if (exists && !S_ISREG(st.st_mode))
        return 0; /* a pipe or a device: written into, never replaced */
    _cleanup_(file_part_discard) struct file_part part = FILE_PART_NONE;
    int r = file_part_create(path, &part);
    return r < 0 ? log_errno(r, "record: %s cannot be written", path) : 0;
}

static int write_file(const char *path, const struct buf *content)
{
    struct stat st;
    if (strcmp(path, "-") == 0)
        return file_part_write_all(STDOUT_FILENO, content->data, content->size);
    if (stat(path, &st) == 0 && !S_ISREG(st.st_mode)) {
        _cleanup_close_ int fd = open(path, O_WRONLY | O_CLOEXEC);
        return fd < 0 ? -errno : file_part_write_all(fd, content->data, content->size);
    }
    _cleanup_(file_part_discard) struct file_part part = FILE_PART_NONE;
    int r = file_part_create(path, &part);
    if (r == 0)
        r = file_part_write_all(part.fd, content->data, content->size);
    return r < 0 ? r : file_part_commit(&part, path);
}

static int write_profile(const struct profile *profile, const struct exporter *exporter, const char *path)
{
    _cleanup_buf_ struct buf content = {0};
    int r = exporter->write(profile, &content);
    if (r < 0)
        return log_errno(r, "record: the profile cannot be made into %s", exporter->name);
    r = write_file(path, &content);
    return r < 0 ? log_errno(r, "record: %s cannot be written", path) : 0;
}

/* ---- what a person sees meanwhile and after ---- */

static bool show_progress(void *context)
{
    struct recording *rec = context;
    if (!rec->show_progress)
        return true;
    struct losses losses;
    pipeline_losses(rec->pipeline, &losses);
    char elapsed[32], total[32];
    units_format_duration(clock_monotonic_ns() - rec->start_ns, elapsed, sizeof(elapsed));
    fprintf(stderr, "\r\033[Krecording: %s%s%s, %llu samples, %llu lost  (Ctrl-C ends it and keeps them)", elapsed,
            rec->duration_ns ? " of " : "", rec->duration_ns ? units_format_duration(rec->duration_ns, total, sizeof(total)) : "",
            (unsigned long long)pipeline_samples(rec->pipeline),
            (unsigned long long)(losses.count[LOSS_RING_FULL] + losses.count[LOSS_THROTTLED] + losses.count[LOSS_MISSED]));
    fflush(stderr);
    return true;
}

static void report_end(const struct recording *rec, const char *path)
{
    if (rec->show_progress)
        fprintf(stderr, "\r\033[K");
    struct losses losses;
    pipeline_losses(rec->pipeline, &losses);
    fprintf(stderr, "sonde: wrote %s: %llu samples of %u processes", strcmp(path, "-") == 0 ? "standard output" : path,
            (unsigned long long)pipeline_samples(rec->pipeline), rec->profile->resource_count);
    for (int i = 0; i < LOSS_COUNT; i++)
        if (losses.count[i])
            fprintf(stderr, "; %llu %s", (unsigned long long)losses.count[i], loss_name(i));
    if (rec->profile->dropped)
        fprintf(stderr, "; %llu dropped (memory)", (unsigned long long)rec->profile->dropped);
    fprintf(stderr, "\n");
}

/* ---- the recording ---- */

static int open_pipeline(const struct request_for_recording *asked, struct recording *rec, int child_pid)
{
    struct pipeline_options options = {
        .memory_bytes = MEMORY_BYTES,
        .record_wire = asked->record_wire,
        .replay = asked->replay,
    };
    int r = make_source_options(asked, &options.sources);
    if (r < 0)
        return r;
    if (child_pid > 0) {
        if (options.sources.pid_count == SOURCE_FILTER_MAX) {
            log_error("record: COMMAND is a process too: no more than %d beside it", SOURCE_FILTER_MAX - 1);
            return -EINVAL;
        }
        options.sources.pids[options.sources.pid_count++] = (uint32_t)child_pid;
    }
    struct attach_report report = {0};
    struct pipeline_sink sink = {.context = rec, .sample = take_sample};
    r = pipeline_new(&options, &sink, &report, &rec->pipeline);
    if (r < 0) {
        for (size_t i = 0; i < report.count; i++)
            if (!report.entries[i].attached)
                log_error("%s: not attached (%s)", report.entries[i].probe, report.entries[i].not_better);
        if (!asked->replay)
            privileges_explain();
        return r;
    }
    return pipeline_start(rec->pipeline);
}

/* As shells tell it. */
static int status_of_command(int status)
{
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* The exit status of the command that was recorded, 0 without one, -errno. */
static int record(const struct request_for_recording *asked)
{
    const struct exporter *exporter = strcmp(asked->output, "-") == 0 ? exporter_by_name("folded") : exporter_by_path(asked->output);
    int r = check_output(asked->output, exporter);
    if (r < 0)
        return r;
    _cleanup_(profile_freep) struct profile *profile = NULL;
    r = profile_new(PROFILE_MAX_BYTES, &profile);
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
        .duration_ns = asked->duration_ns,
        .show_progress = isatty(STDERR_FILENO),
        .start_ns = clock_monotonic_ns(),
    };
    r = open_pipeline(asked, &rec, child.pid);
    _cleanup_(pipeline_freep) struct pipeline *pipeline = rec.pipeline;
    if (r < 0)
        return r;
    profile->start_unix_ns = clock_unix_ns();
    profile->period_ns = 1000000000ull / (uint64_t)asked->rate_hz;
    uint64_t start_ns = clock_monotonic_ns();
    if (asked->command) {
        r = child_release(&child);
        if (r < 0)
            return r;
    }
    struct loop_options loop = {
        .duration_ns = asked->duration_ns,
        .context = &rec,
        .tick = show_progress,
        .child_pid = child.pid,
    };
    struct loop_end end;
    int ended = loop_run(pipeline, &loop, &end); /* whatever ended it: what was recorded is kept */
    if (ended == 0 && end.child_exited)
        child.pid = 0; /* waited for */
    profile->duration_ns = clock_monotonic_ns() - start_ns;
    r = write_profile(profile, exporter, asked->output);
    if (r == 0)
        report_end(&rec, asked->output);
    if (r == 0)
        r = pipeline_record_wire_error(pipeline);
    if (r < 0 || ended < 0)
        return r < 0 ? r : ended;
    return end.child_exited ? status_of_command(end.child_status) : 0;
}

static int run(int argc, char **argv)
{
    struct request_for_recording asked = {.rate_hz = 99, .output = "profile.pb.gz"};
    const struct option_spec specs[] = {
        {'a', "all", OPTION_FLAG, &asked.all, NULL, "the whole node (the default without -p, -c, -C, COMMAND)", 0, 0},
        {'p', "pid", OPTION_TEXTS, &asked.pids, "PID", "this process and the children it starts; may be repeated", 0, 0},
        {'c', "container", OPTION_TEXTS, &asked.containers, "CONTAINER", "a container, by its ID or the first digits of it", 0, 0},
        {'C', "command", OPTION_TEXTS, &asked.commands, "NAME", "threads of this name (comm)", 0, 0},
        {'F', "rate", OPTION_INTEGER, &asked.rate_hz, "HZ", "samples a second and CPU (default 99)", 1, 20000},
        {'d', "duration", OPTION_DURATION, &asked.duration_ns, "SECONDS", "how long (default: until Ctrl-C, or COMMAND ends)", 1000000, 86400000000000},
        {'o', "output", OPTION_TEXT, &asked.output, "FILE", "FILE.pb.gz, .folded, .html or .json; - is folded text (default profile.pb.gz)", 0, 0},
        {0, "record-wire", OPTION_TEXT, &asked.record_wire, "FILE", "also keep every record from the kernel, for --replay", 0, 0},
        {0, "replay", OPTION_TEXT, &asked.replay, "FILE", "read the records of FILE instead of the kernel; needs no rights", 0, 0},
        {0},
    };
    int operands, r = options_parse(&verb_record, specs, true, argc, argv, &operands);
    if (r != 0)
        return r < 0 ? r : 0;
    if (operands > 0) {
        argv[1 + operands] = NULL;
        asked.command = argv + 1;
    }
    bool narrowed = asked.pids.count || asked.containers.count || asked.commands.count || asked.command;
    if (asked.all && narrowed) {
        log_error("record: -a is the whole node; leave it out to choose processes");
        return -EINVAL;
    }
    if (asked.replay && (narrowed || asked.record_wire)) {
        log_error("record: --replay takes what was recorded; it cannot be narrowed or recorded again");
        return -EINVAL;
    }
    return record(&asked);
}

const struct verb verb_record = {
    .name = "record",
    .synopsis = "[-a | -p PID | -c CONTAINER] [-F HZ] [-d SECONDS] [-o FILE] [-- COMMAND...]",
    .summary = "Record a CPU profile into a file",
    .details = "Formats by the file's ending: .pb.gz (pprof, for `go tool pprof`), .folded (stacks, for flamegraph.pl),\n"
               ".html (a self-contained flame graph), .json (speedscope).",
    .run = run,
};
