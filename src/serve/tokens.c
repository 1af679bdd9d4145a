/* The tokens of clients; see tokens.h. */
#include "serve/tokens.h"

#include "base/hex.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>

#define PREFIX       "sonde_" /* which scanners of secrets can look for */
#define HASH_PREFIX  "sha256:"
#define RANDOM_BYTES 20
#define BLANKS       " \t"

static const struct {
    const char *name;
    enum token_scope scope;
} scopes[] = {{"read", TOKEN_READ},
              {"write", TOKEN_WRITE},
              {"agent", TOKEN_AGENT},
              {"capture", TOKEN_CAPTURE},
              {"admin", TOKEN_ADMIN}};

enum token_scope token_scope_of(const char *name)
{
    for (size_t i = 0; i < array_size(scopes); i++)
        if (strcmp(name, scopes[i].name) == 0)
            return scopes[i].scope;
    return 0;
}

const char *token_scope_name(enum token_scope scope)
{
    for (size_t i = 0; i < array_size(scopes); i++)
        if (scopes[i].scope == scope)
            return scopes[i].name;
    return "";
}

static int refuse(size_t line, const char *what, char why[TOKENS_WHY_BYTES])
{
    snprintf(why, TOKENS_WHY_BYTES, "line %zu: %s", line, what);
    return -EINVAL;
}

static bool read_hash(const char *digits, unsigned char ret[SHA256_BYTES])
{
    for (size_t i = 0; i < SHA256_BYTES; i++) {
        const int high = hex_value(digits[2 * i]), low = high < 0 ? -1 : hex_value(digits[2 * i + 1]);
        if (low < 0)
            return false;
        ret[i] = (unsigned char)(high << 4 | low);
    }
    return true;
}

bool tenant_name_is_valid(const char *name)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789-_";
    const size_t size = strlen(name);
    return size && size < TENANT_BYTES && strspn(name, letters) == size && *name != '-' && *name != '_';
}

/* "read" or "read@shop". */
static int parse_scope(const char *text, size_t size, size_t number, struct tokens *t, char why[TOKENS_WHY_BYTES])
{
    char scope[64];
    snprintf(scope, sizeof(scope), "%.*s", (int)size, text);
    char *at = strchr(scope, '@');
    if (at)
        *at++ = '\0';
    t->scopes[t->count] = token_scope_of(scope);
    if (!t->scopes[t->count])
        return refuse(number, "after the hash the scope is needed: read, write, agent, capture or admin", why);
    if (!at)
        return 0;
    if (!tenant_name_is_valid(at))
        return refuse(number, "after @ the tenant is needed: at most 32 lower-case letters, digits, - and _", why);
    if (t->scopes[t->count] == TOKEN_ADMIN)
        return refuse(number, "admin is for all tenants: it has no @", why);
    snprintf(t->tenants[t->count], TENANT_BYTES, "%s", at);
    return 0;
}

/* A token has one tenant, and there are TENANTS_MAX of them. */
static int check_tenants(const struct tokens *t, size_t number, char why[TOKENS_WHY_BYTES])
{
    char names[TENANTS_MAX][TENANT_BYTES];
    for (size_t i = 0; i < t->count; i++)
        if (memcmp(t->hashes[i], t->hashes[t->count], SHA256_BYTES) == 0 &&
            strcmp(t->tenants[i], t->tenants[t->count]) != 0)
            return refuse(number, "another line has this token for another tenant", why);
    struct tokens with = *t;
    with.count++;
    return tokens_tenants(&with, names) > TENANTS_MAX
               ? refuse(number, "there are too many tenants: 16 are possible", why)
               : 0;
}

static int parse_line(const char *line, size_t number, struct tokens *t, char why[TOKENS_WHY_BYTES])
{
    line += strspn(line, BLANKS);
    if (!*line || *line == '#')
        return 0;
    if (t->count == TOKENS_MAX)
        return refuse(number, "there are too many tokens: 256 are possible", why);
    if (strncmp(line, PREFIX, strlen(PREFIX)) == 0)
        return refuse(number, "this is a token; the file needs its line, which begins with " HASH_PREFIX, why);
    if (strncmp(line, HASH_PREFIX, strlen(HASH_PREFIX)) != 0)
        return refuse(number, "does not begin with " HASH_PREFIX, why);
    line += strlen(HASH_PREFIX);
    const size_t digits = strcspn(line, BLANKS);
    if (digits != 2 * SHA256_BYTES || !read_hash(line, t->hashes[t->count]))
        return refuse(number, "after " HASH_PREFIX " 64 hexadecimal digits are needed", why);
    line += digits + strspn(line + digits, BLANKS);
    t->tenants[t->count][0] = '\0';
    int r = parse_scope(line, strcspn(line, BLANKS), number, t, why);
    r = r < 0 ? r : check_tenants(t, number, why);
    if (r == 0)
        t->count++;
    return r;
}

int tokens_parse(const char *text, size_t size, struct tokens *ret, char why[TOKENS_WHY_BYTES])
{
    struct tokens t = {0};
    char line[1024];
    size_t number = 1;
    for (const char *at = text, *end = text + size; at < end; number++) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        const size_t length = (size_t)((newline ? newline : end) - at);
        if (length >= sizeof(line))
            return refuse(number, "is longer than 1023 bytes", why);
        if (memchr(at, '\0', length))
            return refuse(number, "has a NUL byte", why);
        memcpy(line, at, length);
        line[length - (length && line[length - 1] == '\r')] = '\0';
        const int r = parse_line(line, number, &t, why);
        if (r < 0)
            return r;
        at += length + (newline != NULL);
    }
    *ret = t;
    return 0;
}

int tokens_read(const char *path, struct tokens *ret, char why[TOKENS_WHY_BYTES])
{
    struct stat st;
    _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0 || fstat(fd, &st) < 0) {
        const int r = -errno;
        snprintf(why, TOKENS_WHY_BYTES, "%s", strerror(-r));
        return r;
    }
    const char *wrong = !S_ISREG(st.st_mode)                         ? "is no regular file"
                        : st.st_mode & (S_IWGRP | S_IWOTH)           ? "others than its owner may write to it"
                        : (size_t)st.st_size > TOKENS_FILE_MAX_BYTES ? "is larger than 64 KiB"
                                                                     : NULL;
    if (wrong) {
        snprintf(why, TOKENS_WHY_BYTES, "%s", wrong);
        return -EINVAL;
    }
    _cleanup_free_ char *text = malloc(TOKENS_FILE_MAX_BYTES);
    if (!text)
        return -ENOMEM;
    size_t size = 0;
    ssize_t n = 1;
    while (size < TOKENS_FILE_MAX_BYTES && (n = read(fd, text + size, TOKENS_FILE_MAX_BYTES - size)) > 0)
        size += (size_t)n;
    if (n < 0) {
        const int r = -errno;
        snprintf(why, TOKENS_WHY_BYTES, "%s", strerror(-r));
        return r;
    }
    return tokens_parse(text, size, ret, why);
}

struct token_rights tokens_find(const struct tokens *tokens, const unsigned char hash[SHA256_BYTES])
{
    struct token_rights rights = {0};
    unsigned found = 0;
    for (size_t i = 0; i < tokens->count; i++) {
        unsigned char different = 0;
        for (size_t k = 0; k < SHA256_BYTES; k++)
            different |= hash[k] ^ tokens->hashes[i][k];
        const unsigned is_same = -((different - 1u) >> 8 & 1); /* all bits or none; without a branch */
        found |= is_same & tokens->scopes[i];
        for (size_t k = 0; k < TENANT_BYTES; k++)
            rights.tenant[k] |= (char)(is_same & (unsigned char)tokens->tenants[i][k]);
    }
    rights.scopes = found;
    return rights;
}

size_t tokens_tenants(const struct tokens *tokens, char ret[TENANTS_MAX][TENANT_BYTES])
{
    size_t count = 0;
    for (size_t i = 0; i < tokens->count; i++) {
        size_t k = 0;
        while (k < count && k < TENANTS_MAX && strcmp(ret[k], tokens->tenants[i]) != 0)
            k++;
        if (!tokens->tenants[i][0] || k < count)
            continue;
        if (count < TENANTS_MAX)
            memcpy(ret[count], tokens->tenants[i], TENANT_BYTES);
        count++;
    }
    return count;
}

bool tokens_accept(const struct tokens *tokens, const char *token, enum token_scope scope)
{
    unsigned char hash[SHA256_BYTES];
    sha256(token, strlen(token), hash);
    return (tokens_find(tokens, hash).scopes & scope) == scope;
}

int tokens_make(enum token_scope scope, const char *tenant, char ret_token[TOKEN_BYTES],
                char ret_line[TOKEN_LINE_BYTES])
{
    unsigned char random[RANDOM_BYTES], hash[SHA256_BYTES];
    char digits[2 * SHA256_BYTES + 1];
    if (getrandom(random, sizeof(random), 0) != sizeof(random))
        return -errno;
    hex_write(random, sizeof(random), digits);
    snprintf(ret_token, TOKEN_BYTES, PREFIX "%s", digits);
    sha256(ret_token, strlen(ret_token), hash);
    hex_write(hash, sizeof(hash), digits);
    snprintf(ret_line, TOKEN_LINE_BYTES, HASH_PREFIX "%s %s%s%s", digits, token_scope_name(scope), *tenant ? "@" : "",
             tenant);
    return 0;
}
