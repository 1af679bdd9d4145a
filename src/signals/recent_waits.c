/* Rings of waits and of samples, and a table of stacks by name; see recent_waits.h. */
#include "signals/recent_waits.h"

#include "diagnose/code/stack_text.h"
#include "model/sample.h"

#include <linux/types.h>

#include "probes/unwind/stack.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define WAITS       8192
#define RUNS        8192
#define STACKS      4096
#define ORDER_NS    1000000000 /* how much earlier than one before it a wait or a sample may be */
#define WANTED_NS   (60 * 1000000000ull)
#define WHERE_BYTES 400

struct wait {
    uint64_t start_ns, end_ns;
    uint64_t stack;
    uint32_t tid;
};

struct run {
    uint64_t time_ns;
    uint64_t stack;
    uint32_t tid;
};

/* At its name modulo STACKS. The texts, or the place where a thread ran: once they were asked for. */
struct kept_stack {
    uint64_t name; /* 0: free */
    struct stack_record *record;
    char *where, *kernel; /* one allocation */
    struct buf stack;
    struct code_place *place;
    size_t bytes;
    bool texts_are_final, place_is_final; /* false: source lines were still looked up */
};

struct wanted_process {
    uint32_t pid;
    uint64_t named_ns;
};

struct recent_waits {
    recent_waits_resolve *resolve;
    void *context;
    struct wanted_process wanted[RECENT_WAITS_PROCESSES];
    size_t wanted_count;
    struct kept_stack stacks[STACKS];
    size_t bytes;           /* of all stacks */
    size_t hand;            /* where the next stack is dropped */
    struct wait all[WAITS]; /* number n is at n % WAITS */
    uint64_t count;
    struct run runs[RUNS]; /* likewise */
    uint64_t run_count;
};

int recent_waits_new(recent_waits_resolve *resolve, void *context, struct recent_waits **ret)
{
    struct recent_waits *w = calloc(1, sizeof(*w)); /* pages take memory when they are first written to */
    if (!w)
        return -ENOMEM;
    w->resolve = resolve;
    w->context = context;
    *ret = w;
    return 0;
}

static size_t texts_bytes(const struct kept_stack *s)
{
    return s->where ? (size_t)(s->kernel - s->where) + strlen(s->kernel) + 1 + s->stack.size : 0;
}

static void drop_texts(struct recent_waits *w, struct kept_stack *s)
{
    const size_t bytes = texts_bytes(s);
    s->bytes -= bytes;
    w->bytes -= bytes;
    free(s->where);
    s->where = s->kernel = NULL;
    buf_clear(&s->stack);
}

static void drop_stack(struct recent_waits *w, struct kept_stack *s)
{
    drop_texts(w, s);
    free(s->record);
    free(s->place);
    w->bytes -= s->bytes;
    *s = (struct kept_stack){0};
}

void recent_waits_free(struct recent_waits *w)
{
    if (!w)
        return;
    for (size_t i = 0; i < STACKS; i++)
        drop_stack(w, &w->stacks[i]);
    free(w);
}

/* ---- processes ---- */

static struct wanted_process *find_wanted(struct recent_waits *w, uint32_t pid)
{
    for (size_t i = 0; i < w->wanted_count; i++)
        if (w->wanted[i].pid == pid)
            return &w->wanted[i];
    return NULL;
}

bool recent_waits_want(struct recent_waits *w, uint32_t pid, uint64_t now_ns)
{
    struct wanted_process *p = pid ? find_wanted(w, pid) : NULL;
    if (p)
        p->named_ns = now_ns;
    if (p || !pid)
        return false;
    if (w->wanted_count < RECENT_WAITS_PROCESSES) {
        p = &w->wanted[w->wanted_count++];
    } else {
        p = &w->wanted[0];
        for (size_t i = 1; i < w->wanted_count; i++)
            if (w->wanted[i].named_ns < p->named_ns)
                p = &w->wanted[i];
    }
    *p = (struct wanted_process){pid, now_ns};
    return true;
}

size_t recent_waits_wanted(struct recent_waits *w, uint64_t now_ns, uint32_t ret[RECENT_WAITS_PROCESSES])
{
    size_t kept = 0;
    for (size_t i = 0; i < w->wanted_count; i++)
        if (w->wanted[i].named_ns + WANTED_NS > now_ns)
            w->wanted[kept++] = w->wanted[i];
    w->wanted_count = kept;
    for (size_t i = 0; i < kept; i++)
        ret[i] = w->wanted[i].pid;
    return kept;
}

/* ---- stacks ---- */

/* Accounts for more memory of a stack, and drops others if it is too much. */
static void add_bytes(struct recent_waits *w, struct kept_stack *s, size_t bytes)
{
    s->bytes += bytes;
    w->bytes += bytes;
    for (size_t i = 0; i < STACKS && w->bytes > RECENT_WAITS_BYTES; i++) {
        struct kept_stack *dropped = &w->stacks[w->hand++ % STACKS];
        if (dropped != s)
            drop_stack(w, dropped);
    }
}

void recent_waits_put_stack(struct recent_waits *w, uint64_t name, const struct stack_record *record)
{
    struct kept_stack *s = &w->stacks[name % STACKS];
    if (s->name == name)
        return;
    drop_stack(w, s);
    s->record = malloc(record->h.size_bytes);
    if (!s->record)
        return;
    memcpy(s->record, record, record->h.size_bytes);
    s->name = name;
    add_bytes(w, s, record->h.size_bytes);
}

static size_t count_kernel_frames(const struct sample *sample)
{
    size_t count = 0;
    while (count < sample->frame_count &&
           (sample->frames[count].kind == FRAME_KERNEL || sample->frames[count].kind == FRAME_BPF))
        count++;
    return count;
}

/* Names its frames. False: it cannot be, or there is no memory. */
static bool put_texts(struct recent_waits *w, struct kept_stack *s)
{
    struct sample sample;
    char where[WHERE_BYTES] = "", kernel[WHERE_BYTES] = "";
    if (s->where && s->texts_are_final)
        return true;
    drop_texts(w, s);
    const int r = w->resolve(w->context, s->record, &sample);
    if (r < 0 && r != -EAGAIN)
        return false;
    s->texts_are_final = r == 0;
    const size_t in_kernel = count_kernel_frames(&sample);
    stack_text_append_user(sample.frames + in_kernel, sample.frame_count - in_kernel, where, sizeof(where));
    stack_text_append_kernel(sample.frames, in_kernel, kernel, sizeof(kernel));
    stack_text_put(&s->stack, sample.frames, sample.frame_count);
    const size_t where_bytes = strlen(where) + 1, kernel_bytes = strlen(kernel) + 1;
    s->where = buf_error(&s->stack) == 0 ? malloc(where_bytes + kernel_bytes) : NULL;
    if (!s->where) {
        buf_clear(&s->stack);
        return false;
    }
    s->kernel = s->where + where_bytes;
    memcpy(s->where, where, where_bytes);
    memcpy(s->kernel, kernel, kernel_bytes);
    add_bytes(w, s, texts_bytes(s));
    return true;
}

/* ---- waits ---- */

void recent_waits_put(struct recent_waits *w, uint32_t tid, uint64_t start_ns, uint64_t end_ns, uint64_t stack)
{
    w->all[w->count++ % WAITS] = (struct wait){start_ns, end_ns, stack, tid};
}

static const struct wait *find_longest(const struct recent_waits *w, uint32_t tid, uint64_t from_ns, uint64_t to_ns,
                                       uint64_t *ret_ns)
{
    const struct wait *longest = NULL;
    *ret_ns = 0;
    for (uint64_t n = w->count; n-- > 0 && w->count - n <= WAITS;) {
        const struct wait *one = &w->all[n % WAITS];
        if (one->end_ns + ORDER_NS < from_ns)
            break;
        const uint64_t begin_ns = one->start_ns > from_ns ? one->start_ns : from_ns;
        const uint64_t end_ns = one->end_ns < to_ns ? one->end_ns : to_ns;
        if (one->tid != tid || end_ns <= begin_ns || end_ns - begin_ns <= *ret_ns)
            continue;
        *ret_ns = end_ns - begin_ns;
        longest = one;
    }
    return longest;
}

bool recent_waits_find(struct recent_waits *w, uint32_t tid, uint64_t from_ns, uint64_t to_ns, struct path_wait *ret)
{
    uint64_t ns;
    const struct wait *wait = find_longest(w, tid, from_ns, to_ns, &ns);
    struct kept_stack *s = wait ? &w->stacks[wait->stack % STACKS] : NULL;
    if (!s || s->name != wait->stack || !put_texts(w, s))
        return false;
    *ret = (struct path_wait){ns, s->where, s->kernel, s->stack.size ? s->stack.data : ""};
    return true;
}

/* ---- samples ---- */

void recent_waits_put_run(struct recent_waits *w, uint32_t tid, uint64_t time_ns, uint64_t stack)
{
    w->runs[w->run_count++ % RUNS] = (struct run){time_ns, stack, tid};
}

/* NULL: its stack cannot be resolved, or there is no memory. */
static const struct code_place *place_of(struct recent_waits *w, struct kept_stack *s)
{
    struct sample sample;
    if (s->place && s->place_is_final)
        return s->place;
    const int r = w->resolve(w->context, s->record, &sample);
    if (r < 0 && r != -EAGAIN)
        return s->place;
    const bool is_new = !s->place;
    s->place = s->place ?: malloc(sizeof(*s->place));
    if (!s->place)
        return NULL;
    s->place_is_final = r == 0;
    code_place_of(sample.frames, sample.frame_count, s->place);
    if (is_new)
        add_bytes(w, s, sizeof(*s->place));
    return s->place;
}

void recent_waits_find_runs(struct recent_waits *w, uint32_t tid, uint64_t from_ns, uint64_t to_ns,
                            struct code_tally *tally)
{
    for (uint64_t n = w->run_count; n-- > 0 && w->run_count - n <= RUNS;) {
        const struct run *run = &w->runs[n % RUNS];
        if (run->time_ns + ORDER_NS < from_ns)
            break;
        if (run->tid != tid || run->time_ns < from_ns || run->time_ns >= to_ns)
            continue;
        struct kept_stack *s = &w->stacks[run->stack % STACKS];
        const struct code_place *place = s->name == run->stack ? place_of(w, s) : NULL;
        if (place)
            code_tally_add(tally, place);
    }
}

void recent_waits_find_next(struct recent_waits *w, uint32_t tid, uint64_t from_ns, uint64_t to_ns,
                            struct code_tally *tally)
{
    const struct wait *first = NULL;
    for (uint64_t n = w->count; n-- > 0 && w->count - n <= WAITS;) {
        const struct wait *one = &w->all[n % WAITS];
        if (one->end_ns + ORDER_NS < from_ns)
            break;
        if (one->tid == tid && one->start_ns >= from_ns && one->start_ns < to_ns &&
            (!first || one->start_ns < first->start_ns))
            first = one;
    }
    struct kept_stack *s = first ? &w->stacks[first->stack % STACKS] : NULL;
    const struct code_place *place = s && s->name == first->stack ? place_of(w, s) : NULL;
    if (place)
        code_tally_add(tally, place);
}
