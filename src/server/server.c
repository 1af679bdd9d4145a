/* The parts of the centre, in the order of their start; see server.h. */
#include "server/server.h"

#include "base/address.h"
#include "base/clock.h"
#include "base/helper_process.h"
#include "base/log.h"
#include "server/api_http.h"
#include "server/captures_http.h"
#include "server/centre_page.h"
#include "server/engine.h"
#include "server/grpc_listener.h"
#include "server/listener.h"
#include "server/loader.h"
#include "server/opamp_http.h"
#include "server/otlp_grpc.h"
#include "server/otlp_http.h"
#include "server/receiver.h"
#include "server/server_metrics.h"
#include "server/sign_in.h"
#include "server/spool.h"
#include "server/sql.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#define SECOND_NS         1000000000ull
#define SEGMENT_MAX_BYTES ((uint64_t)24 << 20)
#define SEGMENT_MAX_ROWS  20000
#define REMEMBER_NS       (3600 * SECOND_NS)
#define KNOWN_ROWS_MAX    ((size_t)1 << 20) /* 16 MiB */
#define REMEMBER_MAX      262144
#define OTLP_HEADER_BYTES ((size_t)64 << 10)
#define SQL_HEADER_BYTES  ((size_t)512 << 10) /* a query may be in the URL */

struct server {
    char directory[PATH_MAX], spool_directory[PATH_MAX + 16];
    char token_file[PATH_MAX + 16], first_token_file[PATH_MAX + 16];
    int lock;
    struct spool *spool;
    struct engine *engine;
    struct loader *loader;
    struct access *access; /* NULL: no address needs tokens */
    char first_token[TOKEN_BYTES];
    struct certificate certificate; /* without its texts */
    struct known_rows *known;
    struct receiver receiver;
    struct opamp opamp;
    struct api api;
    struct rate_limit *senders, *askers, *sign_ins;
    struct sessions *sessions;
    struct sign_in sign_in;
    struct server_endpoint endpoints[SERVER_SERVICES];
    struct listener *otlp, *sql;
    struct grpc_listener *grpc;
    uint64_t refused; /* batches that the log has reported */
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
    snprintf(s->spool_directory, sizeof(s->spool_directory), "%s/spool", s->directory);
    snprintf(lock, sizeof(lock), "%s/lock", s->directory);
    r = make_directory(s->spool_directory);
    if (r < 0)
        return r;
    s->lock = open(lock, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (s->lock < 0)
        return log_errno(-errno, "cannot open %s", lock);
    if (flock(s->lock, LOCK_EX | LOCK_NB) == 0)
        return 0;
    log_error("another sonde server uses %s (--data chooses another directory)", s->directory);
    return -EBUSY;
}

static int open_spool(struct server *s, uint64_t max_bytes)
{
    const struct spool_options options = {.directory = s->spool_directory,
                                          .max_bytes = max_bytes,
                                          .segment_max_bytes = SEGMENT_MAX_BYTES,
                                          .segment_max_rows = SEGMENT_MAX_ROWS,
                                          .segment_max_ns = SECOND_NS,
                                          .remember_ns = REMEMBER_NS,
                                          .remember_max = REMEMBER_MAX,
                                          .unix_ns = clock_unix_ns,
                                          .monotonic_ns = clock_monotonic_ns};
    const int r = spool_open(&options, &s->spool);
    if (r < 0)
        return log_errno(r, "cannot read the spool %s", s->spool_directory);
    const struct spool_statistics found = spool_statistics(s->spool);
    if (found.segments || found.torn_bytes)
        log_info("the spool has %llu segments of a former run; %llu bytes that were not acknowledged are dropped",
                 (unsigned long long)found.segments, (unsigned long long)found.torn_bytes);
    return 0;
}

static struct engine_options engine_options_of(const struct server *s, const struct server_options *o)
{
    return (struct engine_options){
        .library = o->library, .directory = s->directory, .keep_days = o->keep_days, .memory_bytes = o->memory_bytes};
}

static int start_engine(struct server *s, const struct server_options *o)
{
    const struct engine_options engine = engine_options_of(s, o);
    int r = engine_start(&engine, &s->engine);
    s->api = (struct api){.engine = s->engine, .keep_days = o->keep_days};
    r = r < 0 ? r : loader_start(s->spool, s->engine, &s->loader);
    return r < 0 ? log_errno(r, "cannot start the engine's threads") : 0;
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
    int r = tokens_make(TOKEN_ADMIN, s->first_token, line);
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

static enum MHD_Result answer_sender(void *server, const struct listener_request *request)
{
    struct server *s = server;
    return strcmp(request->path, OPAMP_PATH) == 0 ? opamp_http_answer(&s->opamp, request)
                                                  : otlp_http_answer(&s->receiver, request);
}

/* The page, which has no data, and what it asks before a token is known. The same requests as answer_asker answers
 * without the data. */
static bool is_open(struct MHD_Connection *connection, const char *method, const char *path)
{
    return sign_in_has(path) || centre_page_is_asked(connection, method, path);
}

static bool is_signed_in(void *server, struct MHD_Connection *connection, const char *method, const char *path,
                         uint64_t *ret_client)
{
    const struct server *s = server;
    return sign_in_is_done(&s->sign_in, connection, method, path, ret_client);
}

static enum MHD_Result answer_asker(void *server, const struct listener_request *request)
{
    struct server *s = server;
    if (sign_in_has(request->path))
        return sign_in_answer(&s->sign_in, request);
    if (centre_page_is_asked(request->connection, request->method, request->path))
        return centre_page_answer(request);
    if (strcmp(request->path, "/metrics") == 0)
        return server_metrics_answer(&(struct server_metrics){s->senders, s->askers, s->sign_ins, s->spool}, request);
    if (api_has(request->path))
        return api_answer(&s->api, request);
    if (strcmp(request->path, CAPTURES_PATH) != 0)
        return sql_answer(s->engine, request);
    if (!access_of(s, SERVER_SQL))
        return http_reply_text(request->connection, MHD_HTTP_FORBIDDEN,
                               "captures need a token, also of clients of this machine: see --token-file");
    return captures_http_answer(&s->opamp, request);
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
                                               .answer = otlp_grpc_answer,
                                               .context = &s->receiver};
    return listener_start(&sql, &s->sql) ?: listener_start(&otlp, &s->otlp) ?: grpc_listener_start(&grpc, &s->grpc);
}

static int listen_for_clients(struct server *s, const struct server_options *o)
{
    _cleanup_(certificate_clear) struct certificate certificate = {0};
    decide_rights(s, o);
    int r = known_rows_new(KNOWN_ROWS_MAX, &s->known)
                ?: agents_new(OPAMP_AGENTS_MAX, &s->opamp.agents)
                ?: captures_new(&s->opamp.captures)
                ?: rate_limit_new(o->send_rate, clock_monotonic_ns, &s->senders)
                ?: rate_limit_new(o->query_rate, clock_monotonic_ns, &s->askers)
                ?: rate_limit_new(SIGN_IN_RATE, clock_monotonic_ns, &s->sign_ins)
                ?: sessions_new(clock_monotonic_ns, &s->sessions);
    if (r < 0)
        return r;
    receiver_init(&s->receiver, s->spool, s->known, o->keep_days, clock_unix_ns);
    s->opamp.receiver = &s->receiver;
    s->opamp.monotonic_ns = clock_monotonic_ns;
    r = open_access(s, o);
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
    r = r < 0 ? r : open_spool(s, options->spool_bytes);
    r = r < 0 ? r : start_engine(s, options);
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
        const struct engine_options engine = engine_options_of(&s, options);
        r = engine_migrate(&engine);
    }
    closep(&s.lock);
    return r;
}

int server_tick(struct server *s)
{
    const struct spool_statistics now = spool_statistics(s->spool);
    if (now.refused != s->refused)
        log_warning("the spool is full (%llu bytes): %llu batches were refused and have to be sent again",
                    (unsigned long long)now.bytes, (unsigned long long)(now.refused - s->refused));
    s->refused = now.refused;
    if (s->access)
        access_tick(s->access);
    captures_http_tick(&s->opamp);
    listener_tick(s->sql);
    listener_tick(s->otlp);
    if (engine_is_refused(s->engine))
        return -ENOTSUP;
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
    loader_free(s->loader);
    engine_free(s->engine);
    spool_free(s->spool);
    known_rows_free(s->known);
    agents_free(s->opamp.agents);
    captures_free(s->opamp.captures);
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
