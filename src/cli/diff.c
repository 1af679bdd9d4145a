/* `sonde diff`: what of two profiles has become more, and what less: file, or window of a running agent -> profile ->
 * the two side by side -> text or a flame graph. */
#include "base/log.h"
#include "cli/agent_window.h"
#include "cli/file_part.h"
#include "cli/output.h"
#include "cli/subcommands.h"
#include "export/diff_html.h"
#include "export/diff_text.h"
#include "import/pprof_file.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define ROWS     20
#define ROWS_MAX 100000

struct asked {
    const char *value;
    const char *page;
    bool total, all, folded;
    int64_t rows;
    struct option_texts windows;
    const char *agent, *container, *time;
    int64_t pid;
};

static int read_profile(const char *path, const char *value, struct profile **ret, struct pprof_about *ret_about)
{
    int r = pprof_file_read(path, value, ret, ret_about);
    if (r == -EBADMSG)
        log_error("diff: %s is no profile that pprof's tools read, or is damaged", path);
    else if (r == -ENOENT && ret_about->why[0])
        log_error("diff: %s has no values of the type '%s'; %s", path, value, ret_about->why);
    else if (r == -ERANGE)
        log_error("diff: %s has negative values: it is a difference already", path);
    else if (r < 0)
        log_errno(r, "diff: %s cannot be read", path);
    return r;
}

/* Shares can be compared whatever the unit, of one kind of thing. */
static int check_same_kind(char *const *paths, const struct pprof_about about[DIFF_SIDES])
{
    if (strcmp(about[DIFF_BEFORE].type, about[DIFF_AFTER].type) == 0)
        return 0;
    log_error("diff: %s has %s (%s), %s has %s (%s); --value TYPE chooses among the types of both", paths[DIFF_BEFORE],
              about[DIFF_BEFORE].type, about[DIFF_BEFORE].unit, paths[DIFF_AFTER], about[DIFF_AFTER].type,
              about[DIFF_AFTER].unit);
    return -EINVAL;
}

static int draw(const struct profile_diff *d, const struct output *output)
{
    _cleanup_buf_ struct buf page = {0};
    int r = diff_html_write(&page, d);
    return r < 0 ? log_errno(r, "diff: the flame graph cannot be made")
                 : output_write(output, ".html", page.data, page.size);
}

static int print(const struct profile_diff *d, const struct asked *asked, const struct pprof_about *about)
{
    const struct diff_text_options options = {.by_total = asked->total,
                                              .all = asked->all,
                                              .is_time = strcmp(about->unit, "nanoseconds") == 0,
                                              .rows = (size_t)asked->rows};
    _cleanup_buf_ struct buf out = {0};
    int r = asked->folded ? diff_folded_write(&out, d) : diff_text_write(&out, d, &options);
    if (r == 0)
        r = file_part_write_all(STDOUT_FILENO, out.data, out.size);
    return r < 0 ? log_errno(r, "diff: standard output cannot be written") : 0;
}

static int read_files(char *const *paths, const struct asked *asked, struct profile *ret[DIFF_SIDES],
                      struct pprof_about about[DIFF_SIDES])
{
    int r = 0;
    for (int side = 0; side < DIFF_SIDES && r == 0; side++)
        r = read_profile(paths[side], asked->value, &ret[side], &about[side]);
    return r < 0 ? r : check_same_kind(paths, about);
}

static int read_windows(const struct agent_window *windows, const struct asked *asked, struct profile *ret[DIFF_SIDES],
                        struct pprof_about about[DIFF_SIDES])
{
    const struct agent_scope scope = {.pid = (uint32_t)asked->pid, .container = asked->container, .time = asked->time};
    uint64_t now_ms = 0;
    int r = agent_window_now(asked->agent, &now_ms);
    for (int side = 0; side < DIFF_SIDES && r == 0; side++)
        r = agent_window_read(asked->agent, now_ms, &windows[side], &scope, asked->value, &ret[side], &about[side]);
    return r;
}

/* `windows`: NULL for files at `paths`. */
static int compare(char *const *paths, const struct agent_window *windows, const struct asked *asked,
                   const struct output *output)
{
    struct profile *profiles[DIFF_SIDES] = {0};
    struct pprof_about about[DIFF_SIDES];
    _cleanup_(profile_diff_freep) struct profile_diff *d = NULL;
    int r = windows ? read_windows(windows, asked, profiles, about) : read_files(paths, asked, profiles, about);
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
        d->whole[side].samples = about[side].samples; /* 0: not told, and nothing can be said of chance */
        d->is_exact[side] = about[side].is_exact;
    }
    snprintf(d->type, sizeof(d->type), "%.63s", about[DIFF_AFTER].type);
    if (profile_diff_why_not(d)) {
        log_error("diff: %s", profile_diff_why_not(d));
        return 1;
    }
    return output ? draw(d, output) : print(d, asked, &about[DIFF_AFTER]);
}

/* Two windows, or two files; what is only of windows is wrong with files. */
static int check_sides(const struct asked *asked, int operands, struct agent_window windows[DIFF_SIDES])
{
    if (asked->windows.count == 0 && operands == DIFF_SIDES && !asked->pid && !asked->container && !asked->time &&
        !asked->agent)
        return 0;
    if (asked->windows.count != DIFF_SIDES || operands) {
        log_error(
            "diff: BEFORE and AFTER are two files, or --window twice, with or without --pid, --container, --time and --agent (sonde diff --help)");
        return -EINVAL;
    }
    if (asked->container &&
        (strlen(asked->container) > 64 || asked->container[strspn(asked->container, "0123456789abcdef")])) {
        log_error("diff: --container: '%s' is not the hexadecimal digits of a container's id", asked->container);
        return -EINVAL;
    }
    enum profile_time time;
    if (asked->time && profile_time_find(asked->time, &time) < 0) {
        log_error("diff: --time: '%s' is none of cpu, off_cpu, wall", asked->time);
        return -EINVAL;
    }
    for (int side = 0; side < DIFF_SIDES; side++)
        if (agent_window_parse(asked->windows.values[side], &windows[side]) < 0)
            return -EINVAL;
    return 0;
}

static int run(int argc, char **argv)
{
    struct asked asked = {.rows = ROWS};
    struct agent_window windows[DIFF_SIDES];
    const struct option_spec specs[] = {
        {0, "value", OPTION_TEXT, &asked.value, "TYPE",
         "which of the profiles' values: 'cpu', 'samples', 'alloc_space', ...; their default without", 0, 0},
        {'t', "total", OPTION_FLAG, &asked.total, NULL, "functions with all that they called, not by themselves", 0, 0},
        {'n', "rows", OPTION_INTEGER, &asked.rows, "N", "the N largest changes (20)", 1, ROWS_MAX},
        {0, "all", OPTION_FLAG, &asked.all, NULL,
         "also what changed by less than chance among the samples may make of it", 0, 0},
        {'o', "output", OPTION_TEXT, &asked.page, "FILE",
         "a differential flame graph instead, one file for any browser: its name ends in .html", 0, 0},
        {0, "folded", OPTION_FLAG, &asked.folded, NULL,
         "stacks with the weights of both, one a line, for flamegraph.pl", 0, 0},
        {0, "window", OPTION_TEXTS, &asked.windows, "FROM..TO",
         "instead of a file: of a running agent, so long ago, such as 60s..30s; twice, the first is BEFORE", 0, 0},
        {'p', "pid", OPTION_INTEGER, &asked.pid, "PID", "of windows, only this process", 1, INT32_MAX},
        {'c', "container", OPTION_TEXT, &asked.container, "ID",
         "of windows, only this container: the first 12 digits of its id, or more", 0, 0},
        {0, "time", OPTION_TEXT, &asked.time, "TIME",
         "of windows: cpu (the default), off_cpu: what threads waited, or wall: both", 0, 0},
        {0, "agent", OPTION_TEXT, &asked.agent, "ADDRESS:PORT", "the agent to ask (default 127.0.0.1:7070)", 0, 0},
        {0}};
    int operands, r = options_parse(&subcommand_diff, specs, argc, argv, &operands);
    if (r != 0)
        return r < 0 ? r : 0;
    r = check_sides(&asked, operands, windows);
    if (r < 0)
        return r;
    if (!asked.agent)
        asked.agent = "127.0.0.1:7070";
    const struct agent_window *of_agent = asked.windows.count ? windows : NULL;
    struct output output;
    if (!asked.page)
        return compare(argv + 1, of_agent, &asked, NULL);
    const size_t length = strlen(asked.page);
    if (asked.folded || length < 5 || strcmp(asked.page + length - 5, ".html") != 0) {
        log_error("diff: -o is for a flame graph, whose name ends in .html; all else goes to standard output");
        return -EINVAL;
    }
    return output_check("diff", asked.page, &output) < 0 ? 1 : compare(argv + 1, of_agent, &asked, &output);
}

const struct verb subcommand_diff = {
    .name = "diff",
    .synopsis = "BEFORE AFTER | --window FROM..TO --window FROM..TO",
    .summary = "Compare two profiles: what became more, and what less",
    .details =
        "BEFORE and AFTER are pprof files, of `sonde record` or of any other profiler, plain or packed. What is compared is each function's share of "
        "its profile's whole, so that two recordings of different length or load can be compared; what grew most stands first. A change that chance "
        "among the samples may have made is not shown.\n"
        "Instead of files, two windows of the last two minutes of a running agent: `sonde diff --window 60s..30s --window 30s..0s`.",
    .flags_anywhere = true,
    .run = run,
};
