/* The page of all nodes; see centre_page.h. */
#include "server/centre_page.h"

#include "web_assets.h"

#include <string.h>

bool centre_page_is_asked(struct MHD_Connection *connection, const char *method, const char *path)
{
    const bool reads = strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0;
    return reads && strcmp(path, "/") == 0 &&
           !MHD_lookup_connection_value(connection, MHD_GET_ARGUMENT_KIND, "query") &&
           http_header_names(http_header(connection, "Accept"), "text/html");
}

enum MHD_Result centre_page_answer(const struct listener_request *request)
{
    const struct http_reply reply = {
        .status = MHD_HTTP_OK, .content_type = "text/html; charset=utf-8", .policy = web_centre_policy};
    return http_reply_static(request->connection, &reply, web_centre_html, web_centre_html_size());
}
