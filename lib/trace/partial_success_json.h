/* otlp/partial_success.h for JSON responses, which only receivers of spans and metrics send. */
#pragma once

#include "../otlp/partial_success.h"

uint64_t trace_partial_success_json(const char *body, size_t size, char ret_why[OTLP_PARTIAL_WHY_SIZE]);
