/* The server's side of TLS over a socket that does not block, by GnuTLS, which is loaded when it is first needed. The
 * certificate can be exchanged: sessions keep theirs. */
#pragma once

#include "base/cleanup.h"
#include "serve/certificate.h"

#include <stdbool.h>
#include <sys/types.h>

struct tls_identity;

/* A certificate and its key, which sessions share. Its texts are not used afterwards. 0, -EKEYREJECTED or -ENOPKG after
 * the reason was logged, or -ENOMEM. */
int tls_identity_new(const struct certificate *certificate, struct tls_identity **ret);
/* Thread-safe. */
struct tls_identity *tls_identity_ref(struct tls_identity *identity);
void tls_identity_unref(struct tls_identity *identity);

struct tls_session;

/* A session over a connected socket, which stays the caller's. `protocol`: of ALPN, that the client has to offer. 0 or
 * -ENOMEM. */
int tls_session_new(struct tls_identity *identity, int fd, const char *protocol, struct tls_session **ret);
void tls_session_free(struct tls_session *s);
DEFINE_FREEP(tls_session)

/* As recv and send, and the handshake before them: the number of bytes, 0 at the end, -EAGAIN, or -EPROTO. A write that
 * gave -EAGAIN has to be repeated with the same bytes. */
ssize_t tls_session_read(struct tls_session *s, void *data, size_t size);
ssize_t tls_session_write(struct tls_session *s, const void *data, size_t size);
/* After -EAGAIN: whether the session waits until it can write, and not until it can read. */
bool tls_session_waits_to_write(const struct tls_session *s);
/* Whether there are bytes to read that have already left the socket. */
bool tls_session_has_bytes(const struct tls_session *s);
