/* The centre: receivers, spool, engine and SQL over one data directory. */
#pragma once

#include "base/cleanup.h"
#include "serve/certificate.h"

#include <stdbool.h>
#include <stdint.h>

struct server;

struct server_options {
    const char *directory;    /* of the data; made if it is missing */
    const char *library;      /* of the engine */
    const char *otlp_address; /* "127.0.0.1:4318": over HTTP */
    const char *grpc_address; /* "127.0.0.1:4317": over gRPC */
    const char *sql_address;  /* "127.0.0.1:7080" */
    /* Clients of an address that other machines reach need a token. */
    const char *token_file; /* NULL: DIRECTORY/tokens; else clients of loopback addresses need a token as well */
    /* Whether the first token is written to DIRECTORY/first-token, which only this user can read. */
    bool writes_first_token;
    /* For TLS on the addresses that other machines reach; without paths: none. */
    struct certificate_files certificate;
    unsigned keep_days;
    unsigned send_rate, query_rate; /* requests a second of one client; 0: any number */
    uint64_t spool_bytes, memory_bytes;
};

/* Makes or migrates the tables of the directory, without listening. 0, or -errno after the reason was logged. */
int server_migrate(const struct server_options *options);

#define SERVER_KEEP_DAYS_MAX 90 /* a batch has rows of at most so many days: the engine limits them */

/* 0, or -errno after the reason was logged. Borrows the options' strings. */
int server_start(const struct server_options *options, struct server **ret);
/* To be called once a second: also reads tokens and certificate again when their files have changed. 0; -ENOTSUP: the
 * data is of a newer version (logged), and the server has to end. */
int server_tick(struct server *s);
/* Ends in order: receivers, then the loader, then the engine. What the engine does not have yet stays in the spool. */
void server_free(struct server *s);
DEFINE_FREEP(server)

enum server_service { SERVER_OTLP_GRPC, SERVER_OTLP_HTTP, SERVER_SQL, SERVER_SERVICES };
struct server_endpoint {
    const char *address; /* as in the options */
    uint16_t port;
    bool needs_token, is_encrypted, is_local;
};
struct server_endpoint server_endpoint(const struct server *s, enum server_service service);
/* The token that may do everything, if this start has made the file of tokens; NULL otherwise. */
const char *server_first_token(const struct server *s);
