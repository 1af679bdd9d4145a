/* `sonde memory`: who holds the memory of the node. Needs no agent and no BPF program: reads /proc, cgroups and the
 * page cache, twice, for the growth of processes. */
#include "base/standard_output.h"
#include "cli/memory/memory_text.h"
#include "cli/subcommands.h"

#define ROWS_SHOWN 10

struct memory_args {
    uint64_t interval_ns;
    int64_t top;
    bool json;
};

static int print_report(const struct memory_args *args, char *const *paths, size_t path_count)
{
    _cleanup_(memory_report_clear) struct memory_report r = {0};
    _cleanup_buf_ struct buf out = {0};
    const int e = memory_report_gather(&r, args->interval_ns, paths, path_count);
    if (e < 0)
        return e;
    (args->json ? memory_text_put_json : memory_text_put)(&r, (size_t)args->top, &out);
    return standard_output_write("memory", &out);
}

static int run_memory(int argc, char **argv)
{
    struct memory_args args = {.interval_ns = 2000000000, .top = ROWS_SHOWN};
    const struct option_spec specs[] = {
        {'d', "duration", OPTION_DURATION, &args.interval_ns, "DURATION",
         "measure the growth of processes for this long, up to 1h (default 2s)", 0, 3600000000000ll},
        {'n', "top", OPTION_INTEGER, &args.top, "ROWS", "at most this many rows of each table (default 10)", 1, 100000},
        {0, "json", OPTION_FLAG, &args.json, NULL, "as a JSON object (sonde-memory(1))", 0, 0},
        {0},
    };
    int operands = 0;
    const int r = options_parse(&subcommand_memory, specs, argc, argv, &operands);
    if (r != 0)
        return r < 0 ? r : 0;
    return print_report(&args, argv + 1, (size_t)operands);
}

const struct subcommand subcommand_memory = {
    .name = "memory",
    .synopsis = "[-d DURATION] [-n ROWS] [--json] [PATH...]",
    .summary = "List who holds the node's memory: cgroups, processes, files",
    .details =
        "Prints anonymous memory and page cache of each cgroup, anonymous memory of each process with its growth, and the\n"
        "files that the page cache holds, of those that processes have open or mapped and of those in PATH, a file or a\n"
        "folder. Needs no agent; without root, only what this user may read.",
    .flags_anywhere = true,
    .run = run_memory,
};
