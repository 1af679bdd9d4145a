/* See process_threads.h. */
#include "signals/process_threads.h"

#include "base/buf.h"
#include "base/starts_with.h"
#include "diagnose/code/frame_name.h"
#include "resolve/proc/thread_states.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FRAME_BYTES 160

struct known_thread {
    uint32_t tid;
    uint64_t waited_ns;
    char call[64];
    char *stack;
};

struct process_threads {
    uint32_t pid; /* 0: nothing was asked yet */
    uint64_t asked_ns;
    bool is_complete;
    size_t known_count;
    struct known_thread known[PROCESS_THREADS_MAX];
    struct process_thread read[PROCESS_THREADS_MAX];
};

int process_threads_new(struct process_threads **ret)
{
    struct process_threads *t = calloc(1, sizeof(*t));
    if (!t)
        return -ENOMEM;
    *ret = t;
    return 0;
}

static void forget_answer(struct process_threads *t)
{
    for (size_t i = 0; i < t->known_count; i++)
        free(t->known[i].stack);
    t->known_count = 0;
}

void process_threads_free(struct process_threads *t)
{
    if (!t)
        return;
    forget_answer(t);
    free(t);
}

void process_threads_ask(struct process_threads *t, uint32_t pid, uint64_t now_ns)
{
    forget_answer(t);
    t->pid = pid;
    t->asked_ns = now_ns;
    t->is_complete = false;
}

uint32_t process_threads_asked(const struct process_threads *t)
{
    return t->is_complete ? 0 : t->pid;
}

bool process_threads_is_ready(struct process_threads *t, uint64_t now_ns)
{
    if (t->pid && now_ns - t->asked_ns >= PROCESS_THREADS_PATIENCE_NS)
        t->is_complete = true;
    return t->pid && t->is_complete;
}

/* ---- the answer ---- */

/* NULL: there is no place. */
static struct known_thread *known_get(struct process_threads *t, uint32_t tid)
{
    for (size_t i = 0; i < t->known_count; i++)
        if (t->known[i].tid == tid)
            return &t->known[i];
    if (t->known_count == PROCESS_THREADS_MAX)
        return NULL;
    t->known[t->known_count] = (struct known_thread){.tid = tid};
    return &t->known[t->known_count++];
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* "cuStreamSynchronize" of libcuda.so.1, "ncclCommInitRank" of whichever file has NCCL. */
static bool is_gpu_call(const struct frame *f)
{
    if (starts_with(f->function, "nccl"))
        return isupper((unsigned char)f->function[4]);
    return starts_with(f->function, "cu") && isupper((unsigned char)f->function[2]) &&
           starts_with(base_name(f->mapping), "libcuda.so");
}

static void put_frame(struct buf *out, const struct frame *f)
{
    char text[FRAME_BYTES];
    if (out->size)
        buf_putc(out, '\n');
    buf_puts(out, frame_name_text(f, text, sizeof(text)));
    if (f->line && f->file[0] && !f->is_first_line) {
        buf_putc(out, ' ');
        buf_put_shown(out, base_name(f->file));
        buf_printf(out, ":%u", f->line);
    }
    if (f->kind == FRAME_KERNEL)
        buf_puts(out, " [kernel]");
}

void process_threads_put_stack(struct process_threads *t, uint32_t tid, const struct frame *frames, size_t count)
{
    struct known_thread *k = known_get(t, tid);
    struct buf text = {.max_bytes = PROCESS_THREADS_STACK_BYTES};
    if (!k)
        return;
    k->call[0] = '\0';
    for (size_t i = 0; i < count; i++) {
        put_frame(&text, &frames[i]);
        if (is_gpu_call(&frames[i])) /* the outermost one is the program's call */
            snprintf(k->call, sizeof(k->call), "%s", frames[i].function);
    }
    free(k->stack);
    k->stack = text.data; /* what did not fit is left out */
}

void process_threads_put_wait(struct process_threads *t, uint32_t tid, uint64_t waited_ns)
{
    struct known_thread *k = known_get(t, tid);
    if (k)
        k->waited_ns = waited_ns;
}

bool process_threads_has_stack(struct process_threads *t, uint32_t tid)
{
    const struct known_thread *k = known_get(t, tid);
    return !k || k->stack;
}

void process_threads_complete(struct process_threads *t)
{
    t->is_complete = true;
}

void process_threads_note_sample(struct process_threads *t, const struct sample *sample)
{
    if (sample->type == &sample_type_cpu && sample->resource->pid == process_threads_asked(t) && t->pid)
        process_threads_put_stack(t, sample->tid, sample->frames, sample->frame_count);
}

const struct process_thread *process_threads_read(struct process_threads *t, uint32_t first, size_t *ret_count,
                                                  size_t *ret_omitted)
{
    static const struct known_thread unknown = {0};
    struct thread_state states[PROCESS_THREADS_MAX];
    const size_t all = thread_states_read(t->pid, first, states, PROCESS_THREADS_MAX);
    const size_t count = all < PROCESS_THREADS_MAX ? all : PROCESS_THREADS_MAX;
    for (size_t i = 0; i < count; i++) {
        struct process_thread *p = &t->read[i];
        const struct known_thread *k = &unknown;
        for (size_t j = 0; j < t->known_count; j++)
            if (t->known[j].tid == states[i].tid)
                k = &t->known[j];
        *p = (struct process_thread){.tid = states[i].tid,
                                     .state = states[i].state,
                                     .waited_ns = k->waited_ns,
                                     .stack = k->stack ? k->stack : ""};
        memcpy(p->name, states[i].name, sizeof(p->name));
        memcpy(p->function, states[i].function, sizeof(p->function));
        memcpy(p->call, k->call, sizeof(p->call));
    }
    *ret_count = count;
    *ret_omitted = all - count;
    return t->read;
}
