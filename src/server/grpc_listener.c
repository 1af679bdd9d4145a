/* The connections of gRPC; see grpc_listener.h. */
#include "server/grpc_listener.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/signal_mask.h"
#include "serve/origin.h"
#include "server/bound_address.h"
#include "server/grpc_workers.h"
#include "server/tls.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <utlist.h>

#define CONNECTIONS_MAX  512
#define CLIENT_MAX       128                /* connections of one address, if others than this machine can connect */
#define BODIES_MAX_BYTES ((size_t)64 << 20) /* of all requests */
#define READ_BYTES       ((size_t)64 << 10)
#define OUTPUT_BYTES     ((size_t)64 << 10) /* of one connection; it is not read while so much waits to be sent */
#define TICK_NS          1000000000ull
#define EVENTS           64

/* A connection and its socket. */
struct peer {
    int fd;
    struct tls_session *tls; /* NULL: none */
    uint32_t events;         /* that the thread waits for */
    uint64_t origin, heard_ns;
    struct grpc_connection *connection;
    struct buf output;
    size_t sent;         /* of `output` */
    uint64_t flowing_ns; /* when `output` was last empty, or bytes of it were sent */
    struct peer *prev, *next;
};

struct grpc_listener {
    struct grpc_listener_options o;
    struct bound_address bound;
    int epoll, event; /* the event: a call is answered, or the listener ends */
    struct grpc_workers *workers;
    pthread_t thread;
    atomic_bool ends;
    pthread_mutex_t lock;
    struct tls_identity *identity; /* under the lock; NULL: no TLS */
    /* Of the thread: */
    struct body_memory *memory;
    struct peer *peers;
    unsigned count;
    uint64_t ticked_ns;
    bool is_paused; /* no connections are accepted until the next tick */
    char bytes[READ_BYTES];
};

static enum grpc_status admit(void *context, const char *authorization, const struct sockaddr *address,
                              struct access_client *ret_client)
{
    const struct grpc_listener *l = context;
    *ret_client = access_client_without_token(address);
    if (l->o.access && !access_allows(l->o.access, TOKEN_WRITE, authorization, address, ret_client))
        return GRPC_UNAUTHENTICATED;
    return rate_limit_allows(l->o.rate_limit, ret_client->number) ? GRPC_OK : GRPC_RESOURCE_EXHAUSTED;
}

static bool take_call(void *context, struct grpc_call *call)
{
    struct grpc_listener *l = context;
    return !atomic_load(&l->ends) && grpc_workers_give(l->workers, call);
}

/* ---- connections ---- */

static void peer_free(struct grpc_listener *l, struct peer *p)
{
    DL_DELETE(l->peers, p);
    l->count--;
    grpc_connection_free(p->connection);
    buf_clear(&p->output);
    tls_session_free(p->tls);
    /* A child that engine.c is forking has copies of the descriptor until it executes: closing alone would leave the
     * events of a peer that is freed. */
    if (p->events)
        epoll_ctl(l->epoll, EPOLL_CTL_DEL, p->fd, NULL);
    closep(&p->fd);
    free(p);
}

/* The number of bytes, 0 at the end, or -errno. */
static ssize_t read_bytes(struct peer *p, void *data, size_t size)
{
    if (p->tls)
        return tls_session_read(p->tls, data, size);
    const ssize_t n = recv(p->fd, data, size, MSG_DONTWAIT);
    return n < 0 ? -errno : n;
}

static ssize_t write_bytes(struct peer *p, const void *data, size_t size)
{
    if (p->tls)
        return tls_session_write(p->tls, data, size);
    const ssize_t n = send(p->fd, data, size, MSG_NOSIGNAL | MSG_DONTWAIT);
    return n < 0 ? -errno : n;
}

static bool is_temporary(ssize_t error)
{
    return error == -EAGAIN || error == -EINTR;
}

static bool wait_for_events(struct grpc_listener *l, struct peer *p, uint32_t events)
{
    struct epoll_event e = {.events = events, .data.ptr = p};
    if (events == p->events)
        return true;
    const bool is_new = !p->events;
    p->events = events;
    return epoll_ctl(l->epoll, is_new ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, p->fd, &e) == 0;
}

/* Sends what there is, and chooses the events to wait for. False: the connection has ended. */
static bool send_output(struct grpc_listener *l, struct peer *p)
{
    ssize_t n = 1;
    while (n > 0) {
        if (p->sent == p->output.size) {
            p->output.size = p->sent = 0;
            if (grpc_connection_put_output(p->connection, &p->output, OUTPUT_BYTES) < 0)
                return false;
            if (!p->output.size)
                break;
        }
        n = write_bytes(p, p->output.data + p->sent, p->output.size - p->sent);
        if (n > 0) {
            p->sent += (size_t)n;
            p->flowing_ns = clock_monotonic_ns();
        }
    }
    if (n < 0 && !is_temporary(n))
        return false;
    const bool is_waiting = p->sent < p->output.size,
               waits_to_write = is_waiting && (!p->tls || tls_session_waits_to_write(p->tls));
    if (!is_waiting)
        p->flowing_ns = clock_monotonic_ns();
    return wait_for_events(l, p, waits_to_write ? EPOLLOUT : EPOLLIN) &&
           (is_waiting || !grpc_connection_is_ended(p->connection));
}

/* False: it has ended. */
static bool read_input(struct grpc_listener *l, struct peer *p)
{
    do {
        const ssize_t n = read_bytes(p, l->bytes, sizeof(l->bytes));
        if (n < 0)
            return is_temporary(n);
        p->heard_ns = clock_monotonic_ns();
        if (n == 0 || grpc_connection_receive(p->connection, l->bytes, (size_t)n, p->heard_ns) < 0)
            return false;
    } while (p->tls && tls_session_has_bytes(p->tls));
    return true;
}

/* Closes the connection that has had no call for the longest time. False: all have calls. */
static bool make_space(struct grpc_listener *l)
{
    struct peer *p, *oldest = NULL;
    DL_FOREACH(l->peers, p)
    if (!grpc_connection_has_calls(p->connection) && (!oldest || p->heard_ns < oldest->heard_ns))
        oldest = p;
    if (oldest)
        peer_free(l, oldest);
    return oldest;
}

/* Whether `a` is closed rather than `b`: it has no call, or has been silent for longer. */
static bool gives_way(const struct peer *a, const struct peer *b)
{
    const bool a_has_calls = grpc_connection_has_calls(a->connection),
               b_has_calls = grpc_connection_has_calls(b->connection);
    return a_has_calls != b_has_calls ? b_has_calls : a->heard_ns < b->heard_ns;
}

/* A client with CLIENT_MAX connections that opens another one loses one of its own. */
static void limit_client(struct grpc_listener *l, uint64_t origin)
{
    unsigned of_client = 0;
    struct peer *p, *closed = NULL;
    DL_FOREACH(l->peers, p)
    {
        if (p->origin != origin)
            continue;
        of_client++;
        if (!closed || gives_way(p, closed))
            closed = p;
    }
    if (!l->bound.is_local && of_client >= CLIENT_MAX)
        peer_free(l, closed);
}

static bool is_welcome(struct grpc_listener *l, uint64_t origin)
{
    limit_client(l, origin);
    return l->count < CONNECTIONS_MAX || make_space(l);
}

static int open_tls(struct grpc_listener *l, int fd, struct tls_session **ret)
{
    pthread_mutex_lock(&l->lock);
    const int r = l->identity ? tls_session_new(l->identity, fd, "h2", ret) : 0;
    pthread_mutex_unlock(&l->lock);
    return r;
}

/* Takes the descriptor. */
static void add_peer(struct grpc_listener *l, int fd, const union address *client)
{
    const struct grpc_connection_options options = {.client = *client,
                                                    .message_max_bytes = l->o.message_max_bytes,
                                                    .memory = l->memory,
                                                    .admit = admit,
                                                    .take = take_call,
                                                    .context = l};
    struct peer *p = calloc(1, sizeof(*p));
    if (!p || open_tls(l, fd, &p->tls) < 0 || grpc_connection_new(&options, &p->connection) < 0) {
        tls_session_free(p ? p->tls : NULL);
        free(p);
        close(fd);
        return;
    }
    p->fd = fd;
    p->origin = origin_of_address(&client->any);
    p->heard_ns = p->flowing_ns = clock_monotonic_ns();
    DL_APPEND(l->peers, p);
    l->count++;
    if (!send_output(l, p))
        peer_free(l, p);
}

static void pause_accepting(struct grpc_listener *l, bool is_paused)
{
    struct epoll_event e = {.events = is_paused ? 0 : EPOLLIN, .data.ptr = &l->bound};
    if (l->is_paused != is_paused && epoll_ctl(l->epoll, EPOLL_CTL_MOD, l->bound.fd, &e) == 0)
        l->is_paused = is_paused;
}

static void accept_connection(struct grpc_listener *l)
{
    union address client = {0};
    socklen_t size = sizeof(client);
    const int yes = 1;
    _cleanup_close_ int fd = accept4(l->bound.fd, &client.any, &size, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0 && (errno == EMFILE || errno == ENFILE)) {
        make_space(l);
        pause_accepting(l, true); /* the connection keeps waiting, so that epoll_wait would return at once */
    }
    if (fd < 0 || !is_welcome(l, origin_of_address(&client.any)))
        return;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &yes, sizeof(yes));
    add_peer(l, take_fd(&fd), &client);
}

/* ---- the thread ---- */

static void finish_calls(struct grpc_listener *l)
{
    struct grpc_call *call = grpc_workers_take_answered(l->workers);
    for (struct grpc_call *next; call; call = next) {
        next = call->next;
        grpc_call_finish(call, clock_monotonic_ns());
    }
}

static void send_to_all(struct grpc_listener *l)
{
    struct peer *p, *next;
    DL_FOREACH_SAFE(l->peers, p, next)
    if (!send_output(l, p))
        peer_free(l, p);
}

/* Closes the connections of clients that do not read: their output waits, so that they are not read either. */
static void close_stuck(struct grpc_listener *l, uint64_t now_ns)
{
    struct peer *p, *next;
    DL_FOREACH_SAFE(l->peers, p, next)
    if (p->sent < p->output.size && now_ns > p->flowing_ns && now_ns - p->flowing_ns >= GRPC_CALL_NS)
        peer_free(l, p);
}

static void tick(struct grpc_listener *l)
{
    const uint64_t now_ns = clock_monotonic_ns();
    struct peer *p;
    if (now_ns - l->ticked_ns < TICK_NS)
        return;
    l->ticked_ns = now_ns;
    pause_accepting(l, false);
    DL_FOREACH(l->peers, p)
    grpc_connection_tick(p->connection, now_ns);
    send_to_all(l);
    close_stuck(l, now_ns);
}

static void serve_event(struct grpc_listener *l, const struct epoll_event *e)
{
    struct peer *p = e->data.ptr;
    if ((e->events & ~(uint32_t)EPOLLOUT && !read_input(l, p)) || !send_output(l, p))
        peer_free(l, p);
}

/* Connections that have events are served first: the rest may close any of them. */
static void serve_events(struct grpc_listener *l, const struct epoll_event *events, int count)
{
    bool is_answered = false, is_called = false;
    for (int i = 0; i < count; i++) {
        if (events[i].data.ptr == &l->event)
            is_answered = true;
        else if (events[i].data.ptr == &l->bound)
            is_called = true;
        else
            serve_event(l, &events[i]);
    }
    if (is_answered) {
        eventfd_t ignored;
        eventfd_read(l->event, &ignored);
        finish_calls(l);
        send_to_all(l);
    }
    if (is_called)
        accept_connection(l);
    tick(l);
}

static void end_connections(struct grpc_listener *l)
{
    struct peer *p, *next;
    DL_FOREACH_SAFE(l->peers, p, next)
    {
        grpc_connection_end(p->connection);
        send_output(l, p);
        peer_free(l, p);
    }
}

static void *serve(void *context)
{
    struct grpc_listener *l = context;
    struct epoll_event events[EVENTS];
    while (!atomic_load(&l->ends) || grpc_workers_count(l->workers)) {
        const int count = epoll_wait(l->epoll, events, EVENTS, TICK_NS / 1000000);
        serve_events(l, events, count);
    }
    end_connections(l);
    return NULL;
}

/* ---- start and end ---- */

static int open_events(struct grpc_listener *l)
{
    struct epoll_event calls = {.events = EPOLLIN, .data.ptr = &l->bound},
                       answers = {.events = EPOLLIN, .data.ptr = &l->event};
    l->epoll = epoll_create1(EPOLL_CLOEXEC);
    l->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return l->epoll < 0 || l->event < 0 || epoll_ctl(l->epoll, EPOLL_CTL_ADD, l->bound.fd, &calls) < 0 ||
                   epoll_ctl(l->epoll, EPOLL_CTL_ADD, l->event, &answers) < 0
               ? -errno
               : 0;
}

int grpc_listener_start(const struct grpc_listener_options *options, struct grpc_listener **ret)
{
    _cleanup_(grpc_listener_freep) struct grpc_listener *l = calloc(1, sizeof(*l));
    if (!l)
        return -ENOMEM;
    l->o = *options;
    pthread_mutex_init(&l->lock, NULL);
    l->bound.fd = l->epoll = l->event = -1;
    int r = bound_address_open(options->option, options->address, options->access, &l->bound);
    if (r < 0)
        return r;
    if (options->certificate && options->certificate->chain)
        r = tls_identity_new(options->certificate, &l->identity);
    if (r < 0)
        return r;
    r = body_memory_new(BODIES_MAX_BYTES, &l->memory) ?: open_events(l);
    r = r < 0 ? r : grpc_workers_start(options->answer, options->context, l->event, &l->workers);
    r = r < 0 ? r : signal_mask_create_thread(&l->thread, serve, l);
    if (r < 0) {
        grpc_workers_free(take_ptr(l->workers));
        return log_errno(r, "cannot serve %s", options->address);
    }
    *ret = take_ptr(l);
    return 0;
}

void grpc_listener_free(struct grpc_listener *l)
{
    if (!l)
        return;
    if (l->workers) {
        atomic_store(&l->ends, true);
        eventfd_write(l->event, 1);
        pthread_join(l->thread, NULL);
        grpc_workers_free(l->workers);
    }
    tls_identity_unref(l->identity);
    body_memory_free(l->memory);
    pthread_mutex_destroy(&l->lock);
    closep(&l->bound.fd);
    closep(&l->epoll);
    closep(&l->event);
    free(l);
}

int grpc_listener_renew(struct grpc_listener *l, const struct certificate *certificate)
{
    struct tls_identity *next = NULL;
    if (!certificate->chain)
        return 0;
    const int r = tls_identity_new(certificate, &next);
    if (r < 0)
        return r;
    pthread_mutex_lock(&l->lock);
    struct tls_identity *before = l->identity;
    l->identity = next;
    pthread_mutex_unlock(&l->lock);
    tls_identity_unref(before);
    return 0;
}

uint16_t grpc_listener_port(const struct grpc_listener *l)
{
    return l->bound.port;
}
