/* The partial_success field of responses: what a receiver rejected of a packet that it accepted. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define OTLP_PARTIAL_WHY_SIZE 200

/* Parses the untrusted body of a response (ExportTraceServiceResponse, and the responses for metrics, profiles and
 * logs, as protobuf). Returns the number of rejected spans, points, profiles or log records, 0 if the body is invalid;
 * `ret_why` is the receiver's message, or "". */
uint64_t otlp_partial_success(const char *body, size_t size, char ret_why[OTLP_PARTIAL_WHY_SIZE]);

/* Copies an untrusted message as one line that is safe to log. */
void otlp_keep_words(char why[OTLP_PARTIAL_WHY_SIZE], const void *text, size_t size);
