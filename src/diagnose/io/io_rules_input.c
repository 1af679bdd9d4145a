/* The rule about data loaders that do not keep up with the thread that uses their data; see io_rules.h. What that
 * thread waits for reads of others is time that it would not need if the data were there. */
#include "diagnose/io/io_rules.h"

#include "base/units.h"

#include <stdbool.h>
#include <stdio.h>

static bool is_waiter(const struct io_report_wait *wait, uint32_t pid, uint32_t tid)
{
    return wait->waiter == tid && wait->waiter_pid == pid;
}

/* Whether a thread waits for `wait->reader` for at least half as long as for its readers on average. */
static bool is_common_reader(const struct io_report *report, const struct io_report_wait *wait)
{
    uint64_t readers = 0, sum_ns = 0;
    for (size_t i = 0; i < report->wait_count; i++) {
        const bool is_of_waiter = is_waiter(&report->waits[i], wait->waiter_pid, wait->waiter);
        readers += is_of_waiter;
        sum_ns += is_of_waiter ? report->waits[i].ns : 0;
    }
    return wait->ns * readers * 2 >= sum_ns;
}

/* Whether a thread loads data for others. A loader may itself be idle until the consumer, which waits for other
 * loaders, gives it work; it then waits as long as the consumer. A thread is not a loader if others have waited much
 * less for it than for their other readers: it may have read its model, for example. */
static bool is_loader(const struct io_report *report, const struct io_report_thread *thread)
{
    const uint32_t pid = report->processes[thread->process].pid;
    for (size_t i = 0; i < report->wait_count; i++)
        if (report->waits[i].reader == thread->tid && report->waits[i].reader_pid == pid &&
            is_common_reader(report, &report->waits[i]))
            return true;
    return false;
}

static uint64_t min_ns(const struct io_report *report)
{
    return (uint64_t)((double)report->waits_observed_ns * IO_RULE_MIN_SHARE);
}

/* Returns the thread that uses the data, of `count` threads of a process: the main thread, unless it does nothing;
 * otherwise the thread with the most CPU time that does not load data. NULL if there is no such thread. */
static const struct io_report_thread *find_consumer(const struct io_report *report,
                                                    const struct io_report_thread *threads, size_t count)
{
    const struct io_report_thread *busiest = NULL;
    const uint32_t pid = report->processes[threads->process].pid;
    for (size_t i = 0; i < count; i++) {
        const struct io_report_thread *t = &threads[i];
        const bool runs = t->ran_ns >= min_ns(report), is_main = t->tid == pid;
        if (is_main && (runs || t->for_reads_ns >= min_ns(report)))
            return is_loader(report, t) ? NULL : t;
        if (!is_main && runs && (!busiest || t->ran_ns > busiest->ran_ns) && !is_loader(report, t))
            busiest = t;
    }
    return busiest;
}

static uint64_t count_readers(const struct io_report *report, const struct io_report_thread *consumer)
{
    const uint32_t pid = report->processes[consumer->process].pid;
    uint64_t count = 0;
    for (size_t i = 0; i < report->wait_count; i++)
        count += is_waiter(&report->waits[i], pid, consumer->tid);
    return count;
}

static void put_finding(const struct io_report *report, const struct io_report_thread *worst, uint64_t all_ns,
                        struct io_findings *findings)
{
    const double share = (double)worst->for_reads_ns / (double)report->waits_observed_ns;
    struct io_finding *finding = io_rules_new_finding(findings, "input_bound", "read", all_ns, share);
    const uint64_t readers = count_readers(report, worst);
    char waited[32], observed[32];
    finding->process = worst->process;
    finding->file = worst->awaited;
    finding->other_files = worst->awaited_others;
    io_rules_put_figure(finding, "thread", IO_UNIT_COUNT, worst->tid);
    io_rules_put_figure(finding, "waited", IO_UNIT_NS, worst->for_reads_ns);
    io_rules_put_figure(finding, "ran", IO_UNIT_NS, worst->ran_ns);
    io_rules_put_figure(finding, "readers", IO_UNIT_COUNT, readers);
    io_rules_put_figure(finding, "observed", IO_UNIT_NS, report->waits_observed_ns);
    if (worst->inferred_ns)
        io_rules_put_figure(finding, "inferred", IO_UNIT_NS, worst->inferred_ns);
    if (worst->unknown_ns)
        io_rules_put_figure(finding, "unknown", IO_UNIT_NS, worst->unknown_ns);
    snprintf(finding->sentence, sizeof(finding->sentence),
             "Read further ahead, with more readers or in larger pieces, or keep the data on faster storage: thread %u "
             "waited %s of %s for the reads of %llu other thread%s.",
             worst->tid, units_format_duration(worst->for_reads_ns, waited, sizeof(waited)),
             units_format_duration(report->waits_observed_ns, observed, sizeof(observed)), (unsigned long long)readers,
             readers == 1 ? "" : "s");
}

void io_rules_of_input(const struct io_report *report, struct io_findings *findings)
{
    const struct io_report_thread *worst = NULL;
    uint64_t all_ns = 0;
    for (size_t first = 0, end; report->waits_observed_ns && first < report->thread_count; first = end) {
        for (end = first + 1; end < report->thread_count; end++)
            if (report->threads[end].process != report->threads[first].process)
                break;
        const struct io_report_thread *consumer = find_consumer(report, &report->threads[first], end - first);
        if (!consumer || !consumer->for_reads_ns || consumer->for_reads_ns < min_ns(report))
            continue;
        all_ns += consumer->for_reads_ns;
        if (!worst || consumer->for_reads_ns > worst->for_reads_ns)
            worst = consumer;
    }
    if (worst)
        put_finding(report, worst, all_ns, findings);
}
