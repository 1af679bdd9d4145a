/* Requests with spans. Header only: each test is a program of its own. */
#pragma once

#include "model/request.h"

#include <cmocka.h>

/* Ended at `end_ns`. The caller frees it. */
static inline struct request *make_request(uint64_t id, const char *service, uint64_t end_ns, uint64_t duration_ns)
{
    const struct request r = {.id = id,
                              .start_ns = end_ns - duration_ns,
                              .start_unix_ns = 1000,
                              .duration_ns = duration_ns,
                              .service = service,
                              .unit = "",
                              .container_id = "",
                              .method = "GET",
                              .route = "/",
                              .peer = "",
                              .status = 200,
                              .span = {.id = {id, 1, id}}};
    struct request *copy;
    assert_int_equal(request_copy(&r, &copy), 0);
    return copy;
}
