/* The reply of a gRPC receiver: header and trailer lines, then an empty line and a body. Reading stays within its
 * bounds, and log text is a single line. */
#include "otlp/grpc.h"
#include "otlp/zstd.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A copy of exactly its size, so that the sanitizer detects a read beyond it. */
static void read_line(struct otlp_grpc_reply *reply, const char *at, size_t size)
{
    char *line = malloc(size);
    if (!line)
        return;
    memcpy(line, at, size);
    otlp_grpc_read_header(reply, line, size);
    free(line);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *at = (const char *)data, *end = at + size;
    struct otlp_grpc_reply reply = {0};
    struct otlp_answer answer = {0};
    char room[256], why[OTLP_PARTIAL_WHY_SIZE];
    size_t message_size = 0;
    while (at < end && *at != '\n') {
        const char *newline = memchr(at, '\n', (size_t)(end - at)), *next = newline ? newline + 1 : end;
        read_line(&reply, at, (size_t)(next - at));
        at = next;
    }
    at += at < end;
    otlp_grpc_judge(&reply, 200, &answer);
    const char *message = otlp_grpc_message(&reply, &otlp_zstd, at, (size_t)(end - at), room, sizeof(room), &message_size);
    if (message == room ? message_size > sizeof(room) : message && message_size > (size_t)(end - message))
        abort();
    if (message)
        otlp_partial_success(message, message_size, why);
    if (answer.verdict == OTLP_UNANSWERED || !memchr(answer.why, '\0', sizeof(answer.why)) || strpbrk(answer.why, "\r\n"))
        abort();
    return 0;
}
