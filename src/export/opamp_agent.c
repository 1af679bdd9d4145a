/* AgentToServer; see opamp_agent.h. */
#include "export/opamp_agent.h"

#include "base/protobuf.h"
#include "export/otlp_attributes.h"
#include "lib/otlp/fields.h"

#include <string.h>

#define CAPABILITIES (AGENT_REPORTS_STATUS | AGENT_REPORTS_CONFIG | AGENT_REPORTS_HEALTH | AGENT_REPORTS_HEARTBEAT)
#define CONFIG_NAME  "sonde.yaml"
#define CONFIG_TYPE  "text/yaml"

/* The agent is identified by the resource of its own metrics. */
_Static_assert((int)DESCRIPTION_IDENTIFYING == (int)RESOURCE_ATTRIBUTES, "otlp_put_resource writes this field");

/* host.arch has names of its own in OpenTelemetry's conventions. */
static const char *architecture_of(const char *machine)
{
    return strcmp(machine, "x86_64") == 0 ? "amd64" : strcmp(machine, "aarch64") == 0 ? "arm64" : machine;
}

static void put_description(const struct opamp_description *d, struct buf *message, struct buf *out,
                            struct otlp_scratch *scratch)
{
    otlp_put_resource(message, NULL, d->host_name, d->attributes, scratch);
    otlp_put_attribute(message, DESCRIPTION_OTHERS, "host.arch", architecture_of(d->machine), 0, scratch);
    otlp_put_attribute(message, DESCRIPTION_OTHERS, "os.type", "linux", 0, scratch);
    otlp_put_attribute(message, DESCRIPTION_OTHERS, "os.version", d->kernel, 0, scratch);
    protobuf_put_message(out, AGENT_TO_SERVER_DESCRIPTION, message);
}

/* The fields of a component but its own components. */
static void put_component(const struct opamp_component *c, const struct opamp_health *h, struct buf *out,
                          struct otlp_scratch *scratch)
{
    protobuf_put_number(out, HEALTH_IS_HEALTHY, c->is_healthy);
    protobuf_put_fixed64(out, HEALTH_START_TIME, h->start_unix_ns);
    if (c->last_error[0])
        otlp_put_text(out, HEALTH_LAST_ERROR, c->last_error, scratch);
    otlp_put_text(out, HEALTH_STATUS, c->status, scratch);
    protobuf_put_fixed64(out, HEALTH_STATUS_TIME, h->status_unix_ns);
}

static void put_health(const struct opamp_health *h, struct buf *message, struct buf *out, struct otlp_scratch *scratch)
{
    _cleanup_buf_ struct buf entry = {0}, component = {0};
    put_component(&h->all, h, message, scratch);
    for (size_t i = 0; i < h->component_count; i++) {
        const char *name = h->components[i].name;
        protobuf_put_bytes(&entry, MAP_KEY, name, strlen(name));
        put_component(&h->components[i], h, &component, scratch);
        protobuf_put_message(&entry, MAP_VALUE, &component);
        protobuf_put_message(message, HEALTH_COMPONENTS, &entry);
    }
    protobuf_put_message(out, AGENT_TO_SERVER_HEALTH, message);
}

static void put_config(const char *config, struct buf *message, struct buf *out, struct otlp_scratch *scratch)
{
    _cleanup_buf_ struct buf entry = {0}, map = {0};
    protobuf_put_bytes(&entry, MAP_KEY, CONFIG_NAME, strlen(CONFIG_NAME));
    otlp_put_text(message, CONFIG_FILE_BODY, config, scratch);
    protobuf_put_bytes(message, CONFIG_FILE_TYPE, CONFIG_TYPE, strlen(CONFIG_TYPE));
    protobuf_put_message(&entry, MAP_VALUE, message);
    protobuf_put_message(&map, CONFIG_MAP_FILES, &entry);
    protobuf_put_message(message, EFFECTIVE_CONFIG_MAP, &map);
    protobuf_put_message(out, AGENT_TO_SERVER_EFFECTIVE_CONFIG, message);
}

static void put_capture(const struct opamp_capture_state *s, struct buf *message, struct buf *out,
                        struct otlp_scratch *scratch)
{
    _cleanup_buf_ struct buf data = {0};
    protobuf_put_bytes(&data, CAPTURE_STATE_ID, s->id, strlen(s->id));
    protobuf_put_number(&data, CAPTURE_STATE_STATE, s->state);
    otlp_put_text(&data, CAPTURE_STATE_WHY, s->why, scratch);
    protobuf_put_number(&data, CAPTURE_STATE_SAMPLES, s->samples);
    protobuf_put_bytes(message, CUSTOM_MESSAGE_CAPABILITY, OPAMP_CAPTURE, strlen(OPAMP_CAPTURE));
    protobuf_put_bytes(message, CUSTOM_MESSAGE_TYPE, OPAMP_CAPTURE_STATE, strlen(OPAMP_CAPTURE_STATE));
    protobuf_put_message(message, CUSTOM_MESSAGE_DATA, &data);
    protobuf_put_message(out, AGENT_TO_SERVER_CUSTOM_MESSAGE, message);
}

void opamp_agent_write(const struct opamp_agent_message *m, struct buf *out)
{
    _cleanup_(otlp_scratch_clear) struct otlp_scratch scratch = {0};
    _cleanup_buf_ struct buf message = {0};
    protobuf_put_bytes(out, AGENT_TO_SERVER_INSTANCE_UID, m->instance_uid, OPAMP_UID_BYTES);
    protobuf_put_number(out, AGENT_TO_SERVER_SEQUENCE_NUM, m->sequence);
    protobuf_put_number(out, AGENT_TO_SERVER_CAPABILITIES, CAPABILITIES);
    if (m->description)
        put_description(m->description, &message, out, &scratch);
    if (m->health)
        put_health(m->health, &message, out, &scratch);
    if (m->config)
        put_config(m->config, &message, out, &scratch);
    if (m->takes_captures) {
        protobuf_put_bytes(&message, CUSTOM_CAPABILITIES_NAMES, OPAMP_CAPTURE, strlen(OPAMP_CAPTURE));
        protobuf_put_message(out, AGENT_TO_SERVER_CUSTOM_CAPABILITIES, &message);
    }
    if (m->capture)
        put_capture(m->capture, &message, out, &scratch);
    if (m->is_last)
        protobuf_put_message(out, AGENT_TO_SERVER_DISCONNECT, &message);
}
