/* The files of a TLS certificate, in PEM: the certificate with the chain of its issuers, and its key. */
#pragma once

#include "base/file_watch.h"

#include <stdbool.h>
#include <stddef.h>

#define CERTIFICATE_FILE_MAX_BYTES ((size_t)256 << 10)

struct certificate_files {
    const char *chain_setting, *key_setting; /* that name the files, for messages */
    const char *chain, *key;                 /* paths; NULL: there is no certificate */
};

struct certificate {
    struct certificate_files files; /* as they were read, borrowed */
    char *chain, *key;              /* texts; NULL: no TLS */
    struct file_watch chain_watch, key_watch;
};

/* Reads both files. Whether the texts are a certificate and its key is left to the
 * TLS library. Warns of a key that all users of this machine can read. 0, or -errno after the reason was logged; then
 * `ret` is unchanged. The caller calls certificate_clear. */
int certificate_read(const struct certificate_files *files, struct certificate *ret);

/* Logs that a TLS library cannot use the texts. */
void certificate_log_unusable(const struct certificate *c);

/* To be called once a second: whether a file has changed. */
bool certificate_has_changed(struct certificate *c);

/* Frees the texts, and wipes the key from memory. The names and the watches stay. */
void certificate_clear(struct certificate *c);
