/* The attach methods of the request source: loads and attaches each one, best first, until one works. Private to the
 * request source and to tests that try all methods on one kernel. */
#pragma once

#include "sources/source.h"

#define REQUEST_METHOD_BEST (-1)

struct request_bpf;

/* Loads and attaches `method`, or the best one that works (REQUEST_METHOD_BEST); the caller destroys `*ret`. `tls`:
 * with the programs that read the plaintext of TLS, if the kernel loads them; they are not attached. Refused methods
 * are in `report`. Returns -errno when none works. */
int request_attach_best(const struct source_services *services, struct attach_report *report, int method, bool tls,
                        struct request_bpf **ret);

/* Resets the counters at this place, whose process has ended, and frees the place. */
void request_attach_forget_process(struct request_bpf *bpf, uint32_t place);

/* Resets the counts of opaque traffic at this place, and frees it. */
void request_attach_forget_opaque(struct request_bpf *bpf, uint32_t place);

/* As source_request.open, with this method. */
int request_source_open_on(const struct source_services *services, struct attach_report *report, int method, bool tls,
                           void **ret_self);
