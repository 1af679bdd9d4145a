/* Arbitrary bytes from a client of gRPC: every call that is taken is whole, and the memory of bodies is counted. Calls
 * are answered at once, later, or after their connection. */
#include "server/grpc_connection.h"

#include <stdlib.h>
#include <string.h>
#include <utlist.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static enum grpc_status admit(void *context, const char *authorization, const struct sockaddr *address,
                              uint64_t *ret_client)
{
    (void)context;
    (void)address;
    *ret_client = 1;
    return !authorization          ? GRPC_OK
           : *authorization == 'x' ? GRPC_UNAUTHENTICATED
           : *authorization == 'y' ? GRPC_RESOURCE_EXHAUSTED
                                   : GRPC_OK;
}

static bool take(void *context, struct grpc_call *call)
{
    struct grpc_call **taken = context;
    if (!memchr(call->method, '\0', sizeof(call->method)) || call->message.size > 4096)
        abort();
    LL_APPEND(*taken, call);
    return true;
}

static void finish(struct grpc_call **taken, size_t keep)
{
    struct grpc_call *call = take_ptr(*taken);
    for (struct grpc_call *next; call; call = next) {
        next = call->next;
        call->next = NULL;
        if (keep && keep--) {
            LL_APPEND(*taken, call);
        } else {
            call->reply.status = call->message.size % 2 ? GRPC_OK : GRPC_RESOURCE_EXHAUSTED;
            call->reply.text = "full";
            call->reply.retry_after_s = 1;
            grpc_call_finish(call, 2);
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0";
    struct grpc_call *taken = NULL;
    struct body_memory *memory;
    struct buf out = {0};
    if (body_memory_new(8192, &memory) < 0)
        return 0;
    const struct grpc_connection_options options = {
        .message_max_bytes = 4096, .memory = memory, .admit = admit, .take = take, .context = &taken};
    struct grpc_connection *c;
    if (grpc_connection_new(&options, &c) < 0) {
        body_memory_free(memory);
        return 0;
    }
    int r = grpc_connection_receive(c, preface, sizeof(preface), 1);
    for (size_t at = 0, n; r == 0 && at < size; at += n) { /* in pieces, as sockets give them */
        n = size - at < 100 ? size - at : 100;
        r = grpc_connection_receive(c, data + at, n, 1);
        finish(&taken, at % 3);
        if (grpc_connection_put_output(c, &out, 1 << 16) < 0)
            break;
        out.size = 0;
    }
    grpc_connection_tick(c, GRPC_CALL_NS + 1);
    grpc_connection_put_output(c, &out, 1 << 16);
    grpc_connection_free(c);
    finish(&taken, 0);
    buf_clear(&out);
    if (body_memory_held(memory))
        abort();
    body_memory_free(memory);
    return 0;
}
