/* The same as otlp/partial_success.h of an answer in JSON, which only receivers of spans and metrics are
 * asked for. */
#pragma once

#include "../otlp/partial_success.h"

uint64_t trace_partial_success_json(const char *body, size_t size, char ret_why[OTLP_PARTIAL_WHY_SIZE]);
