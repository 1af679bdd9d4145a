/* The files of the page's TLS certificate, in PEM: the certificate with the chain of its issuers, and its key. */
#pragma once

#include "base/file_watch.h"

#include <stdbool.h>
#include <stddef.h>

#define CERTIFICATE_FILE_MAX_BYTES ((size_t)256 << 10)

struct certificate {
    char *chain, *key; /* texts; NULL: no TLS */
    struct file_watch chain_watch, key_watch;
};

/* Reads both files; NULL paths: there is no certificate. Whether the texts are a certificate and its key is left to the
 * TLS library. Warns of a key that all users of this machine can read. 0, or -errno after the reason was logged; then
 * `ret` is unchanged. The caller calls certificate_clear. */
int certificate_read(const char *chain_path, const char *key_path, struct certificate *ret);

/* To be called once a second, with the paths that were read: whether a file has changed. */
bool certificate_has_changed(struct certificate *c, const char *chain_path, const char *key_path);

/* Frees the texts, and wipes the key from memory. The watches stay. */
void certificate_clear(struct certificate *c);
