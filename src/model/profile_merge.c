/* Copies one profile into another: merged, folded, or with source lines; see profile.h. A row of `from` is copied
 * when the first wanted entry refers to it, and its new index is remembered. The cost grows with the distinct rows
 * only, and no unused row is copied. */
#include "model/profile.h"
#include "model/profile_tables.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>

struct carry {
    struct profile *to;
    const struct profile *from;
    bool fold;
    const struct profile_frame_lines
        *lines; /* one element for each frame of `from`; NULL: frames are copied unchanged */
    uint32_t *strings, *frames, *stacks, *resources; /* index in `from` -> index in `to` + 1; 0: not copied yet */
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
            if (frame_kind_has_lines(row.kind) ||
                row.kind == FRAME_NATIVE) /* a function is one box, not one per line */
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

/* Adds one of the lines of a frame: as an inlined frame of its own unless it is the last. */
static int carry_line(struct carry *c, uint32_t number, const struct profile_line *line, bool is_last, uint32_t *ret)
{
    struct profile_frame row = c->from->frames[number];
    uint32_t *carried[] = {&row.mapping, &row.build_id}, function, system_name;
    int r = profile_put_text(c->to, is_last && row.function ? profile_text(c->from, row.function) : line->function,
                             &function);
    if (r == 0)
        r = profile_put_text(
            c->to, is_last && row.function ? profile_text(c->from, row.system_name) : line->system_name, &system_name);
    if (r == 0)
        r = profile_put_text(c->to, line->file, &row.file);
    for (size_t i = 0; r == 0 && i < array_size(carried); i++)
        r = carry_text(c, carried[i]);
    if (r < 0)
        return r;
    row.function = function;
    row.system_name = system_name;
    row.line = line->line < PROFILE_LINE_MAX ? line->line : PROFILE_LINE_MAX;
    row.inlined = !is_last;
    return profile_put_frame(c->to, &row, ret);
}

static uint32_t lines_of(const struct carry *c, uint32_t frame)
{
    return c->lines && c->lines[frame].count ? c->lines[frame].count : 1;
}

/* Copies a frame of `from`, as lines_of() frames. */
static int carry_frames(struct carry *c, uint32_t number, uint32_t *ret)
{
    const struct profile_frame_lines *known = c->lines ? &c->lines[number] : NULL;
    if (!known || !known->count) {
        *ret = number;
        return carry_frame(c, ret);
    }
    int r = 0;
    for (uint32_t i = 0; r == 0 && i < known->count; i++)
        r = carry_line(c, number, &known->lines[i], i + 1 == known->count, &ret[i]);
    return r;
}

static int carry_stack(struct carry *c, uint32_t *number)
{
    uint32_t *known = &c->stacks[*number];
    if (!*known) {
        const struct profile_stack *stack = &c->from->stacks[*number];
        const uint32_t *numbers = c->from->stack_frames + stack->first;
        uint32_t *frames, count = 0, to = 0;
        for (uint32_t i = 0; i < stack->count; i++)
            count += lines_of(c, numbers[i]);
        int r = profile_scratch(c->to, count, &frames);
        for (uint32_t i = 0, at = 0; r == 0 && i < stack->count; at += lines_of(c, numbers[i]), i++)
            r = carry_frames(c, numbers[i], &frames[at]);
        if (r == 0)
            r = profile_put_stack(c->to, frames, count, &to);
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
            &row.command,
            &row.executable_path,
            &row.service_name,
            &row.service_namespace,
            &row.service_version,
            &row.container_id,
            &row.container_runtime,
            &row.kubernetes_pod_uid,
            &row.slurm_job_id,
            &row.systemd_unit,
            &row.cgroup_path,
            &row.attributes,
            &row.pod,
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

/* Labels that do not fit are dropped and counted. */
static int carry_labels(struct carry *c, struct profile_entry *entry)
{
    const struct profile_stack *set = entry->labels ? &c->from->labels[entry->labels - 1] : NULL;
    uint32_t *numbers;
    entry->labels = 0;
    if (!set || c->fold)
        return 0;
    int r = profile_has_room_for_labels(c->to) ? profile_scratch(c->to, set->count, &numbers) : -ENOSPC;
    for (uint32_t i = 0; r == 0 && i < set->count; i++) {
        numbers[i] = c->from->label_texts[set->first + i];
        r = carry_text(c, &numbers[i]);
    }
    if (r == 0)
        r = profile_put_labels(c->to, numbers, set->count, &entry->labels);
    if (r != -ENOSPC)
        return r;
    c->to->unlabelled += entry->count;
    return 0;
}

static int carry_entry(struct carry *c, struct profile_entry entry)
{
    int r = carry_stack(c, &entry.stack);
    if (r == 0)
        r = carry_resource(c, &entry.resource);
    if (r == 0)
        r = carry_text(c, &entry.thread_name);
    if (r == 0)
        r = carry_labels(c, &entry);
    static const struct trace_link none;
    const struct trace_link *link = entry.link && !c->fold ? &c->from->links[entry.link - 1] : &none;
    return r < 0 ? r : profile_put_linked_entry(c->to, &entry, link, &(uint32_t){0});
}

#define SHORT_ID_DIGITS 12 /* length of the short IDs that container runtimes print */

static bool container_matches(const char *id, const char *wanted)
{
    size_t size = strlen(wanted);
    return strcmp(id, wanted) == 0 || (size >= SHORT_ID_DIGITS && strncmp(id, wanted, size) == 0);
}

bool profile_filter_matches(const struct profile *p, const struct profile_resource *resource,
                            const struct profile_filter *filter)
{
    if (!filter)
        return true;
    if (filter->pid && resource->pid != filter->pid)
        return false;
    if (filter->container_id && !container_matches(profile_text(p, resource->container_id), filter->container_id))
        return false;
    return !filter->service_name || strcmp(profile_text(p, resource->service_name), filter->service_name) == 0;
}

static void join_time(struct profile *to, const struct profile *from)
{
    if (!to->period)
        to->period = from->period;
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

/* `amounts`: only that share of each entry; NULL: all of it. */
static int merge_profiles(struct profile *to, const struct profile *from, const struct profile_filter *filter,
                          const struct profile_amount *amounts, bool fold, const struct profile_frame_lines *lines)
{
    assert(to != from);
    _cleanup_(carry_clear) struct carry c = {
        .to = to,
        .from = from,
        .fold = fold,
        .lines = lines,
        .strings = calloc(strings_count(from->strings), sizeof(uint32_t)),
        .frames = calloc((size_t)from->frame_count + 1, sizeof(uint32_t)),
        .stacks = calloc((size_t)from->stack_count + 1, sizeof(uint32_t)),
        .resources = calloc((size_t)from->resource_count + 1, sizeof(uint32_t)),
    };
    /* The type becomes that of `from`: only equal types are merged, except for wall-clock time, which sets its own. */
    int result = c.strings && c.frames && c.stacks && c.resources ? profile_set_type(to, from->type) : -ENOMEM;
    bool can_carry = result == 0;
    join_time(to, from);
    to->not_observed_ns += from->not_observed_ns;
    to->dropped += from->dropped;
    to->unlinked += from->unlinked;
    to->unlabelled += from->unlabelled;
    for (uint32_t i = 0; i < from->entry_count; i++) {
        struct profile_entry entry = from->entries[i];
        if (amounts) {
            if (!amounts[i].count)
                continue;
            entry.count = amounts[i].count;
            entry.value = amounts[i].value;
        }
        if (!profile_filter_matches(from, &from->resources[entry.resource], filter))
            continue;
        int r = can_carry ? carry_entry(&c, entry) : -ENOMEM;
        if (r < 0) {
            to->dropped += entry.count;
            result = r;
        }
    }
    return result;
}

int profile_merge(struct profile *to, const struct profile *from, const struct profile_filter *filter)
{
    return merge_profiles(to, from, filter, NULL, false, NULL);
}

int profile_merge_part(struct profile *to, const struct profile *from, const struct profile_filter *filter,
                       const struct profile_amount *amounts)
{
    return merge_profiles(to, from, filter, amounts, false, NULL);
}

int profile_fold(const struct profile *p, struct profile **ret)
{
    _cleanup_(profile_freep) struct profile *folded = NULL;
    int r = profile_new(0, &folded);
    if (r == 0)
        r = merge_profiles(folded, p, NULL, NULL, true, NULL);
    if (r == 0)
        *ret = take_ptr(folded);
    return r;
}

int profile_with_lines(const struct profile *p, const struct profile_frame_lines *lines, size_t max_bytes,
                       struct profile **ret)
{
    _cleanup_(profile_freep) struct profile *with = NULL;
    int r = profile_new(max_bytes, &with);
    if (r == 0)
        r = merge_profiles(with, p, NULL, NULL, false, lines);
    if (r == 0)
        *ret = take_ptr(with);
    return r;
}
