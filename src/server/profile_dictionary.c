/* Rows of the dictionary of profiles; see profile_dictionary.h. */
#include "server/profile_dictionary.h"

#include "base/cleanup.h"
#include "server/otlp_attributes.h"
#include "server/otlp_fields.h"
#include "server/otlp_rows.h"
#include "server/row_binary.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

uint32_t profile_index(const struct profile_dictionary *d, enum otlp_table table, uint64_t index)
{
    return index < d->counts[table] ? (uint32_t)index : 0;
}

/* Returns the index of a row: the number in field `f` of `message`. */
static uint32_t index_in(const struct profile_dictionary *d, enum otlp_table table, struct cursor *message,
                         const struct protobuf_field *f)
{
    return profile_index(d, table, otlp_number(message, f, PROTOBUF_VARINT));
}

static struct cursor string_in(const struct profile_dictionary *d, struct cursor *message,
                               const struct protobuf_field *f)
{
    return d->strings[index_in(d, OTLP_STRING, message, f)];
}

/* Returns the text of the attribute `key`. Field `number` of `message` has the indices of the attributes to search. */
static struct cursor find_text(const struct profile_dictionary *d, struct cursor message, uint32_t number,
                               const char *key)
{
    struct otlp_numbers indices = otlp_numbers_of(message, number, PROTOBUF_VARINT);
    for (uint64_t index; otlp_next_number(&indices, &index);)
        if (cursor_is(d->attributes[profile_index(d, OTLP_ATTRIBUTE, index)].key, key))
            return d->attributes[profile_index(d, OTLP_ATTRIBUTE, index)].text;
    return (struct cursor){0};
}

/* ---- the rows of each table ---- */

static int read_attribute(struct profile_dictionary *d, struct cursor c, uint32_t row)
{
    struct profile_attribute *a = &d->attributes[row];
    struct cursor value = {0};
    struct protobuf_field f;
    while (protobuf_next_field(&c, &f)) {
        if (f.number == ATTRIBUTE_KEY)
            a->key = string_in(d, &c, &f);
        else if (f.number == ATTRIBUTE_VALUE)
            value = otlp_inside(&c, &f);
    }
    a->first = d->pairs.size;
    row_put_text(&d->pairs, a->key);
    const int r = otlp_put_value(&d->pairs, value);
    a->size = d->pairs.size - a->first;
    otlp_value_is_text(value, &a->text);
    if (protobuf_next_field(&value, &f) && f.number == ANY_VALUE_INT)
        a->integer = otlp_number(&value, &f, PROTOBUF_VARINT);
    return c.failed ? -EBADMSG : r < 0 ? r : buf_error(&d->pairs);
}

static int read_mapping(struct profile_dictionary *d, struct cursor c, uint32_t row)
{
    struct profile_mapping *m = &d->mappings[row];
    struct protobuf_field f;
    m->build_id = find_text(d, c, MAPPING_ATTRIBUTES, "process.executable.build_id.gnu");
    while (protobuf_next_field(&c, &f))
        if (f.number == MAPPING_FILENAME)
            m->file = string_in(d, &c, &f);
    return c.failed ? -EBADMSG : 0;
}

static int read_function(struct profile_dictionary *d, struct cursor c, uint32_t row)
{
    struct profile_function *function = &d->functions[row];
    struct protobuf_field f;
    while (protobuf_next_field(&c, &f)) {
        if (f.number == FUNCTION_NAME)
            function->name = string_in(d, &c, &f);
        else if (f.number == FUNCTION_SYSTEM_NAME)
            function->system_name = string_in(d, &c, &f);
        else if (f.number == FUNCTION_FILENAME)
            function->file = string_in(d, &c, &f);
    }
    return c.failed ? -EBADMSG : 0;
}

static int read_link(struct profile_dictionary *d, struct cursor c, uint32_t row)
{
    struct profile_link_row *link = &d->links[row];
    struct protobuf_field f;
    while (protobuf_next_field(&c, &f)) {
        if (f.number == LINK_TRACE_ID)
            link->trace_id = otlp_inside(&c, &f);
        else if (f.number == LINK_SPAN_ID)
            link->span_id = otlp_inside(&c, &f);
    }
    return c.failed ? -EBADMSG : 0;
}

static int read_stack(struct profile_dictionary *d, struct cursor c, uint32_t row)
{
    d->stacks[row].row = c;
    return 0;
}

static int read_string(struct profile_dictionary *d, struct cursor c, uint32_t row)
{
    d->strings[row] = c;
    return 0;
}

static uint64_t hash_of(uint64_t hash, struct cursor text)
{
    return XXH3_64bits_withSeed(text.data, text.size, hash);
}

static void hash_frame(const struct profile_dictionary *d, struct profile_frame_row *frame)
{
    const struct profile_function *function = &d->functions[frame->function];
    const struct profile_mapping *mapping = &d->mappings[frame->mapping];
    const uint64_t numbers[] = {frame->line, frame->address};
    const struct cursor texts[] = {function->name, function->system_name, function->file,
                                   mapping->file,  mapping->build_id,     frame->type};
    frame->hash = XXH3_64bits(numbers, sizeof(numbers));
    for (size_t i = 0; i < array_size(texts); i++)
        frame->hash = hash_of(frame->hash, texts[i]);
}

static int add_frame(struct profile_dictionary *d, struct profile_location *l, struct cursor line,
                     const struct profile_frame_row *common)
{
    struct protobuf_field f;
    if (d->frame_count >= PROFILE_FRAMES_MAX)
        return -EFBIG;
    struct profile_frame_row *frame = &d->frames[d->frame_count++];
    *frame = *common;
    l->frames++;
    while (protobuf_next_field(&line, &f)) {
        if (f.number == LINE_FUNCTION)
            frame->function = index_in(d, OTLP_FUNCTION, &line, &f);
        else if (f.number == LINE_LINE)
            frame->line = otlp_number(&line, &f, PROTOBUF_VARINT);
    }
    hash_frame(d, frame);
    return line.failed ? -EBADMSG : 0;
}

static int read_location(struct profile_dictionary *d, struct cursor c, uint32_t row)
{
    struct profile_location *l = &d->locations[row];
    struct profile_frame_row common = {.type = find_text(d, c, LOCATION_ATTRIBUTES, "profile.frame.type")};
    struct protobuf_field f;
    int r = 0;
    for (struct cursor at = c; protobuf_next_field(&at, &f); c.failed |= at.failed) {
        if (f.number == LOCATION_MAPPING)
            common.mapping = index_in(d, OTLP_MAPPING, &at, &f);
        else if (f.number == LOCATION_ADDRESS)
            common.address = otlp_number(&at, &f, PROTOBUF_VARINT);
    }
    l->first_frame = d->frame_count;
    while (r == 0 && protobuf_next_field(&c, &f))
        if (f.number == LOCATION_LINES)
            r = add_frame(d, l, otlp_inside(&c, &f), &common);
    if (r == 0 && !c.failed && !l->frames)
        r = add_frame(d, l, (struct cursor){0}, &common);
    return c.failed ? -EBADMSG : r;
}

/* ---- the whole ---- */

/* In this order, a row is read after the rows that it refers to. */
static const struct {
    enum otlp_table table;
    int (*read)(struct profile_dictionary *d, struct cursor row, uint32_t index);
} readers[] = {
    {OTLP_STRING, read_string},     {OTLP_ATTRIBUTE, read_attribute}, {OTLP_MAPPING, read_mapping},
    {OTLP_FUNCTION, read_function}, {OTLP_LOCATION, read_location},   {OTLP_LINK, read_link},
    {OTLP_STACK, read_stack},
};

static int allocate(struct profile_dictionary *d, uint32_t frames)
{
    d->strings = calloc((size_t)d->counts[OTLP_STRING] + 1, sizeof(*d->strings));
    d->attributes = calloc((size_t)d->counts[OTLP_ATTRIBUTE] + 1, sizeof(*d->attributes));
    d->mappings = calloc((size_t)d->counts[OTLP_MAPPING] + 1, sizeof(*d->mappings));
    d->functions = calloc((size_t)d->counts[OTLP_FUNCTION] + 1, sizeof(*d->functions));
    d->locations = calloc((size_t)d->counts[OTLP_LOCATION] + 1, sizeof(*d->locations));
    d->frames = calloc((size_t)frames + 1, sizeof(*d->frames));
    d->links = calloc((size_t)d->counts[OTLP_LINK] + 1, sizeof(*d->links));
    d->stacks = calloc((size_t)d->counts[OTLP_STACK] + 1, sizeof(*d->stacks));
    return d->strings && d->attributes && d->mappings && d->functions && d->locations && d->frames && d->links &&
                   d->stacks
               ? 0
               : -ENOMEM;
}

/* Counts the rows of each table, and the frames. */
static int count_rows(struct cursor c, struct profile_dictionary *d, uint32_t *ret_frames)
{
    struct protobuf_field f;
    uint64_t rows = 0, frames = 0;
    while (protobuf_next_field(&c, &f)) {
        if (f.number < OTLP_MAPPING || f.number > OTLP_TABLES)
            continue;
        d->counts[f.number]++;
        const uint64_t lines = f.number == OTLP_LOCATION ? otlp_count(otlp_inside(&c, &f), LOCATION_LINES) : 0;
        frames += f.number == OTLP_LOCATION ? (lines ? lines : 1) : 0;
        if (++rows > PROFILE_ROWS_MAX || frames > PROFILE_FRAMES_MAX)
            return -EFBIG;
    }
    *ret_frames = (uint32_t)frames;
    return c.failed ? -EBADMSG : 0;
}

int profile_dictionary_read(struct cursor message, struct profile_dictionary *ret)
{
    uint32_t frames;
    ret->pairs.max_bytes = OTLP_ROWS_MAX_BYTES;
    int r = count_rows(message, ret, &frames) ?: allocate(ret, frames);
    for (size_t i = 0; r == 0 && i < array_size(readers); i++) {
        struct cursor c = message;
        struct protobuf_field f;
        for (uint32_t row = 0; r == 0 && protobuf_next_field(&c, &f);)
            if (f.number == readers[i].table)
                r = readers[i].read(ret, otlp_inside(&c, &f), row++);
        r = r == 0 && c.failed ? -EBADMSG : r;
    }
    return r;
}

void profile_dictionary_clear(struct profile_dictionary *d)
{
    free(d->strings);
    free(d->attributes);
    buf_clear(&d->pairs);
    free(d->mappings);
    free(d->functions);
    free(d->locations);
    free(d->frames);
    free(d->links);
    free(d->stacks);
    *d = (struct profile_dictionary){0};
}

int profile_stack_frames(const struct profile_dictionary *d, const struct profile_stack_row *stack,
                         uint32_t ret[PROFILE_DEPTH_MAX], uint32_t *ret_count)
{
    struct otlp_numbers locations = otlp_numbers_of(stack->row, STACK_LOCATIONS, PROTOBUF_VARINT);
    *ret_count = 0;
    for (uint64_t index; otlp_next_number(&locations, &index);) {
        const struct profile_location *l = &d->locations[profile_index(d, OTLP_LOCATION, index)];
        for (uint32_t i = 0; i < l->frames; i++) {
            if (*ret_count == PROFILE_DEPTH_MAX)
                return -EFBIG;
            ret[(*ret_count)++] = l->first_frame + i;
        }
    }
    return locations.message.failed ? -EBADMSG : 0;
}

void profile_frame_put_name(const struct profile_dictionary *d, const struct profile_frame_row *frame, struct buf *row)
{
    const struct cursor name = d->functions[frame->function].name, file = d->mappings[frame->mapping].file;
    if (name.size) {
        row_put_text(row, name);
        return;
    }
    _cleanup_buf_ struct buf text = {0};
    const uint8_t *slash = file.size ? memrchr(file.data, '/', file.size) : NULL;
    const size_t skipped = slash ? (size_t)(slash + 1 - file.data) : 0;
    if (skipped < file.size)
        buf_append(&text, file.data + skipped, file.size - skipped);
    else
        buf_puts(&text, "[unknown]");
    buf_printf(&text, "+0x%" PRIx64, frame->address);
    row_put_text(row, cursor_make(text.data, text.size));
}
