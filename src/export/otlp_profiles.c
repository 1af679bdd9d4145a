/* OTLP profiles; see otlp_profiles.h. Entries are sorted by process and encoded into one packet. If it is too large,
 * they are split into several packets of equal parts. An entry whose timestamps exceed a packet is split into several,
 * too.
 *
 * Packets are sent with gzip, so similar data is placed together: locations are sorted by address, functions and their
 * names follow the order of the locations, and stacks are sorted by their callers
 * (docs/decisions/0012-otlp-sending.md). */
#include "export/otlp_profiles.h"

#include "base/protobuf.h"
#include "export/otlp_attributes.h"
#include "export/otlp_dictionary.h"
#include "lib/otlp/fields.h"
#include "lib/otlp/opamp_fields.h"
#include "lib/otlp/profile_fields.h"

#include <errno.h>
#include <string.h>
#include <xxhash.h>

#define LABEL_PREFIX "process.context.label."
#define ROW_NEEDED   UINT32_MAX /* used by the packet, no row yet */

struct writer {
    const struct profile *p;
    const struct otlp_profiles_options *o;
    uint64_t start_ns, end_ns; /* Unix; all timestamps lie in between */
    uint32_t *order;           /* entries, sorted by resource */
    uint32_t *frame_order, *stack_order;
    uint32_t *moments;            /* indices into p->moments, sorted by entry */
    uint32_t *first_moment;       /* start of each entry in `moments`; one more at the end */
    uint32_t *locations, *stacks; /* frame and stack -> row in the packet; 0: not in the packet */

    struct otlp_dictionary dictionary;
    struct buf packet;   /* finished ResourceProfiles */
    struct buf resource; /* Resource of the current one */
    struct buf samples;  /* Profile.samples of the current one */
    struct buf message, part, key;
    struct otlp_scratch scratch;
    uint32_t packet_profiles;
    uint64_t packets;
};

static void writer_clear(struct writer *w)
{
    free(w->order);
    free(w->frame_order);
    free(w->stack_order);
    free(w->moments);
    free(w->first_moment);
    free(w->locations);
    free(w->stacks);
    otlp_dictionary_clear(&w->dictionary);
    buf_clear(&w->packet);
    buf_clear(&w->resource);
    buf_clear(&w->samples);
    buf_clear(&w->message);
    buf_clear(&w->part);
    otlp_scratch_clear(&w->scratch);
    buf_clear(&w->key);
}

static int writer_error(const struct writer *w)
{
    const struct buf *const bufs[] = {&w->packet, &w->resource, &w->samples, &w->message, &w->part, &w->key};
    for (size_t i = 0; i < array_size(bufs); i++)
        if (buf_error(bufs[i]) < 0)
            return buf_error(bufs[i]);
    return otlp_scratch_error(&w->scratch) ?: w->dictionary.error;
}

/* ---- rows of the dictionary ---- */

/* Row of an attribute with value `text`, or `number` if `text` is NULL. */
static uint32_t put_attribute(struct writer *w, const char *key, const char *text, uint64_t number)
{
    _cleanup_buf_ struct buf row = {0};
    const uint32_t key_text = otlp_dictionary_put_text(&w->dictionary, key);
    if (text)
        otlp_put_text_value(&w->part, text, &w->scratch.text);
    else
        protobuf_put_oneof_number(&w->part, ANY_VALUE_INT, number);
    protobuf_put_number(&row, ATTRIBUTE_KEY, key_text);
    protobuf_put_message(&row, ATTRIBUTE_VALUE, &w->part);
    return otlp_dictionary_put(&w->dictionary, OTLP_ATTRIBUTE, &row);
}

/* Frame addresses are relative to the ELF file, so the mapping has no memory range. */
static uint32_t put_mapping(struct writer *w, const struct profile_frame *frame)
{
    const char *build_id = profile_text(w->p, frame->build_id);
    const uint32_t name = otlp_dictionary_put_text(&w->dictionary, profile_text(w->p, frame->mapping));
    const uint32_t attribute = *build_id ? put_attribute(w, "process.executable.build_id.gnu", build_id, 0) : 0;
    protobuf_put_number(&w->message, MAPPING_FILENAME, name);
    if (attribute) {
        protobuf_varint(&w->part, attribute);
        protobuf_put_message(&w->message, MAPPING_ATTRIBUTES, &w->part);
    }
    return otlp_dictionary_put(&w->dictionary, OTLP_MAPPING, &w->message);
}

/* 0: the frame has no symbol; the receiver may be able to symbolise it. */
static uint32_t put_function(struct writer *w, const struct profile_frame *frame)
{
    const struct profile *p = w->p;
    char text[FRAME_TEXT_BYTES];
    if (!frame->function && frame->kind != FRAME_TRUNCATED)
        return 0;
    const uint32_t name = otlp_dictionary_put_text(&w->dictionary, profile_frame_text(p, frame, text));
    const uint32_t system_name = otlp_dictionary_put_text(&w->dictionary, profile_text(p, frame->system_name));
    const uint32_t file = otlp_dictionary_put_text(&w->dictionary, profile_text(p, frame->file));
    protobuf_put_number(&w->message, FUNCTION_NAME, name);
    protobuf_put_number(&w->message, FUNCTION_SYSTEM_NAME, system_name);
    protobuf_put_number(&w->message, FUNCTION_FILENAME, file);
    return otlp_dictionary_put(&w->dictionary, OTLP_FUNCTION, &w->message);
}

/* Value of profile.frame.type. For Python the other outputs use the more general "interpreted". */
static const char *type_of(const struct profile_frame *frame)
{
    return frame->kind == FRAME_INTERPRETED ? "cpython" : frame_kind_name(frame->kind);
}

static uint32_t put_location(struct writer *w, const struct profile_frame *frame)
{
    const uint32_t mapping = put_mapping(w, frame), function = put_function(w, frame);
    const uint32_t type = put_attribute(w, "profile.frame.type", type_of(frame), 0);
    protobuf_put_number(&w->message, LOCATION_MAPPING, mapping);
    protobuf_put_number(&w->message, LOCATION_ADDRESS, frame->address);
    if (function) {
        protobuf_put_number(&w->part, LINE_FUNCTION, function);
        protobuf_put_number(&w->part, LINE_LINE, frame->line);
        protobuf_put_message(&w->message, LOCATION_LINES, &w->part);
    }
    protobuf_varint(&w->part, type);
    protobuf_put_message(&w->message, LOCATION_ATTRIBUTES, &w->part);
    return otlp_dictionary_put(&w->dictionary, OTLP_LOCATION, &w->message);
}

static uint32_t put_stack(struct writer *w, const struct profile_stack *stack)
{
    for (uint32_t i = stack->first; i < stack->first + stack->count; i++)
        protobuf_varint(&w->part, w->locations[w->p->stack_frames[i]]);
    protobuf_put_message(&w->message, STACK_LOCATIONS, &w->part);
    return otlp_dictionary_put(&w->dictionary, OTLP_STACK, &w->message);
}

static void put_big_endian(uint64_t number, uint8_t *to)
{
    for (int i = 0; i < 8; i++)
        to[i] = (uint8_t)(number >> (56 - 8 * i));
}

static uint32_t put_link(struct writer *w, const struct trace_link *link)
{
    uint8_t trace_id[16], span_id[8];
    put_big_endian(link->trace_id_high, trace_id);
    put_big_endian(link->trace_id_low, trace_id + 8);
    put_big_endian(link->span_id, span_id);
    protobuf_put_bytes(&w->message, LINK_TRACE_ID, trace_id, sizeof(trace_id));
    protobuf_put_bytes(&w->message, LINK_SPAN_ID, span_id, sizeof(span_id));
    return otlp_dictionary_put(&w->dictionary, OTLP_LINK, &w->message);
}

/* ---- samples ---- */

/* A range of entries; for a single entry, a range of its moments. */
struct part {
    uint32_t first, end;               /* in w->order */
    uint32_t first_moment, end_moment; /* in w->moments, for a single entry */
};

/* Rounds down to time_step_ns, but not to before the start of the profile. */
static uint64_t time_of(const struct writer *w, const struct profile_moment *moment)
{
    const uint64_t ns = moment->unix_ns, step_ns = w->o->time_step_ns, start_ns = w->p->start_unix_ns;
    const uint64_t rounded_ns = step_ns ? ns - ns % step_ns : ns;
    return rounded_ns < start_ns && start_ns <= ns ? start_ns : rounded_ns;
}

static void put_values(struct writer *w, uint32_t number, uint32_t first, uint32_t end)
{
    const struct profile *p = w->p;
    if (!p->moment_count) {
        protobuf_varint(&w->part, p->entries[number].value);
        protobuf_put_message(&w->message, SAMPLE_VALUES, &w->part);
        return;
    }
    for (uint32_t i = first; i < end; i++)
        protobuf_varint(&w->part, p->moments[w->moments[i]].value);
    protobuf_put_message(&w->message, SAMPLE_VALUES, &w->part);
    for (uint32_t i = first; i < end; i++)
        protobuf_fixed64(&w->part, time_of(w, &p->moments[w->moments[i]]));
    protobuf_put_message(&w->message, SAMPLE_TIMESTAMPS, &w->part);
}

/* Appends attribute indices of labels to `indices`. The keys are chosen by the program, so they get a prefix, which
 * other tools use too; there is no semantic convention yet. */
static void put_labels(struct writer *w, const struct profile_stack *set, struct buf *indices)
{
    const struct profile *p = w->p;
    for (uint32_t i = set->first; i < set->first + set->count; i += 2) {
        w->key.size = 0;
        if (buf_printf(&w->key, LABEL_PREFIX "%s", profile_text(p, p->label_texts[i])) == 0)
            protobuf_varint(indices, put_attribute(w, w->key.data, profile_text(p, p->label_texts[i + 1]), 0));
    }
}

/* Appends the sample of entry `number` with its moments [first, end). */
static void put_sample(struct writer *w, uint32_t number, uint32_t first, uint32_t end)
{
    const struct profile_entry *entry = &w->p->entries[number];
    const char *thread = profile_text(w->p, entry->thread_name);
    const uint32_t link = entry->link ? put_link(w, &w->p->links[entry->link - 1]) : 0;
    const uint32_t id = put_attribute(w, "thread.id", NULL, entry->tid);
    const uint32_t name = *thread ? put_attribute(w, "thread.name", thread, 0) : 0;
    _cleanup_buf_ struct buf indices = {0};
    protobuf_varint(&indices, id);
    if (name)
        protobuf_varint(&indices, name);
    if (w->o->capture_id)
        protobuf_varint(&indices, put_attribute(w, CAPTURE_ATTRIBUTE, w->o->capture_id, 0));
    if (entry->labels)
        put_labels(w, &w->p->labels[entry->labels - 1], &indices);
    protobuf_put_number(&w->message, SAMPLE_STACK, w->stacks[entry->stack]);
    protobuf_put_message(&w->message, SAMPLE_ATTRIBUTES, &indices);
    protobuf_put_number(&w->message, SAMPLE_LINK, link);
    put_values(w, number, first, end);
    protobuf_put_message(&w->samples, PROFILE_SAMPLES, &w->message);
}

/* ---- resources ---- */

/* Writes keys and values as strings: the format also allows string indices here, but the OpenTelemetry Collector does
 * not resolve them. */
static void put_resource_attribute(struct writer *w, const char *key, const char *text, uint64_t number)
{
    otlp_put_attribute(&w->resource, RESOURCE_ATTRIBUTES, key, text, number, &w->scratch);
}

static void begin_resource(struct writer *w, uint32_t number)
{
    const struct profile_resource *row = &w->p->resources[number];
    const struct resource resource = profile_resource_of(w->p, row);
    struct resource_attribute attributes[RESOURCE_ATTRIBUTES_MAX];
    const int count = resource_attributes(&resource, attributes);
    put_resource_attribute(w, "process.pid", NULL, row->pid);
    if (row->parent_pid)
        put_resource_attribute(w, "process.parent_pid", NULL, row->parent_pid);
    for (int i = 0; i < count; i++)
        put_resource_attribute(w, attributes[i].key, attributes[i].value, 0);
    struct resource_other other;
    for (struct resource_position at = {0}; resource_next_of_both(&resource, &at, &other);)
        put_resource_attribute(w, other.key, other.is_integer ? NULL : other.text, (uint64_t)other.integer);
    if (w->o->host_name[0])
        put_resource_attribute(w, "host.name", w->o->host_name, 0);
}

static void put_value_type(struct writer *w, uint32_t field)
{
    protobuf_put_number(&w->part, VALUE_TYPE_TYPE, otlp_dictionary_put_text(&w->dictionary, w->p->type->name));
    protobuf_put_number(&w->part, VALUE_TYPE_UNIT, otlp_dictionary_put_text(&w->dictionary, w->p->type->unit));
    protobuf_put_message(&w->message, field, &w->part);
}

/* Depends only on type, window and position, so a receiver can detect duplicates. IDs of a packet share a prefix. */
static void put_profile_id(struct writer *w)
{
    const char *type = w->p->type->name;
    const uint64_t key[] = {w->start_ns, w->end_ns, w->packets, XXH3_128bits(type, strlen(type)).low64};
    const XXH128_hash_t hash = XXH3_128bits_withSeed(key, sizeof(key), w->o->id_seed);
    uint8_t id[16], number[8];
    memcpy(id, &hash, sizeof(id));
    put_big_endian(w->packet_profiles, number);
    memcpy(id + 12, number + 4, 4);
    protobuf_put_bytes(&w->message, PROFILE_PROFILE_ID, id, sizeof(id));
}

/* Wraps the collected samples into a ResourceProfiles message. */
static void end_resource(struct writer *w)
{
    _cleanup_buf_ struct buf scope_profiles = {0}, resource_profiles = {0};
    otlp_put_scope(&scope_profiles, SCOPE_PROFILES_SCOPE, &w->scratch);

    put_value_type(w, PROFILE_SAMPLE_TYPE);
    buf_append(&w->message, w->samples.data, w->samples.size);
    w->samples.size = 0;
    protobuf_put_fixed64(&w->message, PROFILE_TIME_UNIX_NANO, w->start_ns);
    protobuf_put_number(&w->message, PROFILE_DURATION_NANO, w->end_ns - w->start_ns);
    if (!w->p->type->is_interval)
        put_value_type(w, PROFILE_PERIOD_TYPE);
    protobuf_put_number(&w->message, PROFILE_PERIOD, w->p->period);
    put_profile_id(w);
    protobuf_put_message(&scope_profiles, SCOPE_PROFILES_PROFILES, &w->message);

    protobuf_put_message(&resource_profiles, RESOURCE_PROFILES_RESOURCE, &w->resource);
    protobuf_put_message(&resource_profiles, RESOURCE_PROFILES_SCOPE_PROFILES, &scope_profiles);
    protobuf_put_message(&w->packet, REQUEST_RESOURCE_PROFILES, &resource_profiles);
    w->packet_profiles++;
}

/* ---- packets ---- */

/* Adds rows for all frames and stacks of the packet, before its samples. */
static void put_stacks(struct writer *w, const struct part *part)
{
    const struct profile *p = w->p;
    memset(w->locations, 0, (p->frame_count + 1) * sizeof(*w->locations));
    memset(w->stacks, 0, (p->stack_count + 1) * sizeof(*w->stacks));
    for (uint32_t i = part->first; i < part->end; i++) {
        const uint32_t number = p->entries[w->order[i]].stack;
        const struct profile_stack *stack = &p->stacks[number];
        w->stacks[number] = ROW_NEEDED;
        for (uint32_t k = stack->first; k < stack->first + stack->count; k++)
            w->locations[p->stack_frames[k]] = ROW_NEEDED;
    }
    for (uint32_t i = 0; i < p->frame_count; i++)
        if (w->locations[w->frame_order[i]])
            w->locations[w->frame_order[i]] = put_location(w, &p->frames[w->frame_order[i]]);
    for (uint32_t i = 0; i < p->stack_count; i++)
        if (w->stacks[w->stack_order[i]])
            w->stacks[w->stack_order[i]] = put_stack(w, &p->stacks[w->stack_order[i]]);
}

/* Encodes `part` into w->packet. */
static int encode_packet(struct writer *w, const struct part *part)
{
    const struct profile *p = w->p;
    const bool is_one = part->end - part->first == 1;
    w->packet.size = 0;
    w->packet_profiles = 0;
    int r = otlp_dictionary_reset(&w->dictionary);
    if (r < 0)
        return r;
    put_stacks(w, part);
    for (uint32_t i = part->first; i < part->end; i++) {
        const uint32_t number = w->order[i], resource = p->entries[number].resource;
        if (i == part->first || resource != p->entries[w->order[i - 1]].resource)
            begin_resource(w, resource);
        put_sample(w, number, is_one ? part->first_moment : w->first_moment[number],
                   is_one ? part->end_moment : w->first_moment[number + 1]);
        if (i + 1 == part->end || resource != p->entries[w->order[i + 1]].resource)
            end_resource(w);
    }
    otlp_dictionary_write(&w->dictionary, &w->message);
    protobuf_put_message(&w->packet, REQUEST_DICTIONARY, &w->message);
    return writer_error(w);
}

static struct part entries_from(const struct writer *w, uint32_t first, uint32_t end)
{
    const uint32_t number = w->order[first];
    return (struct part){first, end, w->first_moment[number], w->first_moment[number + 1]};
}

static uint64_t samples_of(const struct writer *w, const struct part *part)
{
    const uint32_t number = w->order[part->first];
    uint64_t samples = 0;
    if (part->end - part->first == 1 &&
        part->end_moment - part->first_moment < w->first_moment[number + 1] - w->first_moment[number])
        return part->end_moment - part->first_moment;
    for (uint32_t i = part->first; i < part->end; i++)
        samples += w->p->entries[w->order[i]].count;
    return samples;
}

static int write_part(struct writer *w, const struct part *part, const struct otlp_profiles_sink *sink,
                      uint64_t *too_large);

/* Writes a range of moments of one entry in `parts` packets, or one packet per moment if there are fewer. */
static int write_moments(struct writer *w, const struct part *part, uint64_t parts,
                         const struct otlp_profiles_sink *sink, uint64_t *too_large)
{
    const uint64_t count = part->end_moment - part->first_moment;
    int r = 0;
    parts = parts < count ? parts : count;
    for (uint64_t i = 0; i < parts && r == 0; i++) {
        const struct part one = {part->first, part->end, part->first_moment + (uint32_t)(count * i / parts),
                                 part->first_moment + (uint32_t)(count * (i + 1) / parts)};
        r = write_part(w, &one, sink, too_large);
    }
    return r;
}

static uint32_t moments_of(const struct writer *w, uint32_t at)
{
    const uint32_t number = w->order[at], count = w->first_moment[number + 1] - w->first_moment[number];
    return count ? count : 1;
}

/* Writes entries in packets of at most 1/parts of their moments, or of one entry. */
static int write_entries(struct writer *w, const struct part *part, uint64_t parts,
                         const struct otlp_profiles_sink *sink, uint64_t *too_large)
{
    uint64_t all = 0, taken = 0;
    uint32_t first = part->first;
    int r = 0;
    for (uint32_t i = part->first; i < part->end; i++)
        all += moments_of(w, i);
    for (uint32_t i = part->first; i < part->end && r == 0; i++) {
        taken += moments_of(w, i);
        if (i + 1 < part->end && taken + moments_of(w, i + 1) <= (all + parts - 1) / parts)
            continue;
        const struct part one = entries_from(w, first, i + 1);
        r = write_part(w, &one, sink, too_large);
        first = i + 1;
        taken = 0;
    }
    return r;
}

/* Whether a single moment of the entry exceeds a packet because of its names or stack: then every moment does. */
static int exceeds_packet(struct writer *w, const struct part *part)
{
    if (part->end_moment - part->first_moment <= 1)
        return true;
    const struct part first = {part->first, part->end, part->first_moment, part->first_moment + 1};
    int r = encode_packet(w, &first);
    return r < 0 ? r : w->packet.size > w->o->packet_max_bytes;
}

static int write_part(struct writer *w, const struct part *part, const struct otlp_profiles_sink *sink,
                      uint64_t *too_large)
{
    int r = encode_packet(w, part);
    if (r < 0)
        return r;
    if (w->packet.size > w->o->packet_max_bytes) {
        const uint64_t parts = w->packet.size / w->o->packet_max_bytes + 1;
        if (part->end - part->first > 1)
            return write_entries(w, part, parts, sink, too_large);
        r = exceeds_packet(w, part);
        *too_large += r > 0 ? samples_of(w, part) : 0;
        return r == 0 ? write_moments(w, part, parts, sink, too_large) : r < 0 ? r : 0;
    }
    const struct otlp_profiles_packet packet = {
        .data = w->packet.data, .size = w->packet.size, .samples = samples_of(w, part), .profiles = w->packet_profiles};
    sink->packet(sink->context, &packet);
    w->packets++;
    return 0;
}

/* ---- before the first packet ---- */

static int compare_entries(const void *left, const void *right, void *profile)
{
    const struct profile *p = profile;
    const uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
    const uint32_t of_a = p->entries[a].resource, of_b = p->entries[b].resource;
    return of_a != of_b ? (of_a > of_b) - (of_a < of_b) : (a > b) - (a < b);
}

/* By file, then by address. */
static int compare_frames(const void *left, const void *right, void *profile)
{
    const struct profile *p = profile;
    const uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
    const struct profile_frame *of_a = &p->frames[a], *of_b = &p->frames[b];
    if (of_a->mapping != of_b->mapping)
        return of_a->mapping < of_b->mapping ? -1 : 1;
    if (of_a->address != of_b->address)
        return of_a->address < of_b->address ? -1 : 1;
    return (a > b) - (a < b);
}

/* Lexicographically, outermost frame first. */
static int compare_stacks(const void *left, const void *right, void *profile)
{
    const struct profile *p = profile;
    const uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
    uint32_t left_of_a = p->stacks[a].count, left_of_b = p->stacks[b].count;
    while (left_of_a && left_of_b) {
        const uint32_t of_a = p->stack_frames[p->stacks[a].first + --left_of_a];
        const uint32_t of_b = p->stack_frames[p->stacks[b].first + --left_of_b];
        if (of_a != of_b)
            return of_a < of_b ? -1 : 1;
    }
    return left_of_a != left_of_b ? (left_of_a > left_of_b) - (left_of_a < left_of_b) : (a > b) - (a < b);
}

/* Counting sort of moments by entry; keeps their order. */
static void sort_moments(struct writer *w)
{
    const struct profile *p = w->p;
    for (uint32_t i = 0; i < p->moment_count; i++)
        w->first_moment[p->moments[i].entry + 1]++;
    for (uint32_t i = 0; i < p->entry_count; i++)
        w->first_moment[i + 1] += w->first_moment[i];
    for (uint32_t i = p->moment_count; i-- > 0;) /* backwards: each end index becomes the start index */
        w->moments[--w->first_moment[p->moments[i].entry + 1]] = i;
    for (uint32_t i = 0; i < p->entry_count; i++)
        w->first_moment[i] = w->first_moment[i + 1];
    w->first_moment[p->entry_count] = p->moment_count;
}

/* Extends the profile's time range to include all moments, also of late samples. */
static void find_span(struct writer *w)
{
    const struct profile *p = w->p;
    w->start_ns = p->start_unix_ns;
    w->end_ns = p->start_unix_ns + p->duration_ns;
    for (uint32_t i = 0; i < p->moment_count; i++) {
        const uint64_t time_ns = time_of(w, &p->moments[i]);
        w->start_ns = time_ns < w->start_ns ? time_ns : w->start_ns;
        w->end_ns = time_ns >= w->end_ns ? time_ns + 1 : w->end_ns;
    }
}

/* Returns the indices 0 to count - 1, sorted; NULL: no memory. */
static uint32_t *sort_rows(const struct profile *p, uint32_t count, int (*compare)(const void *, const void *, void *))
{
    uint32_t *numbers = calloc((size_t)count + 1, sizeof(*numbers));
    for (uint32_t i = 0; numbers && i < count; i++)
        numbers[i] = i;
    if (numbers)
        qsort_r(numbers, count, sizeof(*numbers), compare, (void *)(uintptr_t)p);
    return numbers;
}

static int prepare_writer(struct writer *w)
{
    const struct profile *p = w->p;
    w->order = sort_rows(p, p->entry_count, compare_entries);
    w->frame_order = sort_rows(p, p->frame_count, compare_frames);
    w->stack_order = sort_rows(p, p->stack_count, compare_stacks);
    w->moments = calloc((size_t)p->moment_count + 1, sizeof(*w->moments));
    w->first_moment = calloc((size_t)p->entry_count + 2, sizeof(*w->first_moment));
    w->locations = calloc((size_t)p->frame_count + 1, sizeof(*w->locations));
    w->stacks = calloc((size_t)p->stack_count + 1, sizeof(*w->stacks));
    if (!w->order || !w->frame_order || !w->stack_order || !w->moments || !w->first_moment || !w->locations ||
        !w->stacks)
        return -ENOMEM;
    sort_moments(w);
    find_span(w);
    return 0;
}

int otlp_profiles_write(const struct profile *p, const struct otlp_profiles_options *o,
                        const struct otlp_profiles_sink *sink, uint64_t *ret_too_large)
{
    _cleanup_(writer_clear) struct writer w = {.p = p, .o = o};
    uint64_t too_large = 0;
    if (!p->entry_count) {
        *ret_too_large = 0;
        return 0;
    }
    int r = prepare_writer(&w);
    if (r == 0) {
        const struct part all = entries_from(&w, 0, p->entry_count);
        r = write_part(&w, &all, sink, &too_large);
    }
    if (r == 0)
        *ret_too_large = too_large;
    return r;
}
