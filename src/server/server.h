/* The centre: receivers, spool, engine and SQL over one data directory. */
#pragma once

#include "base/cleanup.h"

#include <stdbool.h>
#include <stdint.h>

struct server;

struct server_options {
    const char *directory;    /* of the data; made if it is missing */
    const char *library;      /* of the engine */
    const char *otlp_address; /* "127.0.0.1:4318" */
    const char *sql_address;  /* "127.0.0.1:7080" */
    const char *token_file;   /* NULL: clients need no token, and both addresses must be loopback addresses */
    unsigned keep_days;
    uint64_t spool_bytes, memory_bytes;
};

#define SERVER_KEEP_DAYS_MAX 90 /* a batch has rows of at most so many days: the engine limits them */

/* 0, or -errno after the reason was logged. Borrows the options' strings. */
int server_start(const struct server_options *options, struct server **ret);
/* To be called once a second. */
void server_tick(struct server *s);
/* Ends in order: receivers, then the loader, then the engine. What the engine does not have yet stays in the spool. */
void server_free(struct server *s);
DEFINE_FREEP(server)

uint16_t server_otlp_port(const struct server *s);
uint16_t server_sql_port(const struct server *s);
/* Whether only programs of this machine reach it. */
bool server_is_local(const struct server *s);
