/* See request_sentence.h. */
#include "diagnose/request_sentence.h"

#include "base/units.h"

#include <stdio.h>
#include <string.h>

/* After a duration: "180 ms waiting for disk". */
static const char *const activities[REQUEST_PART_COUNT] = {
    [REQUEST_PART_CPU] = "on a CPU",
    [REQUEST_PART_RUN_QUEUE] = "waiting for a CPU",
    [REQUEST_PART_DISK] = "waiting for disk",
    [REQUEST_PART_LOCK] = "waiting for a lock or another thread",
    [REQUEST_PART_SLEEP] = "asleep",
    [REQUEST_PART_NETWORK] = "waiting for the client",
    [REQUEST_PART_DOWNSTREAM] = "waiting for another service",
    [REQUEST_PART_UNREAD] = "arrived and not read",
    [REQUEST_PART_LOOP_BUSY] = "ready, while the event loop worked for others",
    [REQUEST_PART_QUEUE_BEHIND] = "queued behind other work",
    [REQUEST_PART_OTHER] = "in other waits",
    [REQUEST_PART_STEAL] = "while the hypervisor ran something else",
    [REQUEST_PART_UNATTRIBUTED] = "not known",
};

/* The longest component of a kind; there is one. */
static const struct request_part *longest_part(const struct request *r, enum request_part_kind kind)
{
    const struct request_part *longest = NULL;
    for (size_t i = 0; i < r->part_count; i++)
        if (r->parts[i].kind == kind && (!longest || r->parts[i].duration_ns > longest->duration_ns))
            longest = &r->parts[i];
    return longest;
}

/* The longest time that another thread held a lock, in words: "held by thread 7 pool: the holder slept"; "": none. */
static const char *longest_holder(const struct request *r)
{
    const struct request_segment *longest = NULL;
    for (size_t i = 0; i < r->segment_count; i++)
        if (r->segments[i].kind == REQUEST_PART_LOCK && strstr(r->segments[i].detail, "held by") &&
            (!longest || r->segments[i].duration_ns > longest->duration_ns))
            longest = &r->segments[i];
    return longest ? strstr(longest->detail, "held by") : "";
}

/* The detail of a component without the kernel's functions, which end it where the stack has some. */
static int detail_bytes(const struct request_part *part)
{
    const char *end = NULL;
    if (part->stack && strstr(part->stack, REQUEST_KERNEL_FRAME))
        for (const char *at = part->detail; (at = strstr(at, ": ")); at++)
            end = at;
    return (int)(end ? (size_t)(end - part->detail) : strlen(part->detail));
}

static void put_usual(const struct request_usual *usual, char *out, size_t size)
{
    char duration[32];
    if (usual->requests)
        snprintf(out, size, "; usually %s (median of %u requests)",
                 units_format_duration(usual->p50_ns, duration, sizeof(duration)), usual->requests);
}

const char *request_sentence(const struct request *r, char out[REQUEST_SENTENCE_BYTES])
{
    uint64_t kind_ns[REQUEST_PART_COUNT];
    char in_all[32], in_part[32], usual[80] = "";
    const char *start = r->status ? "" : "no reply was seen; ";
    for (int kind = 0; kind < REQUEST_PART_COUNT; kind++)
        kind_ns[kind] = request_kind_ns(r, (enum request_part_kind)kind);
    const enum request_part_kind top = request_top_kind(kind_ns, r->duration_ns, &r->usual);
    const struct request_part *part = longest_part(r, top);
    put_usual(&r->usual, usual, sizeof(usual));
    if (!part) {
        snprintf(out, REQUEST_SENTENCE_BYTES, "%stook no time%s", start, usual);
        return out;
    }
    const char *holder = top == REQUEST_PART_LOCK && !strstr(part->detail, "held by") ? longest_holder(r) : "";
    snprintf(out, REQUEST_SENTENCE_BYTES - strlen(usual), "%s%s: %s %s%s%.*s%s%s", start,
             units_format_duration(r->duration_ns, in_all, sizeof(in_all)),
             units_format_duration(kind_ns[top], in_part, sizeof(in_part)), activities[top],
             part->detail[0] ? ", " : "", detail_bytes(part), part->detail, holder[0] ? ", " : "", holder);
    memcpy(out + strlen(out), usual, strlen(usual) + 1);
    return out;
}

int request_set_sentence(struct request **r)
{
    char sentence[REQUEST_SENTENCE_BYTES];
    struct request changed = **r, *copy;
    changed.cause = request_sentence(&changed, sentence);
    int error = request_copy(&changed, &copy);
    if (error < 0)
        return error;
    request_free(*r);
    *r = copy;
    return 0;
}
