/* Replies over libmicrohttpd. All replies go through here, so every one carries the security headers. */
#pragma once

#include "base/buf.h"
#include "serve/readers.h"

#include <microhttpd.h>
#include <stdarg.h>
#include <stdbool.h>

#define HTTP_BODY_MAX_BYTES ((size_t)256 << 20) /* of one answer: beyond it, the answer is an error */

struct http_reply {
    unsigned status;
    const char *content_type;
    const char *content_encoding; /* NULL: none */
    const char *policy;           /* Content-Security-Policy; NULL: forbids all loading and scripts */
    const char *file_name;        /* suggested file name, ASCII; NULL: none */
    bool attachment;              /* download instead of display */
    const char *etag;             /* with it, caches revalidate (no-cache); NULL: no-store */
    const char *allow;            /* Allow header, for status 405 */
    const char *authenticate;     /* WWW-Authenticate header, for status 401 */
    const char *cookie;           /* Set-Cookie header; NULL: none */
    const char *retry_after_s;    /* Retry-After header, for the statuses 429 and 503 */
    struct readers *readers;      /* counts the body while it is sent; NULL: it is not counted */
};

/* Sends `bytes` without a copy: they must outlive the daemon. MHD_NO closes the connection (no memory); so for all
 * below. */
enum MHD_Result http_reply_static(struct MHD_Connection *connection, const struct http_reply *reply, const void *bytes,
                                  size_t size);
/* Takes ownership of the contents of `body`, and leaves it empty. */
enum MHD_Result http_reply_buf(struct MHD_Connection *connection, const struct http_reply *reply, struct buf *body);

/* A response that several connections may have, each by MHD_queue_response. Takes ownership of the contents of `body`.
 * The caller gives up its own reference by MHD_destroy_response. NULL: no memory. */
struct MHD_Response *http_response_new(const struct http_reply *reply, struct buf *body);
/* Sends one line of plain text; adds the newline, and WWW-Authenticate or Retry-After where the status needs it. */
enum MHD_Result http_reply_text(struct MHD_Connection *connection, unsigned status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Sends status 405 with the methods that are supported: "GET, HEAD". */
enum MHD_Result http_reply_not_allowed(struct MHD_Connection *connection, const char *methods);

/* The connection among the page's; NULL: it is about to be closed. */
struct reader *http_reader(struct MHD_Connection *connection);

/* The address of the client, borrowed for the duration of the connection. */
const struct sockaddr *http_client_address(struct MHD_Connection *connection);

/* Value of a request header, borrowed for the duration of the request; NULL: absent. */
const char *http_header(struct MHD_Connection *connection, const char *name);
/* Value of the Host header, borrowed as above. NULL if the request has none, or several: a proxy may have used another
 * one than this program would (RFC 9112, 3.2). */
const char *http_host(struct MHD_Connection *connection);
/* Whether a comma-separated header contains `token`, not counting entries with q=0. */
bool http_header_names(const char *header, const char *token);

/* Logs what libmicrohttpd says, at the level of debugging: for MHD_OPTION_EXTERNAL_LOGGER. `name`, a string, is of the
 * daemon. */
void http_log_from_library(void *name, const char *format, va_list arguments) __attribute__((format(printf, 2, 0)));
