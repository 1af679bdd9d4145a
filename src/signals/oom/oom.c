/* Signal "oom": an event of each process that the kernel kills for memory, which says whose limit was reached, which
 * function had grown the process, and which other processes are large. */
#include "sources/oom/oom.h"

#include "base/cleanup.h"
#include "base/units.h"
#include "model/service_names.h"
#include "resolve/sample/samples.h"
#include "signals/event_rate.h"
#include "signals/oom/grown_places.h"
#include "signals/signal.h"
#include "signals/stack_record.h"

#include "probes/oom.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PROFILE_NS   60000000000ull /* page faults of the last minute */
#define NEIGHBOURS   3
#define SERVICES_MAX 64
#define TEXT_BYTES   1024
#define SIZE_BYTES   24

enum { LIMIT_NODE, LIMIT_CGROUP, LIMITS };

struct oom_signal {
    const struct signal_services *services;
    void *source; /* NULL in a replay */
    struct event_rate rate;
    struct grown_places places;
    char names[SERVICES_MAX][SERVICE_NAME_BYTES]; /* of services */
    uint64_t kills[SERVICES_MAX][LIMITS];
    size_t name_count;
};

static int create_oom(const struct signal_services *services, const void *settings, void *source, void **ret_self)
{
    struct oom_signal *s = calloc(1, sizeof(*s));
    (void)settings;
    if (!s)
        return -ENOMEM;
    s->services = services;
    s->source = source;
    *ret_self = s;
    return 0;
}

static void destroy_oom(void *self)
{
    free(self);
}

/* ---- page faults ---- */

static bool is_user_code(const struct frame *f)
{
    return f->kind != FRAME_KERNEL && f->kind != FRAME_BPF;
}

static void take_page_faults(void *self, const struct record_header *header)
{
    struct oom_signal *s = self;
    const struct stack_record *record = (const struct stack_record *)header;
    struct sample sample;
    struct code_place place;
    size_t in_kernel = 0;
    s->services->note_stack(s->services->pipeline, header->pid, record->cgroup_id, header->time_ns);
    if (sample_resolve(s->services->resolver, record, s->services->losses, &sample) < 0)
        return;
    while (in_kernel < sample.frame_count && !is_user_code(&sample.frames[in_kernel]))
        in_kernel++;
    code_place_of(sample.frames + in_kernel, sample.frame_count - in_kernel, &place);
    grown_places_add(&s->places, header->time_ns, header->pid, record->sample.value, &place);
}

/* ---- kills ---- */

static bool check_kill(const struct record_header *header)
{
    const struct oom_kill *r = (const struct oom_kill *)header;
    return header->size_bytes == sizeof(*r) && memchr(r->comm, 0, sizeof(r->comm)) &&
           memchr(r->by_comm, 0, sizeof(r->by_comm));
}

/* What an event says, as text. */
struct kill_text {
    char service[SERVICE_NAME_BYTES], cgroup[128];
    char limit[SIZE_BYTES], anonymous[SIZE_BYTES], file[SIZE_BYTES], shared[SIZE_BYTES];
    char function[CODE_TEXT_BYTES]; /* "": not known */
    unsigned share;                 /* of the page faults, in percent */
};

static const char *format_pages(uint64_t pages, char out[SIZE_BYTES])
{
    return units_format_size(pages * (uint64_t)sysconf(_SC_PAGESIZE), out, SIZE_BYTES);
}

/* Names the function without its callee, which is memset or the allocator of its language. */
static void write_function(const struct oom_signal *s, const struct oom_kill *r, struct kill_text *t)
{
    struct code_place place;
    const uint64_t since_ns = r->h.time_ns > PROFILE_NS ? r->h.time_ns - PROFILE_NS : 0;
    t->share = grown_places_most(&s->places, r->h.pid, since_ns, &place);
    t->function[0] = '\0';
    if (!t->share)
        return;
    if (place.function[0])
        place.runs[0] = '\0';
    code_place_text(&place, t->function);
}

static void write_parts(struct oom_signal *s, const struct oom_kill *r, struct kill_text *t)
{
    struct processes *processes = s->services->processes;
    const struct process *process = processes ? processes_find(processes, r->h.pid, r->cgroup_id) : NULL;
    const struct resource *resource = process ? processes_resource(processes, process) : &resource_unknown;
    const char *path = r->limit_cgroup_id ? oom_cgroup_path(s->source, r->limit_cgroup_id) : "";
    if (!path[0] && r->limit_cgroup_id == r->cgroup_id)
        path = resource->cgroup_path; /* the cgroup has gone with the victim */
    snprintf(t->service, sizeof(t->service), "%s", resource->service_name[0] ? resource->service_name : r->comm);
    snprintf(t->cgroup, sizeof(t->cgroup), "%s", path);
    format_pages(r->limit_pages, t->limit);
    format_pages(r->memory.anonymous, t->anonymous);
    format_pages(r->memory.file, t->file);
    format_pages(r->memory.shared, t->shared);
    write_function(s, r, t);
}

__attribute__((format(printf, 3, 4))) static void append_text(char *out, size_t *used, const char *format, ...)
{
    va_list arguments;
    if (*used >= TEXT_BYTES)
        return;
    va_start(arguments, format);
    *used += (size_t)vsnprintf(out + *used, TEXT_BYTES - *used, format, arguments);
    va_end(arguments);
}

static void append_neighbours(const struct oom_signal *s, const struct oom_kill *r, char *out, size_t *used)
{
    struct oom_process others[NEIGHBOURS];
    char size[SIZE_BYTES];
    const size_t count = oom_largest(s->source, r->limit_cgroup_id, r->h.pid, others, NEIGHBOURS);
    for (size_t i = 0; i < count; i++)
        append_text(out, used, "%s %s (pid %u) %s",
                    i                    ? ","
                    : r->limit_cgroup_id ? " The largest others in the cgroup:"
                                         : " The largest others:",
                    others[i].comm, others[i].pid, format_pages(oom_grown_pages(&others[i].memory), size));
    append_text(out, used, "%s", count ? "." : "");
}

static void append_memory(const struct oom_kill *r, const struct kill_text *t, char *out, size_t *used)
{
    append_text(out, used, " It had %s of anonymous memory", t->anonymous);
    if (r->memory.shared)
        append_text(out, used, " and %s of shared memory", t->shared);
    if (t->function[0])
        append_text(out, used, ", grown in %s (%u %% of its page faults of the last minute)", t->function, t->share);
    append_text(out, used, ".");
}

static void write_text(const struct oom_signal *s, const struct oom_kill *r, const struct kill_text *t,
                       char out[TEXT_BYTES])
{
    size_t used = 0;
    append_text(out, &used, "The kernel killed %s (pid %u", r->comm, r->h.pid);
    if (strcmp(t->service, r->comm) != 0)
        append_text(out, &used, ", %s", t->service);
    if (!r->limit_cgroup_id)
        append_text(out, &used, "): the node had no memory left.");
    else
        append_text(out, &used, "): %s of %s of %s%s was reached.", oom_limit_name(s->source), t->limit,
                    t->cgroup[0] ? "cgroup " : "its cgroup", t->cgroup);
    append_memory(r, t, out, &used);
    if (r->by_pid != r->h.pid)
        append_text(out, &used, " %s (pid %u) asked for memory.", r->by_comm, r->by_pid);
    if (r->is_group)
        append_text(out, &used, " memory.oom.group kills all processes of the cgroup.");
    append_neighbours(s, r, out, &used);
}

struct numbers {
    char pid[16], by_pid[16], limit[24], anonymous[24], file[24], shared[24], share[8];
};

static void write_bytes(uint64_t pages, char out[24])
{
    snprintf(out, 24, "%" PRIu64, pages * (uint64_t)sysconf(_SC_PAGESIZE));
}

static size_t put_attributes(const struct oom_kill *r, const struct kill_text *t, struct numbers *n,
                             struct node_event_attribute out[NODE_EVENT_ATTRIBUTES_MAX])
{
    size_t used = 0;
    snprintf(n->pid, sizeof(n->pid), "%u", r->h.pid);
    snprintf(n->by_pid, sizeof(n->by_pid), "%u", r->by_pid);
    snprintf(n->share, sizeof(n->share), "%u", t->share);
    write_bytes(r->limit_pages, n->limit);
    write_bytes(r->memory.anonymous, n->anonymous);
    write_bytes(r->memory.file, n->file);
    write_bytes(r->memory.shared, n->shared);
    out[used++] = (struct node_event_attribute){"process.pid", n->pid};
    out[used++] = (struct node_event_attribute){"process.command", r->comm};
    out[used++] = (struct node_event_attribute){"service.name", t->service};
    out[used++] = (struct node_event_attribute){"memory.anonymous", n->anonymous};
    out[used++] = (struct node_event_attribute){"memory.file", n->file};
    out[used++] = (struct node_event_attribute){"memory.shared", n->shared};
    out[used++] = (struct node_event_attribute){"trigger.pid", n->by_pid};
    out[used++] = (struct node_event_attribute){"trigger.command", r->by_comm};
    if (r->limit_cgroup_id)
        out[used++] = (struct node_event_attribute){"limit", n->limit};
    if (t->cgroup[0])
        out[used++] = (struct node_event_attribute){"cgroup", t->cgroup};
    if (t->function[0]) {
        out[used++] = (struct node_event_attribute){"growth.function", t->function};
        out[used++] = (struct node_event_attribute){"growth.percent", n->share};
    }
    return used;
}

static void emit_kill(struct oom_signal *s, const struct oom_kill *r, const struct kill_text *t)
{
    char text[TEXT_BYTES];
    struct numbers numbers;
    struct node_event_attribute attributes[NODE_EVENT_ATTRIBUTES_MAX];
    write_text(s, r, t, text);
    const size_t used = put_attributes(r, t, &numbers, attributes);
    s->services->emit_event(s->services->pipeline, &(struct node_event){.time_ns = r->h.time_ns,
                                                                        .name = "oom.killed",
                                                                        .text = text,
                                                                        .attributes = attributes,
                                                                        .attribute_count = used});
}

static void take_kill(void *self, const struct record_header *header)
{
    struct oom_signal *s = self;
    const struct oom_kill *r = (const struct oom_kill *)header;
    struct kill_text text;
    write_parts(s, r, &text);
    const size_t place = service_names_place(s->names, SERVICES_MAX, &s->name_count, text.service);
    s->kills[place][r->limit_cgroup_id ? LIMIT_CGROUP : LIMIT_NODE]++;
    if (event_rate_allows(&s->rate, header->time_ns))
        emit_kill(s, r, &text);
}

static void put_metrics(void *self, struct metric_set *set)
{
    static const char *const limits[LIMITS] = {[LIMIT_NODE] = "node", [LIMIT_CGROUP] = "cgroup"};
    const struct oom_signal *s = self;
    for (size_t i = 0; i < s->name_count; i++)
        for (size_t k = 0; k < LIMITS; k++)
            if (s->kills[i][k])
                metric_add(set, "sonde_oom_kills", METRIC_COUNTER, "", "Processes that the kernel killed for memory.",
                           (double)s->kills[i][k], METRIC_LABELS({"service_name", s->names[i]}, {"limit", limits[k]}));
}

static const struct record_type records[] = {
    {RECORD_OOM_KILL, check_kill, take_kill},
    {RECORD_PAGE_FAULTS, stack_record_check, take_page_faults},
    {0},
};

static const struct setting settings[] = {
    SIGNAL_ENABLED("oom.enabled", "find processes that the kernel kills for memory"),
    {0},
};

const struct signal signal_oom = {
    .name = "oom",
    .memory = {.fixed_bytes = 160u << 10},
    .source = &source_oom,
    .flags = SIGNAL_EVENTS | SIGNAL_AUXILIARY,
    .records = records,
    .settings_bytes = sizeof(struct oom_options),
    .defaults = &(const struct oom_options){.enabled = true},
    .settings = settings,
    .is_node_wide = signal_is_node_wide,
    .create = create_oom,
    .destroy = destroy_oom,
    .metrics = put_metrics,
};
