/* Maps paths to replies. Called from HTTP threads, several at once. */
#pragma once

#include "base/cleanup.h"
#include "serve/page.h"
#include "serve/readers.h"

#include <microhttpd.h>

struct routes;

/* Borrows `data` and `readers`. Without the UI, `/` replies 404 and lists the API. 0 or -errno. */
int routes_new(const struct page_data *data, struct readers *readers, bool without_ui, struct routes **ret);
void routes_free(struct routes *r);
DEFINE_FREEP(routes)

/* Replies to a GET or HEAD request whose Host header was accepted. */
enum MHD_Result routes_answer(struct routes *r, struct MHD_Connection *connection, const char *path);
