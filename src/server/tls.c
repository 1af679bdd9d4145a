/* TLS by GnuTLS; see tls.h. */
#include "server/tls.h"

#include "base/log.h"
#include "serve/tls_priorities.h"

#include <dlfcn.h>
#include <errno.h>
#include <gnutls/gnutls.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#define NAME "libgnutls.so.30"

/* Linking GnuTLS would load it on every start of the program: see serve/microhttpd_library.c. */
#define FUNCTIONS(each)                                                                                                \
    each(gnutls_alpn_get_selected_protocol) each(gnutls_alpn_set_protocols)                                            \
        each(gnutls_certificate_allocate_credentials) each(gnutls_certificate_free_credentials)                        \
            each(gnutls_certificate_set_x509_key_mem) each(gnutls_credentials_set) each(gnutls_deinit)                 \
                each(gnutls_error_is_fatal) each(gnutls_handshake) each(gnutls_init) each(gnutls_priority_deinit)      \
                    each(gnutls_priority_init) each(gnutls_priority_set) each(gnutls_record_check_pending)             \
                        each(gnutls_record_get_direction) each(gnutls_record_recv) each(gnutls_record_send)            \
                            each(gnutls_transport_set_int2)

static struct {
#define MEMBER(name) __typeof__(&name) name;
    FUNCTIONS(MEMBER)
} library;
static bool is_loaded;

static void load_library(void)
{
    void *handle = dlopen(NAME, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    is_loaded = handle;
#define FIND(name) is_loaded = is_loaded && (*(void **)&library.name = dlsym(handle, #name)) != NULL;
    FUNCTIONS(FIND)
}

struct tls_identity {
    atomic_uint references;
    gnutls_certificate_credentials_t credentials;
    gnutls_priority_t priorities;
};

struct tls_session {
    struct tls_identity *identity;
    gnutls_session_t session;
    bool is_open; /* the handshake is over */
};

/* ---- certificates ---- */

static int use_certificate(struct tls_identity *identity, const struct certificate *c)
{
    const gnutls_datum_t chain = {(unsigned char *)c->chain, (unsigned)strlen(c->chain)},
                         key = {(unsigned char *)c->key, (unsigned)strlen(c->key)};
    if (library.gnutls_certificate_allocate_credentials(&identity->credentials) < 0 ||
        library.gnutls_priority_init(&identity->priorities, TLS_PRIORITIES, NULL) < 0)
        return -ENOMEM;
    return library.gnutls_certificate_set_x509_key_mem(identity->credentials, &chain, &key, GNUTLS_X509_FMT_PEM) < 0
               ? -EKEYREJECTED
               : 0;
}

int tls_identity_new(const struct certificate *certificate, struct tls_identity **ret)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, load_library);
    if (!is_loaded) {
        log_error("%s needs " NAME ": install the package libgnutls30", certificate->files.chain_setting);
        return -ENOPKG;
    }
    struct tls_identity *identity = calloc(1, sizeof(*identity));
    if (!identity)
        return -ENOMEM;
    atomic_init(&identity->references, 1);
    const int r = use_certificate(identity, certificate);
    if (r == -EKEYREJECTED)
        certificate_log_unusable(certificate);
    if (r < 0)
        tls_identity_unref(identity);
    else
        *ret = identity;
    return r;
}

struct tls_identity *tls_identity_ref(struct tls_identity *identity)
{
    atomic_fetch_add(&identity->references, 1);
    return identity;
}

void tls_identity_unref(struct tls_identity *identity)
{
    if (!identity || atomic_fetch_sub(&identity->references, 1) > 1)
        return;
    if (identity->credentials)
        library.gnutls_certificate_free_credentials(identity->credentials);
    if (identity->priorities)
        library.gnutls_priority_deinit(identity->priorities);
    free(identity);
}

/* ---- sessions ---- */

int tls_session_new(struct tls_identity *identity, int fd, const char *protocol, struct tls_session **ret)
{
    const gnutls_datum_t alpn = {(unsigned char *)protocol, (unsigned)strlen(protocol)};
    _cleanup_(tls_session_freep) struct tls_session *s = calloc(1, sizeof(*s));
    if (!s)
        return -ENOMEM;
    s->identity = tls_identity_ref(identity);
    if (library.gnutls_init(&s->session, GNUTLS_SERVER | GNUTLS_NONBLOCK | GNUTLS_NO_SIGNAL) < 0 ||
        library.gnutls_priority_set(s->session, identity->priorities) < 0 ||
        library.gnutls_credentials_set(s->session, GNUTLS_CRD_CERTIFICATE, identity->credentials) < 0 ||
        library.gnutls_alpn_set_protocols(s->session, &alpn, 1, GNUTLS_ALPN_MANDATORY) < 0)
        return -ENOMEM;
    library.gnutls_transport_set_int2(s->session, fd, fd);
    *ret = take_ptr(s);
    return 0;
}

void tls_session_free(struct tls_session *s)
{
    if (!s)
        return;
    if (s->session)
        library.gnutls_deinit(s->session);
    tls_identity_unref(s->identity);
    free(s);
}

static ssize_t error_of(ssize_t n)
{
    return n >= 0 ? n : library.gnutls_error_is_fatal((int)n) ? -EPROTO : -EAGAIN;
}

/* ALPN's protocol is mandatory only if the client offers any. */
static int finish_handshake(struct tls_session *s)
{
    gnutls_datum_t chosen;
    if (s->is_open)
        return 0;
    const int r = (int)error_of(library.gnutls_handshake(s->session));
    if (r < 0)
        return r;
    s->is_open = library.gnutls_alpn_get_selected_protocol(s->session, &chosen) == 0;
    return s->is_open ? 0 : -EPROTO;
}

ssize_t tls_session_read(struct tls_session *s, void *data, size_t size)
{
    const int r = finish_handshake(s);
    return r < 0 ? r : error_of(library.gnutls_record_recv(s->session, data, size));
}

ssize_t tls_session_write(struct tls_session *s, const void *data, size_t size)
{
    const int r = finish_handshake(s);
    return r < 0 ? r : error_of(library.gnutls_record_send(s->session, data, size));
}

bool tls_session_waits_to_write(const struct tls_session *s)
{
    return library.gnutls_record_get_direction(s->session) == 1;
}

bool tls_session_has_bytes(const struct tls_session *s)
{
    return s->is_open && library.gnutls_record_check_pending(s->session);
}
