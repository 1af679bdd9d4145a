/* libmicrohttpd's threads and their certificate; see http_daemon.h. */
#include "serve/http_daemon.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/signal_mask.h"
#include "serve/http.h"
#include "serve/tls_priorities.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#define STACK_BYTES ((size_t)512 << 10)

struct http_daemon {
    struct http_daemon_options o;
    struct MHD_Daemon *daemon;
    struct MHD_Daemon *former; /* does not accept connections any more; NULL: none */
    int former_fd;             /* the same listening socket, to be closed with it */
    uint64_t former_ns;        /* since when */
};

static struct MHD_Daemon *start_daemon(const struct http_daemon_options *o, int fd,
                                       const struct certificate *certificate)
{
    const bool is_encrypted = certificate && certificate->chain;
    const struct MHD_OptionItem tls[] = {
        {is_encrypted ? MHD_OPTION_HTTPS_MEM_CERT : MHD_OPTION_END, 0, is_encrypted ? certificate->chain : NULL},
        {MHD_OPTION_HTTPS_MEM_KEY, 0, is_encrypted ? certificate->key : NULL},
        {MHD_OPTION_HTTPS_PRIORITIES, 0, (void *)TLS_PRIORITIES},
        {MHD_OPTION_END, 0, NULL},
    };
    sigset_t before;
    signal_mask_block(&before);
    struct MHD_Daemon *daemon = MHD_start_daemon(
        MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_THREAD_PER_CONNECTION | MHD_USE_POLL | MHD_USE_ITC |
            MHD_USE_ERROR_LOG | (is_encrypted ? (unsigned)MHD_USE_TLS : 0),
        0, NULL, NULL, o->handle, o->context, MHD_OPTION_EXTERNAL_LOGGER, http_log_from_library, (void *)o->name,
        MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_CONNECTION_LIMIT, o->connections_max, MHD_OPTION_CONNECTION_TIMEOUT,
        o->timeout_s, MHD_OPTION_CONNECTION_MEMORY_LIMIT, o->connection_bytes, MHD_OPTION_THREAD_STACK_SIZE,
        STACK_BYTES, MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_ARRAY, o->more, MHD_OPTION_ARRAY, tls, MHD_OPTION_END);
    signal_mask_restore(&before);
    return daemon;
}

static int try_start(const struct http_daemon_options *o, int fd, const struct certificate *certificate,
                     struct MHD_Daemon **ret)
{
    errno = 0;
    struct MHD_Daemon *daemon = start_daemon(o, fd, certificate);
    if (daemon) {
        *ret = daemon;
        return 0;
    }
    if (errno == ENOPKG)
        return -ENOPKG;
    if (!certificate || !certificate->chain)
        return -EAGAIN;
    if (MHD_is_feature_supported(MHD_FEATURE_TLS) == MHD_YES)
        certificate_log_unusable(certificate);
    else
        log_error("%s and %s cannot be used: this libmicrohttpd has no TLS", certificate->files.chain_setting,
                  certificate->files.key_setting);
    return -EKEYREJECTED;
}

int http_daemon_new(const struct http_daemon_options *options, const struct certificate *certificate,
                    struct http_daemon **ret)
{
    _cleanup_free_ struct http_daemon *d = calloc(1, sizeof(*d));
    if (!d)
        return -ENOMEM;
    d->o = *options;
    const int r = try_start(&d->o, d->o.fd, certificate, &d->daemon);
    if (r < 0)
        return r;
    *ret = take_ptr(d);
    return 0;
}

static enum MHD_Result refuse_all(void *context, struct MHD_Connection *connection, const char *url, const char *method,
                                  const char *version, const char *upload, size_t *upload_size, void **request)
{
    (void)context, (void)connection, (void)url, (void)method, (void)version, (void)upload, (void)upload_size;
    (void)request;
    return MHD_NO;
}

/* The daemon listens on a Unix socket without a name, which no program can reach. */
int http_daemon_check(const struct certificate *certificate)
{
    const struct sockaddr unnamed = {.sa_family = AF_UNIX};
    const struct MHD_OptionItem none = {MHD_OPTION_END, 0, NULL};
    struct http_daemon *d;
    if (!certificate->chain)
        return 0;
    _cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, &unnamed, sizeof(unnamed.sa_family)) < 0 || listen(fd, 1) < 0)
        return -errno;
    const struct http_daemon_options options = {.fd = fd,
                                                .name = "check",
                                                .connections_max = 1,
                                                .timeout_s = 1,
                                                .connection_bytes = 4096,
                                                .handle = refuse_all,
                                                .more = &none};
    const int r = http_daemon_new(&options, certificate, &d);
    if (r < 0)
        return r;
    take_fd(&fd);
    http_daemon_free(d);
    return 0;
}

static void stop_former(struct http_daemon *d)
{
    if (!d->former)
        return;
    MHD_stop_daemon(d->former);
    close(d->former_fd); /* not earlier: the thread that accepts may still wait on it */
    d->former = NULL;
}

int http_daemon_renew(struct http_daemon *d, const struct certificate *certificate)
{
    struct MHD_Daemon *next;
    _cleanup_close_ int fd = fcntl(d->o.fd, F_DUPFD_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    const int r = try_start(&d->o, fd, certificate, &next);
    if (r < 0)
        return r;
    stop_former(d);
    d->former_fd = MHD_quiesce_daemon(d->daemon);
    d->former = d->daemon;
    d->former_ns = clock_monotonic_ns();
    d->daemon = next;
    d->o.fd = take_fd(&fd);
    return 0;
}

void http_daemon_tick(struct http_daemon *d)
{
    if (d->former && (MHD_get_daemon_info(d->former, MHD_DAEMON_INFO_CURRENT_CONNECTIONS)->num_connections == 0 ||
                      clock_monotonic_ns() - d->former_ns > d->o.former_max_ns))
        stop_former(d);
}

void http_daemon_free(struct http_daemon *d)
{
    if (!d)
        return;
    stop_former(d);
    MHD_stop_daemon(d->daemon);
    free(d);
}
