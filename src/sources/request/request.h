/* Requests over HTTP/1 and HTTP/2: the source of signal "request". Pipeline thread only. */
#pragma once

#include "sources/attach/map_walk.h"
#include "sources/attach/uprobe_attachments.h"
#include "sources/request/http2/http2_drain.h"
#include "sources/source.h"

/* Its options; NULL: the plaintext of TLS is not read. */
struct request_options {
    bool enabled;
    bool tls; /* read the plaintext of OpenSSL */
};

/* Kinds of its uprobes: the functions of OpenSSL and of Go, in the order of enum tls_site_kind
 * (resolve/elf/tls_sites.h). */
enum tls_probe {
    TLS_PROBE_READ,
    TLS_PROBE_READ_EX,
    TLS_PROBE_WRITE,
    TLS_PROBE_WRITE_EX,
    TLS_PROBE_WRITE_EX2,
    TLS_PROBE_FREE,
    TLS_PROBE_BIO_WRITE,
    TLS_PROBE_NEW,
    TLS_PROBE_GO_READ,
    TLS_PROBE_GO_TEXT,
    TLS_PROBE_GO_WRITE,
    TLS_PROBES
};

extern const struct source source_request;

struct request_process;
struct request_peer;
struct request_opaque;
struct service_address;
struct service_call_key;
struct service_process;

/* Places of processes: one process has one for its requests over HTTP/1, and another one for those over HTTP/2. */
#define REQUEST_SOURCE_PROCESSES_MAX (1024 + 256)

/* The counters of the process at this place (below REQUEST_SOURCE_PROCESSES_MAX): `*ret_name` is its
 * REQUEST_NAME_*, another one for each process. False: no process is counted there. */
bool request_source_read_process(void *request_source, uint32_t place, uint64_t *ret_name, struct request_process *ret);
/* The name of the process at this place, without its counters. 0: no process is counted there. */
uint64_t request_source_process_name(void *request_source, uint32_t place);
/* Resets the counters at this place, whose process has ended, and frees the place. */
void request_source_forget_process(void *request_source, uint32_t place);
/* The traffic counted at this place (below REQUEST_OPAQUE_MAX), and its name, which another port or program does not
 * have. False: the place is free. */
bool request_source_read_opaque(void *request_source, uint32_t place, uint64_t *ret_name, struct request_opaque *ret);
/* Resets the counts at this place and frees it. */
void request_source_forget_opaque(void *request_source, uint32_t place);
/* Bytes since the source was opened that found no place. */
uint64_t request_source_opaque_overflow(void *request_source);
/* The files with OpenSSL that are attached to; NULL: the plaintext of TLS is not read here. */
struct uprobe_attachments *request_source_tls(void *request_source);
/* The processes that write TLS records into memory, at most `max`: their BIO_write is to be attached, too. Returns how
 * many. */
size_t request_source_tls_buffered(void *request_source, uint32_t *ret_pids, size_t max);
/* Whether the process has called OpenSSL where it is attached to. Another process may have the same low bits of its
 * PID.
 */
bool request_source_reads_tls(void *request_source, uint32_t pid);
/* How often programs at the functions of TLS have run. */
uint64_t request_source_tls_runs(void *request_source);
/* The process has ended. */
void request_source_tls_forget(void *request_source, uint32_t pid);
/* The walk over the calls of services: struct service_call_key and struct service_call_counts. The caller ends it. */
struct map_walk request_source_service_calls(void *request_source);
/* Forgets the counts of a key. */
void request_source_forget_service_call(void *request_source, const struct service_call_key *key);
/* The process that serves an address of this node. False: not known. */
bool request_source_service_process(void *request_source, const struct service_address *address,
                                    struct service_process *ret);
/* Writes the call over HTTP/2 on the socket `cookie` in [from_ns, to_ns): "gRPC /package.Service/Method"; "" if no call
 * is known, or several different ones. */
void request_source_http2_asked(void *request_source, uint64_t cookie, uint64_t from_ns, uint64_t to_ns,
                                char out[HTTP2_CALL_BYTES]);
/* As http2_calls_take. */
void request_source_take_http2_calls(void *request_source, http2_calls_taker *take, void *context);
/* The other end of the socket with this cookie. False: not known. */
bool request_source_peer(void *request_source, uint64_t cookie, struct request_peer *ret);
