/* The HTTP and gRPC transport of the OTLP exporters (transport.h), on libcurl: built as libsonde-otlp.so, and linked
 * into the agent. Knows nothing of spans or profiles; gRPC is an HTTP/2 POST whose body and response are framed
 * differently (grpc.h). Responses are not trusted: redirects are not followed, bodies are bounded, and a POST ends at
 * its deadline. */
#include "transport.h"

#include "grpc.h"
#include "gzip.h"
#include "retry.h"

#include <curl/curl.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#define ANSWER_BYTES_MAX ((size_t)64 << 10) /* default of answer_bytes_max */
#define ANSWER_BYTES_MIN ((size_t)4 << 10)  /* initial buffer size */
#define HEADERS_MAX      64

struct connection {
    CURL *curl;
    struct curl_slist *headers;
    struct otlp_transport_options options; /* its strings have been copied by libcurl */
    bool is_grpc;
    struct otlp_grpc_reply reply;
    size_t answer_bytes, answer_capacity, answer_bytes_max;
    char *answer;
    char *message;             /* decompressed gRPC message, answer_bytes_max bytes; NULL: none was compressed so far */
    struct otlp_packed packed; /* encoded body, unless the packet is sent as it is */
    char error[CURL_ERROR_SIZE];
};

static void close_connection(void *connection)
{
    struct connection *c = connection;
    if (!c)
        return;
    curl_easy_cleanup(c->curl);
    curl_slist_free_all(c->headers);
    otlp_packed_free(&c->packed);
    free(c->answer);
    free(c->message);
    free(c);
}

/* Makes room for `bytes` of the response; false: out of memory. */
static bool reserve_answer(struct connection *c, size_t bytes)
{
    size_t capacity = c->answer_capacity ? c->answer_capacity : ANSWER_BYTES_MIN;
    while (capacity < bytes)
        capacity *= 2;
    char *bigger = capacity > c->answer_capacity ? realloc(c->answer, capacity) : c->answer;
    if (!bigger)
        return false;
    c->answer = bigger;
    c->answer_capacity = capacity;
    return true;
}

static size_t receive_body(char *data, size_t size, size_t count, void *argument)
{
    struct connection *c = argument;
    size_t before = c->answer_bytes;
    c->answer_bytes += size * count;
    if (c->answer_bytes > c->answer_bytes_max || !reserve_answer(c, c->answer_bytes))
        return 0;
    memcpy(c->answer + before, data, size * count);
    return size * count;
}

static size_t read_header(char *data, size_t size, size_t count, void *argument)
{
    struct connection *c = argument;
    otlp_grpc_read_header(&c->reply, data, size * count);
    return size * count;
}

/* SOCK_CLOEXEC, so that no exec keeps the connection open: libcurl does not set it (nor, before 8.10, for its
 * internal wake-up socket pair, which is harmless). */
static curl_socket_t open_socket(void *argument, curlsocktype purpose, struct curl_sockaddr *address)
{
    (void)argument, (void)purpose;
    return socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

static int check_overdue(void *argument, curl_off_t a, curl_off_t b, curl_off_t d, curl_off_t e)
{
    struct connection *c = argument;
    (void)a, (void)b, (void)d, (void)e;
    return c->options.is_overdue && c->options.is_overdue(c->options.argument);
}

int otlp_transport_check_url(const char *url, bool is_grpc, const char **ret_why)
{
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
        return 0; /* open reports that error */
    CURLU *parts = curl_url();
    char *scheme = NULL, *host = NULL;
    bool good = parts && curl_url_set(parts, CURLUPART_URL, url, 0) == CURLUE_OK &&
                curl_url_get(parts, CURLUPART_SCHEME, &scheme, 0) == CURLUE_OK &&
                curl_url_get(parts, CURLUPART_HOST, &host, 0) == CURLUE_OK && *host &&
                (strcmp(scheme, "http") == 0 || strcmp(scheme, "https") == 0);
    *ret_why = good ? "a URL of gRPC has no path" : "not a URL of http or https";
    curl_free(scheme);
    curl_free(host);
    curl_url_cleanup(parts);
    return good && !(is_grpc && otlp_url_has_path(url)) ? 0 : -EINVAL;
}

/* --- headers --------------------------------------------------------------------------------- */

static int add_header(struct connection *c, const char *text)
{
    struct curl_slist *more = curl_slist_append(c->headers, text);
    if (!more)
        return -ENOMEM;
    c->headers = more;
    return 0;
}

static bool is_token(const char *text, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (text[i] <= ' ' || text[i] >= 0x7f || strchr("()<>@,;:\\\"/[]?={}", text[i]))
            return false;
    return size > 0;
}

/* Adds `name=value` as `name: value`. Skips values that contain line ends, and invalid names. */
static int add_pair(struct connection *c, const char *pair, size_t size)
{
    const char *equals = memchr(pair, '=', size);
    int value_size = 0;
    while (size > 0 && *pair == ' ')
        pair++, size--;
    if (!equals || !is_token(pair, (size_t)(equals - pair)))
        return 0;
    char *value = curl_easy_unescape(c->curl, equals + 1, (int)(pair + size - equals - 1), &value_size), *header;
    if (!value)
        return -ENOMEM;
    int r = 0;
    if (strcspn(value, "\r\n") == (size_t)value_size) {
        r = asprintf(&header, "%.*s: %s", (int)(equals - pair), pair, value) < 0 ? -ENOMEM : 0;
        if (r == 0) {
            r = add_header(c, header);
            free(header);
        }
    }
    curl_free(value);
    return r;
}

/* NULL: the body is sent uncompressed. */
static const char *encoding_of(const struct otlp_transport_options *o)
{
    return o->encoding ? o->encoding->name : o->gzip_level ? "gzip" : NULL;
}

static int add_named(struct connection *c, const char *name, const char *value)
{
    char header[128];
    snprintf(header, sizeof(header), "%s: %s", name, value);
    return add_header(c, header);
}

static int add_http_headers(struct connection *c, const struct otlp_transport_options *o)
{
    int r = add_named(c, "Content-Type", o->content_type);
    return r == 0 && encoding_of(o) ? add_named(c, "Content-Encoding", encoding_of(o)) : r;
}

static int add_grpc_headers(struct connection *c, const struct otlp_transport_options *o)
{
    char timeout[64], accepted[64];
    snprintf(timeout, sizeof(timeout), "grpc-timeout: %um", (unsigned)o->timeout_ms);
    snprintf(accepted, sizeof(accepted), "identity,gzip%s%s", o->encoding ? "," : "",
             o->encoding ? o->encoding->name : "");
    int r = add_header(c, "Content-Type: application/grpc");
    if (r == 0)
        r = add_header(c, "TE: trailers");
    if (r == 0)
        r = add_header(c, timeout);
    if (r == 0) /* many servers compress the response like the request, whatever is accepted */
        r = add_named(c, "grpc-accept-encoding", accepted);
    return r == 0 && encoding_of(o) ? add_named(c, "grpc-encoding", encoding_of(o)) : r;
}

static int add_headers(struct connection *c, const struct otlp_transport_options *o)
{
    int r = o->rpc ? add_grpc_headers(c, o) : add_http_headers(c, o);
    if (r == 0)
        r = add_header(c, "Expect:"); /* disables "Expect: 100-continue" for large packets */
    const char *p = o->headers ? o->headers : "";
    for (int n = 0; *p && r == 0 && n < HEADERS_MAX; n++) {
        size_t size = strcspn(p, ",");
        if (size > 0 && size < 8192)
            r = add_pair(c, p, size);
        p += size;
        p += *p == ',';
    }
    return r;
}

/* --- the transport --------------------------------------------------------------------------- */

/* Without TLS there is no protocol negotiation, and libcurl before 8.0 (Debian 12 has 7.88) fails at the second POST
 * of such a connection (its issue 10634): each POST gets its own connection. */
static void set_grpc_options(struct connection *c, const struct otlp_transport_options *o)
{
    const bool is_tls = strncasecmp(o->url, "https", 5) == 0;
    curl_easy_setopt(c->curl, CURLOPT_HTTP_VERSION,
                     is_tls ? (long)CURL_HTTP_VERSION_2TLS : (long)CURL_HTTP_VERSION_2_PRIOR_KNOWLEDGE);
    if (!is_tls && curl_version_info(CURLVERSION_NOW)->version_num < 0x080000)
        curl_easy_setopt(c->curl, CURLOPT_FORBID_REUSE, 1L);
    curl_easy_setopt(c->curl, CURLOPT_HTTPPROXYTUNNEL, 1L); /* HTTP proxies do not forward HTTP/2 */
    curl_easy_setopt(c->curl, CURLOPT_HEADERFUNCTION, read_header);
    curl_easy_setopt(c->curl, CURLOPT_HEADERDATA, c);
}

/* The method's path replaces the URL's, which is empty. */
static int set_url(struct connection *c, const struct otlp_transport_options *o)
{
    CURLU *parts = o->rpc ? curl_url() : NULL;
    char *url = NULL;
    int r = 0;
    if (o->rpc && (!parts || curl_url_set(parts, CURLUPART_URL, o->url, 0) != CURLUE_OK ||
                   curl_url_set(parts, CURLUPART_PATH, o->rpc, 0) != CURLUE_OK ||
                   curl_url_get(parts, CURLUPART_URL, &url, 0) != CURLUE_OK))
        r = -ENOMEM;
    if (r == 0 && curl_easy_setopt(c->curl, CURLOPT_URL, url ? url : o->url) != CURLE_OK)
        r = -ENOMEM;
    curl_free(url);
    curl_url_cleanup(parts);
    return r;
}

static void set_options(struct connection *c, const struct otlp_transport_options *o)
{
    curl_easy_setopt(c->curl, CURLOPT_PROTOCOLS_STR, "http,https");
    if (*o->certificate) { /* trust only these certificates */
        curl_easy_setopt(c->curl, CURLOPT_CAINFO, o->certificate);
        curl_easy_setopt(c->curl, CURLOPT_CAPATH, NULL);
    }
    if (*o->client_certificate)
        curl_easy_setopt(c->curl, CURLOPT_SSLCERT, o->client_certificate);
    if (*o->client_key)
        curl_easy_setopt(c->curl, CURLOPT_SSLKEY, o->client_key);
    curl_easy_setopt(c->curl, CURLOPT_HTTPHEADER, c->headers);
    curl_easy_setopt(c->curl, CURLOPT_USERAGENT, o->user_agent);
    curl_easy_setopt(c->curl, CURLOPT_TIMEOUT_MS, (long)o->timeout_ms);
    curl_easy_setopt(c->curl, CURLOPT_NOSIGNAL, 1L); /* the library must not change signal handling of the host
                                                      * program */
#if LIBCURL_VERSION_NUM >= 0x075700
    curl_easy_setopt(c->curl, CURLOPT_QUICK_EXIT, 1L); /* do not wait for an unresponsive resolver */
#endif
    curl_easy_setopt(c->curl, CURLOPT_FOLLOWLOCATION, 0L);
    curl_easy_setopt(c->curl, CURLOPT_WRITEFUNCTION, receive_body);
    curl_easy_setopt(c->curl, CURLOPT_WRITEDATA, c);
    curl_easy_setopt(c->curl, CURLOPT_OPENSOCKETFUNCTION, open_socket);
    curl_easy_setopt(c->curl, CURLOPT_XFERINFOFUNCTION, check_overdue);
    curl_easy_setopt(c->curl, CURLOPT_XFERINFODATA, c);
    curl_easy_setopt(c->curl, CURLOPT_NOPROGRESS, 0L);
    curl_easy_setopt(c->curl, CURLOPT_ERRORBUFFER, c->error);
    if (o->unix_socket) {
        curl_easy_setopt(c->curl, CURLOPT_UNIX_SOCKET_PATH, o->unix_socket);
        curl_easy_setopt(c->curl, CURLOPT_PROXY, ""); /* ignore proxy settings of the environment */
    }
    if (o->rpc)
        set_grpc_options(c, o);
}

static int open_connection(const struct otlp_transport_options *o, void **ret_connection, char *why, size_t why_size)
{
    struct connection *c = NULL;
    const char *bad = "";
    int r = -ENOMEM;
    const CURLcode code = curl_global_init(CURL_GLOBAL_DEFAULT);
    if (code != CURLE_OK) { /* in the agent: libcurl cannot be loaded (curl_library.c) */
        snprintf(why, why_size, "%s", curl_easy_strerror(code));
        return -ENOPKG;
    }
    c = calloc(1, sizeof(*c));
    if (c)
        c->curl = curl_easy_init();
    if (c && c->curl)
        r = otlp_transport_check_url(o->url, o->rpc, &bad);
    if (r == -EINVAL)
        snprintf(why, why_size, "%s", bad);
    if (r == 0)
        r = add_headers(c, o);
    if (r == 0)
        r = set_url(c, o);
    if (r < 0) {
        close_connection(c);
        return r;
    }
    c->options = *o;
    c->is_grpc = o->rpc;
    c->answer_bytes_max = o->answer_bytes_max ? o->answer_bytes_max : ANSWER_BYTES_MAX;
    set_options(c, o);
    *ret_connection = c;
    return 0;
}

static int error_of(CURLcode code, long os_error)
{
    switch (code) {
    case CURLE_OUT_OF_MEMORY:
        return -ENOMEM;
    case CURLE_OPERATION_TIMEDOUT:
        return -ETIMEDOUT;
    case CURLE_ABORTED_BY_CALLBACK:
        return -ECANCELED;
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY:
        return -EHOSTUNREACH;
    case CURLE_COULDNT_CONNECT:
        return os_error > 0 ? -(int)os_error : -ECONNREFUSED;
    default:
        return -EIO;
    }
}

/* Encodes the body; on success data and size refer to the encoded bytes. */
static int encode_body(struct connection *c, const void **data, size_t *size)
{
    const size_t room = c->is_grpc ? OTLP_GRPC_PREFIX_BYTES : 0;
    if (!c->is_grpc && !encoding_of(&c->options))
        return 0;
    int r = otlp_pack(&c->packed, c->options.encoding, c->options.gzip_level, room, *data, *size, size);
    if (r == 0 && c->is_grpc)
        r = otlp_grpc_put_prefix(c->packed.data, encoding_of(&c->options), *size - room);
    *data = c->packed.data;
    return r;
}

/* Removes durations from libcurl's messages ("after 3 ms", "after 1000 milliseconds"), so that repeated failures have
 * the same text. */
static void remove_durations(char *text)
{
    static const char after[] = " after ";
    static const char *const units[] = {" milliseconds", " ms"};
    for (char *at = text; (at = strstr(at, after)) != NULL;) {
        const char *number = at + strlen(after), *end = number + strspn(number, "0123456789"), *rest = NULL;
        for (size_t i = 0; end > number && !rest && i < sizeof(units) / sizeof(units[0]); i++)
            if (strncmp(end, units[i], strlen(units[i])) == 0)
                rest = end + strlen(units[i]);
        if (rest)
            memmove(at, rest, strlen(rest) + 1);
        else
            at++;
    }
}

static int fail(struct connection *c, CURLcode code, struct otlp_answer *answer)
{
    long os_error = 0;
    const char *why = *c->error ? c->error : curl_easy_strerror(code);
    curl_easy_getinfo(c->curl, CURLINFO_OS_ERRNO, &os_error);
    if (code == CURLE_ABORTED_BY_CALLBACK)
        why = "no answer before the program ended";
    if (code == CURLE_WRITE_ERROR)
        why = c->answer_bytes > c->answer_bytes_max ? "the answer is too large" : "out of memory";
    snprintf(answer->why, sizeof(answer->why), "%s", why);
    remove_durations(answer->why);
    return error_of(code, os_error);
}

static void read_answer(struct connection *c, unsigned status, struct otlp_answer *answer)
{
    curl_off_t retry_after_s = 0;
    curl_easy_getinfo(c->curl, CURLINFO_RETRY_AFTER, &retry_after_s);
    answer->retry_after_ms = otlp_retry_after_ms(retry_after_s);
    const bool is_whole = c->answer_bytes <= c->answer_bytes_max && c->answer;
    answer->body = is_whole ? c->answer : NULL;
    answer->body_size = is_whole ? c->answer_bytes : 0;
    if (!c->is_grpc) {
        otlp_http_judge(status, answer);
        return;
    }
    otlp_grpc_judge(&c->reply, status, answer);
    if (c->reply.encoding[0] && !c->message)
        c->message = malloc(c->answer_bytes_max);
    answer->body = otlp_grpc_message(&c->reply, c->options.encoding, c->answer, answer->body_size, c->message,
                                     c->message ? c->answer_bytes_max : 0, &answer->body_size);
    answer->body_size = answer->body ? answer->body_size : 0;
}

static int post(void *connection, const void *data, size_t size, struct otlp_answer *ret_answer)
{
    struct connection *c = connection;
    long status = 0;
    c->answer_bytes = 0;
    c->reply = (struct otlp_grpc_reply){0};
    c->error[0] = '\0';
    int r = encode_body(c, &data, &size);
    if (r < 0) {
        snprintf(ret_answer->why, sizeof(ret_answer->why), "cannot be encoded as a packet");
        return r;
    }
    curl_easy_setopt(c->curl, CURLOPT_POSTFIELDS, data);
    curl_easy_setopt(c->curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)size);
    CURLcode code = curl_easy_perform(c->curl);
    curl_easy_getinfo(c->curl, CURLINFO_RESPONSE_CODE, &status);
    if (code == CURLE_WRITE_ERROR && c->answer_bytes > c->answer_bytes_max && !c->is_grpc)
        code = CURLE_OK; /* the status is known; the rest of the body is not needed */
    if (code != CURLE_OK || status == 0)
        return fail(c, code, ret_answer);
    *ret_answer = (struct otlp_answer){.sent_bytes = size};
    read_answer(c, (unsigned)status, ret_answer);
    return 0;
}

__attribute__((visibility("default"))) extern const struct otlp_transport OTLP_TRANSPORT_SYMBOL;
const struct otlp_transport OTLP_TRANSPORT_SYMBOL = {OTLP_TRANSPORT_VERSION, open_connection, post, close_connection};
