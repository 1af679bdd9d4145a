/* Threads that answer calls of gRPC. A call is given by one thread, which also takes it back when it is answered. */
#pragma once

#include "base/cleanup.h"
#include "server/grpc_connection.h"

struct grpc_workers;

#define GRPC_WORKERS     16  /* many wait for the disk together: one sync is for all */
#define GRPC_WAITING_MAX 256 /* calls */

/* `answer` fills in the reply of a call; `fd` is an eventfd that counts answered calls. 0 or -errno. */
int grpc_workers_start(void (*answer)(void *context, struct grpc_call *call), void *context, int fd,
                       struct grpc_workers **ret);
/* False: too many calls are waiting. */
bool grpc_workers_give(struct grpc_workers *w, struct grpc_call *call);
/* The calls that have been answered since the last time: a list by `next`. */
struct grpc_call *grpc_workers_take_answered(struct grpc_workers *w);
/* Calls that were given and not taken back. */
size_t grpc_workers_count(struct grpc_workers *w);
/* Ends the threads when no call is waiting. */
void grpc_workers_free(struct grpc_workers *w);
DEFINE_FREEP(grpc_workers)
