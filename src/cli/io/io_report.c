/* `sonde io report`: what a job, a process or a command did with each file, with findings, as text, JSON, HTML or a
 * log of Darshan. Needs no agent. */
#include "cli/io/io_report.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/end_signals.h"
#include "base/log.h"
#include "cli/options.h"
#include "cli/output.h"
#include "diagnose/io/io_findings.h"
#include "export/darshan.h"
#include "export/io_report_html.h"
#include "export/io_report_json.h"
#include "export/io_report_text.h"
#include "io_report/io_report_recording.h"
#include "sources/attach/privileges.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#define TICK_NS  20000000ull   /* how often the kernel's tables are emptied */
#define GRACE_NS 5000000000ull /* for a command to end */

struct args {
    const char *job, *output;
    int64_t pid;
    uint64_t duration_ns; /* 0: until the end of the job, process or command */
    char **command;
};

/* Until the end of the job, process or command, or for `wait_ns`, or a signal to this program. */
enum watch_end { WATCH_ENDED, WATCH_TIMED_OUT, WATCH_SIGNALLED };

static int watch(struct io_report_recording *rec, const sigset_t *signals, uint64_t wait_ns, enum watch_end *ret)
{
    const uint64_t start_ns = clock_monotonic_ns();
    int r = 0;
    *ret = WATCH_TIMED_OUT;
    while (r == 0 && *ret == WATCH_TIMED_OUT && clock_monotonic_ns() - start_ns < wait_ns) {
        if (end_signals_wait(signals, 0))
            *ret = WATCH_SIGNALLED;
        else if (io_report_target_wait(&rec->target, TICK_NS))
            *ret = WATCH_ENDED;
        r = io_report_recording_take(rec, clock_monotonic_ns(), false);
    }
    return r;
}

/* A command that still runs has time to end: after Ctrl-C, which it got, too, by itself; else when it is asked to. What
 * it does then is in the report. */
static int end_command(struct io_report_recording *rec, const sigset_t *signals, enum watch_end end)
{
    int r = 0;
    if (end == WATCH_SIGNALLED)
        r = watch(rec, signals, GRACE_NS, &end);
    if (r == 0 && end != WATCH_ENDED) {
        io_report_target_terminate(&rec->target, SIGTERM);
        r = watch(rec, signals, GRACE_NS, &end);
    }
    if (r == 0 && end != WATCH_ENDED) {
        io_report_target_terminate(&rec->target, SIGKILL);
        r = watch(rec, signals, GRACE_NS, &end);
    }
    return r;
}

static int watch_target(const struct args *args, struct io_report_recording *rec)
{
    sigset_t signals;
    enum watch_end end;
    int r = end_signals_block(&signals); /* the command was forked before that */
    if (r == 0)
        r = io_report_target_start(&rec->target);
    if (r == 0)
        r = watch(rec, &signals, args->duration_ns ? args->duration_ns : UINT64_MAX, &end);
    return r == 0 && end != WATCH_ENDED && args->command ? end_command(rec, &signals, end) : r;
}

/* ---- the file ---- */

static int put_darshan(const struct io_report *report, const struct io_finding *findings, size_t count, struct buf *out)
{
    (void)findings, (void)count;
    return darshan_write(report, out);
}

typedef int (*put_report)(const struct io_report *report, const struct io_finding *findings, size_t count,
                          struct buf *out);

/* ".json"; NULL: the file's name has none. */
static const char *suffix_of(const char *path)
{
    const char *folder = strrchr(path, '/');
    return strrchr(folder ? folder : path, '.');
}

static put_report format_of(const char *path)
{
    static const struct {
        const char *suffix;
        put_report put;
    } formats[] = {
        {".json", io_report_json_put},
        {".html", io_report_html_put},
        {".darshan", put_darshan},
    };
    const char *suffix = suffix_of(path);
    for (size_t i = 0; suffix && i < array_size(formats); i++)
        if (strcmp(suffix, formats[i].suffix) == 0)
            return formats[i].put;
    return io_report_text_put;
}

static int write_report(const struct args *args, const struct output *output, const struct io_report *report)
{
    _cleanup_buf_ struct buf out = {0};
    struct io_findings findings = {0};
    const char *suffix = suffix_of(args->output);
    const int r = io_findings_find(report, &findings)
                      ?: format_of(args->output)(report, findings.items, findings.count, &out) ?: buf_error(&out);
    if (r < 0)
        return log_errno(r, "io report: the report cannot be made");
    return output_write(output, suffix ? suffix : ".txt", out.data, out.size);
}

static int record_report(const struct args *args, struct io_report_recording *rec)
{
    struct task_filter filter = {0};
    struct io_report report;
    struct output output;
    int r = output_check("io report", args->output, &output);
    if (r < 0)
        return r;
    r = io_report_target_set(&rec->target, args->job, args->pid, args->command, &filter);
    if (r == 0)
        r = io_report_recording_open(rec, &filter);
    if (rec->is_refused)
        privileges_explain();
    if (r == 0)
        r = watch_target(args, rec);
    if (r == 0)
        r = io_report_recording_finish(rec, &report);
    if (r == 0)
        r = write_report(args, &output, &report);
    return r < 0 ? r : child_exit_status(rec->target.status);
}

static const struct subcommand subcommand_io_report;

static int parse(int argc, char **argv, struct args *ret)
{
    int operands = 0;
    const struct option_spec specs[] = {
        {'j', "job", OPTION_TEXT, &ret->job, "ID", "a running job, as `sonde io` shows it: 4711, or 'slurm 4711'", 0,
         0},
        {'p', "pid", OPTION_INTEGER, &ret->pid, "PID", "a process, with its children", 1, 1 << 22},
        {'d', "duration", OPTION_DURATION, &ret->duration_ns, "DURATION",
         "how long; default: until the job, process or command ends, or Ctrl-C", 10000000, 30 * 86400000000000ll},
        {'o', "output", OPTION_TEXT, &ret->output, "FILE",
         "by its ending: .json, .html, .darshan; otherwise text (default: text to standard output)", 0, 0},
        {0},
    };
    const int r = options_parse(&subcommand_io_report, specs, argc, argv, &operands);
    if (r != 0)
        return r;
    if (operands) {
        argv[1 + operands] = NULL; /* behind the operands that were moved there */
        ret->command = argv + 1;
    }
    if ((ret->job != NULL) + (ret->pid != 0) + (operands != 0) == 1)
        return 0;
    log_error("io report: one of --job ID, --pid PID and -- COMMAND is needed");
    return -EINVAL;
}

int io_report_run(int argc, char **argv)
{
    _cleanup_(io_report_recording_clear) struct io_report_recording rec = IO_REPORT_RECORDING_NONE;
    struct args args = {.output = "-"};
    const int r = parse(argc, argv, &args);
    return r != 0 ? (r < 0 ? r : 0) : record_report(&args, &rec);
}

static const struct subcommand subcommand_io_report = {
    .name = "io report",
    .synopsis = "[--job ID | --pid PID] [-d DURATION] [-o FILE] [-- COMMAND...]",
    .summary = "Report what a job, a process or a command did with each file",
    .details =
        "Records until the job, process or command ends: operations, bytes, sizes, offsets and times of each file, as Darshan\n"
        "does, without linking anything. Findings come first. A .darshan file is read by Darshan's own tools.\n"
        "Needs no agent. The exit status is that of COMMAND.",
    .run = io_report_run,
};
