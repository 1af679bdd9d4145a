/* `sonde memory`: who holds the memory of the node. Needs no agent and no BPF program: reads /proc, cgroups and the
 * page cache, twice, for the growth of processes. */
#include "base/buf.h"
#include "base/clock.h"
#include "base/labelled_number.h"
#include "base/log.h"
#include "base/starts_with.h"
#include "cli/memory/memory_text.h"
#include "cli/standard_output.h"
#include "cli/subcommands.h"
#include "memory_report/memory_cgroups.h"
#include "memory_report/memory_files.h"
#include "memory_report/memory_processes.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#define ROWS_SHOWN 10

struct memory_args {
    uint64_t interval_ns;
    int64_t top;
    bool json;
};

static uint64_t read_page_cache(void)
{
    _cleanup_buf_ struct buf text = {0};
    if (buf_read_file(&text, "/proc/meminfo", 16384) < 0 || !text.data)
        return 0;
    return labelled_number(text.data, "\nCached:") * 1024;
}

/* Reads the processes at both ends of the interval, and waits in between. */
static int read_growth(uint64_t interval_ns, struct memory_report *r)
{
    const struct timespec pause = {.tv_sec = (time_t)(interval_ns / 1000000000),
                                   .tv_nsec = (long)(interval_ns % 1000000000)};
    struct memory_process *before;
    size_t before_count;
    const uint64_t begin_ns = clock_monotonic_ns();
    int e = memory_processes_read(&before, &before_count);
    if (e < 0)
        return e;
    nanosleep(&pause, NULL);
    e = memory_processes_read(&r->processes, &r->process_count);
    r->interval_ns = clock_monotonic_ns() - begin_ns;
    if (e == 0)
        memory_processes_compare(r->processes, r->process_count, before, before_count);
    memory_processes_free(before, before_count);
    return e;
}

/* An agent keeps files of other programs open, which it reads names of functions from. */
static bool is_agent(const struct memory_process *p)
{
    return strcmp(p->command, "sonde") == 0 || starts_with(p->command, "sonde-");
}

static int add_files(const struct memory_report *r, char **paths, int path_count, struct memory_files *files)
{
    for (int i = 0; i < path_count; i++) {
        const int e = memory_files_add_path(files, paths[i]);
        if (e < 0)
            return log_errno(e, "memory: %s", paths[i]);
    }
    for (size_t i = 0; i < r->process_count; i++)
        if (!is_agent(&r->processes[i]))
            memory_files_add_process(files, r->processes[i].pid);
    return 0;
}

static int gather_and_print(const struct memory_args *args, char **paths, int path_count)
{
    struct memory_report r = {0};
    _cleanup_buf_ struct buf out = {0};
    _cleanup_(memory_files_freep) struct memory_files *files = NULL;
    int e = memory_files_new(&files) ?: read_growth(args->interval_ns, &r) ?: add_files(&r, paths, path_count, files);
    if (e == 0) {
        (void)memory_cgroups_read(&r.cgroups, &r.cgroup_count); /* a node without the controller has no such table */
        memory_files_report(files, &r);
        r.page_cache = read_page_cache();
        (args->json ? memory_text_put_json : memory_text_put)(&r, (size_t)args->top, &out);
        e = standard_output_write("memory", &out);
    }
    memory_processes_free(r.processes, r.process_count);
    memory_cgroups_free(r.cgroups, r.cgroup_count);
    return e;
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
    return gather_and_print(&args, argv + 1, operands);
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
