/* What the page answers at which path. Called from HTTP threads, many at once. */
#pragma once

#include "base/cleanup.h"
#include "serve/page.h"

#include <microhttpd.h>

struct routes;

/* `data` is borrowed. Without the UI, `/` says where the rest is. */
int routes_new(const struct page_data *data, bool without_ui, struct routes **ret);
void routes_free(struct routes *r);
DEFINE_FREEP(routes)

/* A GET or HEAD whose Host is ours. */
enum MHD_Result routes_answer(struct routes *r, struct MHD_Connection *connection, const char *path);
