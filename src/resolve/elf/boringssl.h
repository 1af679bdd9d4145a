/* The functions of BoringSSL in a file without symbols for them, as grpcio's library for Python: x86-64 only.
 *
 * A function is recognized by the errors that it reports. Each report is a call of ERR_put_error(library, 0, reason,
 * file, line) with constants. Libraries and reasons are numbers of BoringSSL's interface, which new versions do not
 * change, and the file is a source of BoringSSL. Of functions with equal reports, their calls of each other decide. */
#pragma once

#include "resolve/elf/elf.h"

#include <stdint.h>

struct boringssl_functions { /* virtual addresses */
    uint64_t read, write;    /* SSL_read(ssl, buffer, size) and SSL_write, which return how many bytes they took */
    uint64_t new_object;     /* SSL_new(context), which returns an object */
    uint64_t bio_write;      /* BIO_write(bio, data, size) */
};

/* -ENOENT: the file does not contain BoringSSL. -ENOTUNIQ: it does, but for one of the functions there is no candidate,
 * or several. -ENOMEM; -ETIMEDOUT (elf_error): the file cannot be read at present. Reads at most 32 MiB of constants,
 * and 32 MiB of code where these name BoringSSL's sources. */
int boringssl_find(const struct elf_file *f, struct boringssl_functions *ret);
