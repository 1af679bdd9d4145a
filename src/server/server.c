/* The parts of the centre, in the order of their start; see server.h. */
#include "server/server.h"

#include "base/address.h"
#include "base/clock.h"
#include "base/helper_process.h"
#include "base/log.h"
#include "server/captures_http.h"
#include "server/centre_page.h"
#include "server/grpc_listener.h"
#include "server/listener.h"
#include "server/otlp_grpc.h"
#include "server/otlp_http.h"
#include "server/server_metrics.h"
#include "server/sign_in.h"
#include "server/sql.h"
#include "server/tenant.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#define OTLP_HEADER_BYTES ((size_t)64 << 10)
#define SQL_HEADER_BYTES  ((size_t)512 << 10) /* a query may be in the URL */
#define TENANT_HEADER     "X-Sonde-Tenant"
#define NOT_READY         "the data of this tenant is not ready: try again later"
#define TENANTS_RETRY_S   30

struct server {
    char directory[PATH_MAX];
    char token_file[PATH_MAX + 16], first_token_file[PATH_MAX + 16];
    int lock;
    struct tenant_options tenant_options;
    struct tenant *tenants[1 + TENANTS_MAX]; /* the default one first; none goes before the server */
    atomic_size_t tenant_count;              /* published after its tenant */
    unsigned tenants_retry_s;                /* until tenants whose start failed are started again; 0: none failed */
    struct access *access;                   /* NULL: no address needs tokens */
    char first_token[TOKEN_BYTES];
    struct certificate certificate; /* without its texts */
    struct rate_limit *senders, *askers, *sign_ins;
    struct sessions *sessions;
    struct sign_in sign_in;
    struct server_endpoint endpoints[SERVER_SERVICES];
    struct listener *otlp, *sql;
    struct grpc_listener *grpc;
};

/* ---- the directory ---- */

static int make_directory(const char *path)
{
    return mkdir(path, 0700) < 0 && errno != EEXIST ? log_errno(-errno, "cannot make the directory %s", path) : 0;
}

static int open_directory(struct server *s, const char *path)
{
    char lock[PATH_MAX + 16];
    int r = make_directory(path);
    if (r < 0)
        return r;
    if (!realpath(path, s->directory)) /* the engine needs an absolute path */
        return log_errno(-errno, "cannot use the directory %s", path);
    snprintf(lock, sizeof(lock), "%s/lock", s->directory);
    s->lock = open(lock, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (s->lock < 0)
        return log_errno(-errno, "cannot open %s", lock);
    if (flock(s->lock, LOCK_EX | LOCK_NB) == 0)
        return 0;
    log_error("another sonde server uses %s (--data chooses another directory)", s->directory);
    return -EBUSY;
}

static struct tenant_options tenant_options_of(const struct server *s, const struct server_options *o)
{
    return (struct tenant_options){.directory = s->directory,
                                   .library = o->library,
                                   .keep_days = o->keep_days,
                                   .spool_bytes = o->spool_bytes,
                                   .memory_bytes = o->memory_bytes};
}

/* ---- tenants ---- */

/* NULL: there is none of this name. */
static struct tenant *find_tenant(struct server *s, const char *name)
{
    const size_t count = atomic_load(&s->tenant_count);
    for (size_t i = 0; i < count; i++)
        if (strcmp(s->tenants[i]->name, name) == 0)
            return s->tenants[i];
    return NULL;
}

/* Of one thread. */
static int start_tenant(struct server *s, const char *name)
{
    const size_t count = atomic_load(&s->tenant_count);
    if (find_tenant(s, name))
        return 0;
    if (count == array_size(s->tenants)) {
        log_error("the tenant %s cannot be added before a restart: %d are possible", name, TENANTS_MAX);
        return -EUSERS;
    }
    const int r = tenant_open(&s->tenant_options, name, &s->tenants[count]);
    if (r == 0)
        atomic_store(&s->tenant_count, count + 1);
    return r;
}

/* The tenants that have tokens. 0, or the -errno of one; reasons were logged. */
static int start_tenants(struct server *s)
{
    char names[TENANTS_MAX][TENANT_BYTES];
    const size_t count = s->access ? access_tenants(s->access, names) : 0;
    int r = 0;
    for (size_t i = 0; i < count; i++)
        r = start_tenant(s, names[i]) ?: r;
    return r;
}

/* ---- rights ---- */

/* Writes a new file that only this user can read. -EEXIST is not logged. */
static int write_secret(const char *path, const char *text)
{
    _cleanup_close_ int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return errno == EEXIST ? -EEXIST : log_errno(-errno, "cannot make %s", path);
    if (dprintf(fd, "%s\n", text) >= 0)
        return 0;
    const int r = log_errno(-errno, "cannot write %s", path);
    unlink(path);
    return r;
}

/* A token that no user has seen is of no use: the next start makes the file, and another token, again. */
static void drop_first_token(struct server *s)
{
    if (!s->first_token[0])
        return;
    unlink(s->token_file);
    unlink(s->first_token_file);
    explicit_bzero(s->first_token, sizeof(s->first_token));
}

/* The file of tokens that is the server's own, with a first token if it has none yet. */
static int make_token_file(struct server *s, bool writes_first_token)
{
    char line[TOKEN_LINE_BYTES], text[TOKEN_LINE_BYTES + 32];
    snprintf(s->token_file, sizeof(s->token_file), "%s/tokens", s->directory);
    snprintf(s->first_token_file, sizeof(s->first_token_file), "%s/first-token", s->directory);
    int r = tokens_make(TOKEN_ADMIN, "", s->first_token, line);
    snprintf(text, sizeof(text), "%s made at the first start", line);
    r = r < 0 ? r : write_secret(s->token_file, text);
    if (r < 0) {
        explicit_bzero(s->first_token, sizeof(s->first_token));
        return r == -EEXIST ? 0 : r;
    }
    if (!writes_first_token)
        return 0;
    unlink(s->first_token_file); /* of a file of tokens that is gone */
    return write_secret(s->first_token_file, s->first_token);
}

static int open_access(struct server *s, const struct server_options *o)
{
    const char *path = o->token_file ? o->token_file : s->token_file;
    bool needs_tokens = false;
    for (size_t i = 0; i < SERVER_SERVICES; i++)
        needs_tokens |= s->endpoints[i].needs_token;
    if (!needs_tokens)
        return 0;
    const int r = o->token_file ? 0 : make_token_file(s, o->writes_first_token);
    return r < 0 ? r : access_new(o->token_file ? "--token-file" : "tokens", path, clock_monotonic_ns, &s->access);
}

/* Who may use an address, and how. An address that cannot be read is left to the listener's message. */
static void decide_rights(struct server *s, const struct server_options *o)
{
    const char *const addresses[SERVER_SERVICES] = {
        [SERVER_OTLP_GRPC] = o->grpc_address, [SERVER_OTLP_HTTP] = o->otlp_address, [SERVER_SQL] = o->sql_address};
    for (size_t i = 0; i < SERVER_SERVICES; i++) {
        union address address;
        socklen_t size;
        const bool is_open = address_parse(addresses[i], &address, &size) == 0 && !address_is_loopback(&address);
        s->endpoints[i] = (struct server_endpoint){.address = addresses[i],
                                                   .needs_token = is_open || o->token_file,
                                                   .is_encrypted = is_open && o->certificate.chain,
                                                   .is_local = !is_open};
    }
}

/* ---- start and end ---- */

static struct access *access_of(const struct server *s, enum server_service service)
{
    return s->endpoints[service].needs_token ? s->access : NULL;
}

static const struct certificate *certificate_of(const struct server *s, enum server_service service,
                                                const struct certificate *certificate)
{
    return s->endpoints[service].is_encrypted ? certificate : NULL;
}

static enum token_scope scope_of_asker(const char *path)
{
    return strcmp(path, CAPTURES_PATH) == 0 ? TOKEN_CAPTURE : TOKEN_READ;
}

static enum token_scope scope_of_sender(const char *path)
{
    return strcmp(path, OPAMP_PATH) == 0 ? TOKEN_AGENT : TOKEN_WRITE;
}

/* The tenant whose data a request is about: the client's, or what the header says, if the client may choose. Else NULL,
 * and a reply. */
static struct tenant *choose_tenant(struct server *s, const struct listener_request *request, enum MHD_Result *ret)
{
    const struct access_client *client = request->client;
    const char *name = http_header(request->connection, TENANT_HEADER);
    if (!name)
        name = client->tenant;
    const bool is_own = strcmp(name, client->tenant) == 0;
    struct tenant *tenant = is_own || client->has_all_tenants ? find_tenant(s, name) : NULL;
    if (tenant)
        return tenant;
    if (is_own) /* its token has just been read, or its start failed */
        *ret = http_reply_text(request->connection, MHD_HTTP_SERVICE_UNAVAILABLE, NOT_READY);
    else if (client->has_all_tenants)
        *ret = http_reply_text(request->connection, MHD_HTTP_NOT_FOUND, "there is no such tenant");
    else
        *ret = http_reply_text(request->connection, MHD_HTTP_FORBIDDEN,
                               TENANT_HEADER " is for clients with a token of the scope admin");
    return NULL;
}

static enum MHD_Result answer_sender(void *server, const struct listener_request *request)
{
    enum MHD_Result result;
    struct tenant *t = choose_tenant(server, request, &result);
    if (!t)
        return result;
    return strcmp(request->path, OPAMP_PATH) == 0 ? opamp_http_answer(&t->opamp, request)
                                                  : otlp_http_answer(&t->receiver, request);
}

static void answer_call(void *server, struct grpc_call *call)
{
    struct tenant *t = find_tenant(server, call->tenant);
    if (t)
        otlp_grpc_answer(&t->receiver, call);
    else
        call->reply =
            (struct grpc_reply){.status = GRPC_UNAVAILABLE, .text = NOT_READY, .retry_after_s = RECEIVER_RETRY_S};
}

/* The page, which has no data, and what it asks before a token is known. The same requests as answer_asker answers
 * without the data. */
static bool is_open(struct MHD_Connection *connection, const char *method, const char *path)
{
    return sign_in_has(path) || centre_page_is_asked(connection, method, path);
}

static bool is_signed_in(void *server, struct MHD_Connection *connection, const char *method, const char *path,
                         struct access_client *ret_client)
{
    const struct server *s = server;
    return sign_in_is_done(&s->sign_in, connection, method, path, ret_client);
}

static enum MHD_Result answer_metrics(struct server *s, const struct listener_request *request)
{
    const struct server_metrics metrics = {.senders = s->senders,
                                           .askers = s->askers,
                                           .sign_ins = s->sign_ins,
                                           .tenants = s->tenants,
                                           .tenant_count = atomic_load(&s->tenant_count)};
    if (request->client->tenant[0])
        return http_reply_text(request->connection, MHD_HTTP_FORBIDDEN,
                               "a tenant's token cannot read the server's metrics");
    return server_metrics_answer(&metrics, request);
}

static enum MHD_Result answer_captures(struct server *s, struct tenant *t, const struct listener_request *request)
{
    if (!access_of(s, SERVER_SQL))
        return http_reply_text(request->connection, MHD_HTTP_FORBIDDEN,
                               "captures need a token, also of clients of this machine: see --token-file");
    return captures_http_answer(&t->opamp, request);
}

static enum MHD_Result answer_asker(void *server, const struct listener_request *request)
{
    struct server *s = server;
    enum MHD_Result result;
    if (sign_in_has(request->path))
        return sign_in_answer(&s->sign_in, request);
    if (centre_page_is_asked(request->connection, request->method, request->path))
        return centre_page_answer(request);
    if (strcmp(request->path, "/metrics") == 0)
        return answer_metrics(s, request);
    struct tenant *t = choose_tenant(s, request, &result);
    if (!t)
        return result;
    if (api_has(request->path))
        return api_answer(&t->api, request);
    return strcmp(request->path, CAPTURES_PATH) == 0 ? answer_captures(s, t, request) : sql_answer(t->engine, request);
}

static int start_listeners(struct server *s, const struct certificate *certificate)
{
    const struct listener_options sql = {.option = "--listen",
                                         .address = s->endpoints[SERVER_SQL].address,
                                         .access = access_of(s, SERVER_SQL),
                                         .scope_of = scope_of_asker,
                                         .is_open = is_open,
                                         .is_signed_in = is_signed_in,
                                         .rate_limit = s->askers,
                                         .certificate = certificate_of(s, SERVER_SQL, certificate),
                                         .header_bytes = SQL_HEADER_BYTES,
                                         .body_max_bytes = SQL_BODY_MAX_BYTES,
                                         .answer = answer_asker,
                                         .context = s};
    const struct listener_options otlp = {.option = "--otlp-listen",
                                          .address = s->endpoints[SERVER_OTLP_HTTP].address,
                                          .access = access_of(s, SERVER_OTLP_HTTP),
                                          .scope_of = scope_of_sender,
                                          .rate_limit = s->senders,
                                          .certificate = certificate_of(s, SERVER_OTLP_HTTP, certificate),
                                          .header_bytes = OTLP_HEADER_BYTES,
                                          .body_max_bytes = RECEIVER_BODY_MAX_BYTES,
                                          .answer = answer_sender,
                                          .context = s};
    const struct grpc_listener_options grpc = {.option = "--grpc-listen",
                                               .address = s->endpoints[SERVER_OTLP_GRPC].address,
                                               .access = access_of(s, SERVER_OTLP_GRPC),
                                               .rate_limit = s->senders,
                                               .certificate = certificate_of(s, SERVER_OTLP_GRPC, certificate),
                                               .message_max_bytes = RECEIVER_BODY_MAX_BYTES,
                                               .answer = answer_call,
                                               .context = s};
    return listener_start(&sql, &s->sql) ?: listener_start(&otlp, &s->otlp) ?: grpc_listener_start(&grpc, &s->grpc);
}

static int listen_for_clients(struct server *s, const struct server_options *o)
{
    _cleanup_(certificate_clear) struct certificate certificate = {0};
    decide_rights(s, o);
    int r = rate_limit_new(o->send_rate, clock_monotonic_ns, &s->senders)
                ?: rate_limit_new(o->query_rate, clock_monotonic_ns, &s->askers)
                ?: rate_limit_new(SIGN_IN_RATE, clock_monotonic_ns, &s->sign_ins)
                ?: sessions_new(clock_monotonic_ns, &s->sessions);
    if (r < 0)
        return r;
    r = open_access(s, o);
    r = r < 0 ? r : start_tenants(s);
    s->sign_in = (struct sign_in){.access = access_of(s, SERVER_SQL),
                                  .sessions = s->sessions,
                                  .attempts = s->sign_ins,
                                  .is_encrypted = s->endpoints[SERVER_SQL].is_encrypted};
    r = r < 0 ? r : certificate_read(&o->certificate, &certificate);
    r = r < 0 ? r : start_listeners(s, &certificate);
    if (r < 0) {
        drop_first_token(s);
        return r;
    }
    s->endpoints[SERVER_OTLP_GRPC].port = grpc_listener_port(s->grpc);
    s->endpoints[SERVER_OTLP_HTTP].port = listener_port(s->otlp);
    s->endpoints[SERVER_SQL].port = listener_port(s->sql);
    s->certificate = certificate;
    s->certificate.chain = s->certificate.key = NULL;
    return 0;
}

static int renew_certificate(struct server *s)
{
    _cleanup_(certificate_clear) struct certificate certificate = {0};
    const struct server_endpoint *e = s->endpoints;
    int r = certificate_read(&s->certificate.files, &certificate);
    if (r == 0 && e[SERVER_SQL].is_encrypted)
        r = listener_renew(s->sql, &certificate);
    if (r == 0 && e[SERVER_OTLP_HTTP].is_encrypted)
        r = listener_renew(s->otlp, &certificate);
    if (r == 0 && e[SERVER_OTLP_GRPC].is_encrypted)
        r = grpc_listener_renew(s->grpc, &certificate);
    if (r < 0)
        return r;
    s->certificate.chain_watch = certificate.chain_watch;
    s->certificate.key_watch = certificate.key_watch;
    return 0;
}

int server_start(const struct server_options *options, struct server **ret)
{
    _cleanup_(server_freep) struct server *s = calloc(1, sizeof(*s));
    if (!s)
        return -ENOMEM;
    s->lock = -1;
    helper_process_raise_descriptors(); /* all listeners together may have more connections than the usual 1,024 */
    int r = open_directory(s, options->directory);
    s->tenant_options = tenant_options_of(s, options);
    r = r < 0 ? r : start_tenant(s, "");
    r = r < 0 ? r : listen_for_clients(s, options);
    if (r < 0)
        return r;
    *ret = take_ptr(s);
    return 0;
}

int server_migrate(const struct server_options *options)
{
    struct server s = {.lock = -1};
    int r = open_directory(&s, options->directory);
    if (r == 0) {
        const struct tenant_options tenants = tenant_options_of(&s, options);
        r = tenants_migrate(&tenants);
    }
    closep(&s.lock);
    return r;
}

int server_tick(struct server *s)
{
    if ((s->access && access_tick(s->access)) || (s->tenants_retry_s && --s->tenants_retry_s == 0))
        s->tenants_retry_s = start_tenants(s) < 0 ? TENANTS_RETRY_S : 0;
    for (size_t i = 0; i < s->tenant_count; i++)
        if (tenant_tick(s->tenants[i]) < 0)
            return -ENOTSUP;
    listener_tick(s->sql);
    listener_tick(s->otlp);
    if (!certificate_has_changed(&s->certificate))
        return 0;
    if (renew_certificate(s) == 0)
        log_info("%s: %s is read again", s->certificate.files.chain_setting, s->certificate.files.chain);
    else
        log_warning("%s: the certificate that was read before stays in use", s->certificate.files.chain_setting);
    return 0;
}

void server_free(struct server *s)
{
    if (!s)
        return;
    grpc_listener_free(s->grpc);
    listener_free(s->otlp);
    listener_free(s->sql);
    for (size_t i = s->tenant_count; i-- > 0;)
        tenant_free(s->tenants[i]);
    rate_limit_free(s->senders);
    rate_limit_free(s->askers);
    rate_limit_free(s->sign_ins);
    sessions_free(s->sessions);
    access_free(s->access);
    closep(&s->lock);
    free(s);
}

struct server_endpoint server_endpoint(const struct server *s, enum server_service service)
{
    return s->endpoints[service];
}

const char *server_first_token(const struct server *s)
{
    return s->first_token[0] ? s->first_token : NULL;
}
