/* Shared by tests of samples: records of one program, and fakes of the modules around samples.c: names, unwind tables,
 * kernel symbols and an interpreter's names; the process table is the real one. */
#pragma once

#include "resolve/sample/samples.h"

#include "base/clock.h"
#include "resolve/interpreter/interpreters.h"
#include "resolve/unwind/unwind.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#define PROGRAM           0x40000000u /* PIDs that do not exist on this machine */
#define GONE              0x40000001u
#define EVALUATOR_OFFSET  0x5eee                                   /* in the program */
#define EVALUATOR         (0x1000 + EVALUATOR_OFFSET - 0x5000 + 1) /* return address */
#define EXEC_ADDRESS      0xffffffff81234500                       /* in load_elf_binary */
#define CALL_ADDRESS      0xffffffff81234600                       /* in a function called from a tracepoint */
#define RETPOLINE_ADDRESS 0xffffffff82202186
#define BPF_ADDRESS       0xffffffffc0001000 /* in a BPF program */

/* ---- fakes of the other modules ---- */

static size_t name_padding; /* makes names long */

int symbols_find(struct symbols *s, struct object *object, uint64_t file_offset, struct symbol *ret)
{
    static char name[70000];
    (void)s;
    if (file_offset == EVALUATOR_OFFSET) {
        *ret = (struct symbol){.function = "_PyEval_EvalFrameDefault", .system_name = ""};
        return 0;
    }
    int n = snprintf(name, 128, "%s+%lx", strrchr(object->path, '/') + 1, (unsigned long)file_offset);
    memset(name + n, 'x', name_padding);
    name[(size_t)n + name_padding] = '\0';
    const int found = strcmp(object->path, "/lib/stripped.so") != 0;
    *ret = (struct symbol){.function = found ? name : "", .system_name = "", .address = file_offset + 0x10000};
    return found ? 0 : -ENOENT;
}

int symbols_demangle(struct symbols *s, const char *symbol, char out[DEMANGLED_MAX])
{
    (void)s;
    snprintf(out, DEMANGLED_MAX, "readable %s", symbol);
    return 0;
}

/* CPython, with these names: "pNN" for even code objects. */
static struct interpreter fake_cpython;

static int fake_cpython_open(size_t max_bytes, void **ret_self)
{
    (void)max_bytes;
    *ret_self = NULL;
    return 0;
}

static void fake_cpython_free(void *self)
{
    assert_null(self);
}

static size_t fake_cpython_missing(void *self, struct missing_code *ret, size_t max)
{
    (void)self;
    (void)ret;
    (void)max;
    return 0;
}

static int fake_cpython_find(void *self, uint32_t pid, const struct interpreter_entry *entry,
                             struct interpreted_name *ret)
{
    static char names[64][8];
    assert_null(self);
    assert_int_equal(pid, PROGRAM);
    assert_int_equal(entry->code & INTERPRETER_ENTRY_MARK, 0);
    snprintf(names[entry->code % 64], sizeof(names[0]), "p%u", (unsigned)entry->code);
    *ret = (struct interpreted_name){.function = names[entry->code % 64], .file = "/x.py", .line = entry->instruction};
    return entry->code % 2 ? -ENOENT : 0;
}

bool kernel_symbols_find(struct kernel_symbols *k, uint64_t address, struct frame *ret)
{
    static char names[8][32];
    static unsigned next;
    char *name = names[next++ % 8];
    (void)k;
    if (address == EXEC_ADDRESS)
        snprintf(name, sizeof(names[0]), "load_elf_binary");
    else if (address == CALL_ADDRESS || address + 1 == CALL_ADDRESS)
        snprintf(name, sizeof(names[0]), "__traceiter_sched_waking");
    else if (address == RETPOLINE_ADDRESS)
        snprintf(name, sizeof(names[0]), "__x86_indirect_thunk_rax");
    else
        snprintf(name, sizeof(names[0]), "k%lx", (unsigned long)address);
    *ret = (struct frame){.kind = address == BPF_ADDRESS || address + 1 == BPF_ADDRESS ? FRAME_BPF : FRAME_KERNEL,
                          .function = name,
                          .file = "",
                          .mapping = "[kernel.kallsyms]",
                          .build_id = "",
                          .address = address};
    return true;
}

#define FINISH_MORE 2

static enum unwind_end finish_end;
static size_t finish_more = FINISH_MORE;
static unsigned finish_calls;

int unwind_finish_sample(const struct stack_record *record, const struct process *process, struct unwind_cache *cache,
                         bool walks_code, uint64_t *ret_frames, size_t max, size_t *ret_count,
                         struct unwind_spans *ret_spans)
{
    (void)cache;
    (void)walks_code;
    assert_non_null(process);
    assert_true(record->stack_bytes > 0);
    assert_true(max >= 2);
    finish_calls++;
    ret_spans->first = record->user_frames;
    ret_spans->count = finish_more;
    for (size_t i = 0; i <= finish_more; i++) /* each frame has 256 bytes of stack */
        ret_spans->sp[i] = 0x7000 + 256 * i;
    ret_frames[0] = 0x1101;
    ret_frames[1] = 0x1201;
    *ret_count = finish_more;
    return finish_end;
}

/* ---- fixture ---- */

struct fixture {
    struct processes *processes;
    struct interpreters *interpreters;
    struct sample_resolver *resolver;
    struct losses losses;
    union {
        struct stack_record record;
        char room[sizeof(struct stack_record) + 65536];
    } r;
};

static void record_mmap(struct fixture *f, uint64_t start, uint64_t end, uint64_t offset, const char *path)
{
    union {
        struct process_mmap r;
        char room[sizeof(struct process_mmap) + 256];
    } m = {.r = {.start = start, .size_bytes = end - start, .file_offset = offset}};
    m.r.path_bytes = (uint16_t)(strlen(path) + 1);
    memcpy(m.r.path, path, m.r.path_bytes);
    m.r.h = (struct record_header){.size_bytes = (sizeof(m.r) + m.r.path_bytes + 7) & ~7u,
                                   .kind = RECORD_PROCESS_MMAP,
                                   .time_ns = 12,
                                   .pid = PROGRAM,
                                   .tid = PROGRAM};
    processes_apply(f->processes, &m.r.h);
}

/* Numbered from 0 on. */
static void use_interpreters(struct fixture *f, const struct interpreter *const *known, size_t count)
{
    sample_resolver_free(f->resolver);
    interpreters_free(f->interpreters);
    assert_int_equal(interpreters_new(known, count, 1 << 20, &f->interpreters), 0);
    assert_int_equal(sample_resolver_new(f->processes, NULL, NULL, NULL, f->interpreters, NULL, &f->resolver), 0);
}

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));
    *state = f;
    name_padding = 0;
    finish_end = UNWIND_END_ENTRY;
    assert_int_equal(processes_new(8 << 20, &f->processes), 0);
    fake_cpython = interpreter_cpython;
    fake_cpython.open = fake_cpython_open;
    fake_cpython.find = fake_cpython_find;
    fake_cpython.missing = fake_cpython_missing;
    fake_cpython.free = fake_cpython_free;
    use_interpreters(f, (const struct interpreter *[]){&fake_cpython}, 1);
    const struct process_fork fork = {.h = {sizeof(fork), RECORD_PROCESS_FORK, 0, 10, PROGRAM, PROGRAM},
                                      .parent_pid = 1};
    processes_apply(f->processes, &fork.h);
    const struct process_exec exec = {.h = {sizeof(exec), RECORD_PROCESS_EXEC, 0, 11, PROGRAM, PROGRAM},
                                      .comm = "program"};
    processes_apply(f->processes, &exec.h);
    record_mmap(f, 0x1000, 0x2000, 0x5000, "/bin/program");
    record_mmap(f, 0x3000, 0x4000, 0, "/lib/stripped.so");
    record_mmap(f, 0x8000, 0x9000, 0, "//anon");
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    sample_resolver_free(f->resolver);
    interpreters_free(f->interpreters);
    processes_free(f->processes);
    free(f);
    return 0;
}

static struct stack_record *make_cpu_sample(struct fixture *f, uint32_t pid, unsigned kernel, unsigned user,
                                            unsigned end)
{
    struct stack_record *r = &f->r.record;
    *r = (struct stack_record){
        .sample.value = 52631578,
        .cpu = 1,
        .kernel_frames = (uint8_t)kernel,
        .user_frames = (uint16_t)user,
        .user_end = (uint8_t)end,
        .comm = "thread",
    };
    r->h = (struct record_header){.size_bytes = (uint32_t)(sizeof(*r) + (kernel + user) * 8),
                                  .kind = RECORD_CPU_SAMPLE,
                                  .time_ns = 20,
                                  .pid = pid,
                                  .tid = pid + 7};
    return r;
}

static uint64_t sum(const struct losses *l)
{
    uint64_t n = 0;
    for (int i = 0; i < LOSS_COUNT; i++)
        n += l->count[i];
    return n;
}

/* ---- interpreters' frames ---- */

#define CODE(number)                                                                                                   \
    {                                                                                                                  \
        (number), (number)*10, 1                                                                                       \
    }
#define MARK(address, frame)                                                                                           \
    {                                                                                                                  \
        INTERPRETER_ENTRY_MARK | (address), (frame) + 1, 0                                                             \
    }
#define UNREACHED(address)                                                                                             \
    {                                                                                                                  \
        INTERPRETER_ENTRY_MARK | (address), 0, 0                                                                       \
    }

/* Appends to the record. */
static inline void put_entries(struct stack_record *r, const struct interpreter_entry *entries, uint32_t count,
                               enum interpreter_end end)
{
    const struct interpreter_tail tail = {.entries = count, .end = (uint16_t)end};
    char *at = (char *)r + r->h.size_bytes;
    if (count)
        memcpy(at, entries, count * sizeof(*entries));
    memcpy(at + count * sizeof(*entries), &tail, sizeof(tail));
    r->flags |= STACK_RECORD_INTERPRETED;
    r->h.size_bytes += (uint32_t)(count * sizeof(*entries) + sizeof(tail));
}

/* The sample's frames, leaf first, as "p2 program+5100 ..."; truncation as its reason in brackets. */
static inline const char *resolved(struct fixture *f, const struct stack_record *r)
{
    static char text[1024];
    struct sample s;
    text[0] = '\0';
    f->losses = (struct losses){0};
    assert_int_equal(sample_resolve(f->resolver, r, &f->losses, &s), 0);
    for (size_t i = 0; i < s.frame_count; i++) {
        const struct frame *frame = &s.frames[i];
        const bool cut = frame->kind == FRAME_TRUNCATED;
        const size_t n = strlen(text);
        snprintf(text + n, sizeof(text) - n, "%s%s%s%s", i ? " " : "", cut ? "[" : "",
                 frame->function[0] ? frame->function : frame->mapping, cut ? "]" : "");
        if (frame->kind != FRAME_INTERPRETED || !frame->function[0])
            continue;
        assert_string_equal(frame->file, "/x.py");
        assert_int_equal(frame->line, 10 * atoi(frame->function + 1));
    }
    return text;
}
