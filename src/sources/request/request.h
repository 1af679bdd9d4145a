/* Requests over HTTP/1 and HTTP/2: the source of signal "request". It has no options beyond the shared services.
 * Pipeline thread only. */
#pragma once

#include "sources/source.h"

extern const struct source source_request;

struct request_process;
struct request_peer;
struct request_opaque;

/* Places of processes: one process has one for its requests over HTTP/1, and another one for those over HTTP/2. */
#define REQUEST_SOURCE_PROCESSES_MAX (1024 + 256)

/* The counters of the process at this place (below REQUEST_SOURCE_PROCESSES_MAX): `*ret_name` is its
 * REQUEST_NAME_*, another one for each process. False: no process is counted there. */
bool request_source_read_process(void *request_source, uint32_t place, uint64_t *ret_name, struct request_process *ret);
/* Resets the counters at this place, whose process has ended, and frees the place. */
void request_source_forget_process(void *request_source, uint32_t place);
/* The traffic counted at this place (below REQUEST_OPAQUE_MAX), and its name, which another port or program does not
 * have. False: the place is free. */
bool request_source_read_opaque(void *request_source, uint32_t place, uint64_t *ret_name, struct request_opaque *ret);
/* Resets the counts at this place and frees it. */
void request_source_forget_opaque(void *request_source, uint32_t place);
/* Bytes since the source was opened that found no place. */
uint64_t request_source_opaque_overflow(void *request_source);
/* The other end of the socket with this cookie. False: not known. */
bool request_source_peer(void *request_source, uint64_t cookie, struct request_peer *ret);
