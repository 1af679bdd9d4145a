/* OTLP over gRPC: the method Export of OpenTelemetry's four services, compressed with gzip or zstd or not. */
#pragma once

#include "server/grpc_connection.h"

/* An answer of grpc_listener_options, whose context is a struct receiver. */
void otlp_grpc_answer(void *receiver, struct grpc_call *call);
