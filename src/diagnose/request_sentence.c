/* See request_sentence.h. */
#include "diagnose/request_sentence.h"

#include "base/buf.h"
#include "base/units.h"
#include "model/request_cause.h"

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
    [REQUEST_PART_UNREAD] = "waiting for the server to read it",
    [REQUEST_PART_LOOP_BUSY] = "waiting for the event loop, which served others",
    [REQUEST_PART_QUEUE_BEHIND] = "waiting in the queue of a thread that did other work",
    [REQUEST_PART_OTHER] = "waiting for something else",
    [REQUEST_PART_STEAL] = "while the hypervisor ran something else",
    [REQUEST_PART_UNATTRIBUTED] = "unexplained",
};

static bool has_holder(enum request_part_kind kind, const char *place)
{
    return kind == REQUEST_PART_LOCK && strncmp(place, "held by", 7) == 0;
}

/* "CPU 1 ran NET_RX", or of several requests "its CPU ran NET_RX". */
static bool is_interrupted(enum request_part_kind kind, const char *place)
{
    return kind == REQUEST_PART_OTHER && (strncmp(place, "CPU ", 4) == 0 || strncmp(place, "its CPU ", 8) == 0) &&
           strstr(place, " ran ");
}

/* "in direct reclaim of the node's memory". */
static bool is_short_of_memory(enum request_part_kind kind, const char *place)
{
    return kind == REQUEST_PART_OTHER && (strstr(place, "in direct reclaim of ") ||
                                          strstr(place, "in compaction of ") || strstr(place, "stalled on memory"));
}

static const char *activity(enum request_part_kind kind, const char *place)
{
    return has_holder(kind, place)           ? "waiting for a lock"
           : is_interrupted(kind, place)     ? "interrupted"
           : is_short_of_memory(kind, place) ? "short of memory"
                                             : activities[kind];
}

/* Between the activity and its place: "waiting for a lock held by ...", "on a CPU, in main". */
static const char *separator(enum request_part_kind kind, const char *place)
{
    return has_holder(kind, place) ? " " : place[0] ? ", " : "";
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

static void put_usual(const struct request_usual *usual, char *out, size_t size)
{
    char duration[32];
    if (usual->requests)
        snprintf(out, size, "; usually %s (median of %u requests)",
                 units_format_duration(usual->p50_ns, duration, sizeof(duration)), usual->requests);
}

static enum request_part_kind top_kind(const struct request *r)
{
    uint64_t kind_ns[REQUEST_PART_COUNT];
    for (int kind = 0; kind < REQUEST_PART_COUNT; kind++)
        kind_ns[kind] = request_kind_ns(r, (enum request_part_kind)kind);
    return request_top_kind(kind_ns, r->duration_ns, &r->usual);
}

/* Replaces a place that is not known by the evidence of the longest segment of the kind that has some. It is of this
 * request, the slowest of its cause. */
static void find_evidence(const struct request *r, enum request_part_kind kind, char place[REQUEST_PLACE_BYTES])
{
    const struct request_segment *longest = NULL;
    char line[REQUEST_FRAME_BYTES];
    for (size_t i = 0; i < r->segment_count; i++)
        if (r->segments[i].kind == kind && r->segments[i].notes[0] &&
            (!longest || r->segments[i].duration_ns > longest->duration_ns))
            longest = &r->segments[i];
    const char *at = longest ? longest->notes : "";
    if (place[0] || !request_next_frame(&at, line))
        return;
    snprintf(place, REQUEST_PLACE_BYTES, "in the slowest request %s", line);
}

/* Of a failed request: its status is abnormal, its duration is not. */
static const char *not_slow(const struct request *r)
{
    return r->usual.requests && !request_is_slow(r->duration_ns, &r->usual) ? ", not slow" : "";
}

/* The text after the upstream service in the place of a wait for it: " in query() db.py:7". */
static const char *behind_address(const struct request *r, const char *place)
{
    const size_t bytes = strcspn(r->upstream, " ");
    for (const char *at = strstr(place, " to "); at; at = strstr(at + 1, " to "))
        if (strncmp(at + strlen(" to "), r->upstream, bytes) == 0)
            return at + strlen(" to ") + bytes;
    return "";
}

/* "waiting for an answer of 127.0.0.1:8199 (python) to HTTP GET, most of it asleep, clock_nanosleep in do_GET()
 * backend.py:5". */
static const char *constant_sentence(const struct request *r, char out[REQUEST_SENTENCE_BYTES])
{
    char place[REQUEST_PLACE_BYTES] = "", answer[REQUEST_SENTENCE_BYTES] = "";
    const struct request_part *part = r->constant.part ? &r->parts[r->constant.part - 1] : NULL;
    const char *upstream = r->constant.is_upstream ? r->upstream : "";
    if (part)
        request_part_place(r, part, place);
    if (upstream[0])
        snprintf(answer, sizeof(answer), "waiting for an answer of %s%s%s", upstream, r->upstream_call[0] ? " to " : "",
                 r->upstream_call);
    if (!part)
        snprintf(out, REQUEST_SENTENCE_BYTES, "%s", answer);
    else if (!upstream[0])
        snprintf(out, REQUEST_SENTENCE_BYTES, "%s%s%s", activity(part->kind, place), separator(part->kind, place),
                 place);
    else if (part->kind == REQUEST_PART_DOWNSTREAM)
        snprintf(out, REQUEST_SENTENCE_BYTES, "%s%s", answer, behind_address(r, place));
    else
        snprintf(out, REQUEST_SENTENCE_BYTES, "%s, most of it %s%s%s", answer, activity(part->kind, place),
                 separator(part->kind, place), place);
    return out;
}

/* The request is an example of a route without slow ones, and what the others take their time for is not known. */
static bool is_only_example(const struct request *r)
{
    return r->usual.requests && !r->usual.explained && !request_is_slow(r->duration_ns, &r->usual);
}

const char *request_cause_sentence(const struct request *r, char out[REQUEST_SENTENCE_BYTES])
{
    if (r->constant.is_upstream || r->constant.part)
        return constant_sentence(r, out);

    char place[REQUEST_PLACE_BYTES], status[32] = "", number[REQUEST_STATUS_BYTES];
    const bool is_failed = request_is_failed(r->status);
    if (is_failed)
        snprintf(status, sizeof(status), "%s%s", r->status ? "status " : "no reply",
                 r->status ? request_status_text(r->status, number) : "");
    if (is_failed && !request_is_slow(r->duration_ns, &r->usual)) {
        snprintf(out, REQUEST_SENTENCE_BYTES, "%s%s", status, not_slow(r));
        return out;
    }
    const enum request_part_kind kind = top_kind(r);
    const char *start = status[0] ? ", slow: " : is_only_example(r) ? "in one request, " : "";
    request_cause_place(r, kind, place);
    find_evidence(r, kind, place);
    snprintf(out, REQUEST_SENTENCE_BYTES, "%s%s%s%s%s", status, start, activity(kind, place), separator(kind, place),
             place);
    return out;
}

const char *request_sentence(const struct request *r, char out[REQUEST_SENTENCE_BYTES])
{
    char in_all[32], in_part[32], usual[80] = "";
    char start[80] = "", status[REQUEST_STATUS_BYTES];
    if (request_is_failed(r->status) && r->status)
        snprintf(start, sizeof(start), "status %s%s; ", request_status_text(r->status, status), not_slow(r));
    else if (request_is_failed(r->status))
        snprintf(start, sizeof(start), "no reply was seen%s; ", not_slow(r));
    const enum request_part_kind top = top_kind(r);
    const struct request_part *part = request_longest_part(r, top);
    put_usual(&r->usual, usual, sizeof(usual));
    if (!part) {
        snprintf(out, REQUEST_SENTENCE_BYTES, "%stook no time%s", start, usual);
        return out;
    }
    const char *holder = top == REQUEST_PART_LOCK && !strstr(part->detail, "held by") ? longest_holder(r) : "";
    snprintf(out, REQUEST_SENTENCE_BYTES - strlen(usual), "%s%s: %s %s%s%.*s%s%s", start,
             units_format_duration(r->duration_ns, in_all, sizeof(in_all)),
             units_format_duration(request_kind_ns(r, top), in_part, sizeof(in_part)), activity(top, part->detail),
             separator(top, part->detail), request_detail_bytes(part), part->detail, holder[0] ? ", " : "", holder);
    memcpy(out + strlen(out), usual, strlen(usual) + 1);
    return out;
}

/* The code that the request ran on a CPU, if it is known: " in handle() app.py:31, running sha1". */
static void put_code(const struct request *r, struct buf *out)
{
    const struct request_part *cpu = request_longest_part(r, REQUEST_PART_CPU);
    const char *code = cpu && strncmp(cpu->detail, "in ", 3) == 0 ? cpu->detail : NULL;
    if (code && strncmp(code, "in thread ", 10) == 0)
        code = strstr(code, ", in ") ? strstr(code, ", in ") + 2 : NULL;
    if (code)
        buf_printf(out, "; it ran %s", code);
}

const char *request_failure(const struct request *r, char out[REQUEST_SENTENCE_BYTES])
{
    _cleanup_buf_ struct buf text = {.max_bytes = REQUEST_SENTENCE_BYTES};
    char duration[32], status[REQUEST_STATUS_BYTES];
    out[0] = '\0';
    if (!request_is_failed(r->status))
        return out;
    if (r->status)
        buf_printf(&text, "process %u replied with status %s after %s", r->pid, request_status_text(r->status, status),
                   units_format_duration(r->duration_ns, duration, sizeof(duration)));
    else
        buf_printf(&text, "the connection to process %u ended without a reply after %s", r->pid,
                   units_format_duration(r->duration_ns, duration, sizeof(duration)));
    if (!r->usual.requests)
        buf_puts(&text, " (whether that is slow is not known yet)");
    else
        buf_puts(&text, not_slow(r)[0] ? " (not slow: only the failure is abnormal)" : " (it was slow, too)");
    if (r->upstream_ns)
        buf_printf(&text, "; it waited %s of that for %s",
                   units_format_duration(r->upstream_ns, duration, sizeof(duration)),
                   r->upstream[0] ? r->upstream : "another service");
    else if (r->segment_count)
        buf_puts(&text, "; it waited for no other service");
    put_code(r, &text);
    buf_puts(&text, ". Sonde does not see the error itself: see the log of that process.");
    snprintf(out, REQUEST_SENTENCE_BYTES, "%s", buf_error(&text) == 0 ? text.data : "");
    return out;
}

int request_set_sentence(struct request **r)
{
    char sentence[REQUEST_SENTENCE_BYTES], group[REQUEST_SENTENCE_BYTES];
    struct request changed = **r, *copy;
    changed.cause = request_sentence(&changed, sentence);
    changed.group_cause = changed.group.requests > 0 ? request_cause_sentence(&changed, group) : "";
    int error = request_copy(&changed, &copy);
    if (error < 0)
        return error;
    request_free(*r);
    *r = copy;
    return 0;
}
