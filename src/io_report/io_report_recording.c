/* Records the I/O of a job, a process or a command; see io_report_recording.h. */
#include "io_report/io_report_recording.h"

#include "base/clock.h"
#include "base/log.h"
#include "io_report/io_coverage.h"
#include "io_report/io_report_data.h"
#include "io_report/recorder_waits.h"
#include "sources/attach/pid_namespace.h"
#include "sources/io/io.h"
#include "sources/io/io_accesses.h"

#include <linux/types.h>

#include "probes/common/task_filter.h"

#include <string.h>

void io_report_recording_clear(struct io_report_recording *rec)
{
    recorder_waits_free(rec->waits);
    io_report_data_free(rec->data);
    if (rec->source)
        source_io.free(rec->source);
    shared_tables_free(rec->tables);
    io_report_target_clear(&rec->target);
}

/* Without it, the report lacks one finding. */
static void open_waits(struct io_report_recording *rec, const struct source_services *services)
{
    struct attach_report report = {0};
    const int r = recorder_waits_new(services, &rec->target, rec->data, &report, &rec->waits);
    if (r < 0)
        log_warning("io report: waits for the reads of other threads are not observed: %s",
                    report.count ? report.entries[0].fallback_reason : strerror(-r));
}

int io_report_recording_open(struct io_report_recording *rec, const struct task_filter *filter)
{
    const struct shared_tables_options wanted = {.filter = filter, .recorder_bytes = recorder_waits_memory()};
    const struct io_options options = {.enabled = true, .by_access = true};
    struct attach_report report = {0};
    int r = pid_namespace_check(&report);
    if (r < 0)
        return log_errno(r, "io report: %s", report.entries[0].fallback_reason);
    r = shared_tables_new(&wanted, &rec->tables);
    if (r < 0)
        return log_errno(r, "io report: the kernel's tables cannot be made");
    const struct source_services services = {.tables = rec->tables, .filter = filter};
    r = source_io.open(&services, &options, &report, &rec->source);
    rec->attached = report.entries[0];
    if (r == 0)
        r = source_io.start(rec->source);
    if (r == 0) {
        r = io_report_data_new(rec->source, &rec->data);
        if (r == 0)
            open_waits(rec, &services);
        return r;
    }
    log_error("%s: not attached (%s)", report.entries[0].probe, report.entries[0].fallback_reason);
    rec->is_refused = true;
    return r;
}

int io_report_recording_take(struct io_report_recording *rec, uint64_t now_ns, bool is_last)
{
    const int r = io_report_data_take(rec->data, is_last);
    if (rec->waits)
        recorder_waits_take(rec->waits, now_ns, is_last);
    return r;
}

static void warn_of_losses(const struct io_report_recording *rec, const struct io_report *report)
{
    struct losses losses = {0};
    shared_tables_losses(rec->tables, &losses);
    if (losses.count[LOSS_MAP_FULL])
        log_warning("io report: %llu processes are missing: more than %d at a time are not followed",
                    (unsigned long long)losses.count[LOSS_MAP_FULL], FILTER_MAX_FOLLOWED);
    const struct io_access_losses missing = io_accesses_losses(rec->source);
    if (missing.unnamed)
        log_warning("io report: files have no name: there was no room for more of them at a time");
    if (missing.off_heatmap)
        log_warning("io report: bytes over time lack %llu operations", (unsigned long long)missing.off_heatmap);
    if (report->lost)
        log_warning("io report: %llu operations are missing: they did not fit the kernel's tables, or were not seen",
                    (unsigned long long)report->lost);
}

int io_report_recording_finish(struct io_report_recording *rec, struct io_report *ret)
{
    int r = source_io.stop(rec->source);
    const uint64_t end_ns = clock_monotonic_ns();
    if (r == 0)
        r = io_report_recording_take(rec, end_ns, true);
    if (r == 0 && rec->waits)
        r = recorder_waits_add_processes(rec->waits);
    *ret = (struct io_report){
        .title = rec->target.title,
        .executable = rec->target.executable,
        .job_id = rec->target.job_id,
    };
    r = r ?: io_report_data_finish(rec->data, end_ns, ret);
    io_coverage_set(&rec->attached, ret->duration_ns, &ret->coverage);
    ret->coverage.is_answered = ret->file_count > 0;
    if (r == 0 && rec->waits)
        r = recorder_waits_finish(rec->waits, ret);
    if (r == 0)
        warn_of_losses(rec, ret);
    ret->start_unix_ns = clock_unix_ns() - (clock_monotonic_ns() - end_ns) - ret->duration_ns;
    return r;
}
