/* The paths /login and /logout, and the cookie; see sign_in.h. */
#include "server/sign_in.h"

#include "serve/authorization.h"
#include "serve/origin.h"
#include "server/api_http.h"

#include <errno.h>
#include <string.h>

#define COOKIE       "sonde-session"
#define COOKIE_BYTES 160

/* ---- the cookie ---- */

/* Without Max-Age: the browser forgets it when it ends. */
static void put_cookie(const struct sign_in *s, const char *id, const char *attributes, char ret[COOKIE_BYTES])
{
    snprintf(ret, COOKIE_BYTES, COOKIE "=%s; Path=/; HttpOnly; SameSite=Strict%s%s", id, attributes,
             s->is_encrypted ? "; Secure" : "");
}

static bool find_token(const struct sign_in *s, struct MHD_Connection *connection, unsigned char ret[SHA256_BYTES])
{
    const char *id = MHD_lookup_connection_value(connection, MHD_COOKIE_KIND, COOKIE);
    return s->access && id && sessions_find(s->sessions, id, ret);
}

static bool is_signed_in(const struct sign_in *s, struct MHD_Connection *connection, struct access_client *ret_client)
{
    unsigned char token[SHA256_BYTES];
    return find_token(s, connection, token) &&
           access_allows_hash(s->access, TOKEN_READ, token, http_client_address(connection), ret_client);
}

bool sign_in_is_done(const struct sign_in *s, struct MHD_Connection *connection, const char *method, const char *path,
                     struct access_client *ret_client)
{
    const bool reads = strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0;
    return reads && api_has(path) && is_signed_in(s, connection, ret_client);
}

/* ---- the paths ---- */

static enum MHD_Result reply_state(const struct sign_in *s, const struct listener_request *request, bool signed_in,
                                   const char *cookie)
{
    const struct http_reply reply = {.status = MHD_HTTP_OK, .content_type = "application/json", .cookie = cookie};
    _cleanup_buf_ struct buf body = {0};
    buf_printf(&body, "{\"needs_token\":%s,\"signed_in\":%s}\n", s->access ? "true" : "false",
               signed_in ? "true" : "false");
    return http_reply_buf(request->connection, &reply, &body);
}

/* The body, without blanks around it. False: it is empty, or longer than any token. */
static bool read_token(const struct buf *body, char ret[AUTHORIZATION_TOKEN_BYTES])
{
    static const char blanks[] = " \t\r\n";
    const char *begin = body->data, *end = begin + body->size;
    while (begin < end && strchr(blanks, *begin))
        begin++;
    while (begin < end && strchr(blanks, end[-1]))
        end--;
    const size_t size = (size_t)(end - begin);
    if (!size || size >= AUTHORIZATION_TOKEN_BYTES || memchr(begin, 0, size))
        return false;
    memcpy(ret, begin, size);
    ret[size] = '\0';
    return true;
}

/* 403 and not 401, for which browsers would show a dialog of their own. */
static enum MHD_Result reply_refused(const struct listener_request *request, int error)
{
    return http_reply_text(request->connection, MHD_HTTP_FORBIDDEN, "%s",
                           error == -EACCES
                               ? "This token has no right to read: `sonde token new --scope read` makes one that has."
                               : "This token is not known here: it is wrong, or it has been revoked.");
}

static enum MHD_Result begin_session(const struct sign_in *s, const struct listener_request *request)
{
    const struct sockaddr *client = http_client_address(request->connection);
    char token[AUTHORIZATION_TOKEN_BYTES] = "", id[SESSION_ID_BYTES], cookie[COOKIE_BYTES];
    unsigned char hash[SHA256_BYTES];
    if (!rate_limit_allows(s->attempts, origin_of_address(client)))
        return http_reply_text(request->connection, MHD_HTTP_TOO_MANY_REQUESTS,
                               "Too many attempts to sign in from this address: try again in some seconds.");
    int r = read_token(request->body, token) ? access_check_token(s->access, TOKEN_READ, token, client, hash) : -ENOKEY;
    explicit_bzero(token, sizeof(token));
    if (r < 0)
        return reply_refused(request, r);
    r = sessions_begin(s->sessions, hash, id);
    if (r < 0)
        return http_reply_text(request->connection, MHD_HTTP_SERVICE_UNAVAILABLE, "No session can begin now.");
    put_cookie(s, id, "", cookie);
    return reply_state(s, request, true, cookie);
}

static enum MHD_Result end_session(const struct sign_in *s, const struct listener_request *request)
{
    const char *id = MHD_lookup_connection_value(request->connection, MHD_COOKIE_KIND, COOKIE);
    char cookie[COOKIE_BYTES];
    if (id)
        sessions_end(s->sessions, id);
    put_cookie(s, "", "; Max-Age=0", cookie);
    return reply_state(s, request, false, cookie);
}

bool sign_in_has(const char *path)
{
    return strcmp(path, LOGIN_PATH) == 0 || strcmp(path, LOGOUT_PATH) == 0;
}

enum MHD_Result sign_in_answer(const struct sign_in *s, const struct listener_request *request)
{
    const bool is_login = strcmp(request->path, LOGIN_PATH) == 0;
    struct access_client client;
    if (strcmp(request->method, "POST") != 0)
        return is_login ? reply_state(s, request, is_signed_in(s, request->connection, &client), NULL)
                        : http_reply_not_allowed(request->connection, "POST");
    if (!s->access)
        return http_reply_text(request->connection, MHD_HTTP_NOT_FOUND, "No token is needed at this address.");
    return is_login ? begin_session(s, request) : end_session(s, request);
}
