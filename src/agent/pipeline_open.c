/* Opens where the records come from: the sources in the kernel, or a recording. */
#include "agent/pipeline_private.h"

#include "base/descriptors.h"
#include "base/log.h"
#include "model/profile.h"
#include "resolve/interpreter/runtimes.h"
#include "resolve/process/processes.h"
#include "sources/attach/pid_namespace.h"
#include "sources/cpu/cpu.h"
#include "sources/events/record_file.h"
#include "sources/link/link.h"
#include "sources/offcpu/offcpu.h"

#include <errno.h>
#include <sys/sysinfo.h>

#define DESCRIPTORS_MIN 64 /* maps and programs; plus two per CPU */

static bool is_wanted(const struct source *source, const struct pipeline_sink *sink,
                      const struct source_options *options)
{
    if (source == &source_link)
        return options->links;
    if (source == &source_cpu)
        return sink->sample && options->type != &sample_type_off_cpu;
    if (source == &source_off_cpu)
        return sink->sample && (options->type == &sample_type_off_cpu || options->type == &sample_type_wall);
    if (source == &source_request)
        return sink->request;
    return true;
}

static int open_sources(struct pipeline *p, const struct source_options *options, struct attach_report *report)
{
    int first_error = pid_namespace_check(report);
    struct source_options with_tables = *options;
    size_t signals = 0;
    if (first_error < 0)
        return first_error;
    with_tables.no_runtimes = p->no_runtimes;
    with_tables.links = false; /* until the link source is open */
    for (size_t i = 0; sources[i]; i++) {
        if (!is_wanted(sources[i], &p->sink, options))
            continue;
        void *self;
        int r = sources[i]->open(&with_tables, report, &self);
        if (r < 0 && sources[i] != &source_link)
            first_error = first_error ? first_error : r;
        if (r < 0)
            continue;
        p->opened[p->opened_count].source = sources[i];
        p->opened[p->opened_count++].self = self;
        signals += sources[i] != &source_link && sources[i] != &source_process; /* links and process records alone
                                                                                 * provide no samples */
        if (sources[i] == &source_link) {
            with_tables.links = true;
            with_tables.links_fd = link_source_fd(self);
        }
        if (sources[i] == &source_cpu)
            cpu_source_share(self, &with_tables);
    }
    return signals ? 0 : first_error;
}

int pipeline_open_kernel(struct pipeline *p, const struct pipeline_options *options, struct attach_report *report)
{
    /* With fewer descriptors, libbpf's feature probes and libuv's loop fail without a clear reason or abort. */
    int r = descriptors_have_room(DESCRIPTORS_MIN + 2 * (size_t)get_nprocs());
    if (r < 0)
        return log_errno(r, "too few file descriptors; raise the limit (ulimit -n)");
    pipeline_start_helper(p, report);
    p->no_runtimes = options->runtimes_if_seen &&
                     !runtimes_may_be_in(p->processes, options->sources.pids, options->sources.pid_count);
    r = open_sources(p, &options->sources, report);
    if (r < 0)
        return r;
    pipeline_ask_kernel_for_names(p, report);
    return 0;
}

int pipeline_open_replay(struct pipeline *p, const char *path)
{
    processes_set_replay(p->processes);
    int r = record_reader_open(path, &p->replay);
    if (r == -EPROTO)
        return log_errno(r, "%s is not a Sonde recording, or of an unsupported version", path);
    return r < 0 ? log_errno(r, "%s cannot be read", path) : 0;
}
