/* Adds samples to a profile; see profile.h. A sample's strings are interned, then its frames, its stack and its
 * resource, and finally the entry that counts it: every step finds what already exists. */
#include "model/profile.h"

#include "model/profile_tables.h"

#include <errno.h>
#include <string.h>

int profile_new(size_t max_bytes, struct profile **ret)
{
    _cleanup_(profile_freep) struct profile *p = calloc(1, sizeof(*p));
    if (!p)
        return -ENOMEM;
    p->type = &sample_type_cpu;
    int r = profile_tables_new(max_bytes, p);
    if (r < 0)
        return r;
    *ret = take_ptr(p);
    return 0;
}

void profile_free(struct profile *p)
{
    if (!p)
        return;
    profile_tables_free(p);
    free(p);
}

int profile_set_type(struct profile *p, const struct sample_type *type)
{
    const struct sample_type *constant =
        sample_type_equal(type, &sample_type_gpu) ? &sample_type_gpu : sample_type_find(type->name);
    uint32_t name, unit, counts;
    if (constant && sample_type_equal(constant, type)) {
        p->type = constant;
        return 0;
    }
    int r = profile_put_text(p, type->name, &name);
    if (r == 0)
        r = profile_put_text(p, type->unit, &unit);
    if (r == 0)
        r = profile_put_text(p, type->counts, &counts);
    if (r < 0)
        return r;
    p->copied_type = (struct sample_type){.name = profile_text(p, name),
                                          .unit = profile_text(p, unit),
                                          .counts = profile_text(p, counts),
                                          .is_interval = type->is_interval};
    p->type = &p->copied_type;
    return 0;
}

static int add_frame(struct profile *p, const struct frame *frame, uint32_t *ret)
{
    const bool joins_lines = p->joins_lines && frame_kind_has_lines(frame->kind) && frame->line;
    if (!joins_lines && !p->drops_system_names)
        return profile_put_whole_frame(p, frame, ret);
    struct frame kept = *frame;
    if (joins_lines)
        kept.line = 0;
    if (p->drops_system_names)
        kept.system_name = "";
    return profile_put_whole_frame(p, &kept, ret);
}

/* A stack is never empty: some readers skip such samples (Go's pprof before 1.20). */
static int add_stack(struct profile *p, const struct sample *s, uint32_t *ret)
{
    static const struct frame no_stack = {
        .kind = FRAME_TRUNCATED, .function = "no stack", .system_name = "", .file = "", .mapping = "", .build_id = ""};
    const struct frame *frames = s->frame_count ? s->frames : &no_stack;
    size_t count = s->frame_count ? s->frame_count : 1;
    if (count > UINT32_MAX / 4)
        return -ENOSPC;
    uint32_t *numbers;
    int r = profile_scratch(p, count, &numbers);
    for (size_t i = 0; r == 0 && i < count; i++)
        r = add_frame(p, &frames[i], &numbers[i]);
    return r < 0 ? r : profile_put_stack(p, numbers, count, ret);
}

static int add_resource(struct profile *p, const struct resource *from, uint32_t *ret)
{
    struct profile_resource row = {.pid = from->pid, .parent_pid = from->parent_pid};
    const struct {
        const char *text;
        uint32_t *number;
    } texts[] = {
        {from->command, &row.command},
        {from->executable_path, &row.executable_path},
        {from->service_name, &row.service_name},
        {from->service_namespace, &row.service_namespace},
        {from->service_version, &row.service_version},
        {from->container_id, &row.container_id},
        {from->container_runtime, &row.container_runtime},
        {from->kubernetes_pod_uid, &row.kubernetes_pod_uid},
        {from->slurm_job_id, &row.slurm_job_id},
        {from->systemd_unit, &row.systemd_unit},
        {from->cgroup_path, &row.cgroup_path},
        {from->attributes, &row.attributes},
        {from->pod, &row.pod},
    };
    int r = 0;
    for (size_t i = 0; r == 0 && i < array_size(texts); i++)
        r = profile_put_text(p, texts[i].text, texts[i].number);
    return r < 0 ? r : profile_put_resource(p, &row, ret);
}

/* 1: they did not fit, which is counted. */
static int add_labels(struct profile *p, const struct sample *s, uint32_t *ret)
{
    const uint32_t count = (uint32_t)s->label_count * 2;
    uint32_t *numbers;
    if (!count)
        return 0;
    int r = profile_has_room_for_labels(p) ? profile_scratch(p, count, &numbers) : -ENOSPC;
    for (uint32_t i = 0; r == 0 && i < count; i++)
        r = profile_put_text(p, i % 2 ? s->labels[i / 2].value : s->labels[i / 2].key, &numbers[i]);
    if (r == 0)
        r = profile_put_labels(p, numbers, count, ret);
    if (r != -ENOSPC)
        return r;
    p->unlabelled += s->count ? s->count : 1;
    return 1;
}

static int add_sample(struct profile *p, const struct sample *s, const uint64_t *unix_ns, uint32_t *ret_entry)
{
    struct profile_entry entry = {.tid = s->tid, .count = s->count ? s->count : 1, .value = s->value};
    int r = add_stack(p, s, &entry.stack);
    if (r == 0)
        r = add_resource(p, s->resource, &entry.resource);
    if (r == 0)
        r = profile_put_text(p, s->thread_name, &entry.thread_name);
    if (r == 0)
        r = add_labels(p, s, &entry.labels);
    const int unlabelled = r > 0 ? PROFILE_UNLABELLED : 0;
    if (r >= 0)
        r = unix_ns ? profile_put_moment(p, &entry, &s->link, *unix_ns)
                    : profile_put_linked_entry(p, &entry, &s->link, ret_entry);
    if (r < 0)
        p->dropped += s->count ? s->count : 1;
    return r < 0 ? r : r | unlabelled;
}

int profile_add(struct profile *p, const struct sample *s)
{
    return add_sample(p, s, NULL, &(uint32_t){0});
}

int profile_add_entry(struct profile *p, const struct sample *s, uint32_t *ret_entry)
{
    return add_sample(p, s, NULL, ret_entry);
}

int profile_add_moment(struct profile *p, const struct sample *s, uint64_t unix_ns)
{
    return add_sample(p, s, &unix_ns, NULL);
}

uint64_t profile_samples(const struct profile *p)
{
    uint64_t samples = 0;
    for (uint32_t i = 0; i < p->entry_count; i++)
        samples += p->entries[i].count;
    return samples;
}

struct resource profile_resource_of(const struct profile *p, const struct profile_resource *row)
{
    return (struct resource){
        .pid = row->pid,
        .parent_pid = row->parent_pid,
        .command = profile_text(p, row->command),
        .executable_path = profile_text(p, row->executable_path),
        .service_name = profile_text(p, row->service_name),
        .service_namespace = profile_text(p, row->service_namespace),
        .service_version = profile_text(p, row->service_version),
        .container_id = profile_text(p, row->container_id),
        .container_runtime = profile_text(p, row->container_runtime),
        .kubernetes_pod_uid = profile_text(p, row->kubernetes_pod_uid),
        .slurm_job_id = profile_text(p, row->slurm_job_id),
        .systemd_unit = profile_text(p, row->systemd_unit),
        .cgroup_path = profile_text(p, row->cgroup_path),
        .attributes = profile_text(p, row->attributes),
        .pod = profile_text(p, row->pod),
    };
}

const char *profile_frame_text(const struct profile *p, const struct profile_frame *frame, char out[FRAME_TEXT_BYTES])
{
    return frame_text(frame->kind, profile_text(p, frame->function), profile_text(p, frame->mapping), frame->address,
                      out);
}
