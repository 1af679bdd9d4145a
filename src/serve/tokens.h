/* The tokens of clients, by their SHA-256 hashes. Tokens are long and random (tokens_make), so that a hash without salt
 * or delay is enough. The file has one token a line:
 *
 *     sha256:HASH SCOPE COMMENT
 *
 * HASH has 64 hexadecimal digits. SCOPE is `read` (the page of an agent, SQL of `sonde server`), `write` (OTLP of
 * `sonde server`), `agent` (OpAMP of `sonde server`), `capture` (profiles that `sonde server` asks agents for) or
 * `admin` (all). SCOPE@TENANT is the scope for the data of one tenant of `sonde server`. Without @TENANT it is for the
 * data of the default tenant; `admin` is for the data of all. The comment is optional. Empty lines and lines that begin
 * with # are skipped. */
#pragma once

#include "base/cleanup.h"
#include "base/sha256.h"

#include <stdbool.h>
#include <stddef.h>

#define TOKENS_MAX            256
#define TOKENS_FILE_MAX_BYTES ((size_t)64 << 10)
#define TOKENS_WHY_BYTES      256
#define TENANTS_MAX           16 /* besides the default tenant */
#define TENANT_BYTES          33

enum token_scope {
    TOKEN_READ = 1,
    TOKEN_WRITE = 2,
    TOKEN_AGENT = 4,
    TOKEN_CAPTURE = 8,
    TOKEN_ADMIN = TOKEN_READ | TOKEN_WRITE | TOKEN_AGENT | TOKEN_CAPTURE,
};

struct tokens {
    size_t count;
    unsigned char hashes[TOKENS_MAX][SHA256_BYTES];
    enum token_scope scopes[TOKENS_MAX];
    char tenants[TOKENS_MAX][TENANT_BYTES]; /* "": the default tenant */
};

struct token_rights {
    enum token_scope scopes; /* of the token's lines together; 0: no line has it */
    char tenant[TENANT_BYTES];
};

/* Whether this can be the name of a tenant: 1 to 32 lower-case letters, digits, - and _, with a letter or digit first.
 */
bool tenant_name_is_valid(const char *name);

/* The scope of this name; 0: there is none. */
enum token_scope token_scope_of(const char *name);
/* Static string. */
const char *token_scope_name(enum token_scope scope);

/* Parses the text of a file. 0, or -EINVAL with the line and the reason in `why`; no part of the text is in it, as it
 * may hold a token by mistake. `ret` is changed on success only. */
int tokens_parse(const char *text, size_t size, struct tokens *ret, char why[TOKENS_WHY_BYTES]);

/* Reads a regular file that only its owner may write. 0, or -errno with the reason in `why`, without the path. */
int tokens_read(const char *path, struct tokens *ret, char why[TOKENS_WHY_BYTES]);

/* What the token with this hash may do. The time it takes does not depend on the token that matches, or on how many
 * bytes are equal. */
struct token_rights tokens_find(const struct tokens *tokens, const unsigned char hash[SHA256_BYTES]);

/* The names of the tenants, but the default one, that tokens have; their number. */
size_t tokens_tenants(const struct tokens *tokens, char ret[TENANTS_MAX][TENANT_BYTES]);

/* Whether this text is one of the tokens that have the scope. */
bool tokens_accept(const struct tokens *tokens, const char *token, enum token_scope scope);

#define TOKEN_BYTES      72  /* "sonde_" and 40 hexadecimal digits */
#define TOKEN_LINE_BYTES 160 /* without a comment */
/* Makes a token of 160 random bits for a tenant ("": the default one), and the beginning of its line for the file. 0 or
 * -errno. */
int tokens_make(enum token_scope scope, const char *tenant, char ret_token[TOKEN_BYTES],
                char ret_line[TOKEN_LINE_BYTES]);
