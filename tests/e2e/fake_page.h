/* Parts of fake_page.c, which describes the modes. The functions are callbacks of struct page_data; their context is a
 * struct fake. */
#pragma once

#include "model/coverage.h"
#include "model/request.h"
#include "serve/page.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define MS                 1000000ull
#define FAKE_START_UNIX_NS 1767225600000000000ull /* of the heatmap */

struct fake {
    const char *mode;
    atomic_uint profiles; /* number of profiles returned so far */
    atomic_uint ended[CONNECTION_END_COUNT];
};

int fake_requests(void *context, uint64_t seconds, size_t max, enum request_choice which, struct request ***ret,
                  size_t *ret_count);
int fake_routes(void *context, uint64_t seconds, struct request_route **ret, size_t *ret_count);
int fake_calls(void *context, uint64_t seconds, struct service_call **ret, size_t *ret_count);
/* The whole of the interval in mode "normal", a part in "large", nothing in "empty". */
void fake_coverage(void *context, enum coverage_subject subject, uint64_t seconds, struct coverage *ret);
