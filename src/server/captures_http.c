/* Requests for captures; see captures_http.h. */
#include "server/captures_http.h"

#include "base/hex.h"
#include "base/units.h"
#include "serve/authorization.h"
#include "server/capture_row.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>

#define DEFAULT_SECONDS 30

/* ---- parameters ---- */

struct parameters {
    struct capture capture;
    const char *fault; /* a constant; NULL: they are accepted */
};

static bool copy_value(char *to, size_t size, const char *value)
{
    const size_t length = strlen(value);
    if (!length || length >= size)
        return false;
    memcpy(to, value, length + 1);
    return true;
}

static bool read_number(const char *value, int64_t max, uint32_t *ret)
{
    int64_t number;
    if (units_parse_integer(value, 1, max, &number) < 0)
        return false;
    *ret = (uint32_t)number;
    return true;
}

/* What is wrong with a parameter; NULL: nothing. */
static const char *read_value(struct capture *c, const char *name, const char *value)
{
    if (strcmp(name, "host") == 0)
        return copy_value(c->host, sizeof(c->host), value) ? NULL : "host is not the name of a host";
    if (strcmp(name, "container") == 0)
        return copy_value(c->container, sizeof(c->container), value) ? NULL : "container is not the id of a container";
    if (strcmp(name, "service") == 0)
        return copy_value(c->service, sizeof(c->service), value) ? NULL : "service is not the name of a service";
    if (strcmp(name, "pid") == 0)
        return read_number(value, INT32_MAX, &c->pid) ? NULL : "pid is not the number of a process";
    if (strcmp(name, "kind") == 0) {
        c->is_off_cpu = strcmp(value, "off_cpu") == 0;
        return c->is_off_cpu || strcmp(value, "cpu") == 0 ? NULL : "kind is cpu or off_cpu";
    }
    if (strcmp(name, "seconds") == 0)
        return read_number(value, OPAMP_CAPTURE_SECONDS, &c->seconds) ? NULL : "seconds is not a number from 1 to 60";
    return "the parameters are host, kind, seconds, and pid, container or service";
}

static enum MHD_Result read_parameter(void *parameters, enum MHD_ValueKind kind, const char *name, const char *value)
{
    struct parameters *p = parameters;
    (void)kind;
    if (!p->fault)
        p->fault = read_value(&p->capture, name, value ? value : "");
    return MHD_YES;
}

static void read_parameters(const struct listener_request *request, struct parameters *ret)
{
    const struct capture *c = &ret->capture;
    *ret = (struct parameters){.capture.seconds = DEFAULT_SECONDS};
    MHD_get_connection_values(request->connection, MHD_GET_ARGUMENT_KIND, read_parameter, ret);
    if (!ret->fault && (!c->host[0] || !c->pid + !c->container[0] + !c->service[0] != 2))
        ret->fault = "host is needed, and one of pid, container and service";
}

/* ---- who asks ---- */

/* The token is valid. Its hash is in the file of tokens, with a comment that says whose it is. */
static void describe_client(const struct listener_request *request, struct capture *ret)
{
    char token[AUTHORIZATION_TOKEN_BYTES] = "";
    unsigned char hash[SHA256_BYTES];
    authorization_token(http_header(request->connection, "Authorization"), token);
    sha256(token, strlen(token), hash);
    hex_write(hash, (sizeof(ret->token) - 1) / 2, ret->token);
    explicit_bzero(token, sizeof(token));
    address_format(http_client_address(request->connection), ret->address);
}

/* ---- the request ---- */

static int add_capture(struct opamp *o, struct capture *capture)
{
    unsigned char id[(OPAMP_CAPTURE_ID_BYTES - 1) / 2];
    if (getrandom(id, sizeof(id), 0) != sizeof(id))
        return -EIO;
    hex_write(id, sizeof(id), capture->id);
    capture->asked_ns = o->monotonic_ns();
    /* Who asked is on disk before the agent can begin. */
    const int r = capture_row_store(o->receiver, capture, &(struct capture_event){.state = "asked"});
    if (r < 0)
        return r;
    if (captures_add(o->captures, capture) == 0)
        return 0;
    const char why[] = "too many captures at once";
    (void)capture_row_store(o->receiver, capture,
                            &(struct capture_event){.state = "refused", .why = cursor_make(why, strlen(why))});
    return -EUSERS;
}

static enum MHD_Result reply_failure(const struct listener_request *request, const char *host, int error)
{
    switch (error) {
    case -ENOENT:
        return http_reply_text(request->connection, MHD_HTTP_NOT_FOUND, "no agent of the host %s reports by OpAMP",
                               host);
    case -EOPNOTSUPP:
        return http_reply_text(request->connection, MHD_HTTP_CONFLICT,
                               "the agent of %s takes no captures: otlp.captures_endpoint is not set there", host);
    case -EUSERS:
        return http_reply_text(request->connection, MHD_HTTP_SERVICE_UNAVAILABLE, "%d captures are under way",
                               CAPTURES_MAX);
    default:
        return http_reply_text(request->connection, MHD_HTTP_SERVICE_UNAVAILABLE,
                               "the request cannot be recorded now: try again later");
    }
}

enum MHD_Result captures_http_answer(void *opamp, const struct listener_request *request)
{
    const struct http_reply accepted = {.status = MHD_HTTP_ACCEPTED, .content_type = "application/json"};
    struct opamp *o = opamp;
    struct parameters parameters;
    _cleanup_buf_ struct buf body = {0};
    if (strcmp(request->method, "POST") != 0)
        return http_reply_not_allowed(request->connection, "POST");
    read_parameters(request, &parameters);
    if (parameters.fault)
        return http_reply_text(request->connection, MHD_HTTP_BAD_REQUEST, "%s", parameters.fault);
    describe_client(request, &parameters.capture);
    const int r = agents_check_captures(o->agents, parameters.capture.host) ?: add_capture(o, &parameters.capture);
    if (r < 0)
        return reply_failure(request, parameters.capture.host, r);
    buf_printf(&body, "{\"id\":\"%s\"}\n", parameters.capture.id);
    return http_reply_buf(request->connection, &accepted, &body);
}

void captures_http_tick(struct opamp *o)
{
    struct capture capture;
    while (captures_expire(o->captures, o->monotonic_ns(), &capture))
        (void)capture_row_store(o->receiver, &capture, &(struct capture_event){.state = "expired"});
}
