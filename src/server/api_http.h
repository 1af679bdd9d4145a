/* The JSON API over HTTP: each endpoint of api_endpoints.h by GET, and their OpenAPI document at
 * /api/v1/openapi.json. Each query is a reader's, with its limits (sql.h). */
#pragma once

#include "server/engine.h"
#include "server/listener.h"

#include <stdbool.h>

struct api {
    struct engine *engine;
    unsigned keep_days;
};

/* Whether a path is one of the API. */
bool api_has(const char *path);
/* Answers a request of such a path. */
enum MHD_Result api_answer(const struct api *api, const struct listener_request *request);
