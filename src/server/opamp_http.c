/* OpAMP over HTTP; see opamp_http.h. */
#include "server/opamp_http.h"

#include "base/log.h"
#include "base/protobuf.h"
#include "base/uuid.h"
#include "server/capture_row.h"
#include "server/inflate.h"
#include "server/otlp_attributes.h"
#include "server/row_binary.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

#define PROTOBUF "application/x-protobuf"

/* ---- rows ---- */

/* Text of an agent, which need not be UTF-8. */
static void put_line(struct buf *row, const char *text)
{
    row_put_text(row, cursor_make(text, strlen(text)));
}

static void put_map(struct buf *row, struct cursor description, uint32_t number, int *error)
{
    uint64_t elements = 0;
    const int r = otlp_put_attributes(row, description, number, &elements);
    if (r < 0)
        *error = r;
}

/* 0, or -errno of the attributes: -EBADMSG, -ELOOP. */
static int put_row(struct buf *row, const struct opamp_report *report, const struct agent_facts *facts, uint64_t now_ns)
{
    int r = 0;
    row_put_u64(row, now_ns);
    row_put_hex(row, report->instance_uid);
    put_line(row, facts->host);
    put_line(row, facts->service);
    put_line(row, facts->version);
    put_line(row, facts->kernel);
    put_line(row, facts->machine);
    row_put_u8(row, report->is_last);
    row_put_u8(row, !report->has_health); /* NULL; so too below */
    if (report->has_health)
        row_put_u8(row, report->is_healthy);
    row_put_text(row, report->status);
    put_line(row, report->problems);
    row_put_text(row, report->detail);
    row_put_u8(row, !report->has_losses);
    if (report->has_losses)
        row_put_u64(row, report->losses);
    put_map(row, report->description, DESCRIPTION_IDENTIFYING, &r);
    put_map(row, report->description, DESCRIPTION_OTHERS, &r);
    row_put_text(row, report->config);
    return r;
}

static int store_row(struct opamp *o, const struct opamp_report *report, const struct agent_facts *facts)
{
    _cleanup_buf_ struct buf row = {.max_bytes = 4 * OPAMP_BODY_MAX_BYTES};
    const int r = put_row(&row, report, facts, o->receiver->unix_ns());
    return r < 0 ? r : receiver_store_row(o->receiver, TABLE_AGENT_REPORTS, &row);
}

/* ---- captures ---- */

/* What became of a capture of this host. 0 or -errno: the agent will report it again. */
static int take_capture_state(struct opamp *o, const struct opamp_report *report, const char *host)
{
    const struct capture_event event = {.state = capture_state_name(report->capture_state),
                                        .why = report->capture_why,
                                        .has_samples = report->capture_state == CAPTURE_DONE ||
                                                       report->capture_state == CAPTURE_FAILED,
                                        .samples = report->capture_samples};
    const uint32_t state = (uint32_t)report->capture_state;
    char id[OPAMP_CAPTURE_ID_BYTES];
    struct capture capture;
    if (!report->has_capture || !event.state || report->capture_id.size != sizeof(id) - 1)
        return 0;
    snprintf(id, sizeof(id), "%.*s", (int)report->capture_id.size, (const char *)report->capture_id.data);
    if (!captures_find(o->captures, host, id, state, &capture))
        return 0;
    const int r = capture_row_store(o->receiver, &capture, &event);
    if (r == 0)
        captures_set_state(o->captures, id, state);
    return r;
}

static void put_text(struct buf *out, uint32_t field, const char *text)
{
    if (text[0])
        protobuf_put_bytes(out, field, text, strlen(text));
}

static void put_capture(struct buf *out, const struct capture *capture)
{
    _cleanup_buf_ struct buf message = {0}, data = {0};
    put_text(&message, CUSTOM_CAPABILITIES_NAMES, OPAMP_CAPTURE);
    protobuf_put_message(out, SERVER_TO_AGENT_CUSTOM_CAPABILITIES, &message);
    put_text(&data, CAPTURE_ID, capture->id);
    protobuf_put_number(&data, CAPTURE_SECONDS, capture->seconds);
    protobuf_put_number(&data, CAPTURE_PID, capture->pid);
    protobuf_put_number(&data, CAPTURE_KIND, capture->is_off_cpu ? CAPTURE_OFF_CPU : CAPTURE_CPU);
    put_text(&data, CAPTURE_CONTAINER, capture->container);
    put_text(&data, CAPTURE_SERVICE, capture->service);
    put_text(&message, CUSTOM_MESSAGE_CAPABILITY, OPAMP_CAPTURE);
    put_text(&message, CUSTOM_MESSAGE_TYPE, OPAMP_CAPTURE_START);
    protobuf_put_message(&message, CUSTOM_MESSAGE_DATA, &data);
    protobuf_put_message(out, SERVER_TO_AGENT_CUSTOM_MESSAGE, &message);
}

/* ---- answers ---- */

/* The agent keeps the new UID until it ends. */
static void put_new_uid(struct buf *out, const struct agent_facts *facts)
{
    _cleanup_buf_ struct buf identification = {0};
    uint8_t uid[UUID_BYTES];
    uuid_make(uid);
    log_warning("opamp: two agents have the same machine id and host name (%s): one gets another instance UID",
                facts->host);
    protobuf_put_bytes(&identification, IDENTIFICATION_NEW_UID, uid, sizeof(uid));
    protobuf_put_message(out, SERVER_TO_AGENT_IDENTIFICATION, &identification);
}

static enum MHD_Result reply_message(struct opamp *o, const struct listener_request *request,
                                     const struct opamp_report *report, const struct agent_verdict *verdict)
{
    struct capture capture;
    const struct http_reply reply = {.status = MHD_HTTP_OK, .content_type = PROTOBUF};
    _cleanup_buf_ struct buf out = {0};
    protobuf_put_bytes(&out, SERVER_TO_AGENT_INSTANCE_UID, report->instance_uid.data, OPAMP_UID_BYTES);
    protobuf_put_number(&out, SERVER_TO_AGENT_FLAGS, verdict->needs_full ? SERVER_WANTS_FULL_STATE : 0);
    protobuf_put_number(&out, SERVER_TO_AGENT_CAPABILITIES, SERVER_ACCEPTS_STATUS | SERVER_ACCEPTS_CONFIG);
    if (verdict->is_twin)
        put_new_uid(&out, &verdict->facts);
    if (verdict->facts.takes_captures && captures_next(o->captures, verdict->facts.host, &capture))
        put_capture(&out, &capture);
    return http_reply_buf(request->connection, &reply, &out);
}

static enum MHD_Result reply_failure(const struct listener_request *request, int error)
{
    switch (error) {
    case -EBADMSG:
    case -ELOOP:
        return http_reply_text(request->connection, MHD_HTTP_BAD_REQUEST,
                               "the body is not a valid AgentToServer message with an instance UID of 16 bytes");
    case -EFBIG:
        return http_reply_text(request->connection, MHD_HTTP_CONTENT_TOO_LARGE, "a report has at most %zu bytes",
                               OPAMP_BODY_MAX_BYTES);
    case -EOPNOTSUPP:
        return http_reply_text(request->connection, MHD_HTTP_UNSUPPORTED_MEDIA_TYPE,
                               "the encoding must be gzip, zstd or identity");
    case -EUSERS:
        return http_reply_text(request->connection, MHD_HTTP_SERVICE_UNAVAILABLE,
                               "the server knows %d other agents: try again later", OPAMP_AGENTS_MAX);
    default:
        return http_reply_text(request->connection, MHD_HTTP_SERVICE_UNAVAILABLE, "%s", receiver_failure(error).text);
    }
}

static bool is_protobuf(const struct listener_request *request)
{
    const char *type = http_header(request->connection, "Content-Type");
    return type && strncasecmp(type, PROTOBUF, strlen(PROTOBUF)) == 0 && strchr(" ;", type[strlen(PROTOBUF)]);
}

static int read_body(const struct listener_request *request, struct buf *ret)
{
    const struct buf *body = request->body;
    if (body->size > OPAMP_BODY_MAX_BYTES)
        return -EFBIG;
    return inflate_body(ret, http_header(request->connection, "Content-Encoding"), body->data, body->size,
                        OPAMP_BODY_MAX_BYTES);
}

static int take_report(struct opamp *o, const struct opamp_report *report, struct agent_verdict *ret)
{
    int r = agents_take(o->agents, report, o->monotonic_ns(), ret);
    if (r == -EBUSY)
        return -EUSERS;
    if (r == 0 && ret->needs_row)
        r = store_row(o, report, &ret->facts);
    r = r < 0 ? r : take_capture_state(o, report, ret->facts.host);
    if (r < 0)
        agents_forget(o->agents, report->instance_uid.data);
    return r;
}

enum MHD_Result opamp_http_answer(void *opamp, const struct listener_request *request)
{
    _cleanup_buf_ struct buf message = {0};
    struct opamp_report report;
    struct agent_verdict verdict;
    if (strcmp(request->method, "POST") != 0)
        return http_reply_not_allowed(request->connection, "POST");
    if (!is_protobuf(request))
        return http_reply_text(request->connection, MHD_HTTP_UNSUPPORTED_MEDIA_TYPE, "Content-Type must be " PROTOBUF);
    int r = read_body(request, &message);
    r = r < 0 ? r : opamp_report_read(cursor_make(message.data, message.size), &report);
    r = r < 0 ? r : take_report(opamp, &report, &verdict);
    return r < 0 ? reply_failure(request, r) : reply_message(opamp, request, &report, &verdict);
}
