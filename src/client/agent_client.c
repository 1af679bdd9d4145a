/* HTTP client for a running agent; see agent_client.h. */
#include "client/agent_client.h"

#include "base/buf.h"
#include "base/log.h"
#include "client/agent_address.h"
#include "client/agent_reply.h"

#include <curl/curl.h>
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#define RESPONSE_MAX_BYTES (16 << 20)
#define PROFILE_MAX_BYTES  (256 << 20)
#define TIMEOUT_MS         10000

static size_t append_response(char *data, size_t size, size_t count, void *context)
{
    return buf_append(context, data, size * count) == 0 ? count : 0;
}

static int errno_of_curl(CURLcode code)
{
    return code == CURLE_OK                                                             ? 0
           : code == CURLE_COULDNT_CONNECT                                              ? -ECONNREFUSED
           : code == CURLE_OPERATION_TIMEDOUT                                           ? -ETIMEDOUT
           : code == CURLE_URL_MALFORMAT                                                ? -EINVAL
           : code == CURLE_PEER_FAILED_VERIFICATION || code == CURLE_SSL_CACERT_BADFILE ? -EKEYREJECTED
           : code == CURLE_GOT_NOTHING || code == CURLE_RECV_ERROR || code == CURLE_UNSUPPORTED_PROTOCOL ||
                   code == CURLE_WEIRD_SERVER_REPLY
               ? -ECONNRESET
               : -EIO;
}

/* The token of the environment, if there is one. The caller frees the list after the transfer. */
static struct curl_slist *add_token(CURL *curl)
{
    char header[512];
    const char *token = getenv("SONDE_TOKEN");
    if (!token || !*token || snprintf(header, sizeof(header), "Authorization: Bearer %s", token) >= (int)sizeof(header))
        return NULL;
    struct curl_slist *headers = curl_slist_append(NULL, header);
    explicit_bzero(header, sizeof(header));
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
    return headers;
}

/* `path` with its query, such as "/api/v1/status". */
static int http_get(const char *address, const char *path, struct buf *ret_body)
{
    char url[512];
    const bool is_socket = agent_address_is_socket(address);
    const char *ca_file = getenv("SONDE_CA_FILE");
    if (snprintf(url, sizeof(url), "%s%s%s", strstr(address, "://") ? "" : "http://", is_socket ? "localhost" : address,
                 path) >= (int)sizeof(url))
        return -EINVAL;
    const CURLcode code = curl_global_init(CURL_GLOBAL_DEFAULT);
    if (code != CURLE_OK) {
        log_warning("libcurl cannot be used, and no agent can be queried without it: %s", curl_easy_strerror(code));
        return -ENOPKG;
    }
    CURL *curl = curl_easy_init();
    if (!curl)
        return -ENOMEM;
    long status = 0;
    curl_easy_setopt(curl, CURLOPT_URL, url);
    if (is_socket)
        curl_easy_setopt(curl, CURLOPT_UNIX_SOCKET_PATH, address);
    struct curl_slist *headers = add_token(curl);
    curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
    if (ca_file && *ca_file)
        curl_easy_setopt(curl, CURLOPT_CAINFO, ca_file);
    curl_easy_setopt(curl, CURLOPT_PROXY, ""); /* ignores http_proxy: agents are reached directly */
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, (long)TIMEOUT_MS);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, append_response);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, ret_body);
    int r = errno_of_curl(curl_easy_perform(curl));
    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
    curl_easy_cleanup(curl);
    curl_slist_free_all(headers);
    return r < 0 ? r : status == 200 ? 0 : status == 401 ? -EACCES : -EPROTO;
}

/* `query`: further parameters, "&max=1000". */
static int get_list(const char *address, const char *what, uint64_t seconds, const char *query, struct buf *ret)
{
    char path[256];
    snprintf(path, sizeof(path), "/api/v1/%s?seconds=%llu%s", what, (unsigned long long)seconds, query);
    return http_get(address, path, ret);
}

int agent_client_requests(const char *address, uint64_t seconds, size_t max, enum request_choice which,
                          struct coverage *ret_coverage, struct request ***ret, size_t *ret_count)
{
    char query[64];
    snprintf(query, sizeof(query), "&max=%zu&which=%s", max, request_choice_name(which));
    _cleanup_buf_ struct buf body = {.max_bytes = RESPONSE_MAX_BYTES};
    int r = get_list(address, "requests", seconds, query, &body);
    return r < 0 ? r : agent_reply_requests(&body, ret_coverage, ret, ret_count);
}

int agent_client_routes(const char *address, uint64_t seconds, struct coverage *ret_coverage,
                        struct request_route **ret, size_t *ret_count)
{
    _cleanup_buf_ struct buf body = {.max_bytes = RESPONSE_MAX_BYTES};
    int r = get_list(address, "routes", seconds, "", &body);
    return r < 0 ? r : agent_reply_routes(&body, ret_coverage, ret, ret_count);
}

int agent_client_calls(const char *address, uint64_t seconds, struct coverage *ret_coverage, struct service_call **ret,
                       size_t *ret_count)
{
    _cleanup_buf_ struct buf body = {.max_bytes = RESPONSE_MAX_BYTES};
    int r = get_list(address, "calls", seconds, "", &body);
    return r < 0 ? r : agent_reply_calls(&body, ret_coverage, ret, ret_count);
}

int agent_client_events(const char *address, uint64_t seconds, struct coverage *ret_coverage, struct agent_event **ret,
                        size_t *ret_count)
{
    _cleanup_buf_ struct buf body = {.max_bytes = RESPONSE_MAX_BYTES};
    int r = get_list(address, "events", seconds, "&max=1000", &body);
    return r < 0 ? r : agent_reply_events(&body, ret_coverage, ret, ret_count);
}

int agent_client_gpu(const char *address, struct agent_gpu *ret)
{
    _cleanup_buf_ struct buf body = {.max_bytes = RESPONSE_MAX_BYTES};
    int r = http_get(address, "/metrics", &body);
    return r < 0 ? r : body.data ? agent_gpu_parse(body.data, ret) : -EBADMSG;
}

/* The texts of a JSON array, separated by "; "; cut at `size`. */
static void join_texts(const json_t *texts, char *out, size_t size)
{
    size_t used = 0;
    out[0] = '\0';
    for (size_t i = 0; i < json_array_size(texts) && used < size; i++) {
        const char *text = json_string_value(json_array_get(texts, i));
        used += (size_t)snprintf(out + used, size - used, "%s%s", used ? "; " : "", text ? text : "");
    }
}

static void read_cost(const json_t *status, const json_t *budget, struct agent_state *ret)
{
    const json_t *losses = json_object_get(status, "losses");
    ret->one_cpu_share = json_number_value(json_object_get(budget, "one_cpu_share"));
    ret->one_cpu_share_allowed = json_number_value(json_object_get(budget, "one_cpu_share_allowed"));
    ret->memory_bytes = (uint64_t)json_integer_value(json_object_get(budget, "memory_bytes"));
    ret->memory_bytes_allowed = (uint64_t)json_integer_value(json_object_get(budget, "memory_bytes_allowed"));
    ret->lost_samples = (uint64_t)(json_integer_value(json_object_get(losses, "ring_full")) +
                                   json_integer_value(json_object_get(losses, "not_kept")));
}

int agent_client_state(const char *address, struct agent_state *ret)
{
    _cleanup_buf_ struct buf body = {.max_bytes = RESPONSE_MAX_BYTES};
    int r = http_get(address, "/api/v1/status", &body);
    if (r < 0)
        return r;
    json_error_t error;
    json_t *status = json_loadb(body.data ? body.data : "", body.size, 0, &error);
    const json_t *budget = json_object_get(status, "budget");
    const char *detail = json_string_value(json_object_get(budget, "detail"));
    double uptime = json_number_value(json_object_get(status, "uptime_seconds"));
    if (detail) {
        snprintf(ret->detail, sizeof(ret->detail), "%s", detail);
        join_texts(json_object_get(budget, "reduced"), ret->reduced, sizeof(ret->reduced));
        join_texts(json_object_get(budget, "complete"), ret->complete, sizeof(ret->complete));
        const char *outlook = json_string_value(json_object_get(budget, "outlook"));
        snprintf(ret->outlook, sizeof(ret->outlook), "%s", outlook ? outlook : "");
        ret->now_ms = (uint64_t)json_integer_value(json_object_get(status, "now_ms"));
        read_cost(status, budget, ret);
        ret->uptime_ns = uptime > 0 && uptime < 1e9 ? (uint64_t)(uptime * 1e9) : 0;
    }
    json_decref(status);
    return detail ? 0 : -EBADMSG;
}

int agent_client_profile(const char *address, const char *query, struct buf *ret_body)
{
    char path[384];
    if (snprintf(path, sizeof(path), "/api/v1/profile?%s", query) >= (int)sizeof(path))
        return -EINVAL;
    ret_body->max_bytes = PROFILE_MAX_BYTES;
    return http_get(address, path, ret_body);
}
