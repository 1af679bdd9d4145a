/* The parts of the centre, in the order of their start; see server.h. */
#include "server/server.h"

#include "base/clock.h"
#include "base/log.h"
#include "server/engine.h"
#include "server/listener.h"
#include "server/loader.h"
#include "server/receiver.h"
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
#define REMEMBER_MAX      262144

struct server {
    char directory[PATH_MAX], spool_directory[PATH_MAX + 16];
    int lock;
    struct spool *spool;
    struct engine *engine;
    struct loader *loader;
    struct access *access;
    struct receiver receiver;
    struct listener *otlp, *sql;
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

/* ---- start and end ---- */

static int start_engine(struct server *s, const struct server_options *o)
{
    const struct engine_options engine = {
        .library = o->library, .directory = s->directory, .keep_days = o->keep_days, .memory_bytes = o->memory_bytes};
    int r = engine_start(&engine, &s->engine);
    r = r < 0 ? r : loader_start(s->spool, s->engine, &s->loader);
    return r < 0 ? log_errno(r, "cannot start the engine's threads") : 0;
}

static int listen_for_clients(struct server *s, const struct server_options *o)
{
    receiver_init(&s->receiver, s->spool, o->keep_days, clock_unix_ns);
    int r = o->token_file ? access_new("--token-file", o->token_file, clock_monotonic_ns, &s->access) : 0;
    if (r < 0)
        return r;
    const struct listener_options sql = {.option = "--listen",
                                         .address = o->sql_address,
                                         .access = s->access,
                                         .body_max_bytes = SQL_BODY_MAX_BYTES,
                                         .answer = sql_answer,
                                         .context = s->engine};
    const struct listener_options otlp = {.option = "--otlp-listen",
                                          .address = o->otlp_address,
                                          .access = s->access,
                                          .body_max_bytes = RECEIVER_BODY_MAX_BYTES,
                                          .answer = receiver_answer,
                                          .context = &s->receiver};
    return listener_start(&sql, &s->sql) ?: listener_start(&otlp, &s->otlp);
}

int server_start(const struct server_options *options, struct server **ret)
{
    _cleanup_(server_freep) struct server *s = calloc(1, sizeof(*s));
    if (!s)
        return -ENOMEM;
    s->lock = -1;
    int r = open_directory(s, options->directory);
    r = r < 0 ? r : open_spool(s, options->spool_bytes);
    r = r < 0 ? r : start_engine(s, options);
    r = r < 0 ? r : listen_for_clients(s, options);
    if (r < 0)
        return r;
    *ret = take_ptr(s);
    return 0;
}

void server_tick(struct server *s)
{
    const struct spool_statistics now = spool_statistics(s->spool);
    if (now.refused != s->refused)
        log_warning("the spool is full (%llu bytes): %llu batches were refused and have to be sent again",
                    (unsigned long long)now.bytes, (unsigned long long)(now.refused - s->refused));
    s->refused = now.refused;
    if (s->access)
        access_tick(s->access);
}

void server_free(struct server *s)
{
    if (!s)
        return;
    listener_free(s->otlp);
    listener_free(s->sql);
    loader_free(s->loader);
    engine_free(s->engine);
    spool_free(s->spool);
    access_free(s->access);
    closep(&s->lock);
    free(s);
}

uint16_t server_otlp_port(const struct server *s)
{
    return listener_port(s->otlp);
}

uint16_t server_sql_port(const struct server *s)
{
    return listener_port(s->sql);
}

bool server_is_local(const struct server *s)
{
    return listener_is_local(s->otlp) && listener_is_local(s->sql);
}
