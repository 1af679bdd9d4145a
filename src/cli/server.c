/* `sonde server`: the centre, which keeps what many nodes and programs send and answers SQL about it. */
#include "server/server.h"

#include "base/log.h"
#include "base/ready_fd.h"
#include "cli/end_signals.h"
#include "cli/subcommands.h"
#include "server/engine_process.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define LIBRARY      "libchdb.so"
#define SPOOL_BYTES  ((uint64_t)1 << 30)
#define MEMORY_BYTES ((uint64_t)768 << 20)
#define SECOND_NS    1000000000ull

/* Finds the engine's library beside this program, where `make server` puts it, or where packages do. */
static bool find_library(char *ret_path, size_t size)
{
    static const char *const directories[] = {"/usr/local/lib/sonde", "/usr/lib/sonde"};
    char program[PATH_MAX - sizeof("/engine/" LIBRARY)];
    const ssize_t n = readlink("/proc/self/exe", program, sizeof(program) - 1);
    if (n > 0) {
        program[n] = '\0';
        *strrchr(program, '/') = '\0';
        snprintf(ret_path, size, "%s/engine/" LIBRARY, program);
        if (access(ret_path, R_OK) == 0)
            return true;
    }
    for (size_t i = 0; i < array_size(directories); i++) {
        snprintf(ret_path, size, "%s/" LIBRARY, directories[i]);
        if (access(ret_path, R_OK) == 0)
            return true;
    }
    return false;
}

static int check_library(const char *given, char *ret_path, size_t size)
{
    if (given) {
        snprintf(ret_path, size, "%s", given);
        return access(given, R_OK) < 0 ? log_errno(-errno, "--engine: %s", given) : 0;
    }
    if (find_library(ret_path, size))
        return 0;
    log_error(
        "the engine (" LIBRARY
        ", chDB) is not installed: `make server` in Sonde's source directory downloads it, 167 MB, and --engine names a copy elsewhere");
    return -ENOPKG;
}

static void announce(const struct server_options *o, const struct server *s)
{
    if (!server_is_local(s))
        log_warning("tokens, data and answers travel in clear text: let a proxy or a tunnel encrypt them");
    printf("sonde server: OTLP/HTTP on %.*s:%u, SQL on http://%.*s:%u/  (%sCtrl-C stops it)\n",
           (int)(strrchr(o->otlp_address, ':') - o->otlp_address), o->otlp_address, server_otlp_port(s),
           (int)(strrchr(o->sql_address, ':') - o->sql_address), o->sql_address, server_sql_port(s),
           o->token_file ? "clients need a token; " : "all users of this machine can use it; ");
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
    announce(options, server);
    ready_fd_notify(&ready_fd);
    while (!end_signals_wait(&signals, SECOND_NS))
        server_tick(server);
    return 0;
}

static int run_server(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "--engine-process") == 0)
        return engine_process_main(argc - 1, argv + 1); /* started by this subcommand itself */
    struct server_options o = {.directory = "/var/lib/sonde-server",
                               .otlp_address = "127.0.0.1:4318",
                               .sql_address = "127.0.0.1:7080",
                               .spool_bytes = SPOOL_BYTES,
                               .memory_bytes = MEMORY_BYTES};
    const char *library = NULL;
    char path[PATH_MAX];
    int64_t keep_days = 30, ready_fd = -1;
    const struct option_spec specs[] = {
        {0, "data", OPTION_TEXT, &o.directory, "DIR", "directory of the data (default /var/lib/sonde-server)", 0, 0},
        {'l', "listen", OPTION_TEXT, &o.sql_address, "ADDRESS:PORT", "address for SQL (default 127.0.0.1:7080)", 0, 0},
        {0, "otlp-listen", OPTION_TEXT, &o.otlp_address, "ADDRESS:PORT",
         "address for OTLP over HTTP (default 127.0.0.1:4318)", 0, 0},
        {0, "token-file", OPTION_TEXT, &o.token_file, "FILE",
         "tokens that clients need, required beyond loopback addresses (sonde token new)", 0, 0},
        {0, "keep", OPTION_INTEGER, &keep_days, "DAYS", "how long rows are kept (default 30)", 1, SERVER_KEEP_DAYS_MAX},
        {0, "engine", OPTION_TEXT, &library, "FILE", "the engine's library, libchdb.so", 0, 0},
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
    r = check_library(library, path, sizeof(path));
    if (r < 0)
        return r;
    o.library = path;
    o.keep_days = (unsigned)keep_days;
    return run_until_signal(&o, (int)ready_fd);
}

const struct subcommand subcommand_server = {
    .name = "server",
    .synopsis = "[--data DIR] [-l ADDRESS:PORT] [--otlp-listen ADDRESS:PORT] [--token-file FILE] [--keep DAYS]",
    .summary = "Keep what agents and OpenTelemetry SDKs send, and answer SQL about it",
    .details =
        "Receives traces, logs, metrics and profiles by OTLP over HTTP (http://127.0.0.1:4318), keeps them for some weeks,\n"
        "and answers SQL over HTTP as ClickHouse does (http://127.0.0.1:7080/?query=...). A batch is acknowledged when it\n"
        "is on disk.",
    .run = run_server,
};
