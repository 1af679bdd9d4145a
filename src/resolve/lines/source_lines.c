/* Source lines of a profile; see source_lines.h.
 *
 * Frames are sorted by file and address. Each file is opened here (line_files.h) and read by a process of its own,
 * with a time limit. Its messages are stored as they arrive, so that lines reported before a crash are kept. */
#include "resolve/lines/source_lines.h"

#include "base/clock.h"
#include "resolve/lines/line_files.h"
#include "resolve/lines/line_helper.h"
#include "resolve/lines/line_objects.h"
#include "resolve/lines/line_reading.h"
#include "resolve/object/object_entry.h"
#include "resolve/object/objects.h"

#include <errno.h>
#include <string.h>
#include <sys/wait.h>

#define FILE_MAX_NS 30000000000ull
#define ALL_MAX_NS  (20 * FILE_MAX_NS)
#define TEXTS_MAX   (64u << 20)
#define LINES_MAX   (2u << 20)

struct line_lookup {            /* one frame to look up */
    uint32_t mapping, build_id; /* string numbers of the profile */
    uint64_t address;
    uint32_t frame;
};

struct source_lines {
    const struct profile *p;
    struct source_lines_options options;
    const struct line_objects *objects;
    struct line_lookup *lookups;
    uint32_t lookup_count;
    uint64_t *addresses;     /* of the current file, each once */
    uint32_t *first_lookups; /* the first lookup of each of them */
    uint32_t address_count;
    struct strings *texts;
    struct profile_line *lines;
    uint32_t *line_texts; /* three string numbers for each line, resolved at the end */
    uint32_t line_count, line_capacity;
    uint32_t *first_lines; /* of each frame */
    struct profile_frame_lines *rows;
    struct line_answer *answer;
    uint64_t end_ns;
    bool stopped;
    struct source_lines_stats stats;
};

const char *source_line_reason_text(enum source_line_reason reason)
{
    static const char *const texts[] = {
#define SOURCE_LINE_TEXT(name, text) text,
        SOURCE_LINE_REASONS(SOURCE_LINE_TEXT)
#undef SOURCE_LINE_TEXT
    };
    return texts[reason];
}

void source_lines_free(struct source_lines *s)
{
    if (!s)
        return;
    strings_free(s->texts);
    free(s->lookups);
    free(s->addresses);
    free(s->first_lookups);
    free(s->lines);
    free(s->line_texts);
    free(s->first_lines);
    free(s->rows);
    free(s->answer);
    free(s);
}

const struct profile_frame_lines *source_lines_rows(const struct source_lines *s)
{
    return s->rows;
}

void source_lines_stats(const struct source_lines *s, struct source_lines_stats *ret)
{
    *ret = s->stats;
}

/* ---- lookups ---- */

static int compare_lookups(const void *left, const void *right)
{
    const struct line_lookup *a = left, *b = right;
    const uint64_t file_a = (uint64_t)a->mapping << 32 | a->build_id, file_b = (uint64_t)b->mapping << 32 | b->build_id;
    if (file_a != file_b)
        return (file_a > file_b) - (file_a < file_b);
    if (a->address != b->address)
        return (a->address > b->address) - (a->address < b->address);
    return (a->frame > b->frame) - (a->frame < b->frame);
}

static bool same_file(const struct line_lookup *a, const struct line_lookup *b)
{
    return a->mapping == b->mapping && a->build_id == b->build_id;
}

static int collect_lookups(struct source_lines *s)
{
    const struct profile *p = s->p;
    const size_t capacity = (size_t)p->frame_count + 1;
    s->lookups = calloc(capacity, sizeof(*s->lookups));
    s->addresses = calloc(capacity, sizeof(*s->addresses));
    s->first_lookups = calloc(capacity, sizeof(*s->first_lookups));
    s->first_lines = calloc(capacity, sizeof(*s->first_lines));
    s->rows = calloc(capacity, sizeof(*s->rows));
    s->answer = malloc(sizeof(*s->answer));
    if (!s->lookups || !s->addresses || !s->first_lookups || !s->first_lines || !s->rows || !s->answer)
        return -ENOMEM;
    for (uint32_t i = 0; i < p->frame_count; i++) {
        const struct profile_frame *frame = &p->frames[i];
        if (frame->kind == FRAME_NATIVE && !frame->inlined && profile_text(p, frame->mapping)[0] == '/')
            s->lookups[s->lookup_count++] = (struct line_lookup){frame->mapping, frame->build_id, frame->address, i};
    }
    s->stats.frames = s->lookup_count;
    qsort(s->lookups, s->lookup_count, sizeof(*s->lookups), compare_lookups);
    return strings_new(&s->texts);
}

/* ---- messages ---- */

static bool reserve_lines(struct source_lines *s, size_t count)
{
    if (count > LINES_MAX - s->line_count)
        return false;
    if (s->line_count + count <= s->line_capacity)
        return true;
    const uint32_t capacity = s->line_capacity + s->line_capacity / 2 + 256;
    struct profile_line *lines = realloc(s->lines, capacity * sizeof(*lines));
    if (lines)
        s->lines = lines;
    uint32_t *texts = lines ? realloc(s->line_texts, 3 * (size_t)capacity * sizeof(*texts)) : NULL;
    if (!texts)
        return false;
    s->line_texts = texts;
    s->line_capacity = capacity;
    return true;
}

static void store_line(struct source_lines *s, const struct line_answer_line *line)
{
    uint32_t *texts = s->line_texts + 3 * (size_t)s->line_count;
    texts[0] = strings_add(s->texts, line->name);
    texts[1] = strings_add(s->texts, line->system_name);
    texts[2] = strings_add(s->texts, line->file);
    s->lines[s->line_count++] = (struct profile_line){.line = line->line};
}

/* Stores the lines of an address for all its frames. -EBADMSG: the address was not requested, or was reported
 * before. -ENOSPC. */
static int store_place(struct source_lines *s, const struct line_answer *answer, uint32_t lookups_end)
{
    if (answer->number >= s->address_count)
        return -EBADMSG;
    const uint32_t first = s->first_lookups[answer->number],
                   end = answer->number + 1 < s->address_count ? s->first_lookups[answer->number + 1] : lookups_end;
    if (s->rows[s->lookups[first].frame].count)
        return -EBADMSG;
    const struct line_answer_line *outermost = &answer->lines[answer->count - 1];
    if (answer->count == 1 && !outermost->file[0] && !outermost->name[0])
        return 0; /* no information */
    if (!reserve_lines(s, answer->count) || strings_bytes(s->texts) > TEXTS_MAX)
        return -ENOSPC;
    const uint32_t first_line = s->line_count;
    for (size_t i = 0; i < answer->count; i++)
        if (answer->lines[i].name[0] || i + 1 == answer->count) /* an inlined function without a name is skipped */
            store_line(s, &answer->lines[i]);
    for (uint32_t i = first; i < end; i++) {
        s->first_lines[s->lookups[i].frame] = first_line;
        s->rows[s->lookups[i].frame].count = s->line_count - first_line;
    }
    return 0;
}

/* ---- files ---- */

struct place_store { /* context of store_message */
    struct source_lines *s;
    uint32_t lookups_end;
};

static int store_message(void *context, const struct line_answer *answer)
{
    const struct place_store *to = context;
    return store_place(to->s, answer, to->lookups_end);
}

static enum source_line_reason reason_of(const struct line_reading *r, int status, bool misses_files)
{
    if (r->error == -ETIMEDOUT || (WIFSIGNALED(status) && WTERMSIG(status) == SIGXCPU))
        return SOURCE_LINE_TOO_LONG;
    if (r->error == -ECANCELED)
        return SOURCE_LINE_ENDED;
    if (r->error == -ENOSPC)
        return SOURCE_LINE_TOO_MUCH;
    if (r->error < 0)
        return SOURCE_LINE_CRASHED;
    if (r->status == LINE_STATUS_NO_DWARF || r->status == LINE_STATUS_NO_LIBRARY)
        return SOURCE_LINE_NO_DWARF;
    if (r->status == LINE_STATUS_NO_SPLIT && line_files_has_package(r->object))
        return SOURCE_LINE_PACKAGED;
    const bool is_damaged = r->status == LINE_STATUS_DAMAGED || r->status == LINE_STATUS_NO_SPLIT || misses_files;
    return is_damaged ? SOURCE_LINE_DAMAGED : SOURCE_LINE_NO_PLACE;
}

static enum source_line_reason read_file(struct source_lines *s, const struct object *object,
                                         const struct line_files *files, uint32_t lookups_end)
{
    const struct dwarf_request request = {.fd = files->fd,
                                          .alt_fd = files->alt_fd,
                                          .addresses = s->addresses,
                                          .count = s->address_count,
                                          .inlines = s->options.inlines};
    const uint64_t until_ns = clock_monotonic_ns() + s->options.file_max_ns;
    struct place_store to = {s, lookups_end};
    struct line_helper helper;
    int status = 0;
    if (line_helper_start(&request, (unsigned)(s->options.file_max_ns / 1000000000) + 1, &helper) < 0)
        return SOURCE_LINE_TOO_MUCH;
    struct line_reading r = {.object = object,
                             .until_ns = until_ns < s->end_ns ? until_ns : s->end_ns,
                             .copy_max = LINE_FILES_COPY_MAX,
                             .stop_fd = s->options.stop_fd,
                             .place = store_message,
                             .context = &to,
                             .answer = s->answer};
    line_reading_run(&r, &helper);
    s->stopped |= r.error == -ECANCELED;
    if (line_helper_end(&helper, &status) < 0)
        s->stopped = true; /* whatever blocks this process may block the next one */
    return reason_of(&r, status, files->misses_alternative);
}

static void find_addresses(struct source_lines *s, uint32_t first, uint32_t end)
{
    s->address_count = 0;
    for (uint32_t i = first; i < end; i++) {
        if (s->address_count && s->addresses[s->address_count - 1] == s->lookups[i].address)
            continue;
        s->addresses[s->address_count] = s->lookups[i].address;
        s->first_lookups[s->address_count++] = i;
    }
}

/* Looks up the frames lookups[first .. end), which belong to one file. */
static enum source_line_reason look_up_file(struct source_lines *s, uint32_t first, uint32_t end)
{
    const struct profile *p = s->p;
    const struct line_lookup *lookup = &s->lookups[first];
    struct object *object;
    struct line_files files;
    if (s->stopped || clock_monotonic_ns() > s->end_ns)
        return SOURCE_LINE_ENDED;
    int r = line_objects_find(s->objects, profile_text(p, lookup->mapping), profile_text(p, lookup->build_id), &object);
    if (r == 0)
        r = line_files_open(object, s->options.debug_root, s->options.fetcher, LINE_FILES_COPY_MAX, &files);
    s->stopped |= r == -ECANCELED;
    if (s->stopped)
        return SOURCE_LINE_ENDED;
    if (r < 0)
        return r == -ENODATA ? SOURCE_LINE_NO_DWARF : r == -EFBIG ? SOURCE_LINE_TOO_MUCH : SOURCE_LINE_NO_FILE;
    find_addresses(s, first, end);
    const enum source_line_reason reason = read_file(s, object, &files, end);
    close(files.fd);
    closep(&files.alt_fd);
    return reason;
}

/* Resolves string numbers; the strings do not move any more. */
static void resolve_strings(struct source_lines *s)
{
    for (uint32_t i = 0; i < s->line_count; i++) {
        const uint32_t *texts = s->line_texts + 3 * (size_t)i;
        s->lines[i].function = strings_get(s->texts, texts[0]);
        s->lines[i].system_name = strings_get(s->texts, texts[1]);
        s->lines[i].file = strings_get(s->texts, texts[2]);
    }
    for (uint32_t i = 0; i < s->p->frame_count; i++)
        if (s->rows[i].count)
            s->rows[i].lines = s->lines + s->first_lines[i];
}

static void count_outcome(struct source_lines *s, uint32_t first, uint32_t end, enum source_line_reason reason)
{
    for (uint32_t i = first; i < end; i++) {
        if (s->rows[s->lookups[i].frame].count)
            s->stats.with_line++;
        else
            s->stats.without[reason]++;
    }
}

int source_lines_find(const struct profile *p, const struct line_objects *objects,
                      const struct source_lines_options *options, struct source_lines **ret)
{
    _cleanup_(source_lines_freep) struct source_lines *s = calloc(1, sizeof(*s));
    if (!s)
        return -ENOMEM;
    s->p = p;
    s->objects = objects;
    s->options = *options;
    s->options.file_max_ns = options->file_max_ns ? options->file_max_ns : FILE_MAX_NS;
    s->end_ns = clock_monotonic_ns() + (options->all_max_ns ? options->all_max_ns : ALL_MAX_NS);
    int r = collect_lookups(s);
    if (r < 0)
        return r;
    uint32_t files = 0, done = 0;
    for (uint32_t i = 0; i < s->lookup_count; i++)
        files += i == 0 || !same_file(&s->lookups[i - 1], &s->lookups[i]);
    for (uint32_t first = 0, end; first < s->lookup_count; first = end) {
        for (end = first + 1; end < s->lookup_count && same_file(&s->lookups[first], &s->lookups[end]);)
            end++;
        if (options->progress)
            options->progress(options->context, done++, files);
        count_outcome(s, first, end, look_up_file(s, first, end));
    }
    resolve_strings(s);
    *ret = take_ptr(s);
    return 0;
}
