/* pprof's profile.proto, gzipped: read by `go tool pprof`, Pyroscope and Parca.
 *
 * Encoded by hand instead of with protobuf-c, which builds the whole message as a tree of heap objects first (some 250
 * bytes per location): several times the size of the profile, in an agent limited to 64 MiB. Messages are one level
 * deep, so one scratch buffer is enough. The tests decode the result with `go tool pprof` and with protoc.
 *
 * Locations are the frames of the profile. Inlined functions are further lines of the location that they were inlined
 * into. Functions and mappings are deduplicated. The string table is separate from the profile's, as it has
 * labels and generated names and omits unused texts. */
#include "export/export.h"

#include "base/protobuf.h"
#include "model/pprof_fields.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

/* What a location refers to, as string table indices. */
struct location {
    uint32_t name, file; /* of the function */
    uint32_t system_name;
    uint32_t mapping, build_id;
    uint32_t function_id;               /* from 1 */
    uint32_t mapping_id;                /* from 1; 0: none */
    uint32_t inlined_at, inlined_count; /* in p->stack_frames: functions inlined here, innermost first */
};

struct writer {
    const struct profile *p;
    struct buf *out;    /* the uncompressed message */
    struct buf message; /* current embedded message */
    struct buf part;    /* message nested in that */
    struct strings *texts;
    struct location *locations; /* one per frame */
    uint32_t *order;            /* frames, sorted */
    uint32_t main_mapping;      /* string; the format requires the main program as first mapping */
    int error;
};

static void writer_clear(struct writer *w)
{
    buf_clear(&w->message);
    buf_clear(&w->part);
    strings_free(w->texts);
    free(w->locations);
    free(w->order);
}

/* Index of `text` in the string table, converted to UTF-8 as protobuf requires. */
static uint32_t put_text(struct writer *w, const char *text)
{
    if (!text[0])
        return 0;
    w->part.size = 0;
    int r = buf_put_utf8(&w->part, text);
    uint32_t number = r == 0 ? strings_add_n(w->texts, w->part.data, w->part.size) : 0;
    if (!number && !w->error)
        w->error = r < 0 ? r : -ENOMEM;
    w->part.size = 0;
    return number;
}

static void write_value_type(struct writer *w, uint32_t field, const char *type, const char *unit)
{
    uint32_t type_text = put_text(w, type), unit_text = put_text(w, unit);
    protobuf_put_number(&w->message, VALUE_TYPE_TYPE, type_text);
    protobuf_put_number(&w->message, VALUE_TYPE_UNIT, unit_text);
    protobuf_put_message(w->out, field, &w->message);
}

static void write_label(struct writer *w, const char *key, const char *text, uint64_t number)
{
    if (!text[0] && !number)
        return;
    uint32_t key_text = put_text(w, key), value_text = put_text(w, text);
    protobuf_put_number(&w->part, LABEL_KEY, key_text);
    protobuf_put_number(&w->part, LABEL_STR, value_text);
    protobuf_put_number(&w->part, LABEL_NUM, number);
    protobuf_put_message(&w->message, SAMPLE_LABEL, &w->part);
}

/* Labels of the program, with plain keys as in profiles of Go's own profiler. */
static void write_own_labels(struct writer *w, const struct profile_stack *set)
{
    const struct profile *p = w->p;
    for (uint32_t i = set->first; i < set->first + set->count; i += 2)
        write_label(w, profile_text(p, p->label_texts[i]), profile_text(p, p->label_texts[i + 1]), 0);
}

/* Keys that only Sonde sets: attributes published by a process must not override them. */
static bool is_reserved_key(const char *key)
{
    static const char *const names[] = {"thread", "tid", "pid", "process", "trace_id", "span_id"};
    for (size_t i = 0; i < array_size(names); i++)
        if (strcmp(key, names[i]) == 0)
            return true;
    return false;
}

static void write_labels(struct writer *w, const struct profile_entry *entry)
{
    const struct profile *p = w->p;
    const struct profile_resource *row = &p->resources[entry->resource];
    const struct resource resource = profile_resource_of(p, row);
    struct resource_attribute attributes[RESOURCE_ATTRIBUTES_MAX];
    int count = resource_attributes(&resource, attributes);
    write_label(w, "thread", profile_text(p, entry->thread_name), 0);
    write_label(w, "tid", "", entry->tid);
    write_label(w, "pid", "", row->pid);
    if (entry->link) {
        const struct trace_link_text text = trace_link_text(&p->links[entry->link - 1]);
        write_label(w, "trace_id", text.trace_id, 0);
        write_label(w, "span_id", text.span_id, 0);
    }
    if (entry->labels)
        write_own_labels(w, &p->labels[entry->labels - 1]);
    for (int i = 0; i < count; i++) {
        const char *key = attributes[i].key;
        if (strcmp(key, "process.command") == 0)
            key = "process"; /* short name, for pprof's command line */
        write_label(w, key, attributes[i].value, 0);
    }
    struct resource_other other;
    for (struct resource_position at = {0}; resource_next_of_both(&resource, &at, &other);)
        if (!is_reserved_key(other.key))
            write_label(w, other.key, other.is_integer ? "" : other.text, (uint64_t)other.integer);
}

static void write_samples(struct writer *w)
{
    const struct profile *p = w->p;
    for (uint32_t i = 0; i < p->entry_count && !w->error && !w->out->error; i++) {
        const struct profile_entry *entry = &p->entries[i];
        const struct profile_stack *stack = &p->stacks[entry->stack];
        for (uint32_t j = 0; j < stack->count; j++) {
            const uint32_t frame = p->stack_frames[stack->first + j];
            if (!p->frames[frame].inlined) /* an inlined frame belongs to the location of the next frame */
                protobuf_varint(&w->part, frame + 1);
        }
        protobuf_put_message(&w->message, SAMPLE_LOCATION_ID, &w->part);
        protobuf_varint(&w->part, entry->count);
        protobuf_varint(&w->part, entry->value);
        protobuf_put_message(&w->message, SAMPLE_VALUE, &w->part);
        write_labels(w, entry);
        protobuf_put_message(w->out, PROFILE_SAMPLE, &w->message);
    }
}

static int collect_locations(struct writer *w)
{
    const struct profile *p = w->p;
    w->locations = calloc((size_t)p->frame_count + 1, sizeof(*w->locations));
    w->order = calloc((size_t)p->frame_count + 1, sizeof(*w->order));
    if (!w->locations || !w->order)
        return -ENOMEM;
    for (uint32_t i = 0; i < p->frame_count; i++) {
        const struct profile_frame *frame = &p->frames[i];
        char text[FRAME_TEXT_BYTES];
        w->order[i] = i;
        w->locations[i] = (struct location){
            .name = put_text(w, profile_frame_text(p, frame, text)),
            .system_name = put_text(w, profile_text(p, frame->system_name)),
            .file = put_text(w, profile_text(p, frame->file)),
            .mapping = put_text(w, profile_text(p, frame->mapping)),
            .build_id = put_text(w, profile_text(p, frame->build_id)),
        };
    }
    return w->error;
}

/* Finds the functions inlined at each frame: the same in every stack with that frame. */
static void find_inlined(struct writer *w)
{
    const struct profile *p = w->p;
    for (uint32_t i = 0; i < p->stack_count; i++)
        for (uint32_t j = 0, inlined = 0; j < p->stacks[i].count; j++) {
            const uint32_t at = p->stacks[i].first + j, frame = p->stack_frames[at];
            inlined += p->frames[frame].inlined;
            if (p->frames[frame].inlined)
                continue;
            w->locations[frame].inlined_at = at - inlined;
            w->locations[frame].inlined_count = inlined;
            inlined = 0;
        }
}

static int compare_pairs(uint32_t a1, uint32_t a2, uint32_t b1, uint32_t b2)
{
    uint64_t a = (uint64_t)a1 << 32 | a2, b = (uint64_t)b1 << 32 | b2;
    return (a > b) - (a < b);
}

static int compare_functions(const void *left, const void *right, void *locations)
{
    const struct location *a = (const struct location *)locations + *(const uint32_t *)left;
    const struct location *b = (const struct location *)locations + *(const uint32_t *)right;
    int by_name = compare_pairs(a->name, a->file, b->name, b->file);
    return by_name ? by_name : compare_pairs(a->system_name, 0, b->system_name, 0);
}

static int compare_mappings(const void *left, const void *right, void *writer)
{
    const struct writer *w = writer;
    const struct location *a = &w->locations[*(const uint32_t *)left];
    const struct location *b = &w->locations[*(const uint32_t *)right];
    uint32_t a_key = a->mapping == w->main_mapping ? 0 : a->mapping + 1;
    uint32_t b_key = b->mapping == w->main_mapping ? 0 : b->mapping + 1;
    return compare_pairs(a_key, a->build_id, b_key, b->build_id);
}

static void write_functions(struct writer *w)
{
    uint32_t id = 0;
    qsort_r(w->order, w->p->frame_count, sizeof(*w->order), compare_functions, w->locations);
    for (uint32_t i = 0; i < w->p->frame_count; i++) {
        struct location *location = &w->locations[w->order[i]];
        bool is_new = i == 0 || compare_functions(&w->order[i - 1], &w->order[i], w->locations) != 0;
        location->function_id = is_new ? ++id : id;
        if (!is_new)
            continue;
        protobuf_put_number(&w->message, FUNCTION_ID, id);
        protobuf_put_number(&w->message, FUNCTION_NAME, location->name);
        /* Not the name itself: if both are equal, `go tool pprof` demangles it again and removes template arguments,
         * which merges different functions. */
        protobuf_put_number(&w->message, FUNCTION_SYSTEM_NAME, location->system_name);
        protobuf_put_number(&w->message, FUNCTION_FILENAME, location->file);
        protobuf_put_message(w->out, PROFILE_FUNCTION, &w->message);
    }
}

#define PAGE_BYTES 4096

/* Writes one mapping for the frames order[first .. end). Addresses are relative to the ELF file, so it starts at 0;
 * the kernel's mapping starts at its lowest frame. */
static void write_mapping(struct writer *w, uint32_t id, uint32_t first, uint32_t end)
{
    const struct profile *p = w->p;
    uint64_t lowest = UINT64_MAX, highest = 0;
    bool is_kernel = false, has_files = false, has_lines = false, has_inlined = false;
    for (uint32_t i = first; i < end; i++) {
        const struct profile_frame *frame = &p->frames[w->order[i]];
        lowest = frame->address < lowest ? frame->address : lowest;
        highest = frame->address > highest ? frame->address : highest;
        is_kernel = is_kernel || frame->kind == FRAME_KERNEL || frame->kind == FRAME_BPF;
        has_files = has_files || frame->file;
        has_lines = has_lines || frame->line;
        has_inlined = has_inlined || frame->inlined;
        w->locations[w->order[i]].mapping_id = id;
    }
    uint64_t last_page = highest / PAGE_BYTES * PAGE_BYTES;
    uint64_t limit = last_page <= UINT64_MAX - PAGE_BYTES ? last_page + PAGE_BYTES : UINT64_MAX;
    const struct location *location = &w->locations[w->order[first]];
    protobuf_put_number(&w->message, MAPPING_ID, id);
    protobuf_put_number(&w->message, MAPPING_MEMORY_START, is_kernel ? lowest / PAGE_BYTES * PAGE_BYTES : 0);
    protobuf_put_number(&w->message, MAPPING_MEMORY_LIMIT, limit);
    protobuf_put_number(&w->message, MAPPING_FILENAME, location->mapping);
    protobuf_put_number(&w->message, MAPPING_BUILD_ID, location->build_id);
    protobuf_put_number(&w->message, MAPPING_HAS_FUNCTIONS,
                        1); /* pprof must not symbolise: frames without a name have none in the files either */
    protobuf_put_number(&w->message, MAPPING_HAS_FILENAMES, has_files);
    protobuf_put_number(&w->message, MAPPING_HAS_LINE_NUMBERS, has_lines);
    protobuf_put_number(&w->message, MAPPING_HAS_INLINE_FRAMES, has_inlined);
    protobuf_put_message(w->out, PROFILE_MAPPING, &w->message);
}

/* The executable of the process with the most CPU time, if one of its frames was sampled. */
static int find_main_mapping(struct writer *w)
{
    const struct profile *p = w->p;
    _cleanup_free_ uint64_t *sums = calloc((size_t)p->resource_count + 1, sizeof(*sums));
    _cleanup_free_ bool *is_mapping = calloc(strings_count(p->strings), sizeof(*is_mapping));
    if (!sums || !is_mapping)
        return -ENOMEM;
    for (uint32_t i = 0; i < p->frame_count; i++)
        is_mapping[p->frames[i].mapping] = true;
    uint64_t most = 0;
    for (uint32_t i = 0; i < p->entry_count; i++) {
        uint32_t number = p->entries[i].resource, path = p->resources[number].executable_path;
        sums[number] += p->entries[i].value;
        if (path && is_mapping[path] && sums[number] > most) {
            most = sums[number];
            w->main_mapping = put_text(w, profile_text(p, path));
        }
    }
    return 0;
}

static void write_mappings(struct writer *w)
{
    uint32_t id = 0, count = w->p->frame_count;
    qsort_r(w->order, count, sizeof(*w->order), compare_mappings, w);
    for (uint32_t first = 0, end; first < count; first = end) {
        for (end = first + 1; end < count; end++)
            if (compare_mappings(&w->order[first], &w->order[end], w) != 0)
                break;
        if (w->locations[w->order[first]].mapping)
            write_mapping(w, ++id, first, end);
    }
}

static void write_line(struct writer *w, uint32_t frame)
{
    protobuf_put_number(&w->part, LINE_FUNCTION_ID, w->locations[frame].function_id);
    protobuf_put_number(&w->part, LINE_LINE, w->p->frames[frame].line);
    protobuf_put_message(&w->message, LOCATION_LINE, &w->part);
}

static void write_locations(struct writer *w)
{
    for (uint32_t i = 0; i < w->p->frame_count; i++) {
        const struct profile_frame *frame = &w->p->frames[i];
        const struct location *location = &w->locations[i];
        if (frame->inlined)
            continue;
        protobuf_put_number(&w->message, LOCATION_ID, (uint64_t)i + 1);
        protobuf_put_number(&w->message, LOCATION_MAPPING_ID, location->mapping_id);
        protobuf_put_number(&w->message, LOCATION_ADDRESS, frame->address);
        for (uint32_t j = 0; j < location->inlined_count; j++)
            write_line(w, w->p->stack_frames[location->inlined_at + j]);
        write_line(w, i);
        protobuf_put_message(w->out, PROFILE_LOCATION, &w->message);
    }
}

static void write_comment(struct writer *w, const char *before, uint64_t number, const char *after)
{
    char text[96];
    snprintf(text, sizeof(text), "%s%llu %s", before, (unsigned long long)number, after);
    protobuf_put_number(w->out, PROFILE_COMMENT, put_text(w, text));
}

static void write_metadata(struct writer *w)
{
    const struct profile *p = w->p;
    const struct sample_type *type = p->type, *period_type = type == &sample_type_wall ? &sample_type_cpu : type;
    const bool has_off_cpu_time = type == &sample_type_off_cpu || type == &sample_type_wall;
    const bool counts_all = !p->period && !sample_type_is_time(type); /* a period of 1: every byte is counted */
    write_value_type(w, PROFILE_SAMPLE_TYPE, type->counts, "count");
    write_value_type(w, PROFILE_SAMPLE_TYPE, type->name, type->unit);
    write_value_type(w, PROFILE_PERIOD_TYPE, period_type->name, period_type->unit);
    protobuf_put_number(w->out, PROFILE_PERIOD, counts_all ? 1 : p->period);
    protobuf_put_number(w->out, PROFILE_DEFAULT_SAMPLE_TYPE, put_text(w, type->name));
    protobuf_put_number(w->out, PROFILE_TIME_NANOS, p->start_unix_ns);
    protobuf_put_number(w->out, PROFILE_DURATION_NANOS, p->duration_ns);
    if (p->not_observed_ns)
        write_comment(w, PPROF_NOT_OBSERVED, p->not_observed_ns / 1000000,
                      has_off_cpu_time ? "ms: off-CPU time not recorded" : "ms: not monitored");
    if (p->dropped)
        write_comment(w, "", p->dropped, "samples were dropped: out of memory");
    if (p->unlinked)
        write_comment(w, "", p->unlinked, "samples have no trace_id: out of memory");
    if (p->unlabelled)
        write_comment(w, "", p->unlabelled, "samples have no goroutine labels: out of memory");
}

/* Writes the message. The string table is last, as all other parts add to it. */
static int write_profile(struct writer *w)
{
    int r = strings_new(&w->texts);
    if (r == 0)
        r = collect_locations(w);
    if (r == 0)
        r = find_main_mapping(w);
    if (r < 0)
        return r;
    find_inlined(w);
    write_metadata(w);
    write_samples(w);
    write_mappings(w);
    write_functions(w);
    write_locations(w);
    for (uint32_t i = 0; i < strings_count(w->texts); i++) {
        const char *text = strings_get(w->texts, i);
        protobuf_put_bytes(w->out, PROFILE_STRING_TABLE, text, strlen(text));
    }
    return w->error ? w->error : buf_error(w->out);
}

static int pprof_write(const struct profile *p, struct buf *out)
{
    _cleanup_buf_ struct buf plain = {.max_bytes = out->max_bytes};
    _cleanup_(writer_clear) struct writer w = {.p = p, .out = &plain};
    int r = write_profile(&w);
    return r < 0 ? r : buf_gzip(out, plain.data, plain.size);
}

const struct exporter exporter_pprof = {
    .name = "pprof",
    .suffix = ".pb.gz",
    .content_type = "application/vnd.google.protobuf+gzip",
    .help = "profile.proto, for go tool pprof, Pyroscope and Parca",
    .write = pprof_write,
};
