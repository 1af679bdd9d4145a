/* What a receiver says that it did not keep of a packet which it accepted. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define OTLP_PARTIAL_WHY_SIZE 200

/* Reads the body of an answer (ExportTraceServiceResponse and those of metrics and profiles, as protobuf)
 * from anybody: how many spans, points or profiles were rejected, 0 for a body that is none, and the
 * receiver's words, "" when there are none. */
uint64_t otlp_partial_success(const char *body, size_t size, char ret_why[OTLP_PARTIAL_WHY_SIZE]);

/* Somebody else's words as one line that may go into a log. */
void otlp_keep_words(char why[OTLP_PARTIAL_WHY_SIZE], const void *text, size_t size);
