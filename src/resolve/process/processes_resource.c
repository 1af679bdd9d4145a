/* The resource of a process: from the node (identity.h), from the process's environment, and from the context that
 * it publishes itself (OTEP 4719). The context is what its spans carry and takes precedence over the environment.
 *
 * A context may be published at any time without notice. The process's mappings are therefore searched once its
 * program has run for a second, and again after intervals that double each time, as long as samples arrive. Once a
 * context is found, only its header is read again, and the payload when the header has changed. A child does not
 * inherit its parent's context, nor a program the previous program's. */
#include "resolve/files/file_opener.h"
#include "resolve/process/pods.h"
#include "resolve/process/process_context.h"
#include "resolve/process/processes.h"
#include "resolve/process/processes_read.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#define SECOND_NS    1000000000ULL
#define UNCHANGED_S  10 /* a context read is checked again after this time */
#define SEARCH_MAX_S 64

/* A malformed context is not parsed again until it changes. */
static int apply_context(struct processes *p, struct process_entry *e, const struct buf *text)
{
    _cleanup_free_ struct process_context *context = malloc(sizeof(*context));
    const size_t head = sizeof(e->context_place);
    if (!context || text->size < head)
        return -ENOMEM;
    int r = process_context_parse(text->data + head, text->size - head, context);
    if (r == -ENOMEM)
        return r;
    memcpy(&e->context_place, text->data, head);
    processes_set_context(p, e, r == 0 ? service_new(p, &context->service, context->attributes) : NULL);
    p->count.contexts_refused += r < 0;
    p->count.attributes_left_out += r == 0 ? context->left_out : 0;
    return 0;
}

static int read_context(struct processes *p, struct process_entry *e)
{
    _cleanup_buf_ struct buf text = {0};
    struct proc_stat stat;
    _cleanup_close_ int fd = processes_open_same(p, e, e->process.pid, &stat);
    if (fd < 0)
        return fd;
    int r = file_opener_context(objects_opener(p->objects), fd, e->process.pid, &e->context_place, &text);
    return r < 0 ? r : apply_context(p, e, &text);
}

static void refresh_context(struct processes *p, struct process_entry *e)
{
    const uint64_t start_ns = e->process.start_time_ns, exec_ns = e->process.exec_time_ns;
    const uint64_t settled_ns = (start_ns > exec_ns ? start_ns : exec_ns) + SECOND_NS;
    if (p->is_replay || e->process.exited || e->is_kernel_thread || p->now_ns < settled_ns) {
        e->context_due_ns = p->now_ns < settled_ns ? settled_ns : UINT64_MAX;
        return;
    }
    const int r = read_context(p, e);
    unsigned pause_s = r == 0 || r == -EALREADY ? UNCHANGED_S : 1;
    if (r != 0 && r != -EALREADY && r != -EAGAIN && r != -ETIMEDOUT && r != -ENOMEM && r != -ESRCH) {
        pause_s = e->context_pause_s;
        processes_drop_context(p, e); /* it is missing or unreadable */
        p->count.contexts_refused += r == -EBADMSG;
        pause_s = pause_s == 0 ? 1 : pause_s < SEARCH_MAX_S ? 2 * pause_s : SEARCH_MAX_S;
        e->context_pause_s = (uint16_t)pause_s;
    }
    e->context_due_ns = p->now_ns + pause_s * SECOND_NS;
}

/* Non-empty fields replace those set before. */
static void apply_service(struct resource *r, const struct service *s)
{
    if (!s)
        return;
    r->service_name = s->name[0] ? s->name : r->service_name;
    r->service_namespace = s->namespace[0] ? s->namespace : r->service_namespace;
    r->service_version = s->version[0] ? s->version : r->service_version;
    r->attributes = s->attributes;
}

/* Resources are retired here rather than when they are next requested, because one of a process that is never sampled
 * again would keep all pods of its time. */
void processes_set_pods(struct processes *p, struct pods *pods)
{
    for (struct process_entry *e = p->by_pid; e; e = e->hh.next)
        if (e->resource && e->resource->pods)
            processes_retire_resource(p, e);
    pods_unref(p->pods);
    p->pods = pods_ref(pods);
}

bool processes_misses_pods(struct processes *p)
{
    const bool misses = p->misses_pods;
    p->misses_pods = false;
    return misses;
}

/* Reported once: a runtime that does not know a container now will not know it later. */
static void report_missing_container(struct processes *p, const char *id)
{
    uint64_t number;
    memcpy(&number, id, sizeof(number)); /* of 64 digits */
    for (size_t i = 0; i < MISSED_MAX; i++)
        if (p->missed_containers[i] == number)
            return;
    p->missed_containers[p->missed_next++ % MISSED_MAX] = number;
    p->misses_pods = true;
}

static const char *find_pod(struct processes *p, const struct identity *i)
{
    bool is_whole = false;
    const char *found =
        p->pods && i->container_id[0] ? pods_find(p->pods, i->container_id, i->kubernetes_pod_uid, &is_whole) : NULL;
    if (!is_whole && i->container_id[0] && i->kubernetes_pod_uid[0])
        report_missing_container(p, i->container_id);
    return found ? found : "";
}

static void fill_resource(struct processes *p, struct process_resource *made, uint32_t pid)
{
    struct resource *r = &made->resource;
    *r = resource_unknown;
    r->pid = pid;
    r->parent_pid = made->parent_pid;
    r->command = made->command;
    if (made->executable)
        r->executable_path = made->executable;
    if (made->cgroup) {
        const struct identity *i = &made->cgroup->identity;
        r->container_id = i->container_id;
        r->container_runtime = i->container_runtime;
        r->kubernetes_pod_uid = i->kubernetes_pod_uid;
        r->slurm_job_id = i->slurm_job_id;
        r->systemd_unit = i->systemd_unit;
        r->cgroup_path = made->cgroup->path;
        r->pod = find_pod(p, i);
    }
    apply_service(r, made->service);
    apply_service(r, made->context);
    if (!r->service_name[0])
        r->service_name = made->cgroup && made->cgroup->service[0] ? made->cgroup->service : made->command;
}

static struct process_resource *make_resource(struct processes *p, const struct process_entry *e)
{
    struct process_resource *made = calloc(1, sizeof(*made));
    if (!made)
        return NULL;
    made->executable = path_retain(e->image ? e->image->executable : NULL);
    made->cgroup = cgroup_ref(e->cgroup);
    made->service = service_ref(e->service);
    made->context = service_ref(e->context);
    made->pods = pods_ref(p->pods);
    made->parent_pid = e->parent_pid;
    memcpy(made->command, e->command, sizeof(made->command));
    fill_resource(p, made, e->process.pid);
    p->bytes += sizeof(*made);
    return made;
}

/* Equal pointers are equal contents: the resource holds references to immutable objects. */
static bool is_current(const struct processes *p, const struct process_entry *e)
{
    const struct process_resource *r = e->resource;
    return r && r->executable == (e->image ? e->image->executable : NULL) && r->cgroup == e->cgroup &&
           r->service == e->service && r->context == e->context && r->pods == p->pods &&
           r->parent_pid == e->parent_pid && memcmp(r->command, e->command, sizeof(r->command)) == 0;
}

const struct resource *processes_resource(struct processes *p, const struct process *process)
{
    assert(process); /* of processes_find, which may return NULL */
    struct process_entry *e = process_entry_of(process);
    if (!e->cgroup_known || !e->service_known)
        processes_identify(p, e);
    if (p->now_ns >= e->context_due_ns)
        refresh_context(p, e);
    if (!is_current(p, e)) {
        processes_retire_resource(p, e);
        e->resource = make_resource(p, e);
    }
    return e->resource ? &e->resource->resource : &resource_unknown;
}
