/* Reads pprof's profile.proto; see pprof_file.h. The whole message is in memory. Its tables may be anywhere in it and
 * in any order of ids, so samples are read in a second pass. */
#include "import/pprof_file.h"

#include "base/buf.h"
#include "base/cursor.h"
#include "base/protobuf.h"
#include "import/packed_file.h"
#include "model/pprof_fields.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FRAMES_MAX    4096 /* per sample; deeper stacks lose their outermost frames */
#define ROW_MAX_BYTES 4096 /* of a location, function or mapping message: numbers, a few per inlined function */
#define PIECE         ((size_t)256 << 10)

/* A row of one of the tables: its id, and its message, which is parsed on demand. */
struct row {
    uint64_t id;
    struct cursor message;
};

struct table {
    struct row *rows;
    size_t count, capacity;
};

struct reader {
    struct table mappings, locations, functions;
    struct table types;   /* have no ids */
    struct cursor *texts; /* by index; not NUL-terminated */
    size_t text_count, text_capacity;
    struct buf ended; /* NUL-terminated texts of the current sample */
    struct cursor period_type;
    uint64_t default_type, start_unix_ns, duration_ns, not_observed_ns, period;
    size_t value, count; /* index of the selected values, and of those that count samples */
    bool has_count;
    uint64_t each; /* without sample counts: the period, as the amount of the selected value per sample; 0: unknown */
    struct frame *frames;
    size_t frame_count;
    struct profile *profile;
    struct pprof_about *about;
};

static void reader_clear(struct reader *r)
{
    free(r->mappings.rows);
    free(r->locations.rows);
    free(r->functions.rows);
    free(r->types.rows);
    free(r->texts);
    free(r->frames);
    buf_clear(&r->ended);
    profile_free(r->profile);
}

/* ---- tables ---- */

static int grow(void **rows, size_t *capacity, size_t count, size_t size)
{
    if (count < *capacity)
        return 0;
    const size_t more = *capacity ? *capacity * 2 : 256;
    void *grown = reallocarray(*rows, more, size);
    if (!grown)
        return -ENOMEM;
    *rows = grown;
    *capacity = more;
    return 0;
}

static int add_row(struct table *t, struct cursor message)
{
    struct row row = {.message = message};
    struct cursor c = message;
    if (message.size > ROW_MAX_BYTES)
        return -EBADMSG;
    for (struct protobuf_field f; protobuf_next_field(&c, &f);)
        if (f.number == LOCATION_ID) /* field number 1 in all three messages */
            row.id = f.value;
    int r = grow((void **)&t->rows, &t->capacity, t->count, sizeof(*t->rows));
    if (r == 0)
        t->rows[t->count++] = row;
    return r;
}

static int compare_row_ids(const void *a, const void *b)
{
    const struct row *x = a, *y = b;
    return (x->id > y->id) - (x->id < y->id);
}

static void sort_rows(struct table *t)
{
    for (size_t i = 1; i < t->count; i++)
        if (t->rows[i].id < t->rows[i - 1].id) {
            qsort(t->rows, t->count, sizeof(*t->rows), compare_row_ids);
            return;
        }
}

/* The message of a row; empty if there is no such row. */
static struct cursor find_row(const struct table *t, uint64_t id)
{
    const struct row key = {.id = id};
    const struct row *found = id && id <= t->count && t->rows[id - 1].id == id
                                  ? &t->rows[id - 1] /* most writers number rows from 1 */
                              : t->count ? bsearch(&key, t->rows, t->count, sizeof(key), compare_row_ids)
                                         : NULL;
    return found ? found->message : cursor_make(NULL, 0);
}

static int add_text(struct reader *r, struct cursor text)
{
    int e = grow((void **)&r->texts, &r->text_capacity, r->text_count, sizeof(*r->texts));
    if (e == 0)
        r->texts[r->text_count++] = text;
    return e;
}

static int read_tables(struct reader *r, struct cursor c)
{
    int e = 0;
    for (struct protobuf_field f; e == 0 && protobuf_next_field(&c, &f);)
        switch (f.number) {
        case PROFILE_SAMPLE_TYPE:
            e = add_row(&r->types, f.inside);
            break;
        case PROFILE_MAPPING:
            e = add_row(&r->mappings, f.inside);
            break;
        case PROFILE_LOCATION:
            e = add_row(&r->locations, f.inside);
            break;
        case PROFILE_FUNCTION:
            e = add_row(&r->functions, f.inside);
            break;
        case PROFILE_STRING_TABLE:
            e = add_text(r, f.inside);
            break;
        case PROFILE_TIME_NANOS:
            r->start_unix_ns = f.value;
            break;
        case PROFILE_DURATION_NANOS:
            r->duration_ns = f.value;
            break;
        case PROFILE_PERIOD_TYPE:
            r->period_type = f.inside;
            break;
        case PROFILE_PERIOD:
            r->period = f.value;
            break;
        case PROFILE_DEFAULT_SAMPLE_TYPE:
            r->default_type = f.value;
            break;
        default:
            break;
        }
    sort_rows(&r->mappings);
    sort_rows(&r->locations);
    sort_rows(&r->functions);
    return e < 0 ? e : c.failed ? -EBADMSG : 0;
}

/* ---- texts and types ---- */

static bool is_text(const struct reader *r, uint64_t number, const char *text)
{
    return number < r->text_count && r->texts[number].size == strlen(text) &&
           memcmp(r->texts[number].data, text, r->texts[number].size) == 0;
}

static void copy_text(const struct reader *r, uint64_t number, char to[PPROF_TEXT_BYTES])
{
    const size_t size = number < r->text_count ? r->texts[number].size : 0;
    const size_t taken = size < PPROF_TEXT_BYTES ? size : PPROF_TEXT_BYTES - 1;
    if (taken)
        memcpy(to, r->texts[number].data, taken);
    to[taken] = '\0';
}

/* Appends a NUL-terminated copy to `ended` and returns its offset (not a pointer: the buffer may move); 0: the empty
 * text. */
static size_t add_terminated_text(struct reader *r, uint64_t number)
{
    const size_t size = number < r->text_count ? r->texts[number].size : 0, at = r->ended.size;
    if (size == 0)
        return 0;
    buf_append(&r->ended, r->texts[number].data, size);
    buf_putc(&r->ended, '\0');
    return at;
}

struct value_type {
    uint64_t type, unit; /* string table indices */
};

static struct value_type read_type(struct cursor c)
{
    struct value_type t = {0};
    for (struct protobuf_field f; protobuf_next_field(&c, &f);) {
        t.type = f.number == VALUE_TYPE_TYPE ? f.value : t.type;
        t.unit = f.number == VALUE_TYPE_UNIT ? f.value : t.unit;
    }
    return t;
}

static struct value_type type_of(const struct reader *r, size_t i)
{
    return read_type(r->types.rows[i].message);
}

/* Whether the unit is a count. Durations are never exact, even if every event was recorded. */
static bool is_counted(const struct reader *r, struct value_type t)
{
    return is_text(r, t.unit, "count") || is_text(r, t.unit, "bytes");
}

static int no_such_type(struct reader *r)
{
    char *why = r->about->why;
    int at = snprintf(why, PPROF_TEXT_BYTES, "it has values of the types");
    for (size_t i = 0; i < r->types.count && at < PPROF_TEXT_BYTES - 1; i++) {
        char text[PPROF_TEXT_BYTES];
        copy_text(r, type_of(r, i).type, text);
        at += snprintf(why + at, PPROF_TEXT_BYTES - (size_t)at, "%s %s", i ? "," : "", text);
    }
    return -ENOENT;
}

/* Whether the values of this type count samples; "waits" and "events" are written by Sonde. */
static bool counts_samples(const struct reader *r, uint64_t type)
{
    static const char *const names[] = {"samples", "sample", "waits", "events"};
    for (size_t i = 0; i < array_size(names); i++)
        if (is_text(r, type, names[i]))
            return true;
    return false;
}

static int choose_type(struct reader *r, const char *wanted)
{
    bool found = false;
    if (r->types.count == 0)
        return -EBADMSG;
    r->value = r->types.count - 1;
    for (size_t i = 0; i < r->types.count; i++) {
        const struct value_type t = type_of(r, i);
        if (!found && (wanted ? is_text(r, t.type, wanted) : t.type && t.type == r->default_type)) {
            found = true;
            r->value = i;
        }
        if (!r->has_count && counts_samples(r, t.type)) {
            r->has_count = true;
            r->count = i;
        }
    }
    if (wanted && !found)
        return no_such_type(r);
    const struct value_type t = type_of(r, r->value);
    copy_text(r, t.type, r->about->type);
    copy_text(r, t.unit, r->about->unit);
    const struct value_type period = read_type(r->period_type);
    r->about->is_exact = r->period == 1 && is_counted(r, period) && is_counted(r, t);
    r->each = !r->has_count && r->period > 1 && t.unit && t.unit == period.unit ? r->period : 0;
    return 0;
}

static void read_comments(struct reader *r, struct cursor c)
{
    const size_t length = strlen(PPROF_NOT_OBSERVED);
    for (struct protobuf_field f; protobuf_next_field(&c, &f);) {
        char text[PPROF_TEXT_BYTES];
        if (f.number != PROFILE_COMMENT || f.inside.data)
            continue;
        copy_text(r, f.value, text);
        if (strncmp(text, PPROF_NOT_OBSERVED, length) == 0)
            r->not_observed_ns = strtoull(text + length, NULL, 10) * 1000000;
    }
}

/* ---- samples ---- */

/* Offsets of a frame's texts in `ended`, until the buffer is complete. */
struct text_offsets {
    size_t function, system_name, file, mapping, build_id;
};

struct current_sample {
    struct text_offsets *places; /* one per frame */
    size_t count;
};

static void read_function(struct reader *r, uint64_t id, struct text_offsets *places)
{
    struct cursor c = find_row(&r->functions, id);
    for (struct protobuf_field f; protobuf_next_field(&c, &f);) {
        places->function = f.number == FUNCTION_NAME ? add_terminated_text(r, f.value) : places->function;
        places->system_name = f.number == FUNCTION_SYSTEM_NAME ? add_terminated_text(r, f.value) : places->system_name;
        places->file = f.number == FUNCTION_FILENAME ? add_terminated_text(r, f.value) : places->file;
    }
}

static void read_mapping(struct reader *r, uint64_t id, struct text_offsets *places)
{
    struct cursor c = find_row(&r->mappings, id);
    for (struct protobuf_field f; protobuf_next_field(&c, &f);) {
        places->mapping = f.number == MAPPING_FILENAME ? add_terminated_text(r, f.value) : places->mapping;
        places->build_id = f.number == MAPPING_BUILD_ID ? add_terminated_text(r, f.value) : places->build_id;
    }
}

static int add_frame(struct reader *r, struct current_sample *s, const struct text_offsets *mapping, uint64_t address,
                     struct cursor line)
{
    if (s->count == FRAMES_MAX)
        return 0;
    struct text_offsets *places = &s->places[s->count];
    struct frame *frame = &r->frames[s->count++];
    *places = *mapping;
    *frame = (struct frame){.address = address};
    for (struct protobuf_field f; protobuf_next_field(&line, &f);) {
        if (f.number == LINE_FUNCTION_ID)
            read_function(r, f.value, places);
        else if (f.number == LINE_LINE)
            frame->line = f.value < UINT32_MAX ? (uint32_t)f.value : 0;
    }
    return line.failed ? -EBADMSG : 0;
}

/* A location has several frames if functions were inlined: the innermost is first. */
static int add_location(struct reader *r, struct current_sample *s, uint64_t id)
{
    struct cursor c = find_row(&r->locations, id), lines = c;
    struct text_offsets mapping = {0};
    uint64_t address = 0;
    size_t count = 0;
    int e = 0;
    for (struct protobuf_field f; protobuf_next_field(&c, &f);) {
        address = f.number == LOCATION_ADDRESS ? f.value : address;
        count += f.number == LOCATION_LINE;
        if (f.number == LOCATION_MAPPING_ID)
            read_mapping(r, f.value, &mapping);
    }
    for (struct protobuf_field f; e == 0 && protobuf_next_field(&lines, &f);)
        if (f.number == LOCATION_LINE)
            e = add_frame(r, s, &mapping, address, f.inside);
    if (e == 0 && count == 0) /* no symbols */
        e = add_frame(r, s, &mapping, address, cursor_make(NULL, 0));
    return e < 0 ? e : c.failed ? -EBADMSG : 0;
}

static int add_locations(struct reader *r, struct current_sample *s, const struct protobuf_field *f)
{
    struct cursor packed = f->inside;
    int e = 0;
    if (!packed.data)
        return add_location(r, s, f->value);
    while (e == 0 && cursor_left(&packed))
        e = add_location(r, s, cursor_uleb128(&packed));
    return e < 0 ? e : packed.failed ? -EBADMSG : 0;
}

/* The selected values of a sample. */
struct values {
    size_t count;
    int64_t value, samples;
};

static void add_value(const struct reader *r, struct values *v, uint64_t number)
{
    if (v->count == r->value)
        v->value = (int64_t)number;
    if (r->has_count && v->count == r->count)
        v->samples = (int64_t)number;
    v->count++;
}

static void add_values(const struct reader *r, struct values *v, const struct protobuf_field *f)
{
    struct cursor packed = f->inside;
    if (!packed.data)
        add_value(r, v, f->value);
    while (packed.data && cursor_left(&packed))
        add_value(r, v, cursor_uleb128(&packed));
}

/* The label that distinguishes processes in system-wide profiles: that of Sonde ("process") or of others ("comm"). */
static void read_label(struct reader *r, struct cursor c, size_t *process)
{
    uint64_t key = 0, text = 0;
    for (struct protobuf_field f; protobuf_next_field(&c, &f);) {
        key = f.number == LABEL_KEY ? f.value : key;
        text = f.number == LABEL_STR ? f.value : text;
    }
    if (is_text(r, key, "process") || (*process == 0 && is_text(r, key, "comm")))
        *process = add_terminated_text(r, text);
}

static enum frame_kind kind_of(const char *mapping, const char *function)
{
    if (mapping[0] == '[' && strcmp(mapping, "[vdso]") != 0)
        return FRAME_KERNEL;
    return strncmp(function, "[truncated", 10) == 0 ? FRAME_TRUNCATED : FRAME_NATIVE;
}

static void set_frame_texts(struct reader *r, const struct current_sample *s)
{
    for (size_t i = 0; i < s->count; i++) {
        const struct text_offsets *places = &s->places[i];
        struct frame *frame = &r->frames[i];
        frame->function = r->ended.data + places->function;
        frame->system_name = r->ended.data + places->system_name;
        frame->file = r->ended.data + places->file;
        frame->mapping = r->ended.data + places->mapping;
        frame->build_id = r->ended.data + places->build_id;
        frame->kind = kind_of(frame->mapping, frame->function);
    }
}

static int add_sample(struct reader *r, struct cursor c, struct current_sample *s)
{
    struct values v = {0};
    size_t process = 0;
    int e = 0;
    s->count = 0;
    r->ended.size = 0;
    buf_putc(&r->ended, '\0');
    for (struct protobuf_field f; e == 0 && protobuf_next_field(&c, &f);) {
        if (f.number == SAMPLE_LOCATION_ID)
            e = add_locations(r, s, &f);
        else if (f.number == SAMPLE_VALUE)
            add_values(r, &v, &f);
        else if (f.number == SAMPLE_LABEL)
            read_label(r, f.inside, &process);
    }
    if (e == 0)
        e = buf_error(&r->ended);
    if (e < 0 || c.failed)
        return e < 0 ? e : -EBADMSG;
    if (v.value < 0 || v.samples < 0)
        return -ERANGE;
    if (v.value == 0) {
        r->about->without++;
        return 0;
    }
    if (r->each) /* such as heap profiles: one in so many bytes was sampled */
        v.samples = (uint64_t)v.value > r->each ? (int64_t)((uint64_t)v.value / r->each) : 1;
    set_frame_texts(r, s);
    struct resource resource = resource_unknown;
    resource.command = r->ended.data + process;
    r->about->samples += (uint64_t)v.samples;
    return profile_add(r->profile, &(struct sample){.type = r->profile->type,
                                                    .value = (uint64_t)v.value,
                                                    .count = (uint64_t)v.samples,
                                                    .resource = &resource,
                                                    .thread_name = "",
                                                    .frames = r->frames,
                                                    .frame_count = s->count});
}

static int read_samples(struct reader *r, struct cursor c)
{
    struct current_sample s = {.places = calloc(FRAMES_MAX, sizeof(*s.places))};
    r->frames = calloc(FRAMES_MAX, sizeof(*r->frames));
    int e = s.places && r->frames ? 0 : -ENOMEM;
    for (struct protobuf_field f; e == 0 && protobuf_next_field(&c, &f);)
        if (f.number == PROFILE_SAMPLE)
            e = add_sample(r, f.inside, &s);
    free(s.places);
    return e;
}

/* ---- the whole ---- */

static int set_profile_type(struct reader *r)
{
    const struct sample_type type = sample_type_of_event(r->about->type, r->about->unit);
    return profile_set_type(r->profile, &type);
}

int pprof_read(const void *data, size_t size, const char *type, struct profile **ret, struct pprof_about *ret_about)
{
    _cleanup_(reader_clear) struct reader r = {.about = ret_about};
    struct cursor message = cursor_make(data, size);
    *ret_about = (struct pprof_about){0};
    int e = read_tables(&r, message);
    if (e == 0)
        read_comments(&r, message);
    if (e == 0)
        e = choose_type(&r, type);
    if (e == 0)
        e = profile_new(0, &r.profile);
    if (e == 0)
        e = set_profile_type(&r);
    if (e == 0)
        e = read_samples(&r, message);
    if (e < 0)
        return e;
    r.profile->start_unix_ns = r.start_unix_ns;
    r.profile->duration_ns = r.duration_ns;
    r.profile->not_observed_ns = r.not_observed_ns;
    r.profile->period = r.period;
    *ret = take_ptr(r.profile);
    return 0;
}

static int read_all(struct packed_file *f, struct buf *to)
{
    _cleanup_free_ char *piece = malloc(PIECE);
    if (!piece)
        return -ENOMEM;
    for (ssize_t n; (n = packed_file_read(f, piece, PIECE)) != 0;) {
        if (n < 0)
            return n == -ENODATA ? -EBADMSG : (int)n;
        buf_append(to, piece, (size_t)n);
        if (buf_error(to))
            return buf_error(to);
    }
    return 0;
}

int pprof_file_read(const char *path, const char *type, struct profile **ret, struct pprof_about *ret_about)
{
    _cleanup_(packed_file_freep) struct packed_file *f = NULL;
    _cleanup_buf_ struct buf message = {.max_bytes = PPROF_FILE_MAX_BYTES};
    *ret_about = (struct pprof_about){0};
    int r = packed_file_open(path, &f);
    if (r == 0)
        r = read_all(f, &message);
    return r < 0 ? r : pprof_read(message.data, message.size, type, ret, ret_about);
}
