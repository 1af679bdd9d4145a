/* See link.h. Uses plain uprobes instead of libbpf's USDT: the probes of libsonde take their arguments in the
 * registers of a call, so no argument descriptions are looked up at a firing, and every kernel supports it. Thread
 * exits are traced only while something is attached. A helper process attaches (link_attachments.h): nothing here
 * blocks. */
#include "sources/link/link.h"

#include "base/cleanup.h"
#include "sources/attach/map_access.h"
#include "sources/attach/missed_runs.h"
#include "sources/attach/preempt_count.h"
#include "sources/attach/uprobe_link.h"
#include "sources/link/link_attachments.h"
#include "sources/link/link_table.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include <linux/types.h>

#include "link.skel.h"
#include "probes/link.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct link_source {
    struct link_bpf *bpf;
    uint64_t forgotten; /* threads whose link was discarded because their process unmapped a file */
    struct link_attachments *attachments;
};

static void link_free(void *self)
{
    struct link_source *s = self;
    if (!s)
        return;
    link_attachments_free(s->attachments); /* first: it uses the programs of s->bpf */
    link_bpf__destroy(s->bpf);
    free(s);
}

static void link_freep(struct link_source **s)
{
    link_free(*s);
}

static int load_programs(struct link_source *s, const struct shared_tables *tables)
{
    libbpf_set_print(NULL);
    s->bpf = link_bpf__open();
    if (!s->bpf)
        return -errno;
    s->bpf->rodata->has_preempt_disable = preempt_count_find().has_preempt_disable;
    uprobe_links_prepare(s->bpf->obj);
    int r = shared_tables_use(tables, s->bpf->obj) ?: link_bpf__load(s->bpf);
    return r ?: link_attachments_new(s->bpf, &s->attachments);
}

static int link_open(const struct source_services *services, const void *options, struct attach_report *report,
                     void **ret_self)
{
    _cleanup_(link_freep) struct link_source *s = calloc(1, sizeof(*s));
    struct attach_entry *entry = attach_report_add(report, "traced requests");
    static const char method[] = "uprobes of " LINK_PROVIDER;
    (void)options;
    if (!s)
        return -ENOMEM;
    int r = load_programs(s, services->tables);
    if (r < 0) {
        attach_entry_refused(entry, method, r);
        snprintf(entry->limitation, sizeof(entry->limitation), "samples and requests are not linked to traces");
        return r;
    }
    entry->attached = true;
    snprintf(entry->method, sizeof(entry->method), "%s", method);
    snprintf(entry->limitation, sizeof(entry->limitation),
             "requests that began before their process was found are not linked");
    *ret_self = take_ptr(s);
    return 0;
}

static int link_start(void *self)
{
    (void)self; /* nothing to attach to yet */
    return 0;
}

/* Produces no records: other sources read the table. Called once per pipeline cycle, it drives the attachments. */
static int link_drain(void *self, struct batch *batch)
{
    (void)batch;
    link_attachments_turn(((struct link_source *)self)->attachments);
    return 0;
}

/* ---- attachments ---- */

int link_source_attach(void *link_source, int fd, const struct link_site *sites, size_t count,
                       struct link_attachment **ret)
{
    return link_attachments_add(((struct link_source *)link_source)->attachments, fd, sites, count, ret);
}

void link_source_detach(void *link_source, struct link_attachment *attachment)
{
    link_attachments_remove(((struct link_source *)link_source)->attachments, attachment);
}

bool link_source_has_new_room(void *link_source)
{
    return link_attachments_has_new_room(((struct link_source *)link_source)->attachments);
}

/* If the links of one process cannot be discarded alone, all links are: wrong links are worse than missing ones. */
void link_source_forget(void *link_source, uint32_t pid)
{
    struct link_source *s = link_source;
    const int table = bpf_map__fd(s->bpf->maps.thread_links);
    uint64_t count = 0;
    if (link_table_forget_process(table, bpf_program__fd(s->bpf->progs.forget_thread), pid, &count) < 0)
        (void)link_table_forget_all(table, false, &count);
    s->forgotten += count;
}

static const struct source_level levels[] = {
    {SOURCE_DETAIL_FULL, "samples linked to traced requests"},
    {SOURCE_DETAIL_NO_WAIT_STACKS, "samples not linked to traced requests"},
    {0},
};

static int link_shed(void *self, enum source_detail detail)
{
    link_attachments_pause(((struct link_source *)self)->attachments, detail >= SOURCE_DETAIL_NO_WAIT_STACKS);
    return 0;
}

static struct link_attachments_stats attachments_stats(void *link_source)
{
    struct link_attachments_stats stats;
    link_attachments_stats(((struct link_source *)link_source)->attachments, &stats);
    return stats;
}

static uint64_t link_helper_cpu_ns(void *self)
{
    return attachments_stats(self).cpu_ns;
}

uint64_t link_source_waits_ns(void *link_source)
{
    return attachments_stats(link_source).waits_ns;
}

/* ---- statistics ---- */

static struct link_stats read_stats(struct link_source *s)
{
    struct link_stats sum = {0};
    map_sum_counters(bpf_map__fd(s->bpf->maps.link_stats), &sum, sizeof(sum));
    return sum;
}

static void link_losses(void *self, struct losses *losses)
{
    struct link_source *s = self;
    losses->count[LOSS_MAP_FULL] += read_stats(s).map_full;
    losses->count[LOSS_MISSED] += missed_runs(s->bpf->obj);
    losses->count[LOSS_LINK_FORGOTTEN] += s->forgotten + attachments_stats(s).forgotten;
}

static void link_metrics(void *self, struct metric_set *set)
{
    struct link_source *s = self;
    const struct link_attachments_stats now = attachments_stats(s);
    metric_add(set, "sonde_usdt_attachments", METRIC_GAUGE, "",
               "Files with probes of traced requests that the agent is attached to.", (double)now.attached,
               METRIC_NO_LABELS);
    metric_add(set, "sonde_usdt_attachments_waiting", METRIC_GAUGE, "",
               "Files with such probes that are waiting to be attached or detached.", (double)now.waiting,
               METRIC_NO_LABELS);
    metric_add(set, "sonde_usdt_attachments_late", METRIC_COUNTER, "",
               "Files with such probes whose attachment or detachment took longer than five seconds.", (double)now.late,
               METRIC_NO_LABELS);
    metric_add(set, "sonde_usdt_attachments_refused", METRIC_COUNTER, "",
               "Failed attempts to attach to a file with such probes.", (double)now.refused, METRIC_NO_LABELS);
    metric_add(set, "sonde_usdt_attachments_without_room", METRIC_COUNTER, "",
               "Files with such probes rejected because all places, or the share of their owner, were in use.",
               (double)now.no_room, METRIC_NO_LABELS);
    metric_add(set, "sonde_usdt_attacher_starts", METRIC_COUNTER, "", "Starts of the helper process that attaches.",
               (double)now.starts, METRIC_NO_LABELS);
    const struct link_stats sum = read_stats(s);
    source_put_runs(set, "link", sum.firings, sum.sampled_ns * LINK_TIMED_EVERY);
}

static uint64_t link_run_time_ns(void *self)
{
    return read_stats(self).sampled_ns * LINK_TIMED_EVERY;
}

const struct source source_link = {
    .name = "link",
    .help = "which traced request each thread works for",
    .open = link_open,
    .start = link_start,
    .drain = link_drain,
    .losses = link_losses,
    .metrics = link_metrics,
    .helper_cpu_ns = link_helper_cpu_ns,
    .run_time_ns = link_run_time_ns,
    .levels = levels,
    .shed = link_shed,
    .free = link_free,
};
