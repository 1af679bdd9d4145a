/* The page of all nodes; see centre_page.h. */
#include "server/centre_page.h"

#include "web_assets.h"

#include <string.h>

bool centre_page_is_asked(const struct listener_request *request)
{
    const bool reads = strcmp(request->method, "GET") == 0 || strcmp(request->method, "HEAD") == 0;
    return reads && strcmp(request->path, "/") == 0 && !request->body->size &&
           !MHD_lookup_connection_value(request->connection, MHD_GET_ARGUMENT_KIND, "query") &&
           http_header_names(http_header(request->connection, "Accept"), "text/html");
}

enum MHD_Result centre_page_answer(const struct listener_request *request)
{
    const struct http_reply reply = {
        .status = MHD_HTTP_OK, .content_type = "text/html; charset=utf-8", .policy = web_centre_policy};
    return http_reply_static(request->connection, &reply, web_centre_html, web_centre_html_size());
}
