/* The page of all nodes (web/src/centre-page.tsx), which asks the JSON API. */
#pragma once

#include "server/listener.h"

#include <stdbool.h>

/* Whether a request is a browser's for the page: at "/", where clients of SQL ask as well. The page itself has no data:
 * no token is needed for it. */
bool centre_page_is_asked(struct MHD_Connection *connection, const char *method, const char *path);
enum MHD_Result centre_page_answer(const struct listener_request *request);
