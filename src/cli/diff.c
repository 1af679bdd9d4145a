/* `sonde diff`: compares two profiles, read from files or from time windows of a running agent, and prints the changes
 * as text, as folded stacks or as a differential flame graph. */
#include "base/log.h"
#include "base/standard_output.h"
#include "cli/output.h"
#include "cli/subcommands.h"
#include "client/agent_address.h"
#include "client/agent_window.h"
#include "export/diff_html.h"
#include "export/diff_text.h"
#include "import/pprof_file.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define ROWS     20
#define ROWS_MAX 100000

struct diff_args {
    const char *value;
    const char *page;
    bool total, all, folded;
    int64_t rows;
    struct text_list windows;
    const char *agent, *container, *time;
    int64_t pid;
};

static int read_profile(const char *path, const char *value, struct profile **ret, struct pprof_about *ret_about)
{
    int r = pprof_file_read(path, value, ret, ret_about);
    if (r == -EBADMSG)
        log_error("diff: %s is not a pprof profile, or is damaged", path);
    else if (r == -ENOENT && ret_about->why[0])
        log_error("diff: %s has no values of the type '%s'; %s", path, value, ret_about->why);
    else if (r == -ERANGE)
        log_error("diff: %s has negative values: it is itself the difference of two profiles", path);
    else if (r < 0)
        log_errno(r, "diff: %s cannot be read", path);
    return r;
}

/* Shares of the total are compared, so units may differ; the value type must be the same. */
static int check_same_kind(char *const *paths, const struct pprof_about about[DIFF_SIDES])
{
    if (strcmp(about[DIFF_BEFORE].type, about[DIFF_AFTER].type) == 0)
        return 0;
    log_error("diff: %s has %s (%s), %s has %s (%s); choose a type that both have with --value TYPE",
              paths[DIFF_BEFORE], about[DIFF_BEFORE].type, about[DIFF_BEFORE].unit, paths[DIFF_AFTER],
              about[DIFF_AFTER].type, about[DIFF_AFTER].unit);
    return -EINVAL;
}

static int write_flame_graph(const struct profile_diff *d, const struct output *output)
{
    _cleanup_buf_ struct buf page = {0};
    int r = diff_html_write(&page, d);
    return r < 0 ? log_errno(r, "diff: cannot create the flame graph")
                 : output_write(output, ".html", page.data, page.size);
}

static int print_changes(const struct profile_diff *d, const struct diff_args *args, const struct pprof_about *about)
{
    const struct diff_text_options options = {.by_total = args->total,
                                              .all = args->all,
                                              .is_time = strcmp(about->unit, "nanoseconds") == 0,
                                              .rows = (size_t)args->rows};
    _cleanup_buf_ struct buf out = {0};
    int r = args->folded ? diff_folded_write(&out, d) : diff_text_write(&out, d, &options);
    return r < 0 ? log_errno(r, "diff: cannot format the changes") : standard_output_write("diff", &out);
}

static int read_files(char *const *paths, const struct diff_args *args, struct profile *ret[DIFF_SIDES],
                      struct pprof_about about[DIFF_SIDES])
{
    int r = 0;
    for (int side = 0; side < DIFF_SIDES && r == 0; side++)
        r = read_profile(paths[side], args->value, &ret[side], &about[side]);
    return r < 0 ? r : check_same_kind(paths, about);
}

static int read_windows(const struct agent_window *windows, const struct diff_args *args,
                        struct profile *ret[DIFF_SIDES], struct pprof_about about[DIFF_SIDES])
{
    const struct agent_scope scope = {.pid = (uint32_t)args->pid, .container = args->container, .time = args->time};
    uint64_t now_ms = 0;
    int r = agent_window_now(args->agent, &now_ms);
    for (int side = 0; side < DIFF_SIDES && r == 0; side++)
        r = agent_window_read(args->agent, now_ms, &windows[side], &scope, args->value, &ret[side], &about[side]);
    return r;
}

/* Compares `windows`, or the files at `paths` when `windows` is NULL. Returns the exit status or -errno. */
static int compare_profiles(char *const *paths, const struct agent_window *windows, const struct diff_args *args,
                            const struct output *output)
{
    struct profile *profiles[DIFF_SIDES] = {0};
    struct pprof_about about[DIFF_SIDES];
    _cleanup_(profile_diff_freep) struct profile_diff *d = NULL;
    int r = windows ? read_windows(windows, args, profiles, about) : read_files(paths, args, profiles, about);
    const bool is_read = r == 0;
    if (is_read)
        r = profile_diff_new(profiles[DIFF_BEFORE], profiles[DIFF_AFTER], &d);
    for (int side = 0; side < DIFF_SIDES; side++)
        profile_free(profiles[side]);
    if (!is_read)
        return 1;
    if (r < 0)
        return log_errno(r, "diff: the profiles cannot be compared");
    for (int side = 0; side < DIFF_SIDES; side++) {
        d->whole[side].samples = about[side].samples; /* 0: unknown, and significance cannot be judged */
        d->is_exact[side] = about[side].is_exact;
    }
    if (profile_diff_why_not(d)) {
        log_error("diff: %s", profile_diff_why_not(d));
        return 1;
    }
    return output ? write_flame_graph(d, output) : print_changes(d, args, &about[DIFF_AFTER]);
}

/* Requires two files or two windows; options that apply to windows only are rejected with files. */
static int check_sides(const struct diff_args *args, int operands, struct agent_window windows[DIFF_SIDES])
{
    if (args->windows.count == 0 && operands == DIFF_SIDES && !args->pid && !args->container && !args->time &&
        !args->agent)
        return 0;
    if (args->windows.count != DIFF_SIDES || operands) {
        log_error(
            "diff: give two files BEFORE and AFTER, or --window twice; --pid, --container, --time and --agent apply to windows only (sonde diff --help)");
        return -EINVAL;
    }
    if (args->container &&
        (strlen(args->container) > 64 || args->container[strspn(args->container, "0123456789abcdef")])) {
        log_error("diff: --container: '%s' is not a container ID (up to 64 hexadecimal digits)", args->container);
        return -EINVAL;
    }
    if (args->time && !sample_type_find(args->time)) {
        log_error("diff: --time: '%s' is not one of cpu, off_cpu, wall", args->time);
        return -EINVAL;
    }
    for (int side = 0; side < DIFF_SIDES; side++)
        if (agent_window_parse(args->windows.values[side], &windows[side]) < 0)
            return -EINVAL;
    return 0;
}

static int run_diff(int argc, char **argv)
{
    struct diff_args args = {.rows = ROWS};
    struct agent_window windows[DIFF_SIDES];
    const struct option_spec specs[] = {
        {0, "value", OPTION_TEXT, &args.value, "TYPE",
         "value type to compare: 'cpu', 'samples', 'alloc_space', ... (default: the type of the profiles)", 0, 0},
        {'t', "total", OPTION_FLAG, &args.total, NULL,
         "rank functions by total time (with callees) instead of self time", 0, 0},
        {'n', "rows", OPTION_INTEGER, &args.rows, "N", "show the N largest changes (default 20)", 1, ROWS_MAX},
        {0, "all", OPTION_FLAG, &args.all, NULL, "also show changes within sampling noise", 0, 0},
        {'o', "output", OPTION_TEXT, &args.page, "FILE",
         "write a self-contained differential flame graph instead; FILE must end in .html", 0, 0},
        {0, "folded", OPTION_FLAG, &args.folded, NULL,
         "print one stack per line with the weights of both profiles, for flamegraph.pl", 0, 0},
        {0, "window", OPTION_TEXTS, &args.windows, "FROM..TO",
         "a time window of a running agent instead of a file, such as 60s..30s (ago); give it twice, BEFORE first", 0,
         0},
        {'p', "pid", OPTION_INTEGER, &args.pid, "PID", "with --window: only this process", 1, INT32_MAX},
        {'c', "container", OPTION_TEXT, &args.container, "ID",
         "with --window: only this container, by 12 or more digits of its ID", 0, 0},
        {0, "time", OPTION_TEXT, &args.time, "TIME",
         "with --window: cpu (default), off_cpu (time threads waited), or wall (both)", 0, 0},
        {0, "agent", OPTION_TEXT, &args.agent, "ADDRESS", "with --window: " AGENT_ADDRESS_HELP, 0, 0},
        {0}};
    int operands, r = options_parse(&subcommand_diff, specs, argc, argv, &operands);
    if (r != 0)
        return r < 0 ? r : 0;
    r = check_sides(&args, operands, windows);
    if (r < 0)
        return r;
    if (args.windows.count)
        args.agent = agent_address_or_default(args.agent);
    const struct agent_window *agent_windows = args.windows.count ? windows : NULL;
    struct output output;
    if (!args.page)
        return compare_profiles(argv + 1, agent_windows, &args, NULL);
    const size_t length = strlen(args.page);
    if (args.folded || length < 5 || strcmp(args.page + length - 5, ".html") != 0) {
        log_error("diff: -o writes a flame graph and needs a name that ends in .html; text goes to standard output");
        return -EINVAL;
    }
    return output_check("diff", args.page, &output) < 0 ? 1 : compare_profiles(argv + 1, agent_windows, &args, &output);
}

const struct subcommand subcommand_diff = {
    .name = "diff",
    .synopsis = "BEFORE AFTER | --window FROM..TO --window FROM..TO",
    .summary = "Compare two profiles: which functions grew, and which shrank",
    .details =
        "BEFORE and AFTER are pprof files of `sonde record` or of any other profiler, plain or gzipped. Each function's share of its profile's total "
        "is compared, so recordings of different length or load are comparable. The largest growth comes first; changes within sampling noise are "
        "not shown (--all shows them).\n"
        "Instead of files, two windows of the last two minutes of a running agent: `sonde diff --window 60s..30s --window 30s..0s`.",
    .flags_anywhere = true,
    .run = run_diff,
};
