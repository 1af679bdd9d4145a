/* Who may ask over the network: everybody who reaches the address, or clients with a token. Thread-safe. */
#pragma once

#include "base/cleanup.h"
#include "serve/tokens.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

struct access;

/* Reads the file of tokens (tokens.h); NULL: none is needed. `setting` names the file's setting in messages, and is
 * borrowed. `now_ns` is a clock, for the rate of messages. 0, or -errno after the reason was logged. */
int access_new(const char *setting, const char *token_file, uint64_t (*now_ns)(void), struct access **ret);
/* Reads a file again, or another one; NULL: no token is needed any more. A file without tokens is accepted here: all
 * are revoked. After an error, which is logged, the tokens stay. */
int access_reload(struct access *a, const char *token_file);
/* The same if the file has changed since it was read. True: it was read again. To be called once a second. */
bool access_tick(struct access *a);
void access_free(struct access *a);
DEFINE_FREEP(access)

/* Whether requests need a token. */
bool access_needs_token(struct access *a);
/* The tenants that tokens have, besides the default one (tokens.h); their number. */
size_t access_tenants(struct access *a, char ret[TENANTS_MAX][TENANT_BYTES]);

/* Who makes a request. */
struct access_client {
    uint64_t number;           /* of the client, by its address (origin.h) and its token, for limits of each client */
    char tenant[TENANT_BYTES]; /* "": the default tenant */
    bool has_all_tenants;      /* it may choose another tenant */
};

/* Whether a request that needs this scope, with this Authorization header (NULL: none), may be answered. Then
 * `ret_client` (NULL: not needed) is who makes it. A refused one is logged with the client's address and nothing of the
 * header, at most once in ACCESS_LOG_NS. */
#define ACCESS_LOG_NS 60000000000ull
bool access_allows(struct access *a, enum token_scope scope, const char *authorization, const struct sockaddr *client,
                   struct access_client *ret_client);

/* Whether a token, which came otherwise than in an Authorization header, has the scope. 0 with its hash; -ENOKEY: there
 * is no such token; -EACCES: it has other scopes only. Refusals are logged as above. */
int access_check_token(struct access *a, enum token_scope scope, const char *token, const struct sockaddr *client,
                       unsigned char ret_hash[SHA256_BYTES]);
/* Whether the token with this hash is still in the file and has the scope. Then `ret_client` as above. */
bool access_allows_hash(struct access *a, enum token_scope scope, const unsigned char hash[SHA256_BYTES],
                        const struct sockaddr *client, struct access_client *ret_client);

/* A client of an address where no token is needed. */
struct access_client access_client_without_token(const struct sockaddr *client);
