/* Routes without identifiers; see route.h. The rules are in docs/why.md. */
#include "diagnose/route.h"

#include <string.h>

#define SEGMENT_SECRET_MIN 20 /* segments of at least this length with a digit are identifiers or keys, not words */
#define SEGMENT_HEX_MIN    8
#define LETTERS_MIXED_MIN  20 /* so many letters in a row, a quarter of them capital, are no words */
#define LETTERS_MAX        32 /* nor are so many of any kind */
#define KEY_MIN            8  /* characters after the prefix of a key */

struct span {
    const char *data;
    size_t size;
};

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_hex(char c)
{
    return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

/* Known prefixes of keys: Stripe, OpenAI, GitHub, GitLab, Slack, AWS, Google, Hugging Face, NVIDIA, npm, PyPI, Shopify,
 * SendGrid, DigitalOcean, and JSON web tokens. */
static bool has_key_prefix(struct span s)
{
    static const char *const prefixes[] = {"sk_",   "pk_",   "rk_",    "sk-",         "whsec_",  "ghp_",  "gho_",
                                           "ghu_",  "ghs_",  "ghr_",   "github_pat_", "glpat-",  "xoxb-", "xoxp-",
                                           "xoxa-", "AKIA",  "ASIA",   "AIza",        "ya29.",   "hf_",   "nvapi-",
                                           "npm_",  "pypi-", "shpat_", "SG.",         "dop_v1_", "eyJ"};
    for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++) {
        const size_t size = strlen(prefixes[i]);
        if (s.size >= size + KEY_MIN && memcmp(s.data, prefixes[i], size) == 0)
            return true;
    }
    return false;
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* Whether letters in a row are too many, or too mixed, for words that people write: a key without a digit. */
static bool has_random_letters(struct span s)
{
    size_t letters = 0, capitals = 0;
    for (size_t i = 0; i < s.size; i++) {
        letters = is_letter(s.data[i]) ? letters + 1 : 0;
        capitals = letters ? capitals + (s.data[i] <= 'Z') : 0;
        if (letters >= LETTERS_MAX || (letters >= LETTERS_MIXED_MIN && capitals * 4 >= letters))
            return true;
    }
    return false;
}

static bool is_identifier(struct span s)
{
    size_t digits = 0, hex = 0, marks = 0, odd = 0;
    for (size_t i = 0; i < s.size; i++) {
        char c = s.data[i];
        digits += is_digit(c);
        hex += is_hex(c);
        marks += c == '-' || c == '.' || c == '_' || c == ':' || c == ',';
        odd += c == '@' || c == '%' || c == '=' || c < 0x21 || c > 0x7e;
    }
    if (odd || has_key_prefix(s) || has_random_letters(s))
        return true;
    if (!digits)
        return false;
    return digits + marks == s.size || (hex + marks == s.size && hex >= SEGMENT_HEX_MIN) ||
           s.size >= SEGMENT_SECRET_MIN;
}

static void append_path(struct route *r, size_t *at, const char *data, size_t size)
{
    size_t room = sizeof(r->path) - 1 - *at;
    if (size > room)
        size = room;
    memcpy(r->path + *at, data, size);
    *at += size;
    r->path[*at] = 0;
}

/* `whole`: the path is complete, not cut at the end of the record. */
static void normalise_path(struct route *r, struct span path, bool whole)
{
    size_t at = 0, i = 0;
    while (i < path.size) {
        if (path.data[i] == '/') {
            append_path(r, &at, "/", 1);
            i++;
            continue;
        }
        struct span s = {.data = path.data + i};
        while (i < path.size && path.data[i] != '/' && path.data[i] != ';')
            i++;
        s.size = (size_t)(path.data + i - s.data);
        if (i == path.size && !whole)
            append_path(r, &at, "{cut}", 5);
        else if (is_identifier(s))
            append_path(r, &at, "{id}", 4);
        else
            append_path(r, &at, s.data, s.size);
        while (i < path.size && path.data[i] != '/') /* ;jsessionid=... */
            i++;
    }
}

static bool parse_method(struct span *line, struct route *ret)
{
    static const char *const methods[] = {"GET",       "PUT",   "HEAD",  "POST",   "PATCH",  "DELETE", "OPTIONS",
                                          "CONNECT",   "TRACE", "COPY",  "LOCK",   "MKCOL",  "MOVE",   "PROPFIND",
                                          "PROPPATCH", "PURGE", "QUERY", "REPORT", "SEARCH", "UNLOCK"};
    for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++) {
        size_t size = strlen(methods[i]);
        if (line->size <= size || memcmp(line->data, methods[i], size) != 0 || line->data[size] != ' ')
            continue;
        memcpy(ret->method, methods[i], size + 1);
        line->data += size + 1;
        line->size -= size + 1;
        return true;
    }
    return false;
}

static struct span without_authority(struct span target)
{
    for (size_t i = 0; i + 2 < target.size && target.data[i] != '/' && target.data[i] != '?'; i++) {
        if (memcmp(target.data + i, "://", 3) != 0)
            continue;
        i += 3;
        while (i < target.size && target.data[i] != '/')
            i++;
        return (struct span){target.data + i, target.size - i};
    }
    return target;
}

bool route_parse(const char *line, size_t bytes, bool replied, struct route *ret)
{
    struct span rest = {line, bytes};
    memset(ret, 0, sizeof(*ret));
    if (!parse_method(&rest, ret))
        return false;
    const char *end = memchr(rest.data, '\n', rest.size);
    bool line_is_complete = end;
    if (end)
        rest.size = (size_t)(end - rest.data);
    struct span target = rest;
    const char *space = memchr(rest.data, ' ', rest.size);
    if (space)
        target.size = (size_t)(space - rest.data);
    else if (line_is_complete && !replied)
        return false; /* "GET /" and no more */
    if (space && line_is_complete && !replied && (rest.size - target.size < 9 || memcmp(space + 1, "HTTP/1.", 7) != 0))
        return false;
    bool target_is_complete = space || line_is_complete;
    while (line_is_complete && !space && target.size && target.data[target.size - 1] == '\r')
        target.size--;
    if (strcmp(ret->method, "CONNECT") == 0) {
        memcpy(ret->path, "{authority}", 12);
        return true;
    }
    target = without_authority(target);
    for (size_t i = 0; i < target.size; i++)
        if (target.data[i] == '?' || target.data[i] == '#') {
            target.size = i;
            target_is_complete = true;
        }
    normalise_path(ret, target, target_is_complete);
    if (!ret->path[0])
        memcpy(ret->path, "/", 2);
    return true;
}

static bool is_method_name(struct span s)
{
    for (size_t i = 0; i < s.size; i++)
        if (!is_letter(s.data[i]) && !is_digit(s.data[i]) && !strchr("/._-*", s.data[i]))
            return false;
    return s.size > 1 && s.data[0] == '/';
}

static bool is_printable(struct span s)
{
    for (size_t i = 0; i < s.size; i++)
        if (s.data[i] < 0x21 || s.data[i] > 0x7e)
            return false;
    return true;
}

/* Models are few and named by the operator; but a client writes them. */
static void append_model(struct route *r, struct span model)
{
    size_t at = strlen(r->path);
    if (!model.size)
        return;
    append_path(r, &at, " ", 1);
    if (!is_printable(model) || (is_identifier(model) && model.size >= SEGMENT_SECRET_MIN))
        append_path(r, &at, "{id}", 4);
    else
        append_path(r, &at, model.data, model.size);
}

bool route_parse_http2(const char *line, size_t bytes, bool is_grpc, struct route *ret)
{
    struct span rest = {line, bytes};
    memset(ret, 0, sizeof(*ret));
    if (bytes > 2 && line[0] == '*' && line[1] == ' ') {
        memcpy(ret->method, "*", 2);
        rest = (struct span){line + 2, bytes - 2};
    } else if (!parse_method(&rest, ret)) {
        return false;
    }
    const char *space = memchr(rest.data, ' ', rest.size);
    const struct span target = {rest.data, space ? (size_t)(space - rest.data) : rest.size};
    rest = (struct span){rest.data + target.size, rest.size - target.size};
    if (strcmp(ret->method, "CONNECT") == 0 && !is_grpc) {
        memcpy(ret->path, "{authority}", 12);
        return true;
    }
    if (target.size == 1 && target.data[0] == '*') {
        memcpy(ret->path, "*", 2);
    } else if (is_grpc && is_method_name(target)) {
        size_t at = 0;
        append_path(ret, &at, target.data, target.size);
    } else {
        normalise_path(ret, without_authority(target), space);
    }
    const size_t version = strlen(" HTTP/2 ");
    if (is_grpc && rest.size > version)
        append_model(ret, (struct span){rest.data + version, rest.size - version});
    return true;
}
