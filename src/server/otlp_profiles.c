/* Samples as rows of profile_samples, and what they refer to as rows of profile_stacks, profile_frames and
 * profile_resources; see otlp_rows.h. Those have a row for each day of a request's samples, so that a day's partitions
 * are complete in themselves. */
#include "server/known_rows.h"
#include "server/otlp_attributes.h"
#include "server/otlp_fields.h"
#include "server/otlp_rows.h"
#include "server/profile_dictionary.h"
#include "server/row_binary.h"

#include <errno.h>
#include <string.h>
#include <xxhash.h>

#define DAY_NS (86400ull * 1000000000)

struct profile_type {
    struct cursor type, unit;
};

/* What the samples of a profile have in common. */
struct common {
    struct profile_dictionary *dictionary;
    const struct otlp_resource *resource;
    struct otlp_rows *rows;
    uint64_t resource_hash, time_ns, period;
    struct profile_type type, period_type;
    struct profile_days days; /* of the resource */
};

struct sample {
    uint64_t stack, link, thread_id, elements;
    struct cursor thread_name;
    struct buf attributes; /* the others, as a Map */
};

/* Whether something has no row for the day yet. */
static bool is_new_on(struct profile_days *days, uint16_t day)
{
    uint64_t *bits = &days->bits[day / 64 % 2];
    const uint64_t bit = (uint64_t)1 << day % 64, before = *bits;
    *bits |= bit;
    return !(before & bit);
}

/* Whether a row has to be stored: it may have been, with an earlier request. */
static bool is_unknown(struct otlp_rows *rows, enum table table, uint16_t day, uint64_t hash)
{
    const uint64_t key = known_rows_key(table, day, hash);
    if (!rows->known)
        return true;
    if (known_rows_has(rows->known, key))
        return false;
    buf_append(&rows->stored, &key, sizeof(key));
    return true;
}

/* ---- what samples refer to ---- */

static void put_frame(struct common *c, struct profile_frame_row *frame, uint16_t day)
{
    const struct profile_function *function = &c->dictionary->functions[frame->function];
    const struct profile_mapping *mapping = &c->dictionary->mappings[frame->mapping];
    struct buf *row = &c->rows->tables[TABLE_PROFILE_FRAMES];
    if (!is_new_on(&frame->days, day) || !is_unknown(c->rows, TABLE_PROFILE_FRAMES, day, frame->hash))
        return;
    c->rows->counts[TABLE_PROFILE_FRAMES]++;
    row_put_u16(row, day);
    row_put_u64(row, frame->hash);
    row_put_text(row, function->name);
    row_put_text(row, function->system_name);
    row_put_text(row, function->file);
    row_put_u64(row, frame->line);
    row_put_text(row, frame->type);
    row_put_text(row, mapping->file);
    row_put_text(row, mapping->build_id);
    row_put_u64(row, frame->address);
}

/* The outermost frame first, as flame graphs have it. */
static int put_stack(struct common *c, struct profile_stack_row *stack, uint16_t day)
{
    struct buf *row = &c->rows->tables[TABLE_PROFILE_STACKS];
    struct profile_frame_row *frames = c->dictionary->frames;
    uint32_t indices[PROFILE_DEPTH_MAX], count;
    if (!is_new_on(&stack->days, day))
        return 0;
    const int r = profile_stack_frames(c->dictionary, stack, indices, &count);
    if (r < 0)
        return r;
    stack->hash = count;
    for (uint32_t i = 0; i < count; i++)
        stack->hash = XXH3_64bits_withSeed(&frames[indices[i]].hash, sizeof(uint64_t), stack->hash);
    if (!is_unknown(c->rows, TABLE_PROFILE_STACKS, day, stack->hash))
        return 0;
    c->rows->counts[TABLE_PROFILE_STACKS]++;
    row_put_u16(row, day);
    row_put_u64(row, stack->hash);
    row_put_count(row, count);
    for (uint32_t i = count; i-- > 0;)
        profile_frame_put_name(c->dictionary, &frames[indices[i]], row);
    row_put_count(row, count);
    for (uint32_t i = count; i-- > 0;) {
        row_put_u64(row, frames[indices[i]].hash);
        put_frame(c, &frames[indices[i]], day);
    }
    return 0;
}

static void put_resource(struct common *c, uint16_t day)
{
    struct buf *row = &c->rows->tables[TABLE_PROFILE_RESOURCES];
    if (!is_new_on(&c->days, day) || !is_unknown(c->rows, TABLE_PROFILE_RESOURCES, day, c->resource_hash))
        return;
    c->rows->counts[TABLE_PROFILE_RESOURCES]++;
    row_put_u16(row, day);
    row_put_u64(row, c->resource_hash);
    buf_append(row, c->resource->service.data, c->resource->service.size);
    buf_append(row, c->resource->attributes.data, c->resource->attributes.size);
    c->rows->elements += c->resource->elements;
}

/* ---- samples ---- */

static int put_moment(struct common *c, const struct sample *s, uint64_t time_ns, int64_t value)
{
    struct buf *row = &c->rows->tables[TABLE_PROFILE_SAMPLES];
    struct profile_stack_row *stack = &c->dictionary->stacks[s->stack];
    const struct profile_link_row *link = &c->dictionary->links[s->link];
    const bool has_link = otlp_id_is_valid(link->trace_id, 16);
    const uint16_t day = (uint16_t)(time_ns / DAY_NS);
    if (!otlp_accepts_time(c->rows, time_ns))
        return 0;
    const int r = put_stack(c, stack, day);
    put_resource(c, day);
    c->rows->counts[TABLE_PROFILE_SAMPLES]++;
    row_put_u64(row, time_ns);
    buf_append(row, c->resource->host.data, c->resource->host.size);
    buf_append(row, c->resource->service.data, c->resource->service.size);
    row_put_text(row, c->type.type);
    row_put_text(row, c->type.unit);
    row_put_u64(row, (uint64_t)value);
    row_put_text(row, c->period_type.type);
    row_put_u64(row, c->period);
    row_put_u64(row, stack->hash);
    row_put_u64(row, c->resource_hash);
    row_put_u64(row, s->thread_id);
    row_put_text(row, s->thread_name);
    row_put_hex(row, has_link ? link->trace_id : (struct cursor){0});
    row_put_hex(row, has_link ? link->span_id : (struct cursor){0});
    buf_append(row, s->attributes.data, s->attributes.size);
    c->rows->elements += s->elements;
    return r < 0 ? r : otlp_rows_check(c->rows);
}

/* A sample has as many values as timestamps. It may have no values: then each is 1; or no timestamps: then the time is
 * the profile's. */
static int put_moments(struct common *c, struct cursor message, const struct sample *s)
{
    struct otlp_numbers values = otlp_numbers_of(message, SAMPLE_VALUES, PROTOBUF_VARINT);
    struct otlp_numbers times = otlp_numbers_of(message, SAMPLE_TIMESTAMPS, PROTOBUF_FIXED64);
    int r = 0;
    for (uint64_t count = 0; r == 0; count++) {
        uint64_t value = 1, time_ns = c->time_ns;
        const bool has_value = otlp_next_number(&values, &value), has_time = otlp_next_number(&times, &time_ns);
        if (values.message.failed || times.message.failed)
            return -EBADMSG;
        if (!has_value && !has_time)
            break;
        r = put_moment(c, s, time_ns, (int64_t)value);
    }
    return r;
}

static int read_attributes(const struct common *c, struct cursor message, struct sample *ret)
{
    struct otlp_numbers indices = otlp_numbers_of(message, SAMPLE_ATTRIBUTES, PROTOBUF_VARINT);
    _cleanup_buf_ struct buf pairs = {.max_bytes = OTLP_ROWS_MAX_BYTES};
    uint32_t count = 0;
    for (uint64_t index; otlp_next_number(&indices, &index);) {
        const struct profile_attribute *a =
            &c->dictionary->attributes[profile_index(c->dictionary, OTLP_ATTRIBUTE, index)];
        if (cursor_is(a->key, "thread.id")) {
            ret->thread_id = a->integer;
        } else if (cursor_is(a->key, "thread.name")) {
            ret->thread_name = a->text;
        } else if (a->size) { /* 0: the dictionary has no attributes */
            count++;
            buf_append(&pairs, c->dictionary->pairs.data + a->first, a->size);
        }
    }
    ret->elements = count;
    row_put_count(&ret->attributes, count);
    buf_append(&ret->attributes, pairs.data, pairs.size);
    return indices.message.failed ? -EBADMSG : buf_error(&pairs) ?: buf_error(&ret->attributes);
}

static int read_sample(const struct common *c, struct cursor message, struct sample *ret)
{
    struct protobuf_field f;
    const int r = read_attributes(c, message, ret);
    while (protobuf_next_field(&message, &f)) {
        if (f.number == SAMPLE_STACK)
            ret->stack = profile_index(c->dictionary, OTLP_STACK, otlp_number(&message, &f, PROTOBUF_VARINT));
        else if (f.number == SAMPLE_LINK)
            ret->link = profile_index(c->dictionary, OTLP_LINK, otlp_number(&message, &f, PROTOBUF_VARINT));
    }
    return message.failed ? -EBADMSG : r;
}

/* ---- profiles ---- */

static int read_type(const struct common *c, struct cursor message, struct profile_type *ret)
{
    struct protobuf_field f;
    while (protobuf_next_field(&message, &f)) {
        if (f.number != VALUE_TYPE_TYPE && f.number != VALUE_TYPE_UNIT)
            continue;
        const uint64_t index = otlp_number(&message, &f, PROTOBUF_VARINT);
        const struct cursor text = c->dictionary->strings[profile_index(c->dictionary, OTLP_STRING, index)];
        *(f.number == VALUE_TYPE_TYPE ? &ret->type : &ret->unit) = text;
    }
    return message.failed ? -EBADMSG : 0;
}

static int read_profile(struct cursor message, struct common *ret)
{
    struct protobuf_field f;
    int r = 0;
    while (r == 0 && protobuf_next_field(&message, &f))
        switch (f.number) {
        case PROFILE_SAMPLE_TYPE:
            r = read_type(ret, otlp_inside(&message, &f), &ret->type);
            break;
        case PROFILE_PERIOD_TYPE:
            r = read_type(ret, otlp_inside(&message, &f), &ret->period_type);
            break;
        case PROFILE_TIME_UNIX_NANO:
            ret->time_ns = otlp_number(&message, &f, PROTOBUF_FIXED64);
            break;
        case PROFILE_PERIOD:
            ret->period = otlp_number(&message, &f, PROTOBUF_VARINT);
            break;
        }
    return message.failed ? -EBADMSG : r;
}

static int decode_sample(struct common *c, struct cursor message)
{
    struct sample sample = {.attributes.max_bytes = OTLP_ROWS_MAX_BYTES};
    const int r = read_sample(c, message, &sample) ?: put_moments(c, message, &sample);
    buf_clear(&sample.attributes);
    return r;
}

static int decode_profile(struct cursor item, const struct otlp_resource *resource, const struct otlp_scope *scope,
                          struct otlp_rows *rows)
{
    struct common c = {.dictionary = rows->dictionary, .resource = resource, .rows = rows};
    struct protobuf_field f;
    (void)scope;
    int r = read_profile(item, &c);
    c.resource_hash = XXH3_64bits(resource->attributes.data, resource->attributes.size);
    while (r == 0 && protobuf_next_field(&item, &f))
        if (f.number == PROFILE_SAMPLES)
            r = decode_sample(&c, otlp_inside(&item, &f));
    return r == 0 && item.failed ? -EBADMSG : r;
}

static int decode_profiles(struct cursor request, struct otlp_rows *rows)
{
    struct profile_dictionary dictionary = {0};
    struct cursor message = {0};
    struct protobuf_field f;
    for (struct cursor c = request; protobuf_next_field(&c, &f); request.failed |= c.failed)
        if (f.number == REQUEST_DICTIONARY)
            message = otlp_inside(&c, &f);
    int r = request.failed ? -EBADMSG : profile_dictionary_read(message, &dictionary);
    rows->dictionary = &dictionary;
    r = r < 0 ? r : otlp_walk(request, rows, decode_profile);
    rows->dictionary = NULL;
    profile_dictionary_clear(&dictionary);
    return r;
}

const struct otlp_signal otlp_profiles = {
    .path = "/v1development/profiles",
    .method = "/opentelemetry.proto.collector.profiles.v1development.ProfilesService/Export",
    .decode = decode_profiles,
};
