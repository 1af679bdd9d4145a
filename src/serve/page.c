/* The page: its listening sockets, and what its replies share; see page.h. */
#include "serve/page.h"

#include "base/address.h"
#include "base/clock.h"
#include "base/host_name.h"
#include "base/log.h"
#include "serve/access.h"
#include "serve/certificate.h"
#include "serve/door.h"
#include "serve/http_daemon.h"
#include "serve/local_socket.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#define READERS_PER_ORIGIN 16
#define ANSWERS_BYTES      ((uint64_t)16 << 20)
#define SECOND_NS          1000000000ull
#define SLOW_NS            (10 * SECOND_NS)
#define FREE_NS            SECOND_NS
#define REQUEST_NS         (30 * SECOND_NS)
#define REPLY_NS           (60 * SECOND_NS)

struct page {
    struct door *network, *local; /* NULL: none */
    struct local_socket socket;   /* of `local` */
    struct routes *routes;
    struct readers *readers;
    struct access *access;          /* of `network`; so are the following */
    struct certificate certificate; /* as it was read, without its texts */
    char *tls_certificate, *tls_key;
    struct host_policy hosts;
    char node_name[HOST_NAME_MAX_BYTES];
    char *allowed_hosts;
};

static int log_no_library(const char *where)
{
    log_error(
        "cannot listen on %s without libmicrohttpd.so.12: install the package libmicrohttpd12 (libmicrohttpd where packages are RPMs)",
        where);
    return -ENOPKG;
}

static int copy_path(const char *path, char **ret)
{
    *ret = path ? strdup(path) : NULL;
    return path && !*ret ? -ENOMEM : 0;
}

static struct certificate_files certificate_files(const char *certificate, const char *key)
{
    return (struct certificate_files){
        .chain_setting = "page.tls_certificate", .key_setting = "page.tls_key", .chain = certificate, .key = key};
}

static int read_certificate(const struct page_access *access, struct certificate *ret)
{
    const struct certificate_files files = certificate_files(access->tls_certificate, access->tls_key);
    return certificate_read(&files, ret);
}

int page_check_access(const struct page_access *access)
{
    _cleanup_(access_freep) struct access *tokens = NULL;
    _cleanup_(certificate_clear) struct certificate certificate = {0};
    const int r = access_new("page.token_file", access->token_file, clock_monotonic_ns, &tokens)
                      ?: read_certificate(access, &certificate) ?: http_daemon_check(&certificate);
    return r == -ENOPKG ? 0 : r;
}

/* Keeps the paths and the versions of the files, to notice changes, but not their texts. */
static int keep_certificate(struct page *p, const struct certificate *c)
{
    _cleanup_free_ char *certificate = NULL, *key = NULL;
    const int r = copy_path(c->files.chain, &certificate) ?: copy_path(c->files.key, &key);
    if (r < 0)
        return r;
    free(p->tls_certificate);
    free(p->tls_key);
    p->tls_certificate = take_ptr(certificate);
    p->tls_key = take_ptr(key);
    p->certificate = (struct certificate){
        .files = certificate_files(p->tls_certificate, p->tls_key),
        .chain_watch = c->chain_watch,
        .key_watch = c->key_watch,
    };
    return 0;
}

static int open_network(struct page *p, const char *listen_address, const struct page_access *access)
{
    union address address;
    socklen_t size;
    _cleanup_close_ int fd = -1;
    int r = address_parse(listen_address, &address, &size);
    if (r < 0) {
        log_error("page.listen: '%s' is not ADDRESS:PORT, such as 127.0.0.1:7070: %s", listen_address, strerror(-r));
        return r;
    }
    r = address_listen(&address, size, &fd);
    if (r < 0)
        return log_errno(r, "cannot listen on %s (set another address with page.listen)", listen_address);
    p->hosts = (struct host_policy){
        .port = ntohs(address.any.sa_family == AF_INET6 ? address.v6.sin6_port : address.v4.sin_port),
        .is_encrypted = access->tls_certificate != NULL,
        .loopback_only = address_is_loopback(&address),
        .node_name = p->node_name[0] ? p->node_name : NULL,
        .allowed = p->allowed_hosts,
    };
    _cleanup_(certificate_clear) struct certificate certificate = {0};
    r = read_certificate(access, &certificate) ?: keep_certificate(p, &certificate);
    if (r < 0)
        return r;
    const struct door_options door = {.fd = fd,
                                      .former_max_ns = REPLY_NS,
                                      .routes = p->routes,
                                      .readers = p->readers,
                                      .hosts = &p->hosts,
                                      .access = p->access};
    r = door_new(&door, &certificate, &p->network);
    if (r == -ENOPKG)
        return log_no_library(listen_address);
    if (r < 0)
        return r == -EKEYREJECTED ? r : log_errno(r, "cannot serve %s", listen_address);
    take_fd(&fd);
    return 0;
}

/* Where the socket is in no one else's way but cannot be made, the network address is enough. */
static int open_local(struct page *p, const struct local_socket_options *options)
{
    char why[LOCAL_SOCKET_WHY_BYTES];
    int r = local_socket_open(options, &p->socket, why);
    if (r < 0 && r != -EADDRINUSE && !options->group && p->network) {
        log_warning("page.socket: %s is not served: %s", options->path, why);
        return 0;
    }
    if (r < 0) {
        log_error("page.socket: %s: %s (set another path with page.socket, or none)", options->path, why);
        return r;
    }
    _cleanup_close_ int fd = p->socket.fd;
    const struct door_options door = {.fd = fd, .routes = p->routes, .readers = p->readers};
    r = door_new(&door, NULL, &p->local);
    if (r == 0)
        take_fd(&fd);
    else
        local_socket_remove(&p->socket);
    return r == -ENOPKG ? log_no_library(options->path) : r < 0 ? log_errno(r, "cannot serve %s", options->path) : 0;
}

int page_start(const struct page_options *options, const struct page_data *data, struct page **ret)
{
    _cleanup_(page_freep) struct page *p = calloc(1, sizeof(*p));
    if (!p)
        return -ENOMEM;
    const struct readers_options readers = {.max = DOOR_READERS_MAX,
                                            .per_origin = READERS_PER_ORIGIN,
                                            .answers_max_bytes = ANSWERS_BYTES,
                                            .request_ns = options->request_ns ?: REQUEST_NS,
                                            .reply_ns = options->reply_ns ?: REPLY_NS,
                                            .slow_ns = SLOW_NS,
                                            .free_ns = FREE_NS,
                                            .now_ns = clock_monotonic_ns,
                                            .hold = data->hold,
                                            .ended = data->connection_ended,
                                            .context = data->context};
    int r = readers_new(&readers, &p->readers);
    if (r < 0)
        return r;
    r = routes_new(data, p->readers, options->without_ui, &p->routes);
    if (r < 0)
        return r;
    if (options->allowed_hosts && !(p->allowed_hosts = strdup(options->allowed_hosts)))
        return -ENOMEM;
    if (gethostname(p->node_name, sizeof(p->node_name) - 1) < 0)
        p->node_name[0] = '\0';
    if (options->listen)
        r = access_new("page.token_file", options->access.token_file, clock_monotonic_ns, &p->access)
                ?: open_network(p, options->listen, &options->access);
    if (r == 0 && options->socket.path)
        r = open_local(p, &options->socket);
    if (r < 0)
        return r;
    *ret = take_ptr(p);
    return 0;
}

static int reload_certificate(struct page *p, const struct page_access *access)
{
    _cleanup_(certificate_clear) struct certificate certificate = {0};
    return read_certificate(access, &certificate)
               ?: door_renew(p->network, &certificate)
               ?: keep_certificate(p, &certificate);
}

int page_reload(struct page *p, const struct page_access *access)
{
    if (!p->access)
        return 0;
    const int r = p->hosts.is_encrypted ? reload_certificate(p, access) : 0;
    return r < 0 ? r : access_reload(p->access, access->token_file);
}

static void reload_changed_certificate(struct page *p)
{
    const struct page_access access = {.tls_certificate = p->tls_certificate, .tls_key = p->tls_key};
    if (!certificate_has_changed(&p->certificate))
        return;
    if (reload_certificate(p, &access) == 0)
        log_info("page.tls_certificate: %s is read again", p->tls_certificate);
    else
        log_warning("page.tls_certificate: the certificate that was read before stays in use");
}

void page_tick(struct page *p)
{
    readers_tick(p->readers);
    if (p->access)
        access_tick(p->access);
    if (p->hosts.is_encrypted)
        reload_changed_certificate(p);
    if (p->network)
        door_tick(p->network);
}

uint16_t page_port(const struct page *p)
{
    return p->hosts.port;
}

bool page_is_encrypted(const struct page *p)
{
    return p->hosts.is_encrypted;
}

bool page_is_local(const struct page *p)
{
    return !p->network || p->hosts.loopback_only;
}

const char *page_socket(const struct page *p)
{
    return p->local ? p->socket.path : NULL;
}

void page_free(struct page *p)
{
    if (!p)
        return;
    if (p->local)
        local_socket_remove(&p->socket); /* first, so that no client waits for a server that ends */
    door_free(p->local);
    door_free(p->network);
    routes_free(p->routes);
    access_free(p->access);
    readers_free(p->readers);
    free(p->tls_certificate);
    free(p->tls_key);
    free(p->allowed_hosts);
    free(p);
}
