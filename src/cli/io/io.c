/* `sonde io`: what jobs, containers, mounts, processes and files read and write now. On a terminal a live table. Needs
 * no agent. */
#include "sources/io/io.h"
#include "base/clock.h"
#include "base/end_signals.h"
#include "base/log.h"
#include "base/standard_output.h"
#include "cli/io/io_report.h"
#include "cli/io/io_text.h"
#include "cli/subcommands.h"
#include "io_report/io_coverage.h"
#include "io_report/io_details.h"
#include "io_report/io_rows.h"
#include "sources/attach/pid_namespace.h"
#include "sources/attach/privileges.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ROWS_SHOWN    30 /* by default */
#define BUSY_SHOWN    5
#define FAILING_SHOWN 8
#define LISTED_MAX    50        /* of both in JSON */
#define SWEEP_NS      250000000 /* the tables have room for the processes of this time */

struct io_args {
    uint64_t interval_ns, duration_ns; /* duration 0: not given */
    const char *by, *sort;
    unsigned fields;
    enum io_order order;
    int64_t top;
    bool json;
};

static int open_source(const struct io_args *args, struct attach_entry *ret_attached, void **ret)
{
    const struct io_options options = {.enabled = true,
                                       .by_process = args->fields & 1u << IO_FIELD_PROCESS,
                                       .by_file = args->fields & 1u << IO_FIELD_FILE,
                                       .counts_uses = true};
    struct attach_report report = {0};
    int r = pid_namespace_check(&report);
    if (r < 0)
        return log_errno(r, "io: %s", report.entries[0].fallback_reason);
    r = source_io.open(&(struct source_services){0}, &options, &report, ret);
    *ret_attached = report.entries[0];
    if (r == 0)
        return source_io.start(*ret);
    log_error("%s: not attached (%s)", report.entries[0].probe, report.entries[0].fallback_reason);
    privileges_explain();
    return r;
}

static int print_interval(const struct io_args *args, const struct attach_entry *attached, const struct io_rows *rows,
                          bool is_live)
{
    const uint64_t interval_ns = io_rows_interval_ns(rows);
    _cleanup_buf_ struct buf out = {0};
    _cleanup_free_ struct io_row *list = NULL;
    size_t count = 0;
    int r = io_rows_list(rows, args->order, &list, &count);
    if (r < 0)
        return r;
    const size_t shown = count < (size_t)args->top ? count : (size_t)args->top;
    _cleanup_free_ struct io_busy *busy = calloc(LISTED_MAX, sizeof(*busy));
    _cleanup_free_ struct io_failing *failing = calloc(LISTED_MAX, sizeof(*failing));
    if (!busy || !failing)
        return -ENOMEM;
    struct coverage coverage;
    io_coverage_set(attached, interval_ns, &coverage);
    coverage.is_answered = count > 0;
    const struct io_interval_text text = {
        .rows = list,
        .count = shown,
        .omitted = count - shown,
        .busy = busy,
        .busy_count =
            io_details_busiest(io_rows_details(rows), args->order, busy, args->json ? LISTED_MAX : BUSY_SHOWN),
        .failing = failing,
        .failing_count = io_details_failing(io_rows_details(rows), failing, args->json ? LISTED_MAX : FAILING_SHOWN),
        .fields = args->fields,
        .order = args->order,
        .attribution = io_rows_attribution(list, count),
        .interval_ns = interval_ns,
        .coverage = &coverage,
    };
    if (args->json) {
        io_text_put_json(&text, &out);
    } else {
        buf_puts(&out, is_live ? "\033[H\033[2J" : "");
        io_text_put(&text, &out);
    }
    return standard_output_write("io", &out);
}

/* Sweeps until then. True: SIGINT or SIGTERM came before. */
static bool wait_until(const sigset_t *signals, uint64_t until_ns, struct io_rows *rows, int *ret_error)
{
    for (uint64_t now_ns = clock_monotonic_ns(); *ret_error == 0 && now_ns < until_ns; now_ns = clock_monotonic_ns()) {
        const bool is_last = until_ns - now_ns <= SWEEP_NS;
        if (end_signals_wait(signals, is_last ? until_ns - now_ns : SWEEP_NS))
            return true;
        if (!is_last)
            *ret_error = io_rows_sweep(rows);
    }
    return false;
}

/* Until the duration has passed, or SIGINT or SIGTERM. */
static int watch(const struct io_args *args, const struct attach_entry *attached, struct io_rows *rows, bool is_live)
{
    sigset_t signals;
    int r = end_signals_block(&signals) ?: io_rows_refresh(rows);
    const uint64_t start_ns = clock_monotonic_ns();
    const uint64_t end_ns = args->duration_ns ? start_ns + args->duration_ns
                            : is_live         ? UINT64_MAX
                                              : start_ns + args->interval_ns;
    for (uint64_t before_ns = start_ns; r == 0 && before_ns < end_ns;) {
        const uint64_t left_ns = end_ns - before_ns;
        const uint64_t wait_ns = left_ns < args->interval_ns ? left_ns : args->interval_ns;
        const bool is_interrupted = wait_until(&signals, before_ns + wait_ns, rows, &r);
        const uint64_t now_ns = clock_monotonic_ns();
        r = r ?: io_rows_refresh(rows) ?: print_interval(args, attached, rows, is_live);
        if (is_interrupted)
            break;
        before_ns = now_ns;
    }
    return r;
}

/* Operations without a row of their own are stated with each table. */
static void report_losses(void *source)
{
    const struct io_stats stats = io_source_stats(source);
    struct losses losses = {0};
    source_io.losses(source, &losses);
    if (stats.errors_full)
        log_warning("io: %llu failures are missing in the lists of errors: there were more than %d kinds in %d ms",
                    (unsigned long long)stats.errors_full, IO_MAX_ERRORS, SWEEP_NS / 1000000);
    if (stats.names_full)
        log_warning("io: %llu operations concern a mount, job or file without a name: too many are in use",
                    (unsigned long long)stats.names_full);
    if (stats.calls_full)
        log_warning("io: %llu operations were not counted: too many were in progress",
                    (unsigned long long)stats.calls_full);
    if (losses.count[LOSS_MISSED])
        log_warning("io: %llu operations were not seen", (unsigned long long)losses.count[LOSS_MISSED]);
}

static int run_io(int argc, char **argv)
{
    struct io_args args = {.interval_ns = 2000000000, .by = "job,mount", .sort = "time", .top = ROWS_SHOWN};
    const struct option_spec specs[] = {
        {'i', "interval", OPTION_DURATION, &args.interval_ns, "DURATION", "of each table (default 2s)", 100000000,
         3600000000000ll},
        {'d', "duration", OPTION_DURATION, &args.duration_ns, "DURATION",
         "how long; default: on a terminal until Ctrl-C, else one interval", 100000000, 86400000000000ll},
        {0, "by", OPTION_TEXT, &args.by, "FIELDS", "job, container, mount, process, file (default job,mount)", 0, 0},
        {0, "sort", OPTION_TEXT, &args.sort, "ORDER", "time, bytes, read, write, syncs or operations (default time)", 0,
         0},
        {'n', "top", OPTION_INTEGER, &args.top, "ROWS", "at most this many rows (default 30)", 1, 100000},
        {0, "json", OPTION_FLAG, &args.json, NULL, "one JSON object a line for each interval (docs/signals/io.md)", 0,
         0},
        {0},
    };
    if (argc > 1 && strcmp(argv[1], "report") == 0)
        return io_report_run(argc - 1, argv + 1);
    int r = options_parse(&subcommand_io, specs, argc, argv, NULL);
    if (r != 0)
        return r < 0 ? r : 0;
    if (io_rows_parse_fields(args.by, &args.fields) < 0)
        return log_errno(-EINVAL, "io: --by: '%s': one or several of job, container, mount, process, file", args.by);
    if (io_details_parse_order(args.sort, &args.order) < 0)
        return log_errno(-EINVAL, "io: --sort: '%s': one of time, bytes, read, write, syncs, operations", args.sort);
    void *source = NULL;
    struct attach_entry attached = {0};
    r = open_source(&args, &attached, &source);
    if (r < 0)
        return r;
    _cleanup_(io_rows_freep) struct io_rows *rows = NULL;
    r = io_rows_new(source, args.fields, &rows);
    if (r == 0)
        r = watch(&args, &attached, rows, isatty(STDOUT_FILENO) && !args.json && !args.duration_ns);
    report_losses(source);
    source_io.free(source);
    return r;
}

const struct subcommand subcommand_io = {
    .name = "io",
    .synopsis = "[report] [--by FIELDS] [--sort ORDER] [-i DURATION] [-d DURATION] [-n ROWS] [--json]",
    .summary = "Show what jobs, mounts, processes and files read and write",
    .details =
        "Counts every operation on file systems (docs/signals/io.md) and prints what each job did on each mount. On a terminal\n"
        "the table is redrawn until Ctrl-C; otherwise it is printed once. Needs no agent. IO TIME is the time that\n"
        "operations took: 100 % is one thread that does nothing but I/O. To find who syncs too often or writes too much:\n"
        "sonde io --by process --sort syncs, sonde io --by process,file --sort write.",
    .run = run_io,
};
