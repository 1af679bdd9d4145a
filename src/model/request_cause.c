/* See request_cause.h. */
#include "model/request_cause.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct request_part *request_longest_part(const struct request *r, enum request_part_kind kind)
{
    const struct request_part *longest = NULL;
    for (size_t i = 0; i < r->part_count; i++)
        if (r->parts[i].kind == kind && (!longest || r->parts[i].duration_ns > longest->duration_ns))
            longest = &r->parts[i];
    return longest;
}

int request_detail_bytes(const struct request_part *part)
{
    const char *end = NULL;
    if (part->stack && strstr(part->stack, REQUEST_KERNEL_FRAME))
        for (const char *at = part->detail; (at = strstr(at, ": ")); at++)
            end = at;
    return (int)(end ? (size_t)(end - part->detail) : strlen(part->detail));
}

/* Whether `at` has `before`, digits, and then `after`; sets where it ends. */
static bool has_number(const char *at, const char *before, const char *after, const char **ret_end)
{
    const size_t bytes = strlen(before);
    if (strncmp(at, before, bytes) != 0 || !isdigit((unsigned char)at[bytes]))
        return false;
    at += bytes;
    while (isdigit((unsigned char)*at))
        at++;
    if (strncmp(at, after, strlen(after)) != 0)
        return false;
    *ret_end = at + strlen(after);
    return true;
}

/* Whether `at` names a thread: "thread 4711 pool-1 of process 4700 (worker)"; sets where that ends. The thread's name
 * is that of its segment. */
static bool has_thread(const struct request *r, const char *at, const char **ret_end)
{
    const char *end, *name = "";
    if (!has_number(at, "thread ", "", &end))
        return false;
    const unsigned long tid = strtoul(at + strlen("thread "), NULL, 10);
    for (size_t i = 0; i < r->segment_count && !name[0]; i++)
        if (r->segments[i].tid == tid)
            name = r->segments[i].thread;
    if (name[0] && *end == ' ' && strncmp(end + 1, name, strlen(name)) == 0)
        end += 1 + strlen(name);
    if (!has_number(end, " of process ", "", ret_end))
        *ret_end = end;
    else if (strncmp(*ret_end, " (", 2) == 0 && strchr(*ret_end, ')'))
        *ret_end = strchr(*ret_end, ')') + 1;
    return true;
}

/* Whether `at` has ", 2 retransmissions, 204 ms of it"; sets where that ends. */
static bool has_retransmissions(const char *at, const char **ret_end)
{
    static const char last[] = " of it";
    const char *counted, *end = has_number(at, ", ", " retransmission", &counted) ? strstr(counted, last) : NULL;
    if (!end)
        return false;
    *ret_end = end + strlen(last);
    return true;
}

static size_t put_words(char *out, size_t used, const char *words)
{
    const size_t bytes = strlen(words), room = REQUEST_PLACE_BYTES - 1 - used;
    memcpy(out + used, words, bytes < room ? bytes : room);
    return used + (bytes < room ? bytes : room);
}

/* What the function ran there differs from sample to sample, but whether it was a garbage collection does not. */
static void cut_what_ran(char *place)
{
    static const char collection[] = REQUEST_CODE_RUNNING REQUEST_CODE_COLLECTION;
    char *runs = strstr(place, REQUEST_CODE_RUNNING);
    if (runs && strncmp(runs, collection, sizeof(collection) - 1) != 0)
        *runs = '\0';
}

const char *request_part_place(const struct request *r, const struct request_part *part, char out[REQUEST_PLACE_BYTES])
{
    const char *end = part->detail + request_detail_bytes(part);
    size_t used = 0;
    for (const char *at = part->detail; at < end && used + 1 < REQUEST_PLACE_BYTES;) {
        const char *next;
        const bool is_first = at == part->detail;
        if (has_number(at, ", ", " times", &next) ||
            ((is_first || *at == ' ') && strncmp(at + !is_first, "in ", 3) == 0 &&
             has_thread(r, at + 3 + !is_first, &next))) {
            at = next + (!is_first && strncmp(next, ", in ", 5) == 0); /* as it reads without a thread */
        } else if (has_thread(r, at, &next)) {
            used = put_words(out, used, "another thread");
            at = next;
        } else if (has_number(at, "CPU ", " ran ", &next)) {
            used = put_words(out, used, "its CPU ran ");
            at = next;
        } else if (has_retransmissions(at, &next)) {
            used = put_words(out, used, ", with retransmissions");
            at = next;
        } else {
            out[used++] = *at++;
        }
    }
    out[used] = '\0';
    if (strncmp(out, ": ", 2) == 0 || strncmp(out, ", ", 2) == 0) /* the thread was in front of it */
        memmove(out, out + 2, used - 1);
    if (part->kind == REQUEST_PART_CPU)
        cut_what_ran(out);
    return out;
}

const char *request_cause_place(const struct request *r, enum request_part_kind kind, char out[REQUEST_PLACE_BYTES])
{
    const struct request_part *part = request_longest_part(r, kind);
    out[0] = '\0';
    return part ? request_part_place(r, part, out) : out;
}

/* Samples of one function that computes show several of its lines. */
static void cut_lines(char *place)
{
    char *to = place;
    for (const char *from = place; *from;) {
        const size_t digits = *from == ':' ? strspn(from + 1, "0123456789") : 0;
        if (digits)
            from += 1 + digits;
        else
            *to++ = *from++;
    }
    *to = '\0';
}

#define HASH_START 0x811c9dc5u

static uint32_t hash_bytes(uint32_t hash, const char *text)
{
    for (; *text; text++)
        hash = (hash ^ (unsigned char)*text) * 0x01000193u;
    return hash;
}

/* Changes `place`. */
static uint32_t hash_place(uint32_t hash, enum request_part_kind kind, char *place)
{
    if (kind == REQUEST_PART_CPU)
        cut_lines(place);
    return hash_bytes(hash_bytes(hash, request_part_name(kind)), place);
}

uint32_t request_part_key(const struct request *r, const struct request_part *part)
{
    char place[REQUEST_PLACE_BYTES];
    request_part_place(r, part, place);
    return hash_place(HASH_START, part->kind, place);
}

uint32_t request_cause_key(const struct request *r, enum request_part_kind kind, bool is_slow)
{
    char place[REQUEST_PLACE_BYTES], status[16] = "";
    if (request_is_failed(r->status))
        snprintf(status, sizeof(status), "%u ", r->status);
    const uint32_t key = hash_bytes(HASH_START, status);
    if (status[0] && !is_slow)
        return key;
    request_cause_place(r, kind, place);
    return hash_place(key, kind, place);
}
