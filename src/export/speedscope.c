/* speedscope's JSON with additional fields (docs/formats.md), read by speedscope.app, by Sonde's page and by the HTML
 * export. Written directly into the buffer, process by process, heaviest first. Uses the profile folded by function, as
 * a flame graph has one frame per function (per line, for BPF programs), not per address. */
#include "export/export.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>

struct process {
    uint32_t resource;
    uint64_t sum; /* of the values */
};

struct writer {
    const struct profile *p;
    struct process *processes; /* heaviest first */
    uint32_t *ranks;           /* resource -> index in `processes` */
    uint32_t *order;           /* entries by process, then by thread */
    struct buf *out;
};

static void writer_clear(struct writer *w)
{
    free(w->processes);
    free(w->ranks);
    free(w->order);
}

static int compare_numbers(uint64_t a, uint64_t b)
{
    return (a > b) - (a < b);
}

static int compare_processes(const void *left, const void *right)
{
    const struct process *a = left, *b = right;
    int order = compare_numbers(b->sum, a->sum);
    return order ? order : compare_numbers(a->resource, b->resource);
}

static int compare_entries(const void *left, const void *right, void *context)
{
    const struct writer *w = context;
    uint32_t number_a = *(const uint32_t *)left, number_b = *(const uint32_t *)right;
    const struct profile_entry *a = &w->p->entries[number_a], *b = &w->p->entries[number_b];
    int order = compare_numbers(w->ranks[a->resource], w->ranks[b->resource]);
    if (!order)
        order = compare_numbers(a->tid, b->tid);
    if (!order)
        order = compare_numbers(a->thread_name, b->thread_name);
    return order ? order : compare_numbers(number_a, number_b);
}

static int writer_sort(struct writer *w)
{
    const struct profile *p = w->p;
    w->processes = calloc((size_t)p->resource_count + 1, sizeof(*w->processes));
    w->ranks = calloc((size_t)p->resource_count + 1, sizeof(*w->ranks));
    w->order = calloc((size_t)p->entry_count + 1, sizeof(*w->order));
    if (!w->processes || !w->ranks || !w->order)
        return -ENOMEM;
    for (uint32_t i = 0; i < p->resource_count; i++)
        w->processes[i].resource = i;
    for (uint32_t i = 0; i < p->entry_count; i++) {
        w->processes[p->entries[i].resource].sum += p->entries[i].value;
        w->order[i] = i;
    }
    qsort(w->processes, p->resource_count, sizeof(*w->processes), compare_processes);
    for (uint32_t i = 0; i < p->resource_count; i++)
        w->ranks[w->processes[i].resource] = i;
    qsort_r(w->order, p->entry_count, sizeof(*w->order), compare_entries, w);
    return 0;
}

static void put_key_string(struct buf *out, const char *key, const char *value)
{
    buf_printf(out, "\"%s\":", key);
    buf_put_json_string(out, value);
}

static void write_frames(const struct writer *w)
{
    for (uint32_t i = 0; i < w->p->frame_count; i++) {
        const struct profile_frame *frame = &w->p->frames[i];
        buf_puts(w->out, i ? ",\n{" : "\n{");
        put_key_string(w->out, "name", profile_text(w->p, frame->function));
        if (frame->file) {
            buf_putc(w->out, ',');
            put_key_string(w->out, "file", profile_text(w->p, frame->file));
        }
        if (frame->line)
            buf_printf(w->out, ",\"line\":%u", frame->line);
        if (frame->inlined)
            buf_puts(w->out, ",\"inlined\":true");
        buf_printf(w->out, ",\"kind\":\"%s\",", frame_kind_name(frame->kind));
        put_key_string(w->out, "mapping", profile_text(w->p, frame->mapping));
        if (frame->build_id) {
            buf_putc(w->out, ',');
            put_key_string(w->out, "build_id", profile_text(w->p, frame->build_id));
        }
        buf_putc(w->out, '}');
    }
}

static void write_resource(const struct writer *w, const struct profile_resource *row)
{
    const struct profile *p = w->p;
    const struct resource resource = profile_resource_of(p, row);
    struct resource_attribute attributes[RESOURCE_ATTRIBUTES_MAX];
    int count = resource_attributes(&resource, attributes);
    buf_printf(w->out, "\"resource\":{\"process.pid\":%u,\"process.parent_pid\":%u", row->pid, row->parent_pid);
    for (int i = 0; i < count; i++) {
        buf_putc(w->out, ',');
        put_key_string(w->out, attributes[i].key, attributes[i].value);
    }
    struct resource_other other;
    for (struct resource_position at = {0}; resource_next_of_both(&resource, &at, &other);) {
        buf_putc(w->out, ',');
        buf_put_json_string(w->out, other.key);
        buf_putc(w->out, ':');
        if (other.is_integer)
            buf_puts(w->out, other.text);
        else
            buf_put_json_string(w->out, other.text);
    }
    buf_putc(w->out, '}');
}

static void write_stack(const struct writer *w, const struct profile_stack *stack)
{
    buf_putc(w->out, '[');
    for (uint32_t i = stack->count; i-- > 0;)
        buf_printf(w->out, "%u%s", w->p->stack_frames[stack->first + i], i ? "," : "");
    buf_putc(w->out, ']');
}

static bool same_thread(const struct profile_entry *a, const struct profile_entry *b)
{
    return a->tid == b->tid && a->thread_name == b->thread_name;
}

/* Writes each thread of the entries order[first .. end) once: entries are sorted by thread. */
static void write_threads(const struct writer *w, uint32_t first, uint32_t end)
{
    const struct profile_entry *entries = w->p->entries;
    buf_puts(w->out, "\"threads\":[");
    for (uint32_t i = first; i < end; i++) {
        const struct profile_entry *entry = &entries[w->order[i]];
        if (i > first && same_thread(entry, &entries[w->order[i - 1]]))
            continue;
        buf_printf(w->out, "%s{\"tid\":%u,", i > first ? "," : "", entry->tid);
        put_key_string(w->out, "name", profile_text(w->p, entry->thread_name));
        buf_putc(w->out, '}');
    }
    buf_puts(w->out, "],\"sample_threads\":[");
    for (uint32_t i = first, thread = 0; i < end; i++) {
        if (i > first && !same_thread(&entries[w->order[i]], &entries[w->order[i - 1]]))
            thread++;
        buf_printf(w->out, "%s%u", i > first ? "," : "", thread);
    }
    buf_puts(w->out, "],");
}

/* speedscope has no unit for counts. */
static const char *speedscope_unit(const struct profile *p)
{
    const char *unit = p->type->unit;
    return strcmp(unit, "count") == 0 ? "none" : unit;
}

static void write_process(const struct writer *w, const struct process *process, uint32_t first, uint32_t end)
{
    const struct profile *p = w->p;
    const struct profile_resource *resource = &p->resources[process->resource];
    struct buf *out = w->out;
    char name[128];
    snprintf(name, sizeof(name), "%s (pid %u)", profile_text(p, resource->command), resource->pid);
    buf_puts(out, "{\"type\":\"sampled\",");
    put_key_string(out, "name", name);
    buf_printf(out, ",\"unit\":\"%s\",\"startValue\":0,\"endValue\":%" PRIu64 ",\n\"samples\":[", speedscope_unit(p),
               process->sum);
    for (uint32_t i = first; i < end; i++) {
        if (i > first)
            buf_putc(out, ',');
        write_stack(w, &p->stacks[p->entries[w->order[i]].stack]);
    }
    buf_puts(out, "],\n\"weights\":[");
    for (uint32_t i = first; i < end; i++)
        buf_printf(out, "%s%" PRIu64, i > first ? "," : "", p->entries[w->order[i]].value);
    buf_puts(out, "],\n\"sonde\":{\"counts\":[");
    for (uint32_t i = first; i < end; i++)
        buf_printf(out, "%s%" PRIu64, i > first ? "," : "", p->entries[w->order[i]].count);
    buf_puts(out, "],");
    write_threads(w, first, end);
    write_resource(w, resource);
    buf_puts(out, "}}");
}

/* `nothing`: of the whole profile. */
static void write_head(const struct writer *w, const char *nothing)
{
    const struct profile *p = w->p;
    const bool is_time = sample_type_is_time(p->type);
    uint64_t samples = 0, sum = 0;
    for (uint32_t i = 0; i < p->entry_count; i++) {
        samples += p->entries[i].count;
        sum += p->entries[i].value;
    }
    char when[32] = "";
    struct tm utc;
    time_t seconds = p->start_unix_ns / 1000000000u;
    gmtime_r(&seconds, &utc);
    if (seconds)
        strftime(when, sizeof(when), " %Y-%m-%dT%H:%M:%SZ", &utc);
    buf_puts(w->out,
             "{\"$schema\":\"https://www.speedscope.app/file-format-schema.json\",\"exporter\":\"sonde " SONDE_VERSION);
    buf_printf(w->out, "\",\"name\":\"sonde%s\",\"activeProfileIndex\":0,\n\"sonde\":{\"version\":1,", when);
    put_key_string(w->out, "type", p->type->name);
    if (!is_time) {
        buf_putc(w->out, ',');
        put_key_string(w->out, "unit", p->type->unit);
    }
    buf_printf(w->out,
               ",\"start_time_unix_ms\":%" PRIu64 ",\"duration_ns\":%" PRIu64 ",\"not_observed_ns\":%" PRIu64
               ",\"%s\":%" PRIu64 ",\"samples\":%" PRIu64 ",\"%s\":%" PRIu64 ",\"dropped\":%" PRIu64,
               p->start_unix_ns / 1000000u, p->duration_ns, p->not_observed_ns, is_time ? "period_ns" : "period",
               p->period, samples, is_time ? "weight_ns" : "weight", sum, p->dropped);
    if (nothing[0]) {
        buf_putc(w->out, ',');
        put_key_string(w->out, "nothing", nothing);
    }
    buf_puts(w->out, "},\n\"shared\":{\"frames\":[");
}

static int speedscope_write(const struct profile *whole, struct buf *out)
{
    _cleanup_(profile_freep) struct profile *p = NULL;
    int r = profile_fold(whole, &p);
    if (r < 0)
        return r;
    _cleanup_(writer_clear) struct writer w = {.p = p, .out = out};
    r = writer_sort(&w);
    if (r < 0)
        return r;
    write_head(&w, whole->nothing);
    write_frames(&w);
    buf_puts(out, "]},\n\"profiles\":[");
    for (uint32_t first = 0, end = 0; first < p->entry_count && !out->error; first = end) {
        uint32_t rank = w.ranks[p->entries[w.order[first]].resource];
        while (end < p->entry_count && w.ranks[p->entries[w.order[end]].resource] == rank)
            end++;
        buf_puts(out, first ? ",\n" : "\n");
        write_process(&w, &w.processes[rank], first, end);
    }
    buf_puts(out, "]}\n");
    return buf_error(out);
}

const struct exporter exporter_speedscope = {
    .name = "json",
    .suffix = ".json",
    .content_type = "application/json",
    .help = "speedscope JSON, for speedscope.app and programs",
    .write = speedscope_write,
};
