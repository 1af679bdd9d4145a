/* The engine process; see engine_process.h. */
#include "server/engine_process.h"

#include "base/buf.h"
#include "base/descriptors.h"
#include "base/log.h"
#include "server/chdb_library.h"
#include "server/engine_confine.h"
#include "server/engine_wire.h"
#include "server/schema.h"
#include "server/spool_files.h"
#include "server/tables.h"
#include "server/views.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>

#define CLOSE_S                 10
#define CONFIGURATION_MAX_BYTES 65536
#define READER_MEMORY_PART      2 /* of the process's limit, for one query */

/* How a session of the library begins. */
struct opening {
    struct chdb_library library;
    char *arguments[3];
    uint64_t memory_bytes;
};

struct session {
    const struct opening *opening;
    const struct chdb_library *library; /* of `opening` */
    chdb_connection *connection;
    int socket;
    bool may_insert;
    pthread_t thread;
};

/* ---- SQL ---- */

/* Runs a query. 0 with the result in `out`, -EPROTO with the engine's reason there, or -E2BIG. */
static int run_query(const struct session *s, const char *sql, size_t size, const char *format, struct buf *out)
{
    chdb_result result = s->library->query(*s->connection, sql, size, format, strlen(format));
    const char *error = result ? s->library->result_error(result) : "the engine gave no result";
    int r = error ? -EPROTO : 0;
    out->max_bytes = ENGINE_RESULT_MAX_BYTES;
    if (error)
        buf_puts(out, error);
    else if (buf_append(out, s->library->result_data(result), s->library->result_size(result)) < 0)
        r = -E2BIG;
    if (result)
        s->library->free_result(result);
    return r;
}

static int run_statement(const struct session *s, const struct buf *sql, struct buf *why)
{
    return buf_error(sql) ?: run_query(s, sql->data, sql->size, "TSV", why);
}

/* Runs what is in `sql`, and empties it. */
static int run_and_clear(const struct session *s, struct buf *sql, struct buf *why)
{
    const int r = run_statement(s, sql, why);
    sql->size = 0;
    return r;
}

static int migrate_tables(const struct session *s, unsigned keep_days, struct buf *why)
{
    _cleanup_buf_ struct buf sql = {0};
    int r = 0;
    for (enum table table = 0; r == 0 && table < TABLE_COUNT; table++) {
        table_put_create(&sql, table);
        r = run_and_clear(s, &sql, why);
        table_put_migrate(&sql, table, keep_days);
        r = r < 0 ? r : run_and_clear(s, &sql, why);
    }
    schema_put_record(&sql, keep_days);
    return r < 0 ? r : run_and_clear(s, &sql, why);
}

/* -ENOTSUP: the tables are of a newer version. Nothing is written if they are current, so that a full disk can be
 * read. */
static int open_tables(const struct session *s, unsigned keep_days, struct buf *why)
{
    _cleanup_buf_ struct buf sql = {0}, found = {0};
    buf_puts(&sql, "CREATE DATABASE IF NOT EXISTS " TABLES_DATABASE " ENGINE = Atomic");
    int r = run_and_clear(s, &sql, why);
    schema_put_create(&sql);
    r = r < 0 ? r : run_and_clear(s, &sql, why);
    schema_put_find(&sql);
    r = r < 0 ? r : run_and_clear(s, &sql, &found);
    if (r < 0) {
        buf_append(why, found.data, found.size);
        return r;
    }
    switch (schema_state(found.data, found.size, keep_days, why)) {
    case SCHEMA_IS_NEWER:
        return -ENOTSUP;
    case SCHEMA_IS_OLD:
        return migrate_tables(s, keep_days, why);
    case SCHEMA_IS_CURRENT:
        break;
    }
    return 0;
}

/* Settings of readers, which they cannot change any more after the last one. */
static int limit_reader(const struct session *s, uint64_t memory_bytes, struct buf *why)
{
    _cleanup_buf_ struct buf use = {0}, set = {0}, readonly = {0};
    buf_puts(&use, "USE " TABLES_DATABASE);
    buf_printf(&set,
               "SET max_execution_time = %d, timeout_before_checking_execution_speed = 0, max_memory_usage = %" PRIu64
               ", max_bytes_before_external_group_by = %" PRIu64 ", max_bytes_before_external_sort = %" PRIu64
               ", max_result_rows = 1000000, max_result_bytes = %zu, result_overflow_mode = 'throw'"
               ", allow_introspection_functions = 0, implicit_select = 0, output_format_json_validate_utf8 = 1"
               /* rewritten, conditions on an attribute through a view would not use the indexes of the Map */
               ", optimize_functions_to_subcolumns = 0"
               /* a trace's few rows are found in half the time if indexes are read first, and not beside the columns */
               ", use_skip_indexes_on_data_read = 0",
               ENGINE_QUERY_S, memory_bytes / READER_MEMORY_PART, memory_bytes / READER_MEMORY_PART / 3,
               memory_bytes / READER_MEMORY_PART / 3, ENGINE_RESULT_MAX_BYTES);
    buf_puts(&readonly, "SET readonly = 1");
    return run_statement(s, &use, why) ?: run_statement(s, &set, why) ?: run_statement(s, &readonly, why);
}

static int open_session(struct session *s, struct buf *why)
{
    s->connection = s->library->connect(array_size(s->opening->arguments), (char **)s->opening->arguments);
    if (s->connection)
        return s->may_insert ? 0 : limit_reader(s, s->opening->memory_bytes, why);
    buf_puts(why, "the engine does not open its directory");
    return -EIO;
}

/* Opens a new connection after a query that failed: the library may return the output of that query for the next
 * one. */
static void renew_session(struct session *s)
{
    _cleanup_buf_ struct buf why = {0};
    s->library->close(s->connection);
    if (open_session(s, &why) < 0)
        _exit(1); /* the server starts another process */
}

/* The engine sets a part aside that it cannot read when it starts. The parts that were merged into it may still be
 * there in its place. */
static void report_damaged_parts(const struct session *s)
{
    _cleanup_buf_ struct buf sql = {0}, found = {0};
    buf_puts(&sql, "SELECT concat(toString(count()), ' parts of tables, such as ', min(table), '/', min(name)) "
                   "FROM system.detached_parts WHERE database = '" TABLES_DATABASE "' AND reason LIKE 'broken%' "
                   "HAVING count() > 0");
    if (run_statement(s, &sql, &found) == 0 && found.size)
        log_warning("the engine has set aside %.*s, that were damaged on disk: rows may be missing",
                    (int)found.size - 1, found.data);
}

/* ---- views ---- */

static int create_view(const struct session *s, size_t view, struct buf *why)
{
    _cleanup_buf_ struct buf find = {0}, found = {0}, create = {0};
    view_put_find(&find, view);
    const int r = run_statement(s, &find, &found);
    if (r < 0)
        return r;
    switch (view_state(view, found.data, found.size)) {
    case VIEW_IS_CURRENT:
        return 0;
    case VIEW_IS_FOREIGN:
        log_warning(TABLES_DATABASE ".%s is not a view of sonde server and is left as it is", view_name(view));
        return 0;
    case VIEW_IS_MISSING:
    case VIEW_IS_OLD:
        break;
    }
    view_put_create(&create, view);
    return run_statement(s, &create, why);
}

/* The server works without a view. One can fail where it selects from a table that is not ours but has its name. */
static void create_views(struct session *s)
{
    for (size_t view = 0; view < views_count(); view++) {
        _cleanup_buf_ struct buf why = {0};
        if (create_view(s, view, &why) == 0)
            continue;
        log_warning("the view " TABLES_DATABASE ".%s cannot be created: %.*s", view_name(view), (int)why.size,
                    why.data ? why.data : "");
        renew_session(s);
    }
}

/* ---- requests ---- */

static int insert_rows(const struct session *s, const struct engine_request *request, int fd, struct buf *out)
{
    _cleanup_buf_ struct buf sql = {0};
    char path[32];
    if (!s->may_insert || fd < 0 || request->table >= TABLE_COUNT)
        return -EINVAL;
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    table_put_insert(&sql, request->table, path, request->after_block);
    return run_statement(s, &sql, out);
}

static int ask_last_blocks(const struct session *s, struct buf *out)
{
    _cleanup_buf_ struct buf sql = {0};
    tables_put_last_blocks(&sql);
    return buf_error(&sql) ?: s->may_insert ? run_query(s, sql.data, sql.size, "RowBinary", out) : -EINVAL;
}

static int read_and_query(const struct session *s, const struct engine_request *request, struct buf *out)
{
    if (request->size > ENGINE_QUERY_MAX_BYTES || !memchr(request->format, 0, sizeof(request->format)))
        return -EINVAL;
    _cleanup_free_ char *sql = malloc(request->size + 1);
    if (!sql)
        return -ENOMEM;
    const int r = engine_wire_receive(s->socket, sql, request->size, UINT64_MAX);
    sql[request->size] = '\0';
    return r < 0 ? r : run_query(s, sql, request->size, request->format, out);
}

/* 0, or -errno: the server is gone. */
static int answer_request(struct session *s)
{
    _cleanup_buf_ struct buf out = {0};
    struct engine_request request;
    _cleanup_(descriptors_close) struct descriptors with = {{-1, -1}, false};
    const ssize_t n = descriptors_receive(s->socket, &request, sizeof(request), &with, MSG_WAITALL);
    if (n != (ssize_t)sizeof(request))
        return -EPIPE;
    const int r = request.kind == ENGINE_INSERT        ? insert_rows(s, &request, with.fds[0], &out)
                  : request.kind == ENGINE_LAST_BLOCKS ? ask_last_blocks(s, &out)
                                                       : read_and_query(s, &request, &out);
    if (r == -EPIPE)
        return r;
    if (r == -E2BIG)
        out.size = 0;
    if (r < 0)
        renew_session(s);
    const struct engine_reply reply = {.error = r, .size = out.size};
    return engine_wire_send(s->socket, &reply, sizeof(reply), UINT64_MAX)
               ?: engine_wire_send(s->socket, out.data, out.size, UINT64_MAX);
}

static void *run_session(void *session)
{
    while (answer_request(session) == 0)
        ;
    return NULL;
}

/* ---- start and end ---- */

/* The library takes these limits from a file only. Most caches of a server are gigabytes by default. A file that has
 * them is left alone: the disk may be full. */
static int write_configuration(const char *path, uint64_t memory_bytes)
{
    _cleanup_buf_ struct buf text = {0}, before = {0};
    buf_printf(&text,
               "<clickhouse>\n  <max_server_memory_usage>%" PRIu64 "</max_server_memory_usage>\n"
               "  <mark_cache_size>%" PRIu64 "</mark_cache_size>\n  <primary_index_cache_size>%" PRIu64
               "</primary_index_cache_size>\n  <index_mark_cache_size>%" PRIu64 "</index_mark_cache_size>\n"
               "  <background_pool_size>2</background_pool_size>\n</clickhouse>\n",
               memory_bytes, memory_bytes / 16, memory_bytes / 16, memory_bytes / 32);
    _cleanup_close_ int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || buf_error(&text) < 0)
        return fd < 0 ? -errno : buf_error(&text);
    int r = buf_read_fd(&before, fd, CONFIGURATION_MAX_BYTES);
    if (r == 0 && before.size == text.size && memcmp(before.data, text.data, text.size) == 0)
        return 0;
    if (ftruncate(fd, 0) < 0 || lseek(fd, 0, SEEK_SET) < 0)
        return -errno;
    return spool_write_all(fd, text.data, text.size);
}

/* The library's arguments. The process ends when it has no connection: `o` is never freed. */
static int set_arguments(struct opening *o, const char *tables, const char *configuration)
{
    o->arguments[0] = "clickhouse";
    return asprintf(&o->arguments[1], "--path=%s", tables) < 0 ||
                   asprintf(&o->arguments[2], "--config-file=%s", configuration) < 0
               ? -ENOMEM
               : 0;
}

/* Restricts the engine to one directory and one file of the data directory: it cannot access the spool. */
static int confine_to(struct opening *o, const char *directory)
{
    char tables[PATH_MAX + 16], configuration[PATH_MAX + 16];
    snprintf(tables, sizeof(tables), "%s/engine", directory);
    snprintf(configuration, sizeof(configuration), "%s/engine.xml", directory);
    if (mkdir(tables, 0700) < 0 && errno != EEXIST)
        return -errno;
    return write_configuration(configuration, o->memory_bytes)
               ?: set_arguments(o, tables, configuration)
               ?: engine_confine(tables, configuration);
}

static int open_sessions(struct session *sessions, const struct opening *opening, unsigned keep_days, struct buf *why)
{
    int r = 0;
    for (int i = 0; r == 0 && i < ENGINE_SESSIONS; i++) {
        sessions[i] = (struct session){
            .opening = opening, .library = &opening->library, .socket = ENGINE_FIRST_SOCKET + i, .may_insert = i == 0};
        r = open_session(&sessions[i], why);
        if (r == 0 && sessions[i].may_insert) {
            r = open_tables(&sessions[i], keep_days, why);
            if (r == 0) {
                report_damaged_parts(&sessions[i]);
                create_views(&sessions[i]);
            }
        }
    }
    return r;
}

static void close_sessions(struct session *sessions, const struct chdb_library *library)
{
    alarm(CLOSE_S); /* ends a process that hangs here */
    for (int i = ENGINE_SESSIONS - 1; i >= 0; i--)
        if (sessions[i].connection)
            library->close(sessions[i].connection);
}

/* Everything up to the first request. */
static int prepare(char **argv, struct opening *opening, struct session *sessions, struct buf *why)
{
    int r = chdb_library_load(argv[1], &opening->library);
    if (r < 0) {
        buf_printf(why, "%s is not chDB's library", argv[1]);
        return r;
    }
    dlopen("libgcc_s.so.1", RTLD_NOW | RTLD_NODELETE); /* glibc loads it when a thread ends early: not possible later */
    opening->memory_bytes = strtoull(argv[4], NULL, 10);
    r = confine_to(opening, argv[2]);
    if (r < 0) {
        buf_puts(why, r == -EOPNOTSUPP
                          ? "the kernel has no Landlock (Linux 5.13), without which SQL could read any file"
                          : "the engine process cannot be confined");
        return r;
    }
    r = open_sessions(sessions, opening, (unsigned)strtoul(argv[3], NULL, 10), why);
    if (r == 0)
        opening->library.reset_signals();
    return r;
}

int engine_process_main(int argc, char **argv)
{
    _cleanup_buf_ struct buf why = {0};
    static struct opening opening;
    struct session sessions[ENGINE_SESSIONS] = {0};
    if (argc != 5)
        return 2;
    prctl(PR_SET_NAME, "sonde-engine");
    signal(SIGINT, SIG_IGN); /* Ctrl-C reaches this process too; the server decides when it ends */
    signal(SIGTERM, SIG_IGN);
    const int r = prepare(argv, &opening, sessions, &why);
    const struct engine_reply ready = {.error = r, .size = why.size};
    if (engine_wire_send(ENGINE_FIRST_SOCKET, &ready, sizeof(ready), UINT64_MAX) == 0)
        engine_wire_send(ENGINE_FIRST_SOCKET, why.data, why.size, UINT64_MAX);
    for (int i = 0; r == 0 && i < ENGINE_SESSIONS; i++)
        if (pthread_create(&sessions[i].thread, NULL, run_session, &sessions[i]) != 0)
            _exit(1);
    for (int i = 0; r == 0 && i < ENGINE_SESSIONS; i++)
        pthread_join(sessions[i].thread, NULL);
    close_sessions(sessions, &opening.library);
    return r < 0;
}
