/* See nccl_ras.h. */
#include "sources/gpu/nccl_ras.h"

#include <linux/types.h>

#include "probes/common/hash.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Levels of the object: the root, its array "communicators", a communicator, its arrays "ranks" and "missing_ranks", a
 * rank, and that rank's objects "status" and "collective_counts". */
enum { ROOT = 1, COMMUNICATORS, COMMUNICATOR, RANKS, RANK, RANK_PART };

static bool is_below(const struct nccl_parser *p, size_t depth, const char *key)
{
    return p->depth >= depth && strcmp(p->levels[depth - 1].key, key) == 0;
}

static bool is_in_communicator(const struct nccl_parser *p)
{
    return is_below(p, COMMUNICATORS, "communicators");
}

static bool is_in_rank(const struct nccl_parser *p)
{
    return is_in_communicator(p) && (is_below(p, RANKS, "ranks") || is_below(p, RANKS, "missing_ranks"));
}

/* ---- values ---- */

static void copy_text(char *to, size_t size, const char *text)
{
    const size_t length = strnlen(text, size - 1);
    memcpy(to, text, length);
    to[length] = '\0';
}

static void take_rank_value(struct nccl_parser *p)
{
    if (strcmp(p->key, "rank") == 0)
        p->rank.rank = strtoll(p->text, NULL, 10);
    else if (strcmp(p->key, "pid") == 0)
        p->rank.pid = strtoll(p->text, NULL, 10);
    else if (strcmp(p->key, "host") == 0)
        copy_text(p->rank.host, sizeof(p->rank.host), p->text);
}

static void take_value(struct nccl_parser *p)
{
    if (!is_in_communicator(p))
        return;
    if (p->depth == COMMUNICATOR) {
        if (strcmp(p->key, "hash") == 0)
            copy_text(p->communicator.hash, sizeof(p->communicator.hash), p->text);
        else if (strcmp(p->key, "secondary_hash") == 0)
            copy_text(p->communicator.secondary_hash, sizeof(p->communicator.secondary_hash), p->text);
        else if (strcmp(p->key, "size") == 0)
            p->communicator.size = strtoull(p->text, NULL, 10);
    } else if (p->depth == RANK && is_in_rank(p)) {
        take_rank_value(p);
    } else if (p->depth == RANK_PART && is_below(p, RANK_PART, "collective_counts")) {
        p->operations += strtoull(p->text, NULL, 10);
    } else if (p->depth == RANK_PART && strcmp(p->key, "considered_dead") == 0) {
        p->is_dead = strcmp(p->text, "true") == 0;
    }
}

/* ---- ends of objects ---- */

static void add_rank(struct nccl_parser *p)
{
    struct nccl_communicator *c = &p->communicator;
    for (size_t i = 0; i < p->pid_count; i++)
        if (p->rank.pid == p->pids[i])
            c->pids |= 1u << i;
    c->checksum += hash_mix(hash_mix((uint64_t)p->rank.rank, p->operations), 1); /* in any order */
    if (c->ranks == 0 || p->operations < c->least) {
        c->least = p->operations;
        c->behind = p->rank;
        c->behind_count = 0;
    }
    c->behind_count += p->operations == c->least;
    if (c->ranks == 0 || p->operations > c->most)
        c->most = p->operations;
    c->ranks++;
}

static void add_missing(struct nccl_parser *p)
{
    struct nccl_communicator *c = &p->communicator;
    if (c->missing_count++)
        return;
    c->missing = p->rank;
    c->is_missing_dead = p->is_dead;
}

static void add_communicator(struct nccl_parser *p)
{
    if (p->communicator.most == p->communicator.least)
        p->communicator.behind_count = 0;
    if (p->communicator.pids && p->status.count < NCCL_COMMUNICATORS_MAX)
        p->status.communicators[p->status.count++] = p->communicator;
}

/* The element that ends is the last one. */
static void end_element(struct nccl_parser *p)
{
    if (p->depth == COMMUNICATOR && is_in_communicator(p))
        add_communicator(p);
    else if (p->depth == RANK && is_in_rank(p) && is_below(p, RANKS, "ranks"))
        add_rank(p);
    else if (p->depth == RANK && is_in_rank(p))
        add_missing(p);
}

static void begin_element(struct nccl_parser *p)
{
    if (p->depth == COMMUNICATOR)
        p->communicator = (struct nccl_communicator){0};
    if (p->depth != RANK)
        return;
    p->rank = (struct nccl_rank){.rank = -1, .pid = -1};
    p->operations = 0;
    p->is_dead = false;
}

/* ---- the lexer ---- */

static int open_level(struct nccl_parser *p, char kind)
{
    if (p->depth == NCCL_DEPTH_MAX || p->has_ended || p->has_string)
        return -EBADMSG;
    p->levels[p->depth].kind = kind;
    memcpy(p->levels[p->depth].key, p->key, sizeof(p->key));
    p->depth++;
    p->key[0] = '\0';
    p->has_begun = true;
    begin_element(p);
    return 0;
}

static void end_value(struct nccl_parser *p)
{
    if (p->has_string)
        take_value(p);
    p->has_string = false;
}

static int close_level(struct nccl_parser *p, char kind)
{
    end_value(p);
    if (p->depth == 0 || p->levels[p->depth - 1].kind != kind)
        return -EBADMSG;
    end_element(p);
    p->depth--;
    p->key[0] = '\0';
    p->has_ended = p->depth == 0;
    return 0;
}

static void put_char(struct nccl_parser *p, char c)
{
    if (p->text_length < sizeof(p->text) - 1)
        p->text[p->text_length++] = c;
    p->text[p->text_length] = '\0';
}

static void begin_text(struct nccl_parser *p, int lexer)
{
    p->lexer = lexer;
    p->text_length = 0;
    p->text[0] = '\0';
}

/* A character between strings, numbers and words. */
static int take_mark(struct nccl_parser *p, char c)
{
    switch (c) {
    case ' ':
    case '\t':
    case '\r':
    case '\n':
        return 0;
    case '{':
    case '[':
        return open_level(p, c);
    case '}':
        return close_level(p, '{');
    case ']':
        return close_level(p, '[');
    case ',':
        end_value(p);
        p->key[0] = '\0';
        return p->depth ? 0 : -EBADMSG;
    case ':':
        if (!p->has_string)
            return -EBADMSG;
        memcpy(p->key, p->text, sizeof(p->key));
        p->has_string = false;
        return 0;
    default:
        if (p->depth == 0 || p->has_string)
            return -EBADMSG;
        begin_text(p, c == '"' ? NCCL_STRING : NCCL_WORD);
        if (c != '"')
            put_char(p, c);
        return 0;
    }
}

static bool is_of_word(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '+' || c == '-' ||
           c == '.';
}

static int take_char(struct nccl_parser *p, char c)
{
    switch (p->lexer) {
    case NCCL_STRING:
        if (c == '"') {
            p->lexer = NCCL_BETWEEN;
            p->has_string = true;
        } else if (c == '\\') {
            p->lexer = NCCL_ESCAPE;
        } else {
            put_char(p, (unsigned char)c < ' ' ? '?' : c);
        }
        return 0;
    case NCCL_ESCAPE: /* NCCL writes none: of keys and hosts that matter, none has one */
        put_char(p, '?');
        p->lexer = NCCL_STRING;
        return 0;
    case NCCL_WORD:
        if (is_of_word(c)) {
            put_char(p, c);
            return 0;
        }
        p->lexer = NCCL_BETWEEN;
        p->has_string = true;
        return take_mark(p, c);
    case NCCL_BETWEEN:
        break;
    }
    return take_mark(p, c);
}

int nccl_parse(struct nccl_parser *p, const char *data, size_t size)
{
    int r = 0;
    for (size_t i = 0; i < size && r == 0; i++)
        r = take_char(p, data[i]);
    return r;
}

bool nccl_parser_is_done(const struct nccl_parser *p)
{
    return p->has_ended;
}

/* ---- two reports ---- */

static const struct nccl_communicator *find_same(const struct nccl_status *status, const struct nccl_communicator *c)
{
    for (size_t i = 0; i < status->count; i++)
        if (strcmp(status->communicators[i].hash, c->hash) == 0 &&
            strcmp(status->communicators[i].secondary_hash, c->secondary_hash) == 0)
            return &status->communicators[i];
    return NULL;
}

static int weight_of(const struct nccl_communicator *c)
{
    return c->behind_count ? 3 : c->missing_count ? 2 : 1;
}

const struct nccl_communicator *nccl_status_stuck(const struct nccl_status *before, const struct nccl_status *now,
                                                  size_t pid)
{
    const struct nccl_communicator *found = NULL;
    for (size_t i = 0; i < now->count; i++) {
        const struct nccl_communicator *c = &now->communicators[i], *was = find_same(before, c);
        if (c->pids & 1u << pid && was && was->checksum == c->checksum && was->ranks == c->ranks && c->most &&
            (!found || weight_of(c) > weight_of(found)))
            found = c;
    }
    return found;
}

/* ---- text ---- */

/* "rank 3 (pid 812 on 10.0.0.7) and 2 more" */
static void put_rank(const struct nccl_rank *rank, uint64_t count, struct buf *out)
{
    buf_printf(out, "rank %" PRId64, rank->rank);
    if (rank->pid >= 0 && rank->host[0]) {
        buf_printf(out, " (pid %" PRId64 " on ", rank->pid);
        buf_put_shown(out, rank->host);
        buf_putc(out, ')');
    }
    if (count > 1)
        buf_printf(out, " and %" PRIu64 " more", count - 1);
}

void nccl_communicator_put(const struct nccl_communicator *c, struct buf *out)
{
    buf_puts(out, "in NCCL's communicator ");
    buf_put_shown(out, c->hash);
    buf_printf(out, " of %" PRIu64 " ranks, ", c->size);
    if (c->behind_count) {
        put_rank(&c->behind, c->behind_count, out);
        buf_printf(out, " %s begun %" PRIu64 " collective operations, and others %" PRIu64,
                   c->behind_count > 1 ? "have" : "has", c->least, c->most);
    } else if (c->missing_count) {
        put_rank(&c->missing, c->missing_count, out);
        buf_puts(out, c->is_missing_dead ? ": dead" : ": no response");
    } else {
        buf_printf(out, "all have begun %" PRIu64 " collective operations", c->most);
    }
}
