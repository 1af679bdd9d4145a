/* Rules about a process among others that run the same program; see io_rules.h. What one process does more than the
 * median is time that the others may have to wait for it: it is a share of the report's duration. */
#include "diagnose/io/io_rules.h"

#include "base/units.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define MIN_PROCESSES 4 /* of fewer the median is that of one or two others */

/* Drishti-io's limit for the imbalance of bytes. */
#define IMBALANCE_SHARE 0.30

/* A straggler takes at least twice the time of the median, and no other process takes nearly as long: several that do
 * are those that the program has do the I/O. */
#define STRAGGLER_MEDIAN_SHARE 0.50
#define STRAGGLER_SECOND_SHARE 0.70

struct group {
    const struct io_process_use *uses; /* sorted by the quantity that a rule compares */
    size_t count;
};

static const struct io_process_use *most_of(const struct group *g)
{
    return &g->uses[g->count - 1];
}

/* The lower one of two. */
static const struct io_process_use *median_of(const struct group *g)
{
    return &g->uses[(g->count - 1) / 2];
}

static uint64_t subtract(uint64_t a, uint64_t b)
{
    return a > b ? a - b : 0;
}

/* ---- groups ---- */

typedef uint64_t (*use_value)(const struct io_process_use *use);

static uint64_t time_of(const struct io_process_use *use)
{
    return use->time_ns;
}

static uint64_t bytes_of(const struct io_process_use *use)
{
    return use->bytes;
}

struct order {
    const struct io_report_process *processes;
    use_value value;
};

static int compare_uses(const void *left, const void *right, void *context)
{
    const struct io_process_use *a = left, *b = right;
    const struct order *order = context;
    const int r = strcmp(order->processes[a->process].command, order->processes[b->process].command);
    if (r)
        return r;
    if (!a->last_ns != !b->last_ns)
        return a->last_ns ? 1 : -1;
    const uint64_t x = order->value(a), y = order->value(b);
    return x != y ? (x > y) - (x < y) : (a->process > b->process) - (a->process < b->process);
}

struct excess {
    struct group group;
    uint64_t time_ns; /* 0: none */
};

/* Of those that did I/O, the group whose process with the most of `value` costs the most time, as `measure` says. */
static struct excess find_excess(const struct io_report *report, struct io_observed *observed, use_value value,
                                 uint64_t (*measure)(const struct group *group))
{
    struct order order = {report->processes, value};
    struct excess worst = {0};
    struct io_process_use *uses = observed->processes;
    qsort_r(uses, observed->process_count, sizeof(*uses), compare_uses, &order);
    for (size_t first = 0, end; first < observed->process_count; first = end) {
        const char *command = report->processes[uses[first].process].command;
        for (end = first + 1; end < observed->process_count; end++)
            if (strcmp(report->processes[uses[end].process].command, command) != 0)
                break;
        while (first < end && !uses[first].last_ns)
            first++; /* it did no I/O: it is there for its waits */
        const struct group group = {&uses[first], end - first};
        const uint64_t time_ns = group.count >= MIN_PROCESSES ? measure(&group) : 0;
        if (time_ns > worst.time_ns)
            worst = (struct excess){group, time_ns};
    }
    return worst;
}

static struct io_finding *new_finding(const struct excess *e, const struct io_observed *observed, const char *name,
                                      struct io_findings *findings)
{
    const double share = (double)e->time_ns / (double)observed->one_ns;
    if (share < IO_RULE_MIN_SHARE)
        return NULL;
    const struct io_process_use *most = most_of(&e->group), *median = median_of(&e->group);
    struct io_finding *finding = io_rules_new_finding(findings, name, "", e->time_ns, share);
    finding->process = most->process;
    io_rules_put_figure(finding, "processes", IO_UNIT_COUNT, e->group.count);
    io_rules_put_figure(finding, "time", IO_UNIT_NS, most->time_ns);
    io_rules_put_figure(finding, "moved", IO_UNIT_BYTES, most->bytes);
    io_rules_put_figure(finding, "median_time", IO_UNIT_NS, median->time_ns);
    io_rules_put_figure(finding, "median_moved", IO_UNIT_BYTES, median->bytes);
    return finding;
}

/* ---- straggler ---- */

static uint64_t measure_straggler(const struct group *g)
{
    const double most = (double)most_of(g)->time_ns;
    const struct io_process_use *second = most_of(g) - 1;
    if ((double)median_of(g)->time_ns > STRAGGLER_MEDIAN_SHARE * most ||
        (double)second->time_ns > STRAGGLER_SECOND_SHARE * most)
        return 0;
    return most_of(g)->time_ns - median_of(g)->time_ns;
}

static void find_straggler(const struct io_report *report, struct io_observed *observed, struct io_findings *findings)
{
    const struct excess e = find_excess(report, observed, time_of, measure_straggler);
    struct io_finding *finding = e.time_ns ? new_finding(&e, observed, "straggler", findings) : NULL;
    if (!finding)
        return;
    const struct io_process_use *most = most_of(&e.group), *median = median_of(&e.group);
    char time[32], median_time[32], bytes[32], median_bytes[32];
    units_format_duration(most->time_ns, time, sizeof(time));
    units_format_duration(median->time_ns, median_time, sizeof(median_time));
    units_format_size(most->bytes, bytes, sizeof(bytes));
    units_format_size(median->bytes, median_bytes, sizeof(median_bytes));
    const bool moves_more = (double)subtract(most->bytes, median->bytes) > IMBALANCE_SHARE * (double)most->bytes;
    snprintf(finding->sentence, sizeof(finding->sentence),
             "%s: its I/O took %s for %s, while the median of %zu processes is %s for %s.",
             moves_more ? "Give this process less to read and write"
                        : "Find out what delays this process, its files or its CPU, as it moves no more than others",
             time, bytes, e.group.count, median_time, median_bytes);
}

/* ---- unbalanced ---- */

/* The time that the process with the most bytes needs for its I/O more than that with the median of the bytes. */
static uint64_t measure_imbalance(const struct group *g)
{
    const struct io_process_use *most = most_of(g), *median = median_of(g);
    if ((double)(most->bytes - median->bytes) <= IMBALANCE_SHARE * (double)most->bytes)
        return 0;
    return subtract(most->time_ns, median->time_ns);
}

static void find_imbalance(const struct io_report *report, struct io_observed *observed, struct io_findings *findings)
{
    const struct excess e = find_excess(report, observed, bytes_of, measure_imbalance);
    struct io_finding *finding = e.time_ns ? new_finding(&e, observed, "unbalanced", findings) : NULL;
    if (!finding)
        return;
    const struct io_process_use *most = most_of(&e.group), *median = median_of(&e.group);
    char bytes[32], median_bytes[32], time[32];
    snprintf(finding->sentence, sizeof(finding->sentence),
             "Spread reads and writes over the processes: this one moved %s, the median of %zu processes %s, and its "
             "I/O took %s longer.",
             units_format_size(most->bytes, bytes, sizeof(bytes)), e.group.count,
             units_format_size(median->bytes, median_bytes, sizeof(median_bytes)),
             units_format_duration(e.time_ns, time, sizeof(time)));
}

void io_rules_of_processes(const struct io_report *report, struct io_observed *observed, struct io_findings *findings)
{
    find_straggler(report, observed, findings);
    find_imbalance(report, observed, findings);
}
