/* Opens where the records come from: the sources in the kernel, or a recording. */
#include "pipeline/pipeline_private.h"

#include "base/descriptors.h"
#include "base/log.h"
#include "resolve/interpreter/runtimes.h"
#include "resolve/process/processes.h"
#include "sources/attach/pid_namespace.h"
#include "sources/events/record_file.h"

#include <errno.h>
#include <sys/sysinfo.h>

#define DESCRIPTORS_MIN 64 /* maps and programs; plus two per CPU */

static int make_tables(struct pipeline *p, const struct pipeline_options *options)
{
    struct shared_tables_options tables = {.filter = &p->filter,
                                           .rules = options->rules,
                                           .unwind_bytes = p->memory.bytes[MEMORY_UNWIND_TABLES],
                                           .recorder_bytes = p->memory.bytes[MEMORY_RECORDER],
                                           .links = config_enables_any(options->config, SIGNAL_LINKS)};
    return shared_tables_new(&tables, &p->tables);
}

/* Opens one signal's source. What the other signals can do without does not fail the call. */
static int open_source(struct pipeline *p, const struct signal *signal, const struct source_services *services,
                       const struct config *config, struct attach_report *report)
{
    void *source = NULL;
    const size_t before = report->count;
    int r = signal->source ? signal->source->open(services, config_signal(config, signal), report, &source) : 0;
    for (size_t i = before; i < report->count; i++)
        report->entries[i].signal = signal->name;
    if (r == 0)
        p->opened[p->opened_count++] = (struct opened_signal){.signal = signal, .source = source};
    return r;
}

static int open_sources(struct pipeline *p, const struct pipeline_options *options, struct attach_report *report)
{
    struct source_services services = {.tables = p->tables,
                                       .filter = &p->filter,
                                       .sample_hz = options->sample_hz,
                                       .rules = options->rules,
                                       .event = options->event,
                                       .wants_callers = options->span_seed.high || options->span_seed.low,
                                       .no_runtimes = p->no_runtimes};
    int first_error = pid_namespace_check(report);
    size_t providing = 0;
    if (first_error < 0)
        return first_error;
    for (size_t i = 0; all_signals[i]; i++) {
        const bool provides = !(all_signals[i]->flags & (SIGNAL_ALWAYS | SIGNAL_AUXILIARY));
        if (!config_enables(options->config, all_signals[i]))
            continue;
        services.ring_bytes = p->memory.bytes[all_signals[i]->memory.ring];
        services.table_bytes = p->memory.bytes[all_signals[i]->memory.tables];
        int r = open_source(p, all_signals[i], &services, options->config, report);
        providing += r == 0 && provides;
        if (r < 0 && !(all_signals[i]->flags & SIGNAL_AUXILIARY))
            first_error = first_error ? first_error : r;
    }
    return providing ? 0 : first_error;
}

int pipeline_open_kernel(struct pipeline *p, const struct pipeline_options *options, struct attach_report *report)
{
    /* With fewer descriptors, libbpf's feature probes and libuv's loop fail without a clear reason or abort. */
    int r = descriptors_have_room(DESCRIPTORS_MIN + 2 * (size_t)get_nprocs());
    if (r < 0)
        return log_errno(r, "too few file descriptors; raise the limit (ulimit -n)");
    pipeline_start_helper(p, report);
    if (p->sink.request)
        pipeline_start_lines(p, report);
    p->no_runtimes =
        options->runtimes_if_seen && !runtimes_may_be_in(p->processes, options->filter.pids, options->filter.pid_count);
    r = make_tables(p, options) ?: open_sources(p, options, report);
    if (r < 0)
        return r;
    pipeline_ask_kernel_for_names(p, report);
    return 0;
}

int pipeline_open_replay(struct pipeline *p, const char *path)
{
    processes_set_replay(p->processes);
    for (size_t i = 0; all_signals[i]; i++) /* a recording may hold records of any of them */
        p->opened[p->opened_count++] = (struct opened_signal){.signal = all_signals[i]};
    int r = record_reader_open(path, &p->replay);
    if (r == -EPROTO)
        return log_errno(r, "%s is not a Sonde recording, or of an unsupported version", path);
    return r < 0 ? log_errno(r, "%s cannot be read", path) : 0;
}
