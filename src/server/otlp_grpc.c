/* OTLP over gRPC; see otlp_grpc.h. */
#include "server/otlp_grpc.h"

#include "server/receiver.h"

/* OTLP has clients repeat what is UNAVAILABLE, and RESOURCE_EXHAUSTED only with the time after which to do so. */
static void fail(struct grpc_reply *reply, int error)
{
    static const struct {
        enum grpc_status status;
        unsigned retry_after_s;
    } statuses[] = {
        [RECEIVER_INVALID] = {GRPC_INVALID_ARGUMENT, 0},
        [RECEIVER_TOO_LARGE] = {GRPC_INVALID_ARGUMENT, 0},
        [RECEIVER_UNKNOWN_ENCODING] = {GRPC_UNIMPLEMENTED, 0},
        [RECEIVER_BUSY] = {GRPC_UNAVAILABLE, RECEIVER_RETRY_S},
        [RECEIVER_FULL] = {GRPC_RESOURCE_EXHAUSTED, RECEIVER_RETRY_S},
        [RECEIVER_BROKEN] = {GRPC_UNAVAILABLE, RECEIVER_RETRY_S},
    };
    const struct receiver_failure failure = receiver_failure(error);
    reply->status = statuses[failure.kind].status;
    reply->retry_after_s = statuses[failure.kind].retry_after_s;
    reply->text = failure.text;
}

void otlp_grpc_answer(void *receiver, struct grpc_call *call)
{
    const struct receiver_request request = {.signal = otlp_signal_of_method(call->method),
                                             .encoding = call->encoding,
                                             .body = call->message,
                                             .client = call->client};
    struct receiver_result result;
    if (!request.signal) {
        call->reply.status = GRPC_UNIMPLEMENTED;
        call->reply.text = "this server has OpenTelemetry's services for traces, logs, metrics and profiles";
        return;
    }
    const int r = receiver_store(receiver, &request, &result);
    if (r < 0)
        fail(&call->reply, r);
    else
        receiver_put_response(&call->reply.message, &result);
}
