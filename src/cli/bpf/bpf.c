/* `sonde bpf`: run count and run time of every BPF program on this machine, and with --lines the CPU samples by source
 * line. Reads the kernel's statistics; needs no agent. */
#include "base/clock.h"
#include "base/end_signals.h"
#include "base/log.h"
#include "base/standard_output.h"
#include "base/table_cell.h"
#include "base/units.h"
#include "cli/bpf/bpf_lines.h"
#include "cli/subcommands.h"
#include "resolve/kernel/bpf_holders.h"
#include "resolve/kernel/bpf_programs.h"
#include "sources/attach/privileges.h"
#include "sources/bpf_stats/bpf_statistics.h"
#include "sources/bpf_stats/kernel_samples.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#define LINES_HZ         997
#define LINES_SHOWN      30
#define READ_INTERVAL_NS 250000000

struct bpf_args {
    uint64_t duration_ns;
    bool json, lines, all;
    const char *name; /* NULL: every program */
};

struct bpf_report {
    struct bpf_program_use *uses; /* borrowed from the statistics */
    size_t use_count;
    struct bpf_holder *holders;
    size_t holder_count;
    uint64_t refused; /* processes that could not be inspected, for lack of CAP_SYS_PTRACE */
    uint64_t duration_ns;
    uint64_t left_out; /* programs that could not be inspected */
};

/* By program ID, or by a prefix of its name. Without a name: those that ran, or all with --all. */
static bool is_selected(const struct bpf_args *args, const struct bpf_program_use *use)
{
    int64_t id;
    if (!args->name)
        return args->all || use->runs || use->missed;
    if (units_parse_integer(args->name, 1, UINT32_MAX, &id) == 0)
        return use->id == (uint64_t)id;
    return strncmp(use->name, args->name, strlen(args->name)) == 0;
}

/* ---- counting ---- */

/* Sampling for --lines. */
struct line_sampler {
    struct kernel_samples *samples;
    struct bpf_programs *programs;
    struct bpf_lines lines;
};

static void line_sampler_clear(struct line_sampler *l)
{
    bpf_lines_clear(&l->lines);
    kernel_samples_free(l->samples);
    bpf_programs_free(l->programs);
}

static int line_sampler_init(struct line_sampler *l, const char *name)
{
    int r = bpf_programs_new(&l->programs);
    if (r == 0)
        r = kernel_samples_new(LINES_HZ, &l->samples);
    if (r < 0)
        return log_errno(r, "bpf: --lines: cannot sample the CPUs");
    l->lines =
        (struct bpf_lines){.programs = l->programs, .name = name, .period_ns = kernel_samples_period_ns(l->samples)};
    return 0;
}

/* Refreshes the program list first, so that samples in new programs can be resolved. Does nothing without --lines. */
static int sample_lines(struct line_sampler *l)
{
    if (!l->samples)
        return 0;
    bpf_programs_refresh(l->programs);
    return kernel_samples_read(l->samples, bpf_lines_add, &l->lines);
}

/* Counts until `duration_ns` has passed, or until SIGINT or SIGTERM. */
static int count_runs(uint64_t duration_ns, struct line_sampler *l)
{
    sigset_t signals;
    int blocked = end_signals_block(&signals);
    if (blocked < 0)
        return blocked;
    const uint64_t end_ns = clock_monotonic_ns() + duration_ns;
    for (;;) {
        const uint64_t now_ns = clock_monotonic_ns(), left_ns = now_ns < end_ns ? end_ns - now_ns : 0;
        const uint64_t wait_ns = l->samples && left_ns > READ_INTERVAL_NS ? READ_INTERVAL_NS : left_ns;
        const bool interrupted = end_signals_wait(&signals, wait_ns);
        int r = sample_lines(l);
        if (r < 0 || interrupted || wait_ns == left_ns)
            return r;
    }
}

/* ---- as text ---- */

static int compare_run_time(const void *a, const void *b)
{
    const struct bpf_program_use *x = a, *y = b;
    if (x->run_time_ns != y->run_time_ns)
        return x->run_time_ns < y->run_time_ns ? 1 : -1;
    if (x->runs != y->runs)
        return x->runs < y->runs ? 1 : -1;
    return x->id < y->id ? -1 : x->id > y->id;
}

/* Returns the number of holders of `program`; `*ret` points to the first. Holders are sorted by program. */
static size_t find_holders(const struct bpf_report *a, uint32_t program, const struct bpf_holder **ret)
{
    size_t start = 0, count = 0;
    while (start < a->holder_count && a->holders[start].program < program)
        start++;
    while (start + count < a->holder_count && a->holders[start + count].program == program)
        count++;
    *ret = a->holders + start;
    return count;
}

static void put_program_row(const struct bpf_report *a, const struct bpf_program_use *use, struct buf *out)
{
    char each[32] = "-";
    const struct bpf_holder *holders;
    const size_t count = find_holders(a, use->id, &holders);
    if (use->runs)
        units_format_duration(use->run_time_ns / use->runs, each, sizeof(each));
    buf_printf(out, "%6" PRIu32 " %10.1f %10s %7.3f%% %7" PRIu64 "  ", use->id,
               (double)use->runs * 1e9 / (double)a->duration_ns, each,
               100.0 * (double)use->run_time_ns / (double)a->duration_ns, use->missed);
    table_cell_put(out, use->name, 28);
    buf_putc(out, ' ');
    table_cell_put(out, *use->places ? use->places : use->type, 28);
    for (size_t i = 0; i < count; i++) {
        buf_puts(out, i ? ", " : " ");
        table_cell_put(out, holders[i].command, 0);
        buf_printf(out, " (%" PRIu32 ")", holders[i].pid);
    }
    buf_putc(out, '\n');
}

static void put_programs_text(const struct bpf_args *args, struct bpf_report *a, struct bpf_lines *lines,
                              struct buf *out)
{
    uint64_t runs = 0, run_time_ns = 0;
    size_t ran = 0, idle = 0;
    qsort(a->uses, a->use_count, sizeof(*a->uses), compare_run_time);
    buf_printf(out, "%6s %10s %10s %8s %7s  %-28s %-28s %s\n", "ID", "RUNS/S", "TIME/RUN", "CPU", "MISSED", "PROGRAM",
               "ATTACHED", "HELD BY");
    for (size_t i = 0; i < a->use_count; i++) {
        const struct bpf_program_use *use = &a->uses[i];
        runs += use->runs;
        run_time_ns += use->run_time_ns;
        ran += use->runs > 0;
        if (is_selected(args, use))
            put_program_row(a, use, out);
        else
            idle += !args->name;
    }
    char time[32];
    buf_printf(out, "\n%zu of %zu programs ran %" PRIu64 " times in %s: %.3f%% of one CPU", ran, a->use_count, runs,
               units_format_duration(a->duration_ns, time, sizeof(time)),
               100.0 * (double)run_time_ns / (double)a->duration_ns);
    if (idle)
        buf_printf(out, "; %zu that did not run are not shown (--all)", idle);
    buf_putc(out, '\n');
    if (args->lines)
        bpf_lines_put(lines, a->duration_ns, LINES_SHOWN, out);
}

/* ---- as JSON ---- */

static void put_json_program(const struct bpf_report *a, const struct bpf_program_use *use, struct buf *out)
{
    const struct bpf_holder *holders;
    const size_t count = find_holders(a, use->id, &holders);
    buf_printf(out, "{\"id\":%" PRIu32 ",\"type\":", use->id);
    buf_put_json_string(out, use->type);
    buf_puts(out, ",\"name\":");
    buf_put_json_string(out, use->name);
    buf_puts(out, ",\"attached\":");
    buf_put_json_string(out, use->places);
    buf_printf(out, ",\"runs\":%" PRIu64 ",\"run_time_ns\":%" PRIu64 ",\"missed\":%" PRIu64 ",\"held_by\":[", use->runs,
               use->run_time_ns, use->missed);
    for (size_t i = 0; i < count; i++) {
        buf_printf(out, "%s{\"pid\":%" PRIu32 ",\"process\":", i ? "," : "", holders[i].pid);
        buf_put_json_string(out, holders[i].command);
        buf_putc(out, '}');
    }
    buf_puts(out, "]}");
}

static void put_programs_json(const struct bpf_args *args, const struct bpf_report *a, struct bpf_lines *lines,
                              struct buf *out)
{
    struct bpf_args all_programs = *args;
    bool is_first = true;
    all_programs.all = true; /* consumers of the JSON filter out programs that did not run */
    buf_printf(out, "{\"duration_ns\":%" PRIu64 ",\"programs\":[", a->duration_ns);
    for (size_t i = 0; i < a->use_count; i++)
        if (is_selected(&all_programs, &a->uses[i])) {
            buf_puts(out, is_first ? "" : ",\n");
            put_json_program(a, &a->uses[i], out);
            is_first = false;
        }
    buf_printf(out, "],\"not_seen\":{\"programs\":%" PRIu64 ",\"processes\":%" PRIu64 "}", a->left_out, a->refused);
    if (args->lines) {
        buf_printf(out, ",\"samples\":%" PRIu64 ",\"lines\":", lines->samples);
        bpf_lines_put_json(lines, out);
    }
    buf_puts(out, "}\n");
}

/* ---- the subcommand ---- */

static int enable_statistics(struct bpf_statistics **ret)
{
    int r = bpf_statistics_new(ret);
    if (r == -EOPNOTSUPP)
        return log_errno(r, "bpf: this kernel does not count runs of BPF programs: Linux 5.8 or later is needed");
    if (r < 0) {
        log_errno(r, "bpf: runs of BPF programs cannot be counted; this needs CAP_SYS_ADMIN");
        if (r == -EPERM)
            privileges_explain();
    }
    return r;
}

static int check_found(const struct bpf_args *args, const struct bpf_report *a)
{
    for (size_t i = 0; i < a->use_count; i++)
        if (is_selected(args, &a->uses[i]))
            return 0;
    log_error("bpf: no program has the ID '%s' or a name that starts with it (sonde bpf --all lists all)", args->name);
    return -ENOENT;
}

static void warn_losses(const struct bpf_report *a, const struct line_sampler *l)
{
    if (a->left_out)
        log_warning("bpf: %" PRIu64 " programs could not be inspected", a->left_out);
    if (a->refused)
        log_warning("bpf: %" PRIu64
                    " processes could not be searched for the programs they hold: CAP_SYS_PTRACE is missing",
                    a->refused);
    if (l->lines.counts.others)
        log_warning("bpf: %" PRIu64 " samples fell in lines beyond the limit of the line table",
                    l->lines.counts.others);
    if (l->samples && kernel_samples_lost(l->samples))
        log_warning("bpf: %" PRIu64 " CPU samples for --lines were lost", kernel_samples_lost(l->samples));
    if (l->samples && kernel_samples_throttled(l->samples))
        log_warning("bpf: the kernel throttled sampling %" PRIu64 " times", kernel_samples_throttled(l->samples));
}

static int report_programs(const struct bpf_args *args)
{
    _cleanup_(bpf_statistics_freep) struct bpf_statistics *statistics = NULL;
    _cleanup_(line_sampler_clear) struct line_sampler line_sampler = {0};
    _cleanup_free_ struct bpf_holder *holders = NULL;
    _cleanup_buf_ struct buf out = {0};
    struct bpf_report a = {0};
    int r = enable_statistics(&statistics);
    if (r == 0 && args->lines)
        r = line_sampler_init(&line_sampler, args->name);
    if (r < 0)
        return r;
    r = count_runs(args->duration_ns, &line_sampler);
    if (r == 0)
        r = bpf_statistics_read(statistics, &a.uses, &a.use_count);
    if (r == 0)
        r = bpf_holders_read(&holders, &a.holder_count, &a.refused);
    if (r < 0)
        return log_errno(r, "bpf: the programs cannot be read");
    if (args->name && (r = check_found(args, &a)) < 0)
        return r;
    a.holders = holders;
    a.duration_ns = bpf_statistics_duration_ns(statistics);
    a.left_out = bpf_statistics_left_out(statistics);
    if (args->json)
        put_programs_json(args, &a, &line_sampler.lines, &out);
    else
        put_programs_text(args, &a, &line_sampler.lines, &out);
    r = standard_output_write("bpf", &out);
    if (r == 0)
        warn_losses(&a, &line_sampler);
    return r;
}

static int run_bpf(int argc, char **argv)
{
    struct bpf_args args = {.duration_ns = 1000000000};
    int operands;
    const struct option_spec specs[] = {
        {'d', "duration", OPTION_DURATION, &args.duration_ns, "SECONDS",
         "count for this long, or until interrupted (default 1s)", 10000000, 86400000000000},
        {0, "lines", OPTION_FLAG, &args.lines, NULL,
         "also sample the CPUs (997 Hz each) and report the source lines of the programs", 0, 0},
        {0, "all", OPTION_FLAG, &args.all, NULL, "also programs that did not run", 0, 0},
        {0, "json", OPTION_FLAG, &args.json, NULL, "everything as one JSON object", 0, 0},
        {0},
    };
    int r = options_parse(&subcommand_bpf, specs, argc, argv, &operands);
    if (r != 0)
        return r < 0 ? r : 0;
    if (operands > 1) {
        log_error("bpf: unexpected operand '%s': only one program ID or name is accepted", argv[2]);
        return -EINVAL;
    }
    args.name = operands ? argv[1] : NULL;
    return report_programs(&args);
}

const struct subcommand subcommand_bpf = {
    .name = "bpf",
    .synopsis = "[-d SECONDS] [--lines] [--all] [--json] [ID | NAME]",
    .summary = "Measure the CPU time of the BPF programs of this machine",
    .details =
        "Reports runs and run time of every loaded BPF program, as counted by the kernel while this command runs.\n"
        "ID is a program ID, NAME a prefix of a program name.",
    .flags_anywhere = true,
    .run = run_bpf,
};
