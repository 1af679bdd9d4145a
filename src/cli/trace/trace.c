/* `sonde trace`: tools for files of request traces in Triton's JSON. Finds the subcommand of `trace` and runs it. */
#include "cli/trace/trace.h"

#include "base/log.h"
#include "cli/subcommands.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static const struct subcommand *const trace_subcommands[] = {&trace_subcommand_summary, &trace_subcommand_show,
                                                             &trace_subcommand_convert, NULL};

static void print_usage(FILE *f)
{
    fprintf(f, "Usage: sonde trace %s\n\n%s.\n\nSubcommands:\n", subcommand_trace.synopsis, subcommand_trace.summary);
    for (const struct subcommand *const *v = trace_subcommands; *v; v++)
        fprintf(f, "  %-8s %s\n", strchr((*v)->name, ' ') + 1, (*v)->summary);
    fprintf(
        f,
        "\n`sonde trace SUBCOMMAND --help` describes it.\n\nOptions:\n  -h, --help                       this text\n");
}

static int run_trace(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "";
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0) {
        print_usage(stdout);
        return 0;
    }
    for (const struct subcommand *const *v = trace_subcommands; *v; v++)
        if (strcmp(name, strchr((*v)->name, ' ') + 1) == 0)
            return (*v)->run(argc - 1, argv + 1);
    if (argc > 1)
        log_error("trace: unknown subcommand '%s' (sonde trace --help lists them)", name);
    else
        print_usage(stderr);
    return -EINVAL;
}

const struct subcommand subcommand_trace = {
    .name = "trace",
    .synopsis = "SUBCOMMAND [OPTIONS] FILE...",
    .summary = "Read files of request traces in Triton's JSON",
    .run = run_trace,
};
