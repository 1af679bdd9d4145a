/* The part of the request source that is for HTTP/2: drains what the BPF programs copied of frames, counts the requests
 * of each process, and writes records of those that get one to the batch, by the same rules as request.bpf.c does for
 * HTTP/1 (probes/request/request_choice.h). Pipeline thread only. */
#pragma once

#include "base/cleanup.h"
#include "model/loss.h"
#include "sources/request/http2/http2_calls.h"

#include <linux/types.h>

#include "probes/request.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HTTP2_PROCESSES_MAX 256

struct batch;
struct http2_drain;

/* `ring_fd`: the map `http2_ring`, borrowed. The caller frees `*ret`. -ENOMEM or an error of libbpf. */
int http2_drain_new(int ring_fd, uint32_t records_a_window, uint64_t sampling_seed, struct http2_drain **ret);
void http2_drain_free(struct http2_drain *d);
DEFINE_FREEP(http2_drain)

/* Becomes readable when a drain is worthwhile. Borrowed. */
int http2_drain_poll_fd(const struct http2_drain *d);

/* Takes all that is in the ring. Returns 0, or an error of libbpf. */
int http2_drain_run(struct http2_drain *d, struct batch *batch);

/* As request_source_process_name and request_source_read_process, for places below HTTP2_PROCESSES_MAX. */
uint64_t http2_drain_process_name(const struct http2_drain *d, uint32_t place);
bool http2_drain_read_process(const struct http2_drain *d, uint32_t place, uint64_t *ret_name,
                              struct request_process *ret);
void http2_drain_forget_process(struct http2_drain *d, uint32_t place);

/* As request_source_http2_asked. */
void http2_drain_asked(const struct http2_drain *d, uint64_t socket, uint64_t from_ns, uint64_t to_ns,
                       char out[HTTP2_CALL_BYTES]);
/* As http2_calls_take. */
void http2_drain_take_calls(struct http2_drain *d, http2_calls_taker *take, void *context);

void http2_drain_losses(const struct http2_drain *d, struct losses *losses);
size_t http2_drain_bytes(const struct http2_drain *d);
