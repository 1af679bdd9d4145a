/* Signal "link": which traced request each thread works for, through the probes of libsonde. It has no records: the
 * programs of other signals read the table of linked threads. */
#include "sources/link/link.h"
#include "signals/link/trace_links.h"
#include "signals/signal.h"

static int create_links(const struct signal_services *services, const void *settings, void *source, void **ret_self)
{
    struct trace_links *links = NULL;
    (void)settings;
    int r = source ? trace_links_new(source, services->processes, services->filter, &links) : 0;
    if (r == 0)
        *ret_self = links;
    return r;
}

static void destroy_links(void *self)
{
    trace_links_free(self);
}

static void start_links(void *self)
{
    trace_links_start(self);
}

static void forget_links(void *self, uint32_t pid, uint32_t tid)
{
    if (tid == 0)
        trace_links_forget(self, pid);
}

static void follow_links(void *self, const struct mapped_processes *mapped)
{
    trace_links_turn(self, mapped);
}

static void count_links(void *self, struct metric_set *set)
{
    trace_links_metrics(self, set);
}

static const struct setting settings[] = {
    SIGNAL_ENABLED("links.enabled",
                   "attach to programs that trace requests with libsonde, to link samples to requests"),
    {0},
};

const struct signal signal_link = {
    .name = "link",
    .memory = {.fixed_bytes = 1024u << 10},
    .source = &source_link,
    .flags = SIGNAL_AUXILIARY | SIGNAL_LINKS,
    .settings_bytes = sizeof(struct signal_settings),
    .defaults = &(const struct signal_settings){.enabled = false},
    .settings = settings,
    .create = create_links,
    .destroy = destroy_links,
    .start = start_links,
    .exited = forget_links,
    .turn = follow_links,
    .metrics = count_links,
};
