/* One profile into another, as it is or folded; see profile.h. Rows of `from` are carried over at their first
 * use by a wanted entry and remembered by number, so that the cost is that of the distinct rows and nothing
 * arrives that no entry refers to. */
#include "model/profile_tables.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

struct carry {
    struct profile *to;
    const struct profile *from;
    bool fold;
    uint32_t *strings, *frames, *stacks,
        *resources; /* number in `from` -> number in `to` + 1; 0: not carried yet */
};

static void carry_clear(struct carry *c)
{
    free(c->strings);
    free(c->frames);
    free(c->stacks);
    free(c->resources);
}

static int carry_text(struct carry *c, uint32_t *number)
{
    uint32_t *known = &c->strings[*number];
    if (!*known) {
        uint32_t row = 0;
        int r = profile_put_text(c->to, profile_text(c->from, *number), &row);
        if (r < 0)
            return r;
        *known = row + 1;
    }
    *number = *known - 1;
    return 0;
}

static int carry_frame(struct carry *c, uint32_t *number)
{
    uint32_t *known = &c->frames[*number];
    if (!*known) {
        struct profile_frame row = c->from->frames[*number];
        char text[FRAME_TEXT_BYTES];
        uint32_t *texts[] = {&row.system_name, &row.file, &row.mapping, &row.build_id}, to = 0;
        int r = c->fold ? profile_put_text(c->to, profile_frame_text(c->from, &row, text), &row.function)
                        : carry_text(c, &row.function);
        if (c->fold) {
            row.address = 0;
            row.system_name = 0;
            if (row.kind == FRAME_INTERPRETED) /* which has one in every frame: a function is one box, not one a line */
                row.line = 0;
        }
        for (size_t i = 0; r == 0 && i < array_size(texts); i++)
            r = carry_text(c, texts[i]);
        if (r == 0)
            r = profile_put_frame(c->to, &row, &to);
        if (r < 0)
            return r;
        *known = to + 1;
    }
    *number = *known - 1;
    return 0;
}

static int carry_stack(struct carry *c, uint32_t *number)
{
    uint32_t *known = &c->stacks[*number];
    if (!*known) {
        const struct profile_stack *stack = &c->from->stacks[*number];
        uint32_t *frames, to = 0;
        int r = profile_scratch(c->to, stack->count, &frames);
        for (uint32_t i = 0; r == 0 && i < stack->count; i++) {
            frames[i] = c->from->stack_frames[stack->first + i];
            r = carry_frame(c, &frames[i]);
        }
        if (r == 0)
            r = profile_put_stack(c->to, frames, stack->count, &to);
        if (r < 0)
            return r;
        *known = to + 1;
    }
    *number = *known - 1;
    return 0;
}

static int carry_resource(struct carry *c, uint32_t *number)
{
    uint32_t *known = &c->resources[*number];
    if (!*known) {
        struct profile_resource row = c->from->resources[*number];
        uint32_t *texts[] = {
            &row.command,         &row.executable_path, &row.service_name,      &row.service_namespace,
            &row.service_version, &row.container_id,    &row.container_runtime, &row.kubernetes_pod_uid,
            &row.slurm_job_id,    &row.systemd_unit,    &row.cgroup_path,
        };
        uint32_t to = 0;
        int r = 0;
        for (size_t i = 0; r == 0 && i < array_size(texts); i++)
            r = carry_text(c, texts[i]);
        if (r == 0)
            r = profile_put_resource(c->to, &row, &to);
        if (r < 0)
            return r;
        *known = to + 1;
    }
    *number = *known - 1;
    return 0;
}

static int carry_entry(struct carry *c, struct profile_entry entry)
{
    int r = carry_stack(c, &entry.stack);
    if (r == 0)
        r = carry_resource(c, &entry.resource);
    if (r == 0)
        r = carry_text(c, &entry.thread_name);
    static const struct trace_link none;
    const struct trace_link *link = entry.link && !c->fold ? &c->from->links[entry.link - 1] : &none;
    return r < 0 ? r : profile_put_linked_entry(c->to, &entry, link, &(uint32_t){0});
}

#define SHORT_ID_DIGITS 12 /* what container runtimes print of an id */

static bool container_matches(const char *id, const char *wanted)
{
    size_t size = strlen(wanted);
    return strcmp(id, wanted) == 0 || (size >= SHORT_ID_DIGITS && strncmp(id, wanted, size) == 0);
}

static bool resource_matches(const struct profile *p, const struct profile_resource *resource,
                             const struct profile_filter *filter)
{
    if (!filter)
        return true;
    if (filter->pid && resource->pid != filter->pid)
        return false;
    if (filter->container_id &&
        !container_matches(profile_text(p, resource->container_id), filter->container_id))
        return false;
    return !filter->service_name ||
           strcmp(profile_text(p, resource->service_name), filter->service_name) == 0;
}

static void join_time(struct profile *to, const struct profile *from)
{
    if (!to->period_ns)
        to->period_ns = from->period_ns;
    to->time = from->time; /* profiles of different ones are not merged */
    if (!from->start_unix_ns && !from->duration_ns)
        return;
    if (!to->start_unix_ns && !to->duration_ns) {
        to->start_unix_ns = from->start_unix_ns;
        to->duration_ns = from->duration_ns;
        return;
    }
    uint64_t to_end = to->start_unix_ns + to->duration_ns, from_end = from->start_unix_ns + from->duration_ns;
    uint64_t end = to_end > from_end ? to_end : from_end;
    if (from->start_unix_ns < to->start_unix_ns)
        to->start_unix_ns = from->start_unix_ns;
    to->duration_ns = end - to->start_unix_ns;
}

static int merge(struct profile *to, const struct profile *from, const struct profile_filter *filter,
                 bool fold)
{
    _cleanup_(carry_clear) struct carry c = {
        .to = to,
        .from = from,
        .fold = fold,
        .strings = calloc(strings_count(from->strings), sizeof(uint32_t)),
        .frames = calloc((size_t)from->frame_count + 1, sizeof(uint32_t)),
        .stacks = calloc((size_t)from->stack_count + 1, sizeof(uint32_t)),
        .resources = calloc((size_t)from->resource_count + 1, sizeof(uint32_t)),
    };
    int result = c.strings && c.frames && c.stacks && c.resources ? 0 : -ENOMEM;
    bool can_carry = result == 0;
    join_time(to, from);
    to->dropped += from->dropped;
    to->unlinked += from->unlinked;
    for (uint32_t i = 0; i < from->entry_count; i++) {
        const struct profile_entry *entry = &from->entries[i];
        if (!resource_matches(from, &from->resources[entry->resource], filter))
            continue;
        int r = can_carry ? carry_entry(&c, *entry) : -ENOMEM;
        if (r < 0) {
            to->dropped += entry->count;
            result = r;
        }
    }
    return result;
}

int profile_merge(struct profile *to, const struct profile *from, const struct profile_filter *filter)
{
    return merge(to, from, filter, false);
}

int profile_fold(const struct profile *p, struct profile **ret)
{
    _cleanup_(profile_freep) struct profile *folded = NULL;
    int r = profile_new(0, &folded);
    if (r == 0)
        r = merge(folded, p, NULL, true);
    if (r == 0)
        *ret = take_ptr(folded);
    return r;
}
