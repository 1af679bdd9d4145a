/* See memory_report.h. Reads /proc, cgroups and the page cache; needs no BPF program. */
#include "memory_report/memory_report.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/labelled_number.h"
#include "base/log.h"
#include "base/starts_with.h"
#include "memory_report/memory_cgroups.h"
#include "memory_report/memory_files.h"
#include "memory_report/memory_processes.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MEMINFO_BYTES 16384

/* ---- reading ---- */

static uint64_t read_page_cache(void)
{
    _cleanup_buf_ struct buf text = {0};
    if (buf_read_file(&text, "/proc/meminfo", MEMINFO_BYTES) < 0 || !text.data)
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

static int add_files(const struct memory_report *r, char *const *paths, size_t path_count)
{
    for (size_t i = 0; i < path_count; i++) {
        const int e = memory_files_add_path(r->measured, paths[i]);
        if (e < 0)
            return log_errno(e, "memory: %s", paths[i]);
    }
    for (size_t i = 0; i < r->process_count; i++)
        if (!is_agent(&r->processes[i]))
            memory_files_add_process(r->measured, r->processes[i].pid);
    return 0;
}

/* ---- order ---- */

static int compare_sizes(uint64_t a, uint64_t b)
{
    return a > b ? -1 : a < b;
}

static int compare_processes(const void *a, const void *b)
{
    const struct memory_process *one = a, *other = b;
    return compare_sizes(memory_process_bytes(one), memory_process_bytes(other));
}

static int compare_cgroups(const void *a, const void *b)
{
    const struct memory_cgroup *one = a, *other = b;
    return compare_sizes(one->held.anonymous + one->held.cache, other->held.anonymous + other->held.cache);
}

static int compare_files(const void *a, const void *b)
{
    return compare_sizes(((const struct memory_file *)a)->cached, ((const struct memory_file *)b)->cached);
}

static void sort_lists(struct memory_report *r)
{
    if (r->process_count)
        qsort(r->processes, r->process_count, sizeof(*r->processes), compare_processes);
    if (r->cgroup_count)
        qsort(r->cgroups, r->cgroup_count, sizeof(*r->cgroups), compare_cgroups);
    if (r->file_count)
        qsort(r->files, r->file_count, sizeof(*r->files), compare_files);
}

/* ---- the report ---- */

int memory_report_gather(struct memory_report *r, uint64_t interval_ns, char *const *paths, size_t path_count)
{
    int e = memory_files_new(&r->measured) ?: read_growth(interval_ns, r) ?: add_files(r, paths, path_count);
    if (e < 0)
        return e;
    (void)memory_cgroups_read(&r->cgroups, &r->cgroup_count); /* a node without the controller has no such table */
    memory_files_report(r->measured, r);
    r->page_cache = read_page_cache();
    sort_lists(r);
    return 0;
}

void memory_report_clear(struct memory_report *r)
{
    memory_processes_free(r->processes, r->process_count);
    memory_cgroups_free(r->cgroups, r->cgroup_count);
    memory_files_free(r->measured);
}

const struct memory_process *memory_report_process(const struct memory_report *r, uint32_t pid)
{
    for (size_t i = 0; pid && i < r->process_count; i++)
        if (r->processes[i].pid == pid)
            return &r->processes[i];
    return NULL;
}

uint64_t memory_report_cached(const struct memory_report *r)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < r->file_count; i++)
        sum += r->files[i].cached;
    return sum;
}
