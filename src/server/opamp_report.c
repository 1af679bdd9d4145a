/* AgentToServer; see opamp_report.h. */
#include "server/opamp_report.h"

#include "server/otlp_attributes.h"
#include "server/otlp_fields.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* An attribute of either list. */
static struct cursor find_attribute(struct cursor description, const char *key)
{
    const struct cursor found = otlp_find_text(description, DESCRIPTION_IDENTIFYING, key);
    return found.size ? found : otlp_find_text(description, DESCRIPTION_OTHERS, key);
}

static void read_description(struct cursor c, struct opamp_report *ret)
{
    ret->has_description = true;
    ret->description = c;
    ret->service = find_attribute(c, "service.name");
    ret->version = find_attribute(c, "service.version");
    ret->host = find_attribute(c, "host.name");
    ret->kernel = find_attribute(c, "os.version");
    ret->machine = find_attribute(c, "host.arch");
}

/* ---- health ---- */

struct component {
    bool is_healthy;
    uint64_t start_unix_ns;
    struct cursor status, last_error;
};

/* Passes over the components of a component. */
static bool read_component(struct cursor c, struct component *ret)
{
    struct protobuf_field f;
    *ret = (struct component){0};
    while (protobuf_next_field(&c, &f))
        if (f.number == HEALTH_IS_HEALTHY)
            ret->is_healthy = otlp_number(&c, &f, PROTOBUF_VARINT);
        else if (f.number == HEALTH_START_TIME)
            ret->start_unix_ns = otlp_number(&c, &f, PROTOBUF_FIXED64);
        else if (f.number == HEALTH_STATUS)
            ret->status = otlp_inside(&c, &f);
        else if (f.number == HEALTH_LAST_ERROR)
            ret->last_error = otlp_inside(&c, &f);
    return !c.failed;
}

/* One line of the agent's text, for people; RowBinary replaces what is not UTF-8. */
static void append_text(struct opamp_report *ret, size_t *used, struct cursor text)
{
    for (size_t i = 0; i < text.size && *used + 1 < sizeof(ret->problems); i++)
        ret->problems[(*used)++] = text.data[i] < ' ' ? ' ' : (char)text.data[i];
    ret->problems[*used] = '\0';
}

static struct cursor text_of(const char *text)
{
    return cursor_make(text, strlen(text));
}

static void append_problem(struct opamp_report *ret, size_t *used, struct cursor name, const struct component *c)
{
    if (c->is_healthy)
        return;
    if (*used)
        append_text(ret, used, text_of("; "));
    append_text(ret, used, name);
    append_text(ret, used, text_of(name.size ? ": " : ""));
    append_text(ret, used, c->last_error.size ? c->last_error : text_of("not healthy"));
}

/* The number at the beginning of the text; false: there is none. */
static bool read_number(struct cursor text, uint64_t *ret)
{
    size_t i = 0;
    for (*ret = 0; i < text.size && i < 19 && text.data[i] >= '0' && text.data[i] <= '9'; i++)
        *ret = *ret * 10 + (uint64_t)(text.data[i] - '0');
    return i > 0;
}

static bool read_named_component(struct cursor entry, struct opamp_report *ret, size_t *used)
{
    struct cursor name = {0}, value = {0};
    struct component component;
    struct protobuf_field f;
    while (protobuf_next_field(&entry, &f))
        if (f.number == MAP_KEY)
            name = otlp_inside(&entry, &f);
        else if (f.number == MAP_VALUE)
            value = otlp_inside(&entry, &f);
    if (entry.failed || !read_component(value, &component))
        return false;
    append_problem(ret, used, name, &component);
    if (cursor_is(name, OPAMP_COMPONENT_BUDGET))
        ret->detail = component.status;
    else if (cursor_is(name, OPAMP_COMPONENT_LOSSES))
        ret->has_losses = read_number(component.status, &ret->losses);
    return true;
}

static bool read_health(struct cursor c, struct opamp_report *ret)
{
    struct component all;
    struct protobuf_field f;
    size_t used = 0;
    if (!read_component(c, &all))
        return false;
    ret->has_health = true;
    ret->is_healthy = all.is_healthy;
    ret->start_unix_ns = all.start_unix_ns;
    ret->status = all.status;
    append_problem(ret, &used, (struct cursor){0}, &all);
    while (protobuf_next_field(&c, &f))
        if (f.number == HEALTH_COMPONENTS && !read_named_component(otlp_inside(&c, &f), ret, &used))
            return false;
    return !c.failed;
}

/* ---- the configuration ---- */

/* The contents of the last field `number`; empty: there is none. */
static struct cursor find_inside(struct cursor *c, uint64_t number)
{
    struct cursor inside = {0};
    struct protobuf_field f;
    while (protobuf_next_field(c, &f))
        if (f.number == number)
            inside = otlp_inside(c, &f);
    return inside;
}

static bool read_config(struct cursor c, struct opamp_report *ret)
{
    struct cursor map = find_inside(&c, EFFECTIVE_CONFIG_MAP), entry = find_inside(&map, CONFIG_MAP_FILES),
                  file = find_inside(&entry, MAP_VALUE);
    ret->config = find_inside(&file, CONFIG_FILE_BODY);
    return !c.failed && !map.failed && !entry.failed && !file.failed;
}

/* ---- captures ---- */

static bool read_capabilities(struct cursor c, struct opamp_report *ret)
{
    struct protobuf_field f;
    while (protobuf_next_field(&c, &f))
        if (f.number == CUSTOM_CAPABILITIES_NAMES)
            ret->takes_captures |= cursor_is(otlp_inside(&c, &f), OPAMP_CAPTURE);
    return !c.failed;
}

static bool read_capture_state(struct cursor c, struct opamp_report *ret)
{
    struct protobuf_field f;
    ret->has_capture = true;
    while (protobuf_next_field(&c, &f))
        if (f.number == CAPTURE_STATE_ID)
            ret->capture_id = otlp_inside(&c, &f);
        else if (f.number == CAPTURE_STATE_STATE)
            ret->capture_state = otlp_number(&c, &f, PROTOBUF_VARINT);
        else if (f.number == CAPTURE_STATE_WHY)
            ret->capture_why = otlp_inside(&c, &f);
        else if (f.number == CAPTURE_STATE_SAMPLES)
            ret->capture_samples = otlp_number(&c, &f, PROTOBUF_VARINT);
    return !c.failed;
}

/* Messages of other capabilities are ignored, as OpAMP wants it. */
static bool read_custom(struct cursor c, struct opamp_report *ret)
{
    struct cursor capability = {0}, type = {0}, data = {0};
    struct protobuf_field f;
    while (protobuf_next_field(&c, &f))
        if (f.number == CUSTOM_MESSAGE_CAPABILITY)
            capability = otlp_inside(&c, &f);
        else if (f.number == CUSTOM_MESSAGE_TYPE)
            type = otlp_inside(&c, &f);
        else if (f.number == CUSTOM_MESSAGE_DATA)
            data = otlp_inside(&c, &f);
    if (c.failed || !cursor_is(capability, OPAMP_CAPTURE) || !cursor_is(type, OPAMP_CAPTURE_STATE))
        return !c.failed;
    return read_capture_state(data, ret);
}

/* ---- the message ---- */

static bool read_field(struct cursor *c, const struct protobuf_field *f, struct opamp_report *ret)
{
    switch (f->number) {
    case AGENT_TO_SERVER_INSTANCE_UID:
        ret->instance_uid = otlp_inside(c, f);
        return true;
    case AGENT_TO_SERVER_SEQUENCE_NUM:
        ret->sequence = otlp_number(c, f, PROTOBUF_VARINT);
        return true;
    case AGENT_TO_SERVER_DESCRIPTION:
        read_description(otlp_inside(c, f), ret);
        return true;
    case AGENT_TO_SERVER_HEALTH:
        return read_health(otlp_inside(c, f), ret);
    case AGENT_TO_SERVER_EFFECTIVE_CONFIG:
        return read_config(otlp_inside(c, f), ret);
    case AGENT_TO_SERVER_CUSTOM_CAPABILITIES:
        return read_capabilities(otlp_inside(c, f), ret);
    case AGENT_TO_SERVER_CUSTOM_MESSAGE:
        return read_custom(otlp_inside(c, f), ret);
    case AGENT_TO_SERVER_DISCONNECT:
        ret->is_last = true;
        return true;
    }
    return true; /* of capabilities that this server does not use */
}

int opamp_report_read(struct cursor message, struct opamp_report *ret)
{
    struct protobuf_field f;
    *ret = (struct opamp_report){0};
    while (protobuf_next_field(&message, &f))
        if (!read_field(&message, &f, ret))
            return -EBADMSG;
    return message.failed || ret->instance_uid.size != OPAMP_UID_BYTES ? -EBADMSG : 0;
}
