/* Reads spans from OTLP protobuf; see otlp_file.h. */
#include "trace/import/otlp_file.h"

#include "base/protobuf.h"
#include "lib/otlp/fields.h"

#include <errno.h>
#include <string.h>

static const char *text_of(const struct protobuf_field *f)
{
    return f->inside.data ? (const char *)f->inside.data : "";
}

/* Copies an id; ids of the wrong length are ignored. */
static void take_id(const struct protobuf_field *f, uint8_t *to, size_t size)
{
    if (f->inside.size == size)
        memcpy(to, f->inside.data, size);
}

/* The first string of an ArrayValue. */
static bool first_text(struct cursor list, struct protobuf_field *ret)
{
    struct protobuf_field f;
    for (bool found = false; protobuf_next_field(&list, &f);) {
        struct cursor any = f.inside;
        while (f.number == ARRAY_VALUES && !found && protobuf_next_field(&any, ret))
            found = ret->number == ANY_VALUE_STRING;
        if (any.failed || found)
            return found;
    }
    return false;
}

/* Reads a KeyValue; the fields of its value are in *ret_value. */
static bool read_pair(struct cursor c, struct protobuf_field *ret_key, struct cursor *ret_value)
{
    struct protobuf_field f;
    *ret_key = (struct protobuf_field){0};
    *ret_value = (struct cursor){0};
    while (protobuf_next_field(&c, &f)) {
        if (f.number == KEY_VALUE_KEY)
            *ret_key = f;
        else if (f.number == KEY_VALUE_VALUE)
            *ret_value = f.inside;
    }
    return !c.failed;
}

static bool read_attribute(struct cursor c, struct otlp_spans *spans)
{
    struct protobuf_field key, value, text;
    struct cursor any;
    bool good = read_pair(c, &key, &any);
    while (protobuf_next_field(&any, &value)) {
        if (value.number == ANY_VALUE_STRING)
            otlp_spans_set_text(spans, text_of(&key), key.inside.size, text_of(&value), value.inside.size);
        else if (value.number == ANY_VALUE_INT)
            otlp_spans_set_integer(spans, text_of(&key), key.inside.size, (int64_t)value.value);
        else if (value.number == ANY_VALUE_BOOL && value.value)
            otlp_spans_set_true(spans, text_of(&key), key.inside.size);
        else if (value.number == ANY_VALUE_ARRAY && first_text(value.inside, &text))
            otlp_spans_set_text(spans, text_of(&key), key.inside.size, text_of(&text), text.inside.size);
    }
    return good && !any.failed;
}

/* The value of an attribute named "tokens"; 0 for others. */
static uint64_t tokens_of(struct cursor attribute)
{
    struct protobuf_field key, value;
    struct cursor any;
    uint64_t tokens = 0;
    if (!read_pair(attribute, &key, &any) || key.inside.size != strlen("tokens") ||
        memcmp(text_of(&key), "tokens", strlen("tokens")) != 0)
        return 0;
    while (protobuf_next_field(&any, &value))
        tokens = value.number == ANY_VALUE_INT ? value.value : tokens;
    return tokens;
}

static bool read_status(struct cursor c, struct otlp_spans *spans)
{
    struct protobuf_field f, message = {0};
    uint64_t code = 0;
    while (protobuf_next_field(&c, &f)) {
        if (f.number == STATUS_MESSAGE)
            message = f;
        else if (f.number == STATUS_CODE)
            code = f.value;
    }
    if (code == STATUS_CODE_ERROR)
        otlp_spans_set_failed(spans, text_of(&message), message.inside.size);
    return !c.failed;
}

static int read_event(struct cursor c, struct otlp_spans *spans)
{
    struct protobuf_field f, name = {0};
    uint64_t time_unix_ns = 0, tokens = 0;
    while (protobuf_next_field(&c, &f)) {
        if (f.number == EVENT_TIME)
            time_unix_ns = f.value;
        else if (f.number == EVENT_NAME)
            name = f;
        else if (f.number == EVENT_ATTRIBUTES && tokens == 0)
            tokens = tokens_of(f.inside);
    }
    return c.failed ? -EBADMSG : otlp_spans_add_event(spans, text_of(&name), name.inside.size, time_unix_ns, tokens);
}

static int read_span(struct cursor c, struct otlp_spans *spans)
{
    struct protobuf_field f;
    if (!otlp_spans_add(spans))
        return -ENOMEM;
    for (int r = 0; protobuf_next_field(&c, &f);) {
        struct otlp_span *span = &spans->spans[spans->count - 1];
        if (f.number == SPAN_TRACE_ID)
            take_id(&f, span->trace_id, sizeof(span->trace_id));
        else if (f.number == SPAN_ID)
            take_id(&f, span->span_id, sizeof(span->span_id));
        else if (f.number == SPAN_PARENT_ID)
            take_id(&f, span->parent_span_id, sizeof(span->parent_span_id));
        else if (f.number == SPAN_NAME)
            span->name = strings_add_n(spans->texts, text_of(&f), f.inside.size);
        else if (f.number == SPAN_START)
            span->start_unix_ns = f.value;
        else if (f.number == SPAN_END)
            span->end_unix_ns = f.value;
        else if (f.number == SPAN_ATTRIBUTES)
            r = read_attribute(f.inside, spans) ? 0 : -EBADMSG;
        else if (f.number == SPAN_EVENTS)
            r = read_event(f.inside, spans);
        else if (f.number == SPAN_DROPPED_EVENTS)
            span->dropped_events = (uint32_t)f.value;
        else if (f.number == SPAN_STATUS)
            r = read_status(f.inside, spans) ? 0 : -EBADMSG;
        if (r < 0)
            return r;
    }
    return c.failed ? -EBADMSG : 0;
}

/* Reads one nesting level. */
static int read_level(struct cursor *c, int level, struct otlp_spans *spans, size_t *ret_offset)
{
    static const uint64_t inner[] = {TRACES_RESOURCE_SPANS, RESOURCE_SPANS_SCOPE_SPANS, SCOPE_SPANS_SPANS};
    struct protobuf_field f;
    int r = 0;
    for (size_t before = c->position; r == 0 && protobuf_next_field(c, &f); before = c->position) {
        if (level == 0)
            *ret_offset = before;
        if (f.number == inner[level])
            r = level == 2 ? read_span(f.inside, spans) : read_level(&f.inside, level + 1, spans, ret_offset);
        if (level == 0 && r == 0)
            *ret_offset = c->position;
    }
    return r == 0 && c->failed ? -EBADMSG : r;
}

int otlp_protobuf_read(const char *data, size_t size, struct otlp_spans *spans, size_t *ret_offset)
{
    struct cursor c = cursor_make(data, size);
    *ret_offset = 0;
    return read_level(&c, 0, spans, ret_offset);
}
