/* See otlp_profiles.h. Entries go in order of their processes. Each is put into the packet at hand, and where
 * that has become too large, the packet goes out as it was before, and a new one begins with that entry: the
 * tables only grow, so that what it was before is a count of rows in each (otlp_dictionary.h). One whose
 * moments are more than a packet goes in pieces, a packet each. */
#include "export/otlp_profiles.h"

#include "export/otlp_dictionary.h"
#include "export/protobuf.h"

#include <errno.h>
#include <string.h>
#include <xxhash.h>

enum { REQUEST_RESOURCE_PROFILES = 1, REQUEST_DICTIONARY };
enum { RESOURCE_PROFILES_RESOURCE = 1, RESOURCE_PROFILES_SCOPE_PROFILES };
enum { SCOPE_PROFILES_SCOPE = 1, SCOPE_PROFILES_PROFILES };
enum {
    PROFILE_SAMPLE_TYPE = 1,
    PROFILE_SAMPLES,
    PROFILE_TIME_UNIX_NANO,
    PROFILE_DURATION_NANO,
    PROFILE_PERIOD_TYPE,
    PROFILE_PERIOD,
    PROFILE_PROFILE_ID,
};
enum { VALUE_TYPE_TYPE = 1, VALUE_TYPE_UNIT };
enum { SAMPLE_STACK = 1, SAMPLE_ATTRIBUTES, SAMPLE_LINK, SAMPLE_VALUES, SAMPLE_TIMESTAMPS };
enum { MAPPING_FILENAME = 4, MAPPING_ATTRIBUTES };
enum { STACK_LOCATIONS = 1 };
enum { LOCATION_MAPPING = 1, LOCATION_ADDRESS, LOCATION_LINES, LOCATION_ATTRIBUTES };
enum { LINE_FUNCTION = 1, LINE_LINE };
enum { FUNCTION_NAME = 1, FUNCTION_SYSTEM_NAME, FUNCTION_FILENAME };
enum { LINK_TRACE_ID = 1, LINK_SPAN_ID };
enum { ATTRIBUTE_KEY = 1, ATTRIBUTE_VALUE }; /* KeyValueAndUnit, with a number of the key's text */
enum { RESOURCE_ATTRIBUTES = 1 };
enum { KEY_VALUE_KEY = 1, KEY_VALUE_VALUE }; /* KeyValue, with the key itself */
enum { ANY_VALUE_STRING = 1, ANY_VALUE_INT = 3 };
enum { SCOPE_NAME = 1, SCOPE_VERSION };

#define FRAMING_BYTES 192 /* at most: what stands around samples, resource and dictionary */

struct writer {
    const struct profile *p;
    const struct otlp_profiles_options *o;
    uint64_t start_ns, end_ns;    /* Unix; all moments lie between */
    uint32_t *order;              /* entries, by their resources */
    uint32_t *moments;            /* rows of p->moments, by their entries */
    uint32_t *first_moment;       /* of each entry, in `moments`; one more at the end */
    uint32_t *locations, *stacks; /* of frames and stacks: 1 + their number in the packet; 0: not there yet */

    struct otlp_dictionary dictionary;
    struct buf done;     /* ResourceProfiles of the packet that are finished */
    struct buf resource; /* Resource of the one at hand */
    struct buf samples;  /* Profile.samples of the one at hand */
    struct buf message, part, inner;
    uint64_t packet_samples; /* with those at hand */
    uint64_t at_hand;        /* of the resource at hand */
    uint32_t packet_profiles;
    uint64_t packets;
};

static void writer_clear(struct writer *w)
{
    free(w->order);
    free(w->moments);
    free(w->first_moment);
    free(w->locations);
    free(w->stacks);
    otlp_dictionary_clear(&w->dictionary);
    buf_clear(&w->done);
    buf_clear(&w->resource);
    buf_clear(&w->samples);
    buf_clear(&w->message);
    buf_clear(&w->part);
    buf_clear(&w->inner);
}

static int writer_error(const struct writer *w)
{
    const struct buf *const bufs[] = {&w->done, &w->resource, &w->samples, &w->message, &w->part, &w->inner};
    for (size_t i = 0; i < array_size(bufs); i++)
        if (buf_error(bufs[i]) < 0)
            return buf_error(bufs[i]);
    return w->dictionary.error;
}

/* ---- rows of the dictionary ---- */

static void put_any_text(struct buf *value, const char *text, struct buf *scratch)
{
    buf_put_utf8(scratch, text);
    protobuf_put_message(value, ANY_VALUE_STRING, scratch);
}

static void put_any_number(struct buf *value, uint64_t number)
{
    protobuf_varint(value, ANY_VALUE_INT << 3); /* also when it is 0: one of several kinds of value */
    protobuf_varint(value, number);
}

/* An attribute of the dictionary with a text, or, where that is NULL, with a number. */
static uint32_t put_attribute(struct writer *w, const char *key, const char *text, uint64_t number)
{
    _cleanup_buf_ struct buf row = {0};
    const uint32_t key_text = otlp_dictionary_put_text(&w->dictionary, key);
    if (text)
        put_any_text(&w->part, text, &w->inner);
    else
        put_any_number(&w->part, number);
    protobuf_put_number(&row, ATTRIBUTE_KEY, key_text);
    protobuf_put_message(&row, ATTRIBUTE_VALUE, &w->part);
    return otlp_dictionary_put(&w->dictionary, OTLP_ATTRIBUTE, &row);
}

/* Addresses of frames are those of the ELF file: there is no range of memory to tell. */
static uint32_t put_mapping(struct writer *w, const struct profile_frame *frame)
{
    const char *build_id = profile_text(w->p, frame->build_id);
    const uint32_t name = otlp_dictionary_put_text(&w->dictionary, profile_text(w->p, frame->mapping));
    const uint32_t attribute =
        *build_id ? put_attribute(w, "process.executable.build_id.gnu", build_id, 0) : 0;
    protobuf_put_number(&w->message, MAPPING_FILENAME, name);
    if (attribute) {
        protobuf_varint(&w->part, attribute);
        protobuf_put_message(&w->message, MAPPING_ATTRIBUTES, &w->part);
    }
    return otlp_dictionary_put(&w->dictionary, OTLP_MAPPING, &w->message);
}

/* 0: the frame has no name, and is left to the receiver, who may know more of the file than we do. */
static uint32_t put_function(struct writer *w, const struct profile_frame *frame)
{
    const struct profile *p = w->p;
    char text[FRAME_TEXT_BYTES];
    if (!frame->function && frame->kind != FRAME_TRUNCATED)
        return 0;
    const uint32_t name = otlp_dictionary_put_text(&w->dictionary, profile_frame_text(p, frame, text));
    const uint32_t system_name =
        otlp_dictionary_put_text(&w->dictionary, profile_text(p, frame->system_name));
    const uint32_t file = otlp_dictionary_put_text(&w->dictionary, profile_text(p, frame->file));
    protobuf_put_number(&w->message, FUNCTION_NAME, name);
    protobuf_put_number(&w->message, FUNCTION_SYSTEM_NAME, system_name);
    protobuf_put_number(&w->message, FUNCTION_FILENAME, file);
    return otlp_dictionary_put(&w->dictionary, OTLP_FUNCTION, &w->message);
}

/* Of the interpreters that frames come from there is one so far. */
static const char *type_of(const struct profile_frame *frame)
{
    return frame->kind == FRAME_INTERPRETED ? "cpython" : frame_kind_name(frame->kind);
}

static uint32_t put_location(struct writer *w, uint32_t number)
{
    const struct profile_frame *frame = &w->p->frames[number];
    if (w->locations[number])
        return w->locations[number] - 1;
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
    const uint32_t row = otlp_dictionary_put(&w->dictionary, OTLP_LOCATION, &w->message);
    w->locations[number] = row + 1;
    return row;
}

static uint32_t put_stack(struct writer *w, uint32_t number)
{
    const struct profile_stack *stack = &w->p->stacks[number];
    _cleanup_buf_ struct buf row = {0}, indices = {0};
    if (w->stacks[number])
        return w->stacks[number] - 1;
    for (uint32_t i = 0; i < stack->count; i++)
        protobuf_varint(&indices, put_location(w, w->p->stack_frames[stack->first + i]));
    protobuf_put_message(&row, STACK_LOCATIONS, &indices);
    const uint32_t found = otlp_dictionary_put(&w->dictionary, OTLP_STACK, &row);
    w->stacks[number] = found + 1;
    return found;
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

/* An entry, or some of its moments: rows of w->moments, from the first to before the end. */
struct piece {
    uint32_t number, first, end;
    uint64_t samples;
};

static void put_values(struct writer *w, const struct piece *piece)
{
    const struct profile *p = w->p;
    if (!p->moment_count) {
        protobuf_varint(&w->part, p->entries[piece->number].weight_ns);
        protobuf_put_message(&w->message, SAMPLE_VALUES, &w->part);
        return;
    }
    for (uint32_t i = piece->first; i < piece->end; i++)
        protobuf_varint(&w->part, p->moments[w->moments[i]].weight_ns);
    protobuf_put_message(&w->message, SAMPLE_VALUES, &w->part);
    for (uint32_t i = piece->first; i < piece->end; i++) {
        const uint64_t time_ns = p->moments[w->moments[i]].unix_ns;
        uint8_t bytes[8];
        for (int b = 0; b < 8; b++)
            bytes[b] = (uint8_t)(time_ns >> 8 * b);
        buf_append(&w->part, bytes, sizeof(bytes));
    }
    protobuf_put_message(&w->message, SAMPLE_TIMESTAMPS, &w->part);
}

static void put_sample(struct writer *w, const struct piece *piece)
{
    const struct profile_entry *entry = &w->p->entries[piece->number];
    const char *thread = profile_text(w->p, entry->thread_name);
    const uint32_t stack = put_stack(w, entry->stack);
    const uint32_t link = entry->link ? put_link(w, &w->p->links[entry->link - 1]) : 0;
    const uint32_t id = put_attribute(w, "thread.id", NULL, entry->tid);
    const uint32_t name = *thread ? put_attribute(w, "thread.name", thread, 0) : 0;
    protobuf_put_number(&w->message, SAMPLE_STACK, stack);
    protobuf_varint(&w->part, id);
    if (name)
        protobuf_varint(&w->part, name);
    protobuf_put_message(&w->message, SAMPLE_ATTRIBUTES, &w->part);
    protobuf_put_number(&w->message, SAMPLE_LINK, link);
    put_values(w, piece);
    protobuf_put_message(&w->samples, PROFILE_SAMPLES, &w->message);
}

/* ---- resources ---- */

static void put_resource_attribute(struct writer *w, const char *key, const char *text, uint64_t number)
{
    if (text)
        put_any_text(&w->part, text, &w->inner);
    else
        put_any_number(&w->part, number);
    protobuf_put_bytes(&w->message, KEY_VALUE_KEY, key, strlen(key));
    protobuf_put_message(&w->message, KEY_VALUE_VALUE, &w->part);
    protobuf_put_message(&w->resource, RESOURCE_ATTRIBUTES, &w->message);
}

static void begin_resource(struct writer *w, uint32_t number)
{
    const struct profile_resource *row = &w->p->resources[number];
    const struct resource resource = profile_resource_of(w->p, row);
    struct resource_attribute attributes[RESOURCE_ATTRIBUTES_MAX];
    const int count = resource_attributes(&resource, attributes);
    w->resource.size = 0;
    put_resource_attribute(w, "process.pid", NULL, row->pid);
    if (row->parent_pid)
        put_resource_attribute(w, "process.parent_pid", NULL, row->parent_pid);
    for (int i = 0; i < count; i++)
        put_resource_attribute(w, attributes[i].key, attributes[i].value, 0);
    if (w->o->host_name[0])
        put_resource_attribute(w, "host.name", w->o->host_name, 0);
}

static void put_value_type(struct writer *w, uint32_t field)
{
    protobuf_put_number(&w->part, VALUE_TYPE_TYPE, otlp_dictionary_put_text(&w->dictionary, "cpu"));
    protobuf_put_number(&w->part, VALUE_TYPE_UNIT, otlp_dictionary_put_text(&w->dictionary, "nanoseconds"));
    protobuf_put_message(&w->message, field, &w->part);
}

/* The same for the same window and place in it, so that a receiver may know one that it was sent twice. */
static void put_profile_id(struct writer *w)
{
    const uint64_t key[] = {w->start_ns, w->end_ns, w->packets, w->packet_profiles};
    const XXH128_hash_t hash = XXH3_128bits_withSeed(key, sizeof(key), w->o->id_seed);
    protobuf_put_bytes(&w->message, PROFILE_PROFILE_ID, &hash, sizeof(hash));
}

/* ResourceProfiles around the samples at hand. */
static void end_resource(struct writer *w)
{
    if (w->at_hand == 0)
        return;
    _cleanup_buf_ struct buf scope_profiles = {0}, resource_profiles = {0};
    protobuf_put_bytes(&w->part, SCOPE_NAME, "sonde", 5);
    protobuf_put_bytes(&w->part, SCOPE_VERSION, SONDE_VERSION, strlen(SONDE_VERSION));
    protobuf_put_message(&scope_profiles, SCOPE_PROFILES_SCOPE, &w->part);

    put_value_type(w, PROFILE_SAMPLE_TYPE);
    buf_append(&w->message, w->samples.data, w->samples.size);
    protobuf_put_fixed64(&w->message, PROFILE_TIME_UNIX_NANO, w->start_ns);
    protobuf_put_number(&w->message, PROFILE_DURATION_NANO, w->end_ns - w->start_ns);
    put_value_type(w, PROFILE_PERIOD_TYPE);
    protobuf_put_number(&w->message, PROFILE_PERIOD, w->p->period_ns);
    put_profile_id(w);
    protobuf_put_message(&scope_profiles, SCOPE_PROFILES_PROFILES, &w->message);

    protobuf_put_bytes(&resource_profiles, RESOURCE_PROFILES_RESOURCE, w->resource.data, w->resource.size);
    protobuf_put_message(&resource_profiles, RESOURCE_PROFILES_SCOPE_PROFILES, &scope_profiles);
    protobuf_put_message(&w->done, REQUEST_RESOURCE_PROFILES, &resource_profiles);
    w->samples.size = 0;
    w->packet_samples += w->at_hand;
    w->at_hand = 0;
    w->packet_profiles++;
}

/* ---- packets ---- */

static int begin_packet(struct writer *w)
{
    memset(w->locations, 0, (w->p->frame_count + 1) * sizeof(*w->locations));
    memset(w->stacks, 0, (w->p->stack_count + 1) * sizeof(*w->stacks));
    w->done.size = w->samples.size = 0;
    w->packet_samples = w->at_hand = 0;
    w->packet_profiles = 0;
    int r = otlp_dictionary_reset(&w->dictionary);
    otlp_dictionary_put_text(&w->dictionary, "cpu"); /* which every profile has */
    otlp_dictionary_put_text(&w->dictionary, "nanoseconds");
    return r < 0 ? r : w->dictionary.error;
}

/* With the rows that were there at the mark. */
static int end_packet(struct writer *w, const struct otlp_dictionary_mark *mark,
                      const struct otlp_profiles_sink *sink)
{
    end_resource(w);
    if (w->packet_samples == 0)
        return writer_error(w);
    otlp_dictionary_write(&w->dictionary, mark, &w->message);
    protobuf_put_message(&w->done, REQUEST_DICTIONARY, &w->message);
    int r = writer_error(w);
    if (r < 0)
        return r;
    const struct otlp_profiles_packet packet = {.data = w->done.data,
                                                .size = w->done.size,
                                                .samples = w->packet_samples,
                                                .profiles = w->packet_profiles};
    sink->packet(sink->context, &packet);
    w->packets++;
    return 0;
}

static bool is_too_large(const struct writer *w)
{
    return w->dictionary.bytes + w->done.size + w->resource.size + w->samples.size + FRAMING_BYTES >
           w->o->packet_max_bytes;
}

/* The packet at hand goes out, with the rows that were there at the mark, and a new one begins. */
static int next_packet(struct writer *w, const struct otlp_dictionary_mark *mark,
                       const struct otlp_profiles_sink *sink)
{
    int r = end_packet(w, mark, sink);
    return r < 0 ? r : begin_packet(w);
}

/* *ret_fits: false: not into a packet of its own either, and the one at hand is empty. */
static int take_piece(struct writer *w, const struct piece *piece, const struct otlp_profiles_sink *sink,
                      bool *ret_fits)
{
    const struct otlp_dictionary_mark mark = otlp_dictionary_mark(&w->dictionary);
    const size_t before = w->samples.size;
    const bool is_first = w->packet_samples == 0 && w->at_hand == 0;
    put_sample(w, piece);
    int r = writer_error(w);
    if (r < 0)
        return r;
    *ret_fits = !is_too_large(w);
    if (*ret_fits) {
        w->at_hand += piece->samples;
        return 0;
    }
    w->samples.size = before;
    if (is_first)
        return begin_packet(w);
    r = next_packet(w, &mark, sink);
    return r < 0 ? r : take_piece(w, piece, sink, ret_fits);
}

/* A packet has one of them at most: a profile has every sample but once. */
static int take_in_pieces(struct writer *w, uint32_t number, const struct otlp_profiles_sink *sink,
                          uint64_t *too_large)
{
    const uint32_t end = w->first_moment[number + 1];
    uint32_t first = w->first_moment[number], size = (end - first + 1) / 2;
    while (first < end) {
        const uint32_t count = size < end - first ? size : end - first;
        const struct piece piece = {number, first, first + count, count};
        bool fits;
        int r = take_piece(w, &piece, sink, &fits);
        if (r == 0 && fits && piece.end < end) {
            const struct otlp_dictionary_mark mark = otlp_dictionary_mark(&w->dictionary);
            r = next_packet(w, &mark, sink);
        }
        if (r < 0)
            return r;
        if (!fits && count == 1) { /* it is its names, or its stack */
            *too_large += end - first;
            return 0;
        }
        first = fits ? piece.end : first;
        size = fits ? size : (count + 1) / 2;
    }
    return 0;
}

static int take_entry(struct writer *w, uint32_t number, const struct otlp_profiles_sink *sink,
                      uint64_t *too_large)
{
    const struct piece whole = {number, w->first_moment[number], w->first_moment[number + 1],
                                w->p->entries[number].count};
    bool fits;
    int r = take_piece(w, &whole, sink, &fits);
    if (r < 0 || fits)
        return r;
    if (whole.end - whole.first > 1)
        return take_in_pieces(w, number, sink, too_large);
    *too_large += whole.samples;
    return 0;
}

static int write_packets(struct writer *w, const struct otlp_profiles_sink *sink, uint64_t *too_large)
{
    uint32_t at_hand = UINT32_MAX;
    int r = begin_packet(w);
    for (uint32_t i = 0; i < w->p->entry_count && r == 0; i++) {
        const uint32_t resource = w->p->entries[w->order[i]].resource;
        if (resource != at_hand) {
            end_resource(w);
            begin_resource(w, resource);
            at_hand = resource;
        }
        r = take_entry(w, w->order[i], sink, too_large);
    }
    if (r < 0)
        return r;
    const struct otlp_dictionary_mark mark = otlp_dictionary_mark(&w->dictionary);
    return end_packet(w, &mark, sink);
}

/* ---- before the first packet ---- */

static int compare_entries(const void *left, const void *right, void *profile)
{
    const struct profile *p = profile;
    const uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
    const uint32_t of_a = p->entries[a].resource, of_b = p->entries[b].resource;
    return of_a != of_b ? (of_a > of_b) - (of_a < of_b) : (a > b) - (a < b);
}

/* Moments by their entries, in the order in which they were added. */
static void sort_moments(struct writer *w)
{
    const struct profile *p = w->p;
    for (uint32_t i = 0; i < p->moment_count; i++)
        w->first_moment[p->moments[i].entry + 1]++;
    for (uint32_t i = 0; i < p->entry_count; i++)
        w->first_moment[i + 1] += w->first_moment[i];
    for (uint32_t i = p->moment_count; i-- > 0;) /* from behind: the end of each shrinks to its beginning */
        w->moments[--w->first_moment[p->moments[i].entry + 1]] = i;
    for (uint32_t i = 0; i < p->entry_count; i++)
        w->first_moment[i] = w->first_moment[i + 1];
    w->first_moment[p->entry_count] = p->moment_count;
}

/* Every moment lies in the profile's time, also of a sample that came late. */
static void find_span(struct writer *w)
{
    const struct profile *p = w->p;
    w->start_ns = p->start_unix_ns;
    w->end_ns = p->start_unix_ns + p->duration_ns;
    for (uint32_t i = 0; i < p->moment_count; i++) {
        const uint64_t time_ns = p->moments[i].unix_ns;
        w->start_ns = time_ns < w->start_ns ? time_ns : w->start_ns;
        w->end_ns = time_ns >= w->end_ns ? time_ns + 1 : w->end_ns;
    }
}

static int prepare(struct writer *w)
{
    const struct profile *p = w->p;
    w->order = calloc((size_t)p->entry_count + 1, sizeof(*w->order));
    w->moments = calloc((size_t)p->moment_count + 1, sizeof(*w->moments));
    w->first_moment = calloc((size_t)p->entry_count + 2, sizeof(*w->first_moment));
    w->locations = calloc((size_t)p->frame_count + 1, sizeof(*w->locations));
    w->stacks = calloc((size_t)p->stack_count + 1, sizeof(*w->stacks));
    if (!w->order || !w->moments || !w->first_moment || !w->locations || !w->stacks)
        return -ENOMEM;
    for (uint32_t i = 0; i < p->entry_count; i++)
        w->order[i] = i;
    qsort_r(w->order, p->entry_count, sizeof(*w->order), compare_entries, (void *)(uintptr_t)p);
    sort_moments(w);
    find_span(w);
    return 0;
}

int otlp_profiles_write(const struct profile *p, const struct otlp_profiles_options *o,
                        const struct otlp_profiles_sink *sink, uint64_t *ret_too_large)
{
    _cleanup_(writer_clear) struct writer w = {.p = p, .o = o};
    uint64_t too_large = 0;
    int r = prepare(&w);
    if (r == 0)
        r = write_packets(&w, sink, &too_large);
    if (r == 0)
        *ret_too_large = too_large;
    return r;
}
