/* See python_sleeping.h. What the walk asks its including file for: its memory, the process's memory, and where the
 * records of code objects go. Memory is read by pages, which are kept for one walk. */
#include "resolve/interpreter/python_sleeping.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "resolve/process/processes.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define __noinline                  static __attribute__((noinline))
#define UNWIND_SAME_REGISTER(value) (void)(value)

#include "probes/interpreter/interpreter_scratch.h"

#define PAGE_BYTES 4096
#define PAGES_KEPT 256

struct page {
    uint64_t address; /* 0: none */
    bool is_readable;
    uint8_t data[PAGE_BYTES];
};

struct walk {
    struct interpreter_scratch scratch;
    const struct sleeping_thread *thread;
    int (*take)(void *context, const struct record_header *code);
    void *context;
    struct python_thread known; /* nothing is known of the thread before */
    __u64 emitted;
    struct page pages[PAGES_KEPT];
};

/* The walk in progress, as the BPF programs have one for each CPU. */
static _Thread_local struct walk *walking;

static struct interpreter_scratch *interpreter_scratch_get(void)
{
    return &walking->scratch;
}

static struct python_thread *python_thread_known(__u64 id)
{
    (void)id;
    return &walking->known;
}

/* ---- memory ---- */

static const struct page *page_at(uint64_t address)
{
    const struct sleeping_thread *t = walking->thread;
    struct page *page = &walking->pages[address / PAGE_BYTES % PAGES_KEPT];
    _cleanup_buf_ struct buf data = {0};
    if (page->address == address)
        return page;
    page->address = address;
    page->is_readable =
        address && t->read(t->processes, t->process, address, PAGE_BYTES, &data) == 0 && data.size == PAGE_BYTES;
    if (page->is_readable)
        memcpy(page->data, data.data, PAGE_BYTES);
    return page;
}

static int interpreter_read(void *to, __u32 size, __u64 address)
{
    for (uint32_t done = 0; done < size;) {
        const uint64_t at = address + done, offset = at % PAGE_BYTES;
        const struct page *page = page_at(at - offset);
        const uint32_t left = size - done, room = (uint32_t)(PAGE_BYTES - offset), n = left < room ? left : room;
        if (!page->is_readable)
            return -EFAULT;
        memcpy((uint8_t *)to + done, page->data + offset, n);
        done += n;
    }
    return 0;
}

/* ---- code objects ---- */

static __u64 *emitted_code_slot(struct interpreter_scratch *p, __u32 pid, __u64 code, __u32 check, __u64 *ret_hash)
{
    (void)p;
    *ret_hash = emitted_code_hash(pid, code, check);
    return &walking->emitted; /* always: what is registered again is replaced */
}

static int interpreter_emit(const struct record_header *code, __u64 bytes)
{
    (void)bytes;
    return walking->take(walking->context, code);
}

/* ---- the walk ---- */

#pragma GCC diagnostic ignored "-Wunknown-pragmas" /* of clang, for BPF */
#include "probes/interpreter/python_walk.h"

static void begin_codes(struct interpreter_scratch *p, const struct process *process, const struct record_header *h)
{
    struct record_header *header = (struct record_header *)p->code;
    p->seed = hash_mix(hash_mix(process->start_time_ns, process->exec_time_ns), process->pid);
    *header = (struct record_header){.kind = RECORD_PYTHON_CODE, .pid = h->pid, .tid = h->tid, .time_ns = h->time_ns};
}

static void append_entries(const struct interpreter_scratch *p, struct stack_record *record)
{
    const struct interpreter_tail tail = {
        .entries = p->entries, .end = (uint16_t)p->end, .flags = (uint8_t)p->flags, .interpreter = (uint8_t)p->kind};
    const size_t bytes = p->entries * sizeof(p->entry[0]);
    char *to = (char *)record + record->h.size_bytes;
    if (record->h.size_bytes + bytes + sizeof(tail) > RECORD_MAX_BYTES)
        return;
    memcpy(to, p->entry, bytes);
    memcpy(to + bytes, &tail, sizeof(tail));
    record->h.size_bytes += (uint32_t)(bytes + sizeof(tail));
    record->flags |= STACK_RECORD_INTERPRETED;
}

int python_sleeping_append(const struct python_layout *layout, const struct sleeping_thread *thread,
                           int (*take)(void *context, const struct record_header *code), void *context,
                           struct stack_record *record)
{
    _cleanup_free_ struct walk *w = calloc(1, sizeof(*w));
    struct interpreter_scratch *p;
    if (!w)
        return -ENOMEM;
    w->thread = thread;
    w->take = take;
    w->context = context;
    walking = w;
    p = &w->scratch;
    python_begin(p, layout);
    p->thread_pointer = thread->pointer;
    p->stack_low = record->stop_sp;
    p->stack_high = UINT64_MAX;
    begin_codes(p, thread->process, &record->h);
    if (python_find_states(p, (uint64_t)record->h.pid << 32 | record->h.tid)) {
        python_walk_states(p);
        append_entries(p, record);
    }
    walking = NULL;
    return 0;
}
