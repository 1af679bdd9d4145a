/* Where the plaintext of OpenSSL, of BoringSSL and of Go's crypto/tls can be read in a file: addresses of instructions
 * that the kernel emulates when a uprobe replaces them. An instruction that it would single-step costs each call about
 * 14 us, so such a site is declined.
 *
 * Exported functions often begin with such an instruction, and the internal function that they call does not. */
#pragma once

#include "resolve/elf/elf.h"

#include <stddef.h>
#include <stdint.h>

enum tls_site_kind {
    TLS_SITE_READ,      /* SSL_read(ssl, buffer, size), which returns how many bytes it read */
    TLS_SITE_READ_EX,   /* SSL_read_ex(ssl, buffer, size, &read), which returns 1; or an internal function like it */
    TLS_SITE_WRITE,     /* SSL_write, */
    TLS_SITE_WRITE_EX,  /* and SSL_write_ex, likewise */
    TLS_SITE_WRITE_EX2, /* SSL_write_ex2(ssl, buffer, size, flags, &written), of OpenSSL 3.3 and later, likewise */
    TLS_SITE_FREE,      /* SSL_free(ssl); only its entry, and behind its first instructions */
    TLS_SITE_BIO_WRITE, /* BIO_write(bio, data, size); likewise */
    TLS_SITE_NEW,       /* SSL_new(context), which returns an object */
    TLS_SITE_GO_READ,   /* (*Conn).Read(connection, buffer, size), behind the check of the stack */
    TLS_SITE_GO_TEXT,   /* its call of memmove(to, from, size), which copies plaintext */
    TLS_SITE_GO_WRITE,  /* (*Conn).Write(connection, buffer, size), likewise */
};

struct tls_site {
    enum tls_site_kind kind;
    uint64_t file_offset;
};

#define TLS_SITES_MAX 9

struct tls_sites {
    struct tls_site all[TLS_SITES_MAX];
    size_t count;
    bool has_functions;   /* the file defines functions that read and write, whether they can be probed or not */
    const char *declined; /* why they cannot be probed, a constant; NULL: they can, or the file does not define them */
};

/* Finds the sites in `f`: reads and writes together, or neither. BoringSSL is also found without symbols (boringssl.h).
 * 0; -ETIMEDOUT or an error of elf_addresses_find: the file cannot be read at present. */
int tls_sites_find(const struct elf_file *f, struct tls_sites *ret);
