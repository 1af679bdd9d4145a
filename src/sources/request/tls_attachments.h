/* Which files with OpenSSL are attached to, and which should be. A helper process (tls_helper.h) carries it out:
 * nothing here waits for it. Pipeline thread only. */
#pragma once

#include "base/cleanup.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct request_bpf;
struct tls_attachment; /* one file, or one process of it */
struct tls_attachments;

/* The functions of OpenSSL, in the order of enum tls_site_kind (resolve/elf/tls_sites.h). */
enum tls_probe {
    TLS_PROBE_READ,
    TLS_PROBE_READ_EX,
    TLS_PROBE_WRITE,
    TLS_PROBE_WRITE_EX,
    TLS_PROBE_WRITE_EX2,
    TLS_PROBE_FREE,
    TLS_PROBE_BIO_WRITE,
    TLS_PROBE_GO_READ,
    TLS_PROBE_GO_TEXT,
    TLS_PROBE_GO_WRITE,
    TLS_PROBES
};

struct tls_probe_site {
    uint64_t file_offset;
    uint32_t probe; /* enum tls_probe */
    uint32_t reserved;
};

#define TLS_PROBE_SITES_MAX 8
#define TLS_ATTACHMENTS_MAX 128
#define TLS_EVERY_PROCESS   (-1)

/* `bpf` is borrowed and loaded. The helper starts with the first attachment. The caller frees `*ret`. -ENOMEM. */
int tls_attachments_new(struct request_bpf *bpf, struct tls_attachments **ret);
void tls_attachments_free(struct tls_attachments *a); /* detaches; waits a few seconds at most */
DEFINE_FREEP(tls_attachments)

/* Wants these sites of the file attached, in process `pid` or TLS_EVERY_PROCESS. Keeps a copy of `fd`. -EINVAL: no
 * sites, or too many; -ENOSPC: too many files; -EMFILE. */
int tls_attachments_add(struct tls_attachments *a, int fd, int32_t pid, const struct tls_probe_site *sites,
                        size_t count, struct tls_attachment **ret);
/* Takes ownership of `t`, which is detached later. */
void tls_attachments_remove(struct tls_attachments *a, struct tls_attachment *t);

/* Detaches all files for good: files that are added later are not attached to. */
void tls_attachments_stop(struct tls_attachments *a);
bool tls_attachments_is_stopped(const struct tls_attachments *a);

/* Takes the helper's answers, and sends it the next asks. */
void tls_attachments_turn(struct tls_attachments *a);

struct tls_attachments_stats {
    bool is_stopped;
    size_t attached, waiting;
    uint64_t refused; /* failed attempts, which are not repeated */
    int last_error;   /* of those: -errno; 0: none */
    uint64_t starts;  /* of the helper */
    uint64_t cpu_ns;  /* of all helpers */
};
void tls_attachments_stats(const struct tls_attachments *a, struct tls_attachments_stats *ret);
