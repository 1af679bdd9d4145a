/* See trace_links.h. While attached, each hit of thread_enter and thread_leave costs a program about a microsecond.
 * request_start and request_end are not attached, because nothing here reads them. */
#include "signals/link/trace_links.h"

#include "base/log.h"
#include "resolve/usdt/usdt_providers.h"
#include "sources/link/link.h"

#include <errno.h>
#include <string.h>

#define START_NS      300000000 /* time limit of the scan of running processes before the first sample */
#define TURN_NS       5000000
#define ANCESTORS_MAX 64

/* The operands of libsonde's probes: the argument registers of the calling convention. */
#if defined(__x86_64__)
#define OPERANDS "8@%rdi 8@%rsi 8@%rdx"
#elif defined(__aarch64__)
#define OPERANDS "8@x0 8@x1 8@x2"
#endif

struct trace_links {
    void *source;
    struct processes *processes;
    struct usdt_providers *providers;
    uint32_t pids[TASK_FILTER_MAX];
    size_t pid_count;
    bool warned_late;
};

static bool is_selected(const struct trace_links *l, uint32_t pid)
{
    for (int generation = 0; l->pid_count && generation < ANCESTORS_MAX && pid; generation++) {
        for (size_t i = 0; i < l->pid_count; i++)
            if (l->pids[i] == pid)
                return true;
        const struct process *process = processes_find(l->processes, pid, 0);
        pid = process ? processes_resource(l->processes, process)->parent_pid : 0;
    }
    return l->pid_count == 0;
}

/* False: a site that cannot be attached to, or operands that are not libsonde's. */
static bool make_site(const struct usdt_site *from, struct link_site *ret)
{
    if (strncmp(from->operands, OPERANDS, strlen(OPERANDS)) != 0 || (from->semaphore_vaddr && !from->semaphore_offset))
        return false;
    *ret = (struct link_site){.file_offset = from->file_offset,
                              .semaphore_offset = from->semaphore_offset,
                              .is_leave = strcmp(from->name, "thread_leave") == 0};
    return true;
}

static size_t make_sites(const struct usdt_probes *probes, struct link_site sites[LINK_SITES_MAX])
{
    size_t count = 0;
    for (size_t i = 0; i < probes->count; i++) {
        const struct usdt_site *s = &probes->sites[i];
        if (strcmp(s->provider, LINK_PROVIDER) != 0 ||
            (strcmp(s->name, "thread_enter") != 0 && strcmp(s->name, "thread_leave") != 0))
            continue;
        if (count == LINK_SITES_MAX || !make_site(s, &sites[count++]))
            return 0;
    }
    return count;
}

static int attach(void *context, const struct usdt_provider_file *file, void **ret)
{
    struct trace_links *l = context;
    struct link_site sites[LINK_SITES_MAX];
    const uint32_t pid = file->process->pid;
    struct link_attachment *attachment;
    const size_t count = make_sites(file->probes, sites);
    if (count == 0 || !is_selected(l, pid))
        return 0;
    int r = link_source_attach(l->source, file->fd, sites, count, &attachment);
    if (r < 0) {
        log_debug("process %u: cannot attach to its sonde_trace probes (%s)", pid, strerror(-r));
        return r == -EINVAL ? 0 : r; /* permanent: not retried */
    }
    log_debug("process %u: attached to its sonde_trace probes", pid);
    *ret = attachment;
    return 0;
}

static void detach(void *context, void *taken)
{
    struct trace_links *l = context;
    link_source_detach(l->source, taken);
}

static void forget(void *context, uint32_t pid)
{
    struct trace_links *l = context;
    link_source_forget(l->source, pid);
}

int trace_links_new(void *link_source, struct processes *processes, const struct task_filter *filter,
                    struct trace_links **ret)
{
    _cleanup_(trace_links_freep) struct trace_links *l = calloc(1, sizeof(*l));
    if (!l)
        return -ENOMEM;
    l->source = link_source;
    l->processes = processes;
    l->pid_count = filter->pid_count;
    memcpy(l->pids, filter->pids, sizeof(l->pids));
    const struct usdt_providers_options wanted = {.processes = processes,
                                                  .provider = LINK_PROVIDER,
                                                  .context = l,
                                                  .appeared = attach,
                                                  .gone = detach,
                                                  .unmapped = forget};
    int r = usdt_providers_new(&wanted, &l->providers);
    if (r < 0)
        return r;
    *ret = take_ptr(l);
    return 0;
}

void trace_links_free(struct trace_links *l)
{
    if (!l)
        return;
    usdt_providers_free(l->providers);
    free(l);
}

static void warn_if_late(struct trace_links *l)
{
    const bool is_late = link_source_waits_ns(l->source) >= LINK_LATE_NS;
    if (is_late && !l->warned_late)
        log_warning(
            "traced requests: attaching to programs takes longer than %llu s; if a file system does not answer, "
            "the kernel may hold up every fork of this machine meanwhile (links.enabled)",
            LINK_LATE_NS / 1000000000);
    l->warned_late = is_late;
}

void trace_links_start(struct trace_links *l)
{
    usdt_providers_look_at_all(l->providers);
    usdt_providers_turn(l->providers, START_NS);
}

void trace_links_turn(struct trace_links *l, const struct mapped_processes *mapped)
{
    if (mapped->is_incomplete)
        usdt_providers_look_at_all(l->providers);
    for (size_t i = 0; i < mapped->count; i++)
        usdt_providers_look(l->providers, mapped->pids[i]);
    if (link_source_has_new_room(l->source))
        usdt_providers_retry_files(l->providers);
    usdt_providers_turn(l->providers, TURN_NS);
    warn_if_late(l);
}

void trace_links_forget(struct trace_links *l, uint32_t pid)
{
    usdt_providers_forget(l->providers, pid);
}

void trace_links_metrics(const struct trace_links *l, struct metric_set *set)
{
    usdt_providers_metrics(l->providers, set);
}
