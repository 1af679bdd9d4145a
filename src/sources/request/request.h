/* HTTP requests: the source of signal "request". It has no options beyond the shared services. Pipeline thread only. */
#pragma once

#include "sources/source.h"

extern const struct source source_request;

struct request_process;
struct request_peer;

/* The counters of the process at this place (below REQUEST_PROCESSES_MAX; probes/request.h): `*ret_name` is its
 * REQUEST_NAME_*, another one for each process. False: no process is counted there. */
bool request_source_read_process(void *request_source, uint32_t place, uint64_t *ret_name, struct request_process *ret);
/* Resets the counters at this place, whose process has ended, and frees the place. */
void request_source_forget_process(void *request_source, uint32_t place);
/* The other end of the socket with this cookie. False: not known. */
bool request_source_peer(void *request_source, uint64_t cookie, struct request_peer *ret);
