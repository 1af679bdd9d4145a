/* Words for segments of a critical path; see path_text.h. */
#include "diagnose/path/path_text.h"

#include "base/buf.h"
#include "base/units.h"
#include "diagnose/code/stack_text.h"
#include "diagnose/flight/syscalls.h"
#include "diagnose/path/path_asked.h"
#include "diagnose/path/path_notes.h"
#include "diagnose/path/path_reclaim.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

#include <linux/types.h>

#include "probes/recorder/recorder.h"

#define DETAIL_BYTES 224
#define NAMES_KEPT   16
#define SHORT_SHARE  500     /* a segment of less than this part of the request is not shown alone, */
#define SHORT_NS     1000    /* nor one so short */
#define RUN_MIN_NS   1000000 /* a component of less time needs no CPU sample */
#define MOST_SHARE   10      /* a stretch has less than this part of another kind: the sum of its kind is not shown */
/* A thread that gives up the GIL waits for it again within this time. Where stolen time was subtracted, the wait seems
 * to begin earlier than it did. */
#define RELEASE_NS 1000000

struct described {
    struct path_segment segment;
    char thread[PATH_THREAD_BYTES];
    char process[PATH_PROCESS_BYTES]; /* "": unknown, or the process of the request */
    char detail[DETAIL_BYTES];
};

struct path_text {
    struct described *items; /* every segment of the path */
    size_t count;
    struct request_segment segments[REQUEST_SEGMENTS_MAX];
    char stretches[REQUEST_SEGMENTS_MAX][DETAIL_BYTES]; /* details of segments that stand for several */
    struct request_kind_time times[REQUEST_SEGMENTS_MAX][REQUEST_PART_COUNT];
    struct buf notes[REQUEST_SEGMENTS_MAX];
    size_t segment_count;
    struct path_names names;
    /* Texts of components that waited, in the order of the calls that asked for them. */
    struct part_text {
        struct buf detail, stack;
    } parts[REQUEST_PARTS_MAX];
    size_t part_count;
};

void path_text_free(struct path_text *text)
{
    if (!text)
        return;
    for (size_t i = 0; i < REQUEST_SEGMENTS_MAX; i++)
        buf_clear(&text->notes[i]);
    for (size_t i = 0; i < text->part_count; i++) {
        buf_clear(&text->parts[i].detail);
        buf_clear(&text->parts[i].stack);
    }
    free(text->items);
    free(text);
}

/* ---- words ---- */

static void append(char *out, const char *separator, const char *text)
{
    const size_t used = strlen(out);
    if (text[0])
        snprintf(out + used, DETAIL_BYTES - used, "%s%s", used ? separator : "", text);
}

static bool is_wait(enum request_part_kind kind)
{
    return kind == REQUEST_PART_DISK || kind == REQUEST_PART_SLEEP || kind == REQUEST_PART_NETWORK ||
           kind == REQUEST_PART_DOWNSTREAM || kind == REQUEST_PART_OTHER;
}

/* The file of a system call of the thread that began in [from, to), as it was recorded; else what its descriptor is
 * now. */
static void name_file(const struct path_segments *path, uint32_t tid, uint64_t from_ns, uint64_t to_ns, uint64_t fd,
                      const struct path_names *names, struct path_file_name *ret)
{
    struct path_file_name file = {.name = ""};
    size_t count;
    const struct path_file_wait *waits = path_evidence_files(&path->evidence, from_ns, to_ns, &count);
    for (size_t i = count; i-- > 0 && names->file && !file.name[0];)
        if (waits[i].tid == tid && waits[i].is_of_call)
            names->file(names->context, waits[i].file, &file);
    if (!file.name[0]) {
        file.file_system[0] = '\0';
        if (names->descriptor)
            names->descriptor(names->context, tid, fd, file.name);
    }
    *ret = file;
}

/* A lock on a file, which another thread held. */
static bool is_file_lock(const struct path_segment *s)
{
    return s->kind == REQUEST_PART_LOCK && s->for_tid && (s->for_syscall == SYS_flock || s->for_syscall == SYS_fcntl);
}

/* "pread64 of weights.bin (ext4)", "PostgreSQL SELECT" */
static void describe_call(const struct path_segments *path, const struct path_segment *s,
                          const struct path_names *names, char *out)
{
    char call[48], asked[PATH_ASKED_BYTES];
    struct path_file_name file = {.name = ""};
    if (is_file_lock(s)) {
        append(out, "", syscall_name(s->for_syscall, call, sizeof(call)));
        name_file(path, s->for_tid, path->begin_ns, s->end_ns, s->for_object, names, &file);
        append(out, " of ", file.name);
        return;
    }
    if (s->kind == REQUEST_PART_DOWNSTREAM)
        append(out, "", path_asked_text(s, names, asked));
    if (out[0] || !is_wait(s->kind) || (s->syscall < 0 && s->kind != REQUEST_PART_DISK))
        return;
    append(out, "", syscall_name(s->syscall, call, sizeof(call)));
    if (s->syscall >= 0 && s->kind == REQUEST_PART_DISK)
        name_file(path, s->tid, s->start_ns, s->end_ns, s->object, names, &file);
    append(out, " of ", file.name);
    if (file.file_system[0]) {
        append(out, " (", file.file_system);
        append(out, "", ")");
    }
}

/* "to 10.0.0.3:5432, 2 retransmissions, 204 ms of it" */
static void describe_socket(const struct path_segment *s, const struct path_names *names, char *out)
{
    char peer[PATH_PEER_BYTES] = "", again[80] = "", lost[32];
    if (s->socket && names->peer)
        names->peer(names->context, s->socket, peer);
    append(out, s->kind == REQUEST_PART_DOWNSTREAM ? " to " : " with ", peer);
    if (s->retransmissions)
        snprintf(again, sizeof(again), "%u retransmission%s, %s of it", s->retransmissions,
                 s->retransmissions > 1 ? "s" : "", units_format_duration(s->retransmitted_ns, lost, sizeof(lost)));
    append(out, ", ", again);
}

/* The segment shows another thread, which the request's thread waited for. */
static bool is_awaited(const struct path_segment *s)
{
    return s->for_tid && s->for_tid != s->tid;
}

/* How it is related to the thread that it shows. */
static const char *place_relation(const struct path_segment *s)
{
    if (!is_awaited(s))
        return "in";
    switch (s->kind) {
    case REQUEST_PART_LOCK:
        return "held by";
    case REQUEST_PART_UNREAD:
    case REQUEST_PART_LOOP_BUSY:
        return "its thread waited for";
    default:
        return "in";
    }
}

/* Writes "thread 4711 pool-1 of process 4700 (uvicorn :8100)". Writes "" for the thread that served the request, unless
 * the request waited for it: it needs no name. */
static void name_place(const struct described *d, uint32_t pid, uint32_t tid, char *out, size_t size)
{
    const struct path_segment *s = &d->segment;
    char process[32 + PATH_PROCESS_BYTES] = "";
    out[0] = '\0';
    if (!s->tid || (s->tid == tid && !is_awaited(s)))
        return;
    if (s->pid && s->pid != pid)
        snprintf(process, sizeof(process), " of process %u%s%s%s", s->pid, d->process[0] ? " (" : "", d->process,
                 d->process[0] ? ")" : "");
    snprintf(out, size, "thread %u%s%s%s", s->tid, d->thread[0] ? " " : "", d->thread, process);
}

/* Names are read from /proc, and segments alternate between few threads. */
static void name_thread(const struct path_text *text, size_t i, uint32_t pid, const struct path_names *names)
{
    struct described *d = &text->items[i];
    for (size_t k = i; k-- > 0 && i - k <= NAMES_KEPT;)
        if (text->items[k].segment.tid == d->segment.tid) {
            memcpy(d->thread, text->items[k].thread, sizeof(d->thread));
            memcpy(d->process, text->items[k].process, sizeof(d->process));
            return;
        }
    if (d->segment.tid && names->thread)
        names->thread(names->context, d->segment.tid, d->thread);
    if (d->segment.pid && d->segment.pid != pid && names->process)
        names->process(names->context, d->segment.pid, d->process);
}

/* What the thread did, or why that is not known. */
static const char *reason_of(const struct path_segment *s, const struct path_names *names, char out[PATH_RECLAIM_BYTES])
{
    _Static_assert(PATH_RECLAIM_BYTES >= PATH_RAN_BYTES, "room for both");
    if (s->is_interrupt)
        return path_names_interrupt(s->interrupt, names, out);
    if (s->is_reclaim)
        return path_reclaim_text(&(struct path_reclaim_cause){s->reclaim_kind, s->reclaim_cgroup}, names, out);
    return s->reason;
}

static void describe(const struct path_segments *path, struct described *d, uint32_t pid, uint32_t tid,
                     const struct path_names *names)
{
    const struct path_segment *s = &d->segment;
    char place[96 + PATH_PROCESS_BYTES], where[128 + PATH_PROCESS_BYTES] = "", reason[PATH_RECLAIM_BYTES],
                                                     asked[PATH_ASKED_BYTES];
    describe_call(path, s, names, d->detail);
    describe_socket(s, names, d->detail);
    name_place(d, pid, tid, place, sizeof(place));
    if (place[0])
        snprintf(where, sizeof(where), "%s %s", place_relation(s), place);
    append(d->detail, " ", where);
    if (s->pid && s->pid != pid)
        append(d->detail, ", for ", path_asked_text(s, names, asked));
    append(d->detail, ": ", reason_of(s, names, reason));
}

/* ---- segments ---- */

static uint64_t length_of(const struct path_segment *s)
{
    return s->end_ns - s->start_ns;
}

static bool continues(const struct path_segment *a, const struct path_segment *b)
{
    return a->kind == b->kind && a->tid == b->tid && a->owner == b->owner && strcmp(a->reason, b->reason) == 0;
}

/* Where the stretch that begins with segment `i` ends. It has long segments of one kind and thread, and short ones in
 * between, as long as these are not long together; or short ones only. */
static size_t stretch_end(const struct path_text *text, size_t i, uint64_t shortest_ns)
{
    const struct path_segment *first = NULL; /* long one */
    uint64_t short_ns = 0;                   /* of the short ones since the last long one, */
    size_t short_start = i;                  /* from this on */
    for (; i < text->count; i++) {
        const struct path_segment *s = &text->items[i].segment;
        if (length_of(s) >= shortest_ns) {
            if (first ? !continues(first, s) : short_ns >= shortest_ns && short_ns > 0)
                break;
            first = s;
            short_ns = 0;
            continue;
        }
        short_start = short_ns ? short_start : i;
        short_ns += length_of(s);
        if (first && short_ns >= shortest_ns)
            return short_start;
    }
    return i;
}

static size_t count_stretches(const struct path_text *text, uint64_t shortest_ns)
{
    size_t count = 0;
    for (size_t i = 0; i < text->count; i = stretch_end(text, i, shortest_ns))
        count++;
    return count;
}

/* Sets `ret` to the times of the kinds in [i, end), and returns their number. The first is that with the most time. */
static size_t sum_kinds(const struct path_text *text, size_t i, size_t end,
                        struct request_kind_time ret[REQUEST_PART_COUNT])
{
    uint64_t sums_ns[REQUEST_PART_COUNT] = {0};
    size_t count = 0;
    for (size_t k = i; k < end; k++)
        sums_ns[text->items[k].segment.kind] += length_of(&text->items[k].segment);
    ret[count++] = (struct request_kind_time){text->items[i].segment.kind, sums_ns[text->items[i].segment.kind]};
    for (int kind = 0; kind < REQUEST_PART_COUNT; kind++) {
        if (!sums_ns[kind] || kind == (int)text->items[i].segment.kind)
            continue;
        ret[count++] = (struct request_kind_time){(enum request_part_kind)kind, sums_ns[kind]};
        if (sums_ns[kind] > ret[0].ns) {
            const struct request_kind_time most = ret[count - 1];
            ret[count - 1] = ret[0];
            ret[0] = most;
        }
    }
    return count;
}

/* Appends the time and the number of steps of the stretch's kind, unless the segment shows them already. */
static void put_sum(const struct path_text *text, size_t i, size_t end, uint64_t kind_ns, struct request_segment *s,
                    char *out)
{
    char duration[32], count[32] = "";
    size_t steps = 0;
    for (size_t k = i; k < end; k++)
        steps += text->items[k].segment.kind == s->kind;
    if (steps > 1)
        snprintf(count, sizeof(count), " in %zu steps", steps);
    else if (kind_ns >= s->duration_ns - s->duration_ns / MOST_SHARE)
        return;
    const bool has_detail = s->detail[0];
    snprintf(out, DETAIL_BYTES, "%.140s%s%s%s%s", s->detail, has_detail ? " (" : "",
             units_format_duration(kind_ns, duration, sizeof(duration)), count, has_detail ? ")" : "");
    s->detail = out;
}

/* Appends one segment for all of [i, end). It has the kind with the most time, and the detail of the longest segment of
 * that kind. */
static void put_stretch(struct path_text *text, size_t i, size_t end)
{
    struct request_kind_time *times = text->times[text->segment_count];
    const size_t time_count = sum_kinds(text, i, end, times);
    const enum request_part_kind kind = times[0].kind;
    size_t shown = i;
    struct request_segment segment = {.start_ns = text->items[i].segment.start_ns - text->items[0].segment.start_ns};
    for (size_t k = i; k < end; k++) {
        const struct path_segment *s = &text->items[k].segment;
        if (s->kind == kind &&
            (text->items[shown].segment.kind != kind || length_of(s) > length_of(&text->items[shown].segment)))
            shown = k;
        segment.is_inferred |= s->is_inferred;
        segment.duration_ns += length_of(s);
    }
    struct described *d = &text->items[shown];
    segment.kind = kind;
    segment.owner = d->segment.owner;
    segment.tid = d->segment.tid;
    segment.pid = d->segment.pid;
    segment.thread = d->thread;
    segment.process = d->process;
    segment.detail = d->detail;
    segment.times = times;
    segment.time_count = time_count > 1 ? time_count : 0;
    if (end > i + 1)
        put_sum(text, i, end, times[0].ns, &segment, text->stretches[text->segment_count]);
    text->segments[text->segment_count++] = segment;
}

static void make_segments(struct path_text *text, const struct path_segments *path, const struct path_names *names)
{
    if (!text->count)
        return;
    uint64_t shortest_ns =
        (text->items[text->count - 1].segment.end_ns - text->items[0].segment.start_ns) / SHORT_SHARE;
    shortest_ns = shortest_ns > SHORT_NS ? shortest_ns : SHORT_NS;
    while (count_stretches(text, shortest_ns) > REQUEST_SEGMENTS_MAX)
        shortest_ns = 2 * shortest_ns + 1;
    for (size_t i = 0, end; i < text->count; i = end) {
        end = stretch_end(text, i, shortest_ns);
        put_stretch(text, i, end);
        const size_t last = text->segment_count - 1;
        path_notes_put(path, i, end, text->segments[last].kind, text->segments[last].tid, names, &text->notes[last]);
        text->segments[last].notes =
            text->notes[last].size && buf_error(&text->notes[last]) == 0 ? text->notes[last].data : "";
    }
}

/* ---- components ---- */

/* A component, and the longest of the segments that it adds up. */
struct component {
    struct request_part part;
    uint32_t waits; /* number of waits in the component's segments */
    size_t item;
    uint64_t item_ns;
};

static int compare_names(const void *a, const void *b)
{
    const struct component *x = a, *y = b;
    return x->part.kind != y->part.kind ? (x->part.kind < y->part.kind ? -1 : 1)
                                        : strcmp(x->part.detail, y->part.detail);
}

static int compare_durations(const void *a, const void *b)
{
    const struct component *x = a, *y = b;
    if (x->part.duration_ns != y->part.duration_ns)
        return x->part.duration_ns > y->part.duration_ns ? -1 : 1;
    return compare_names(a, b);
}

static void add_component(struct component *to, const struct component *added)
{
    to->part.duration_ns += added->part.duration_ns;
    to->waits += added->waits;
    if (added->item_ns > to->item_ns) {
        to->item = added->item;
        to->item_ns = added->item_ns;
    }
}

/* Adds up components of the same name, and puts the longest first. */
static void add_up_parts(struct component *parts, size_t *count)
{
    size_t kept = 0;
    qsort(parts, *count, sizeof(parts[0]), compare_names);
    for (size_t i = 0; i < *count; i++)
        if (kept && compare_names(&parts[kept - 1], &parts[i]) == 0)
            add_component(&parts[kept - 1], &parts[i]);
        else
            parts[kept++] = parts[i];
    qsort(parts, kept, sizeof(parts[0]), compare_durations);
    *count = kept;
}

/* Where the longest segment of the component waited, if a known wait was most of it. */
static bool find_wait(const struct path_text *text, const struct component *c, struct path_wait *ret)
{
    const struct path_segment *s = &text->items[c->item].segment;
    return c->part.kind != REQUEST_PART_CPU && c->part.kind != REQUEST_PART_RUN_QUEUE && s->tid && text->names.wait &&
           text->names.wait(text->names.context, s->tid, s->start_ns, s->end_ns, ret) && ret->ns >= length_of(s) / 2;
}

/* Where the threads of the component's segments ran, most of the time. */
static bool find_code(const struct path_text *text, const struct component *c, struct code_place *ret)
{
    struct code_tally tally;
    const enum request_part_kind kind = c->part.kind;
    const bool is_run = kind == REQUEST_PART_CPU || kind == REQUEST_PART_LOCK || kind == REQUEST_PART_UNREAD ||
                        kind == REQUEST_PART_LOOP_BUSY || kind == REQUEST_PART_QUEUE_BEHIND;
    if (!is_run || !text->names.samples)
        return false;
    code_tally_begin(&tally);
    for (size_t i = 0; i < text->count; i++) {
        const struct path_segment *s = &text->items[i].segment;
        if (s->kind == kind && s->tid && strcmp(text->items[i].detail, c->part.detail) == 0)
            text->names.samples(text->names.context, s->tid, s->start_ns, s->end_ns, &tally);
    }
    return code_tally_most(&tally, ret) > 0;
}

/* Where the holder of the GIL gave it up, most often. Most holders are forced to, and wait for it again: where they
 * wait is the function that ran. */
static bool find_release(const struct path_text *text, const struct component *c, struct code_place *ret)
{
    struct code_tally tally;
    code_tally_begin(&tally);
    for (size_t i = 0; text->names.next_wait && i < text->count; i++) {
        const struct path_segment *s = &text->items[i].segment;
        const uint64_t since_ns = length_of(s) > RELEASE_NS ? s->end_ns - RELEASE_NS : s->start_ns;
        if (s->has_gil && strcmp(text->items[i].detail, c->part.detail) == 0)
            text->names.next_wait(text->names.context, s->tid, since_ns, s->end_ns + RELEASE_NS, &tally);
    }
    return code_tally_most(&tally, ret) > 0 && ret->function[0];
}

/* Its thread ran other work while the request was ready, and it is not known which. */
static bool is_unsampled(const struct path_text *text, const struct component *c)
{
    const struct path_segment *s = &text->items[c->item].segment;
    return s->is_other_work && text->names.samples && c->part.duration_ns >= RUN_MIN_NS;
}

/* The thread that a component's code and wait are of. */
static const char *subject_of(const struct request_part *part)
{
    return strstr(part->detail, "held by thread ") ? "the holder" : "its thread";
}

static void put_code(struct buf *out, const struct request_part *part, const struct code_place *code)
{
    char words[CODE_TEXT_BYTES];
    const char *text = code_place_text(code, words);
    if (part->kind == REQUEST_PART_CPU)
        buf_printf(out, "%sin %s", out->size ? ", " : "", text);
    else
        buf_printf(out, "%s%s ran %s", out->size ? "; " : "", subject_of(part), text);
}

static void put_release(struct buf *out, struct code_place *release)
{
    char words[CODE_TEXT_BYTES];
    release->runs[0] = '\0'; /* the call that waits */
    buf_printf(out, "; it gave the GIL up in %s", code_place_text(release, words));
}

/* After a reason a sentence, after a system call its place. */
static void put_wait_place(struct buf *out, const struct request_part *part, bool has_reason,
                           const struct path_wait *wait)
{
    _cleanup_buf_ struct buf place = {0};
    stack_text_put_caller(&place, wait->where, part->detail);
    if (place.size && has_reason)
        buf_printf(out, "; %s waited in ", subject_of(part));
    else if (place.size)
        buf_puts(out, strstr(part->detail, "thread ") ? ", in " : " in ");
    buf_printf(out, "%s%s", place.size ? place.data : "", wait->kernel);
}

/* Adds the number of the component's waits, and their places, or the code that ran. */
static void put_places(struct path_text *text, struct component *c)
{
    struct path_wait wait;
    struct code_place code, release;
    if (text->part_count >= REQUEST_PARTS_MAX)
        return;
    const bool is_known = find_wait(text, c, &wait), is_code = find_code(text, c, &code),
               is_release = !is_code && find_release(text, c, &release),
               lacks_code = !is_known && !is_code && is_unsampled(text, c);
    if (!is_known && !is_code && !is_release && !lacks_code && c->waits < 2)
        return;
    struct part_text *words = &text->parts[text->part_count++];
    buf_puts(&words->detail, c->part.detail);
    if (c->waits > 1)
        buf_printf(&words->detail, ", %u times", c->waits);
    if (is_code)
        put_code(&words->detail, &c->part, &code);
    if (is_release)
        put_release(&words->detail, &release);
    if (lacks_code)
        buf_puts(&words->detail, "; no sample was taken of the code that ran");
    if (is_known) {
        put_wait_place(&words->detail, &c->part, text->items[c->item].segment.reason[0], &wait);
        buf_puts(&words->stack, wait.stack);
    }
    if (buf_error(&words->detail) < 0 || buf_error(&words->stack) < 0)
        return;
    c->part.detail = words->detail.size ? words->detail.data : "";
    c->part.stack = words->stack.size ? words->stack.data : "";
}

int path_text_parts(struct path_text *text, size_t max, struct request_part *ret, size_t *ret_count)
{
    _cleanup_free_ struct component *all = calloc(text->count + 1, sizeof(*all));
    size_t count = 0;
    assert(max >= REQUEST_PART_COUNT);
    if (!all)
        return -ENOMEM;
    for (size_t i = 0; i < text->count; i++) {
        const struct described *d = &text->items[i];
        all[count++] = (struct component){
            .part = {.kind = d->segment.kind, .duration_ns = length_of(&d->segment), .detail = d->detail, .stack = ""},
            .waits = is_wait(d->segment.kind) && d->detail[0],
            .item = i,
            .item_ns = length_of(&d->segment)};
    }
    add_up_parts(all, &count);
    if (count > max) {
        for (size_t i = max - REQUEST_PART_COUNT; i < count; i++) {
            all[i].part.detail = "";
            all[i].waits = 0;
        }
        add_up_parts(all, &count);
    }
    for (size_t i = 0; i < count; i++) {
        put_places(text, &all[i]);
        ret[i] = all[i].part;
    }
    *ret_count = count;
    return 0;
}

/* ---- the whole ---- */

int path_text_new(const struct path_segments *path, uint32_t pid, uint32_t tid, const struct path_names *names,
                  struct path_text **ret)
{
    _cleanup_(path_text_freep) struct path_text *text = calloc(1, sizeof(*text));
    if (!text)
        return -ENOMEM;
    text->items = calloc(path->count + 1, sizeof(*text->items));
    if (!text->items)
        return -ENOMEM;
    for (size_t i = 0; i < path->count; i++) {
        text->items[i].segment = path->items[i];
        name_thread(text, i, pid, names);
        describe(path, &text->items[i], pid, tid, names);
    }
    text->count = path->count;
    text->names = *names;
    make_segments(text, path, names);
    *ret = take_ptr(text);
    return 0;
}

const struct request_segment *path_text_segments(const struct path_text *text, size_t *ret_count)
{
    *ret_count = text->segment_count;
    return text->segments;
}
