/* The tokens of clients, by their SHA-256 hashes. Tokens are long and random (tokens_make), so that a hash without salt
 * or delay is enough. The file has one token a line:
 *
 *     sha256:HASH SCOPE COMMENT
 *
 * HASH has 64 hexadecimal digits. SCOPE is `read` (the page of an agent, SQL of `sonde server`), `write` (OTLP of
 * `sonde server`), `agent` (OpAMP of `sonde server`), `capture` (profiles that `sonde server` asks agents for) or
 * `admin` (all). The comment is optional. Empty lines and lines
 * that begin with # are skipped. */
#pragma once

#include "base/cleanup.h"
#include "base/sha256.h"

#include <stdbool.h>
#include <stddef.h>

#define TOKENS_MAX            256
#define TOKENS_FILE_MAX_BYTES ((size_t)64 << 10)
#define TOKENS_WHY_BYTES      256

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
};

/* The scope of this name; 0: there is none. */
enum token_scope token_scope_of(const char *name);
/* Static string. */
const char *token_scope_name(enum token_scope scope);

/* Parses the text of a file. 0, or -EINVAL with the line and the reason in `why`; no part of the text is in it, as it
 * may hold a token by mistake. `ret` is changed on success only. */
int tokens_parse(const char *text, size_t size, struct tokens *ret, char why[TOKENS_WHY_BYTES]);

/* Reads a regular file that only its owner may write. 0, or -errno with the reason in `why`, without the path. */
int tokens_read(const char *path, struct tokens *ret, char why[TOKENS_WHY_BYTES]);

/* What the token with this hash may do: the scopes of its lines together; 0: no line has it. The time it takes does not
 * depend on the token that matches, or on how many bytes are equal. */
enum token_scope tokens_scopes(const struct tokens *tokens, const unsigned char hash[SHA256_BYTES]);

/* Whether this text is one of the tokens that have the scope. */
bool tokens_accept(const struct tokens *tokens, const char *token, enum token_scope scope);

#define TOKEN_BYTES      72  /* "sonde_" and 40 hexadecimal digits */
#define TOKEN_LINE_BYTES 128 /* without a comment */
/* Makes a token of 160 random bits, and the beginning of its line for the file. 0 or -errno. */
int tokens_make(enum token_scope scope, char ret_token[TOKEN_BYTES], char ret_line[TOKEN_LINE_BYTES]);
