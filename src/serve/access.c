/* Who may ask; see access.h. */
#include "serve/access.h"

#include "base/address.h"
#include "base/file_watch.h"
#include "base/log.h"
#include "serve/authorization.h"
#include "serve/origin.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

struct access {
    const char *setting; /* of the file, for messages */
    uint64_t (*now_ns)(void);
    char *path; /* NULL: none; this and the following: of the thread that reloads */
    struct file_watch watch;
    pthread_mutex_t lock;
    struct tokens *tokens; /* NULL: none is needed */
    uint64_t logged_ns;    /* 0: never */
    unsigned long refused; /* since then */
};

static int read_file(const char *setting, const char *path, struct tokens **ret)
{
    char why[TOKENS_WHY_BYTES] = "";
    _cleanup_free_ struct tokens *tokens = malloc(sizeof(*tokens));
    if (!tokens)
        return -ENOMEM;
    const int r = tokens_read(path, tokens, why);
    if (r < 0) {
        log_error("%s: %s: %s", setting, path, why[0] ? why : strerror(-r));
        return r;
    }
    *ret = take_ptr(tokens);
    return 0;
}

int access_new(const char *setting, const char *token_file, uint64_t (*now_ns)(void), struct access **ret)
{
    _cleanup_free_ struct tokens *tokens = NULL;
    struct file_watch watch;
    file_watch_start(&watch, token_file);
    const int r = token_file ? read_file(setting, token_file, &tokens) : 0;
    if (r < 0)
        return r;
    if (tokens && !tokens->count) {
        log_error("%s: %s has no token: `sonde token new` prints a line for it", setting, token_file);
        return -EINVAL;
    }
    struct access *a = calloc(1, sizeof(*a));
    if (!a)
        return -ENOMEM;
    *a = (struct access){.setting = setting, .now_ns = now_ns, .watch = watch, .tokens = take_ptr(tokens)};
    pthread_mutex_init(&a->lock, NULL);
    if (token_file && !(a->path = strdup(token_file))) {
        access_free(a);
        return -ENOMEM;
    }
    *ret = a;
    return 0;
}

int access_reload(struct access *a, const char *token_file)
{
    _cleanup_free_ struct tokens *tokens = NULL;
    _cleanup_free_ char *path = token_file ? strdup(token_file) : NULL;
    struct file_watch watch;
    if (token_file && !path)
        return -ENOMEM;
    file_watch_start(&watch, path);
    const int r = path ? read_file(a->setting, path, &tokens) : 0;
    if (r < 0)
        return r;
    if (tokens && !tokens->count)
        log_warning("%s: %s has no token any more: no client is accepted", a->setting, path);
    pthread_mutex_lock(&a->lock);
    struct tokens *before = a->tokens;
    a->tokens = take_ptr(tokens);
    pthread_mutex_unlock(&a->lock);
    free(before);
    free(a->path);
    a->path = take_ptr(path);
    a->watch = watch;
    return 0;
}

bool access_tick(struct access *a)
{
    if (!a->path || !file_watch_has_changed(&a->watch, a->path))
        return false;
    const bool is_read = access_reload(a, a->path) == 0;
    if (is_read)
        log_info("%s: %s is read again", a->setting, a->path);
    else
        log_warning("%s: the tokens that were read before stay valid", a->setting);
    return is_read;
}

void access_free(struct access *a)
{
    if (!a)
        return;
    pthread_mutex_destroy(&a->lock);
    free(a->tokens);
    free(a->path);
    free(a);
}

/* Under the lock. */
static void log_refusal(struct access *a, const struct sockaddr *client)
{
    const uint64_t now_ns = a->now_ns();
    char text[ADDRESS_TEXT_BYTES];
    a->refused++;
    if (a->logged_ns && now_ns - a->logged_ns < ACCESS_LOG_NS)
        return;
    log_warning("%s: %lu %s without a valid token refused, the last one from %s", a->setting, a->refused,
                a->refused == 1 ? "request" : "requests", address_format(client, text));
    a->logged_ns = now_ns;
    a->refused = 0;
}

bool access_needs_token(struct access *a)
{
    pthread_mutex_lock(&a->lock);
    const bool needs_token = a->tokens;
    pthread_mutex_unlock(&a->lock);
    return needs_token;
}

size_t access_tenants(struct access *a, char ret[TENANTS_MAX][TENANT_BYTES])
{
    pthread_mutex_lock(&a->lock);
    const size_t count = a->tokens ? tokens_tenants(a->tokens, ret) : 0;
    pthread_mutex_unlock(&a->lock);
    return count;
}

struct access_client access_client_without_token(const struct sockaddr *client)
{
    return (struct access_client){.number = origin_of_address(client), .has_all_tenants = true};
}

/* The client of a token. */
static struct access_client client_of(const struct sockaddr *address, const unsigned char hash[SHA256_BYTES],
                                      const struct token_rights *rights)
{
    struct access_client client = {.has_all_tenants = rights->scopes == TOKEN_ADMIN && !rights->tenant[0]};
    memcpy(&client.number, hash, sizeof(client.number));
    client.number ^= origin_of_address(address);
    memcpy(client.tenant, rights->tenant, sizeof(client.tenant));
    return client;
}

static bool has_scope(const struct token_rights *rights, enum token_scope scope)
{
    return (rights->scopes & scope) == scope;
}

bool access_allows(struct access *a, enum token_scope scope, const char *authorization, const struct sockaddr *client,
                   struct access_client *ret_client)
{
    char token[AUTHORIZATION_TOKEN_BYTES] = "";
    unsigned char hash[SHA256_BYTES];
    struct token_rights rights = {0};
    const bool has_token = authorization && authorization_token(authorization, token) == 0;
    sha256(token, strlen(token), hash);
    explicit_bzero(token, sizeof(token));
    pthread_mutex_lock(&a->lock);
    const bool needs_token = a->tokens;
    if (needs_token && has_token)
        rights = tokens_find(a->tokens, hash);
    const bool allowed = !needs_token || has_scope(&rights, scope);
    if (!allowed && authorization) /* browsers ask without one first */
        log_refusal(a, client);
    pthread_mutex_unlock(&a->lock);
    if (allowed && ret_client)
        *ret_client = needs_token ? client_of(client, hash, &rights) : access_client_without_token(client);
    return allowed;
}

/* No rights for a token that is not known, or while none is needed. */
static struct token_rights find_rights(struct access *a, const unsigned char hash[SHA256_BYTES])
{
    pthread_mutex_lock(&a->lock);
    const struct token_rights rights = a->tokens ? tokens_find(a->tokens, hash) : (struct token_rights){0};
    pthread_mutex_unlock(&a->lock);
    return rights;
}

int access_check_token(struct access *a, enum token_scope scope, const char *token, const struct sockaddr *client,
                       unsigned char ret_hash[SHA256_BYTES])
{
    unsigned char hash[SHA256_BYTES];
    sha256(token, strlen(token), hash);
    const struct token_rights rights = find_rights(a, hash);
    if (!has_scope(&rights, scope)) {
        pthread_mutex_lock(&a->lock);
        log_refusal(a, client);
        pthread_mutex_unlock(&a->lock);
        return rights.scopes ? -EACCES : -ENOKEY;
    }
    memcpy(ret_hash, hash, sizeof(hash));
    return 0;
}

bool access_allows_hash(struct access *a, enum token_scope scope, const unsigned char hash[SHA256_BYTES],
                        const struct sockaddr *client, struct access_client *ret_client)
{
    const struct token_rights rights = find_rights(a, hash);
    if (!has_scope(&rights, scope))
        return false;
    *ret_client = client_of(client, hash, &rights);
    return true;
}
