/* `sonde server`: the centre, which keeps what many nodes and programs send and answers SQL about it. */
#include "server/server.h"

#include "base/end_signals.h"
#include "base/log.h"
#include "base/ready_fd.h"
#include "cli/subcommands.h"
#include "server/chdb_library.h"
#include "server/engine_process.h"
#include "server/rate_limit.h"
#include "server/schema.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define SPOOL_BYTES  ((uint64_t)1 << 30)
#define MEMORY_BYTES ((uint64_t)768 << 20)
#define SECOND_NS    1000000000ull

static int check_library(const char *given, char *ret_path, size_t size)
{
    if (given) {
        snprintf(ret_path, size, "%s", given);
        return access(given, R_OK) < 0 ? log_errno(-errno, "--engine: %s", given) : 0;
    }
    if (chdb_library_find(ret_path, size))
        return 0;
    log_error(
        "the engine (" CHDB_LIBRARY_NAME
        ", chDB) is not installed: `make server` in Sonde's source directory downloads it, 167 MB, and --engine names a copy elsewhere");
    return -ENOPKG;
}

/* Where and how each service is reached, and by whom. */
static void announce(const struct server *s)
{
    static const struct {
        const char *name, *path, *what, *scope;
    } services[] = {
        [SERVER_OTLP_GRPC] = {"OTLP/gRPC", "", "send", "write"},
        [SERVER_OTLP_HTTP] = {"OTLP/HTTP", "", "send", "write"},
        [SERVER_SQL] = {"SQL", "/", "ask", "read"},
    };
    printf("sonde server (Ctrl-C stops it)\n");
    for (enum server_service i = 0; i < SERVER_SERVICES; i++) {
        const struct server_endpoint e = server_endpoint(s, i);
        char url[PATH_MAX], who[64] = "all users of this machine";
        snprintf(url, sizeof(url), "http%s://%.*s:%u%s", e.is_encrypted ? "s" : "",
                 (int)(strrchr(e.address, ':') - e.address), e.address, e.port, services[i].path);
        if (e.needs_token)
            snprintf(who, sizeof(who), "clients with a token of the scope %s", services[i].scope);
        printf("  %-10s %-28s %s can %s\n", services[i].name, url, who, services[i].what);
        if (!e.is_local && !e.is_encrypted)
            log_warning("%s: tokens and data travel in clear text: give --tls-certificate and --tls-key", url);
    }
    fflush(stdout);
}

/* Output that does not go to a terminal may be kept where others can read it, such as in the journal. */
static void announce_first_token(const struct server *s, const struct server_options *options)
{
    if (!server_first_token(s))
        return;
    if (options->writes_first_token)
        printf("The first token, which may send and ask, is in %s/first-token: delete this file when you have it\n",
               options->directory);
    else
        printf(
            "The first token, of the scope admin, which is not kept anywhere (sonde token new makes others):\n  %s\n",
            server_first_token(s));
    fflush(stdout);
}

static int run_until_signal(const struct server_options *options, int ready_fd)
{
    _cleanup_(server_freep) struct server *server = NULL;
    sigset_t signals;
    int r = end_signals_block(&signals);
    r = r < 0 ? r : server_start(options, &server);
    if (r < 0)
        return r == -EINVAL ? r : -EIO;
    announce(server);
    announce_first_token(server, options);
    ready_fd_notify(&ready_fd);
    while (r == 0 && !end_signals_wait(&signals, SECOND_NS))
        r = server_tick(server);
    return r < 0 ? -EIO : 0;
}

static int migrate(const struct server_options *options)
{
    if (server_migrate(options) < 0)
        return -EIO;
    printf("The tables in %s/engine have version %d\n", options->directory, SCHEMA_VERSION);
    return 0;
}

static int run_server(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "--engine-process") == 0)
        return engine_process_main(argc - 1, argv + 1); /* started by this subcommand itself */
    struct server_options o = {.directory = "/var/lib/sonde-server",
                               .otlp_address = "127.0.0.1:4318",
                               .grpc_address = "127.0.0.1:4317",
                               .sql_address = "127.0.0.1:7080",
                               .certificate = {.chain_setting = "--tls-certificate", .key_setting = "--tls-key"},
                               .spool_bytes = SPOOL_BYTES,
                               .memory_bytes = MEMORY_BYTES};
    const char *library = NULL;
    bool migrates = false;
    char path[PATH_MAX];
    int64_t keep_days = 30, send_rate = 1000, query_rate = 100, ready_fd = -1;
    const struct option_spec specs[] = {
        {0, "data", OPTION_TEXT, &o.directory, "DIR", "directory of the data (default /var/lib/sonde-server)", 0, 0},
        {'l', "listen", OPTION_TEXT, &o.sql_address, "ADDRESS:PORT", "address for SQL (default 127.0.0.1:7080)", 0, 0},
        {0, "otlp-listen", OPTION_TEXT, &o.otlp_address, "ADDRESS:PORT",
         "address for OTLP over HTTP (default 127.0.0.1:4318)", 0, 0},
        {0, "grpc-listen", OPTION_TEXT, &o.grpc_address, "ADDRESS:PORT",
         "address for OTLP over gRPC (default 127.0.0.1:4317)", 0, 0},
        {0, "token-file", OPTION_TEXT, &o.token_file, "FILE",
         "tokens that clients need, of loopback addresses as well (default: DIR/tokens, for other addresses)", 0, 0},
        {0, "tls-certificate", OPTION_TEXT, &o.certificate.chain, "FILE",
         "certificate for TLS on addresses that other machines reach, in PEM with the chain of its issuers", 0, 0},
        {0, "tls-key", OPTION_TEXT, &o.certificate.key, "FILE", "its key, in PEM", 0, 0},
        {0, "keep", OPTION_INTEGER, &keep_days, "DAYS", "how long rows are kept (default 30)", 1, SERVER_KEEP_DAYS_MAX},
        {0, "send-rate", OPTION_INTEGER, &send_rate, "N",
         "requests a second that one client may send (default 1000; 0: any number)", 0, RATE_LIMIT_MAX},
        {0, "query-rate", OPTION_INTEGER, &query_rate, "N",
         "queries a second that one client may ask (default 100; 0: any number)", 0, RATE_LIMIT_MAX},
        {0, "engine", OPTION_TEXT, &library, "FILE", "the engine's library, libchdb.so", 0, 0},
        {0, "migrate", OPTION_FLAG, &migrates, NULL,
         "make the tables, or bring those of an earlier version up to date, and end", 0, 0},
        {0, "ready-fd", OPTION_INTEGER, &ready_fd, "FD", "write \"ready\" to this descriptor when the server listens",
         0, INT32_MAX},
        {0},
    };
    int r = options_parse(&subcommand_server, specs, argc, argv, NULL);
    if (r != 0)
        return r < 0 ? r : 0;
    if (ready_fd >= 0 && ready_fd_check((int)ready_fd) < 0) {
        log_error("--ready-fd: descriptor %lld is not open for writing", (long long)ready_fd);
        return -EINVAL;
    }
    if (!o.certificate.chain != !o.certificate.key) {
        log_error("--tls-certificate and --tls-key are needed together");
        return -EINVAL;
    }
    r = check_library(library, path, sizeof(path));
    if (r < 0)
        return r;
    o.library = path;
    o.keep_days = (unsigned)keep_days;
    o.send_rate = (unsigned)send_rate;
    o.query_rate = (unsigned)query_rate;
    o.writes_first_token = !isatty(STDOUT_FILENO);
    return migrates ? migrate(&o) : run_until_signal(&o, (int)ready_fd);
}

const struct subcommand subcommand_server = {
    .name = "server",
    .synopsis =
        "[--data DIR] [-l|--otlp-listen|--grpc-listen ADDRESS:PORT] [--token-file FILE] [--tls-certificate FILE --tls-key FILE] [--keep DAYS] [--send-rate|--query-rate N]",
    .summary = "Keep what agents and OpenTelemetry SDKs send, and answer SQL and a JSON API about it",
    .details =
        "Receives traces, logs, metrics and profiles by OTLP over HTTP (http://127.0.0.1:4318) and gRPC (127.0.0.1:4317),\n"
        "keeps them for some weeks, and answers SQL over HTTP as ClickHouse does (http://127.0.0.1:7080/?query=...), and\n"
        "JSON (http://127.0.0.1:7080/api/v1/openapi.json). A batch is acknowledged when it is on disk.",
    .run = run_server,
};
