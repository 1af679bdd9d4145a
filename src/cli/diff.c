/* `sonde diff`: what of two profiles has become more, and what less: file -> profile -> the two side by side -> text or a flame graph. */
#include "base/log.h"
#include "cli/file_part.h"
#include "cli/output.h"
#include "cli/verbs.h"
#include "export/diff_html.h"
#include "export/diff_text.h"
#include "sources/pprof_file.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#define ROWS     20
#define ROWS_MAX 100000

struct asked {
    const char *value;
    const char *page;
    bool total, all, folded;
    int64_t rows;
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
static int check_same_kind(char **paths, const struct pprof_about about[DIFF_SIDES])
{
    if (strcmp(about[DIFF_BEFORE].type, about[DIFF_AFTER].type) == 0)
        return 0;
    log_error("diff: %s has %s (%s), %s has %s (%s); --value TYPE chooses among the types of both", paths[DIFF_BEFORE], about[DIFF_BEFORE].type,
              about[DIFF_BEFORE].unit, paths[DIFF_AFTER], about[DIFF_AFTER].type, about[DIFF_AFTER].unit);
    return -EINVAL;
}

static int draw(const struct profile_diff *d, const struct output *output)
{
    _cleanup_buf_ struct buf page = {0};
    int r = diff_html_write(&page, d);
    return r < 0 ? log_errno(r, "diff: the flame graph cannot be made") : output_write(output, ".html", page.data, page.size);
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

static int compare(char **paths, const struct asked *asked, const struct output *output)
{
    _cleanup_(profile_freep) struct profile *before = NULL, *after = NULL;
    _cleanup_(profile_diff_freep) struct profile_diff *d = NULL;
    struct pprof_about about[DIFF_SIDES];
    int r = read_profile(paths[DIFF_BEFORE], asked->value, &before, &about[DIFF_BEFORE]);
    if (r == 0)
        r = read_profile(paths[DIFF_AFTER], asked->value, &after, &about[DIFF_AFTER]);
    if (r == 0)
        r = check_same_kind(paths, about);
    if (r < 0)
        return 1;
    r = profile_diff_new(before, after, &d);
    if (r < 0)
        return log_errno(r, "diff: the profiles cannot be compared");
    for (int side = 0; side < DIFF_SIDES; side++)
        d->whole[side].samples = about[side].samples; /* 0: not told, and nothing can be said of chance */
    return output ? draw(d, output) : print(d, asked, &about[DIFF_AFTER]);
}

static int run(int argc, char **argv)
{
    struct asked asked = {.rows = ROWS};
    const struct option_spec specs[] = {
        {0, "value", OPTION_TEXT, &asked.value, "TYPE", "which of the profiles' values: 'cpu', 'samples', 'alloc_space', ...; their default without", 0, 0},
        {'t', "total", OPTION_FLAG, &asked.total, NULL, "functions with all that they called, not by themselves", 0, 0},
        {'n', "rows", OPTION_INTEGER, &asked.rows, "N", "the N largest changes (20)", 1, ROWS_MAX},
        {0, "all", OPTION_FLAG, &asked.all, NULL, "also what changed by less than the number of samples can tell", 0, 0},
        {'o', "output", OPTION_TEXT, &asked.page, "FILE", "a differential flame graph instead, one file for any browser: its name ends in .html", 0, 0},
        {0, "folded", OPTION_FLAG, &asked.folded, NULL, "stacks with the weights of both, one a line, for flamegraph.pl", 0, 0},
        {0}};
    int operands, r = options_parse(&verb_diff, specs, argc, argv, &operands);
    if (r != 0)
        return r < 0 ? r : 0;
    if (operands != 2) {
        log_error("diff: BEFORE and AFTER are two files (sonde diff --help)");
        return -EINVAL;
    }
    struct output output;
    if (!asked.page)
        return compare(argv + 1, &asked, NULL);
    const size_t length = strlen(asked.page);
    if (asked.folded || length < 5 || strcmp(asked.page + length - 5, ".html") != 0) {
        log_error("diff: -o is for a flame graph, whose name ends in .html; all else goes to standard output");
        return -EINVAL;
    }
    return output_check("diff", asked.page, &output) < 0 ? 1 : compare(argv + 1, &asked, &output);
}

const struct verb verb_diff = {
    .name = "diff",
    .synopsis = "BEFORE AFTER",
    .summary = "Compare two profiles: what became more, and what less",
    .details = "BEFORE and AFTER are pprof files, of `sonde record` or of any other profiler, plain or packed. What is compared is each function's share of "
               "its profile's whole, so that two recordings of different length or load can be compared; what grew most stands first. A change that the number "
               "of samples alone may have made is not shown.",
    .flags_anywhere = true,
    .run = run,
};
