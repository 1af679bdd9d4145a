/* Folded stacks, the input of flamegraph.pl: `process;outermost;...;innermost count`, one line per distinct stack. The
 * count is in sampling periods for CPU time, in microseconds for off-CPU and GPU time, and the weight for events.
 *
 * Lines are sorted before they are written: every text is ranked once among all texts, and stacks are compared by the
 * ranks of their frames. Sorting the finished lines would hold the whole output twice. */
#include "export/folded.h"

#include "base/utf8.h"
#include "export/export.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

struct line {
    uint32_t process; /* rank */
    uint32_t stack;
    uint64_t weight; /* number of samples when the profile has no period */
};

struct folded {
    const struct profile *p;
    struct strings *texts; /* output texts of frames and processes */
    uint32_t *ranks;       /* text -> rank */
    uint32_t *by_rank;     /* rank -> text */
    uint32_t *frames;      /* frame -> rank of its text */
    struct line *lines;
};

static void folded_clear(struct folded *f)
{
    strings_free(f->texts);
    free(f->ranks);
    free(f->by_rank);
    free(f->frames);
    free(f->lines);
}

void folded_put_text(struct buf *b, const char *text)
{
    for (size_t n; *text && !b->error; text += n ? n : 1) {
        n = utf8_length(text);
        if (n == 0)
            buf_puts(b, UTF8_REPLACEMENT);
        else if (*text == ';')
            buf_putc(b, ':');
        else if (utf8_at_control(text))
            buf_putc(b, ' ');
        else
            buf_append(b, text, n);
    }
}

static int add_text(struct folded *f, struct buf *scratch, const char *text, const char *suffix, uint32_t *ret)
{
    scratch->size = 0;
    folded_put_text(scratch, text[0] ? text : "[unknown]");
    folded_put_text(scratch, suffix);
    if (scratch->error)
        return scratch->error;
    *ret = strings_add_n(f->texts, scratch->data, scratch->size);
    return *ret ? 0 : -ENOMEM; /* the text is never empty, so 0 means that it was dropped */
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash && slash[1] ? slash + 1 : path;
}

/* Converts a weight to the number on the line. Samples may have different weights (the agent's sampling rate differs by
 * rule and level of detail), so the number of samples is not used. */
static uint64_t count_of(const struct profile *p, uint64_t weight)
{
    if (!sample_type_is_time(p->type))
        return weight;
    if (p->type->is_interval)
        return weight / 1000;
    return p->period ? (weight + p->period / 2) / p->period : weight;
}

/* Sampled time without a known period: samples are counted instead. */
static bool counts_samples(const struct profile *p)
{
    return sample_type_is_time(p->type) && !p->type->is_interval && !p->period;
}

static int add_texts(struct folded *f)
{
    _cleanup_buf_ struct buf scratch = {0};
    const struct profile *p = f->p;
    for (uint32_t i = 0; i < p->frame_count; i++) {
        const struct profile_frame *frame = &p->frames[i];
        bool is_kernel = frame->kind == FRAME_KERNEL || frame->kind == FRAME_BPF;
        char text[FRAME_TEXT_BYTES], suffix[FRAME_TEXT_BYTES] = "";
        if (is_kernel)
            snprintf(suffix, sizeof(suffix), "_[k]");
        else if (frame->inlined)
            snprintf(suffix, sizeof(suffix), "_[i]");
        else if (frame_kind_has_lines(frame->kind) && frame->file)
            snprintf(suffix, sizeof(suffix), " (%.*s)", FRAME_TEXT_BYTES - 4, base_name(profile_text(p, frame->file)));
        int r = add_text(f, &scratch, profile_frame_text(p, frame, text), suffix, &f->frames[i]);
        if (r < 0)
            return r;
    }
    for (uint32_t i = 0; i < p->entry_count; i++) {
        const struct profile_entry *entry = &p->entries[i];
        struct line *line = &f->lines[i];
        *line = (struct line){.stack = entry->stack, .weight = counts_samples(p) ? entry->count : entry->value};
        const char *command = profile_text(p, p->resources[entry->resource].command);
        int r = add_text(f, &scratch, command, "", &line->process);
        if (r < 0)
            return r;
    }
    return 0;
}

static int compare_texts(const void *a, const void *b, void *texts)
{
    return strcmp(strings_get(texts, *(const uint32_t *)a), strings_get(texts, *(const uint32_t *)b));
}

/* Replaces text IDs by ranks in all frames and lines. */
static int rank_texts(struct folded *f)
{
    uint32_t count = strings_count(f->texts);
    f->ranks = malloc(count * sizeof(*f->ranks));
    f->by_rank = malloc(count * sizeof(*f->by_rank));
    if (!f->ranks || !f->by_rank)
        return -ENOMEM;
    for (uint32_t i = 0; i < count; i++)
        f->by_rank[i] = i;
    qsort_r(f->by_rank, count, sizeof(*f->by_rank), compare_texts, f->texts);
    for (uint32_t i = 0; i < count; i++)
        f->ranks[f->by_rank[i]] = i;
    for (uint32_t i = 0; i < f->p->frame_count; i++)
        f->frames[i] = f->ranks[f->frames[i]];
    for (uint32_t i = 0; i < f->p->entry_count; i++)
        f->lines[i].process = f->ranks[f->lines[i].process];
    return 0;
}

static int compare_numbers(uint32_t a, uint32_t b)
{
    return (a > b) - (a < b);
}

static int compare_lines(const void *left, const void *right, void *context)
{
    const struct folded *f = context;
    const struct line *a = left, *b = right;
    int order = compare_numbers(a->process, b->process);
    const struct profile_stack *stack_a = &f->p->stacks[a->stack], *stack_b = &f->p->stacks[b->stack];
    const uint32_t *frames_a = f->p->stack_frames + stack_a->first, *frames_b = f->p->stack_frames + stack_b->first;
    for (uint32_t i = 1; order == 0 && i <= stack_a->count && i <= stack_b->count; i++)
        order = compare_numbers(f->frames[frames_a[stack_a->count - i]], f->frames[frames_b[stack_b->count - i]]);
    return order ? order : compare_numbers(stack_a->count, stack_b->count);
}

static void write_line(const struct folded *f, const struct line *line, uint64_t count, struct buf *out)
{
    const struct profile_stack *stack = &f->p->stacks[line->stack];
    buf_puts(out, strings_get(f->texts, f->by_rank[line->process]));
    for (uint32_t i = stack->count; i-- > 0;) {
        buf_putc(out, ';');
        buf_puts(out, strings_get(f->texts, f->by_rank[f->frames[f->p->stack_frames[stack->first + i]]]));
    }
    buf_printf(out, " %llu\n", (unsigned long long)count);
}

static int folded_write(const struct profile *p, struct buf *out)
{
    _cleanup_(folded_clear) struct folded f = {
        .p = p,
        .frames = calloc((size_t)p->frame_count + 1, sizeof(*f.frames)),
        .lines = calloc((size_t)p->entry_count + 1, sizeof(*f.lines)),
    };
    if (!f.frames || !f.lines)
        return -ENOMEM;
    int r = strings_new(&f.texts);
    if (r == 0)
        r = add_texts(&f);
    if (r == 0)
        r = rank_texts(&f);
    if (r < 0)
        return r;
    qsort_r(f.lines, p->entry_count, sizeof(*f.lines), compare_lines, &f);
    for (uint32_t i = 0; i < p->entry_count;) {
        const struct line *first = &f.lines[i];
        uint64_t weight = 0;
        for (; i < p->entry_count && compare_lines(first, &f.lines[i], &f) == 0; i++)
            weight += f.lines[i].weight;
        write_line(&f, first, count_of(p, weight), out);
    }
    return buf_error(out);
}

const struct exporter exporter_folded = {
    .name = "folded",
    .suffix = ".folded",
    .content_type = "text/plain; charset=utf-8",
    .help = "one line per stack, for flamegraph.pl and grep",
    .write = folded_write,
};
