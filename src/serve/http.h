/* Replies over libmicrohttpd: one place that knows which headers every reply carries, so that no route can
 * forget them. */
#pragma once

#include "base/buf.h"

#include <microhttpd.h>
#include <stdbool.h>

struct http_reply {
    unsigned status;
    const char *content_type;
    const char *content_encoding; /* NULL: none */
    const char *policy;           /* Content-Security-Policy; NULL: nothing may be loaded or run */
    const char *file_name;        /* suggested to who saves it, NULL: none; plain ASCII */
    bool attachment;              /* saved rather than shown */
    const char *etag;             /* with it the reply may be kept and asked for again; NULL: must not be stored */
    const char *allow;            /* for 405 */
    const char *retry_after_s;    /* for 503 */
};

/* Borrows `bytes` for ever (they are part of the program or outlive the daemon). */
enum MHD_Result http_reply_static(struct MHD_Connection *connection, const struct http_reply *reply, const void *bytes,
                                  size_t size);
/* Takes the contents of `body`, which is left empty. */
enum MHD_Result http_reply_buf(struct MHD_Connection *connection, const struct http_reply *reply, struct buf *body);
/* One line of text for people; a line feed is added. */
enum MHD_Result http_reply_text(struct MHD_Connection *connection, unsigned status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* NULL when the request has no such header. Borrowed for the length of the request. */
const char *http_header(struct MHD_Connection *connection, const char *name);
/* Whether a comma-separated header names `token` (with q=0 meaning that it does not). */
bool http_header_names(const char *header, const char *token);
