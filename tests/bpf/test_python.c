/* The walk of an interpreter's frames, at page faults and naps of a known number, in a program that has nothing of Python but its structures: on every kernel, and where they lie. What
 * real interpreters make of it is tests/e2e/test_python_frames.py's. */
#include "rows.h"
#include "watch.h"
#include "workload.h"

#include "../../probes/unwind_maps.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include <cmocka.h>

#include <pthread.h>
#include <string.h>

/* ---- an interpreter's structures ---- */

struct fake_text {
    uint64_t object[2], length, hash;
    uint32_t state, reserved;
    uint64_t before_data;
    char data[40];
};

struct fake_code {
    uint64_t object[2];
    int32_t first_line, reserved;
    struct fake_text *file, *name;
    const void *lines;
    uint64_t rest[6];
    uint16_t instructions[8];
};

struct fake_frame {
    const struct fake_code *code;
    struct fake_frame *previous;
    const uint16_t *instruction;
    uint64_t rest[5];
    char owner;
    char reserved[15];
};

struct fake_cframe {
    uint64_t before;
    struct fake_frame *current;
    struct fake_cframe *previous;
};

/* A frame of before 3.11. */
struct fake_object {
    uint64_t object[3];
    struct fake_object *back;
    const struct fake_code *code;
    uint64_t rest[8];
    int32_t last, line;
};

struct fake_thread {
    uint64_t object;
    struct fake_thread *next;
    void *current;
    struct fake_cframe *cframe, root; /* of 3.10 */
    uint64_t id;
};

struct fake_interpreter {
    struct fake_interpreter *next;
    uint64_t threads_made;
    struct fake_thread *threads;
};

#define FRAMES_A_RUN 3
#define RUNS_MAX     600

static struct fake_interpreter inner, interpreter, *interpreters = &interpreter;
static struct fake_thread thread, thread_of_inner, others[40];
static struct fake_frame frames[RUNS_MAX * FRAMES_A_RUN];
static struct fake_object objects[RUNS_MAX];
static struct fake_code codes[FRAMES_A_RUN];
static struct fake_text file, names[FRAMES_A_RUN];
static struct {
    uint64_t object[2], size, hash;
    uint8_t data[8];
} lines;

static struct python_layout layout_of(unsigned flags)
{
    const bool objects_way = flags & PYTHON_FRAME_OBJECTS;

    return (struct python_layout){
        .interpreters = (uintptr_t)&interpreters,
        .text_start = 1,
        .interpreter_next = offsetof(struct fake_interpreter, next),
        .interpreter_threads = offsetof(struct fake_interpreter, threads),
        .interpreter_made = offsetof(struct fake_interpreter, threads_made),
        .thread_next = offsetof(struct fake_thread, next),
        .thread_id = offsetof(struct fake_thread, id),
        .thread_current = offsetof(struct fake_thread, current),
        .thread_cframe = offsetof(struct fake_thread, cframe),
        .thread_root = offsetof(struct fake_thread, root),
        .cframe_current = (uint16_t)(objects_way ? offsetof(struct fake_cframe, previous)
                                                 : offsetof(struct fake_cframe, current)),
        .frame_code =
            (uint16_t)(objects_way ? offsetof(struct fake_object, code) : offsetof(struct fake_frame, code)),
        .frame_previous =
            (uint16_t)(objects_way ? offsetof(struct fake_object, back) : offsetof(struct fake_frame, previous)),
        .frame_instruction = (uint16_t)(objects_way ? offsetof(struct fake_object, last)
                                                    : offsetof(struct fake_frame, instruction)),
        .frame_owner = offsetof(struct fake_frame, owner),
        .code_checked = offsetof(struct fake_code, first_line),
        .code_first_line = offsetof(struct fake_code, first_line),
        .code_file = offsetof(struct fake_code, file),
        .code_name = offsetof(struct fake_code, name),
        .code_lines = offsetof(struct fake_code, lines),
        .text_ascii = offsetof(struct fake_text, data),
        .text_compact = offsetof(struct fake_text, data),
        .code_instructions = offsetof(struct fake_code, instructions),
        .flags = (uint8_t)flags,
    };
}

/* ---- the subject ---- */

enum lie { TRUTH, TWO_INTERPRETERS, CIRCLE, NOWHERE, ENDS_TOO_EARLY, UNLIKE, NOT_ON_THE_STACK, NO_THREAD, NO_CODE, UNEVEN };

static unsigned way; /* PYTHON_CFRAMES or PYTHON_MARKED_FRAMES */

static void (*volatile serve)(void) = workload_serve; /* the compiler must not know that it never returns: frames would go */
extern const char __start_code_evaluate[], __stop_code_evaluate[];

/* Pushes a run of frames, as long as it runs. */
__attribute__((noinline, noclone, section("code_evaluate"))) static int evaluate(int runs)
{
    struct fake_thread *t = interpreter.next && runs % 2 ? &thread_of_inner : &thread;
    struct fake_cframe here = {.previous = way == PYTHON_CFRAMES ? t->current : NULL};
    struct fake_frame entry = {.owner = PYTHON_OWNED_BY_CSTACK, .previous = way == PYTHON_CFRAMES ? NULL : t->current};
    struct fake_frame *run = &frames[(runs - 1) * FRAMES_A_RUN];

    for (int i = 0; i < FRAMES_A_RUN; i++) /* the last one is the first to be called */
        run[i] = (struct fake_frame){
            .code = &codes[i], .previous = &run[i + 1], .instruction = &codes[i].instructions[i]};
    if (way == PYTHON_CFRAMES) {
        run[FRAMES_A_RUN - 1].owner = 1;
        run[FRAMES_A_RUN - 1].previous = here.previous ? here.previous->current : NULL;
        here.current = run;
        t->current = &here;
    } else {
        run[FRAMES_A_RUN - 1].previous = &entry;
        t->current = run;
    }
    if (runs > 1)
        return evaluate(runs - 1) + entry.owner;
    serve();
    return (int)here.before + entry.owner;
}

/* Each with a frame of its own, as before 3.11. */
__attribute__((noinline, noclone, section("code_evaluate"))) static int evaluate_object(int runs, enum lie lie)
{
    struct fake_cframe here = {.previous = thread.cframe};
    struct fake_object *o = &objects[runs - 1];

    *o = (struct fake_object){.back = thread.current, .code = &codes[(runs - 1) % FRAMES_A_RUN], .last = runs - 2};
    if (lie != UNEVEN || runs > 1) /* else about to begin, or at its end */
        thread.cframe = &here;
    thread.current = o;
    if (runs > 1)
        return evaluate_object(runs - 1, lie) + (int)here.before;
    if (lie == CIRCLE)
        objects[1].back = objects;
    if (lie == NOWHERE)
        objects[1].back = (void *)0xffff888000000000;
    serve();
    return (int)here.before;
}

static void lie_about(enum lie lie, struct fake_cframe *here)
{
    static struct fake_cframe elsewhere;
    struct fake_frame *leaf = &frames[0];

    elsewhere = *here;

    switch (lie) {
    case CIRCLE:
        leaf[1].previous = leaf;
        break;
    case NOWHERE:
        leaf[1].previous = (void *)0xffff888000000000;
        break;
    case ENDS_TOO_EARLY:
        leaf[1].owner = 1;
        break;
    case UNLIKE: /* the run before is said to end with another frame than the one that called this run */
        leaf[FRAMES_A_RUN - 1].previous = &leaf[FRAMES_A_RUN];
        elsewhere.current = &leaf[FRAMES_A_RUN + 1];
        here->previous = &elsewhere;
        break;
    case NOT_ON_THE_STACK:
        thread.current = &elsewhere;
        break;
    case NO_CODE:
        leaf[1].code = (void *)4096;
        break;
    case NO_THREAD:
        thread.id = 0;
        break;
    default:
        break;
    }
    serve();
}

/* The same, but lies. */
__attribute__((noinline, noclone, section("code_evaluate"))) static int evaluate_and_lie(enum lie lie)
{
    struct fake_cframe here = {0};

    for (int i = 0; i < FRAMES_A_RUN; i++)
        frames[i] = (struct fake_frame){
            .code = &codes[i], .previous = i < FRAMES_A_RUN - 1 ? &frames[i + 1] : NULL, .instruction = codes[i].instructions};
    frames[FRAMES_A_RUN - 1].owner = 1;
    here.current = frames;
    thread.current = &here;
    lie_about(lie, &here);
    return (int)here.before;
}

static void set_up(unsigned flags, enum lie lie)
{
    way = flags;
    inner = (struct fake_interpreter){.threads_made = 1, .threads = &thread_of_inner};
    interpreter = (struct fake_interpreter){.next = lie == TWO_INTERPRETERS ? &inner : NULL, .threads_made = 41, .threads = &others[0]};
    thread_of_inner = (struct fake_thread){.id = (uint64_t)pthread_self()};
    for (size_t i = 0; i < 40; i++)
        others[i] = (struct fake_thread){.next = i < 39 ? &others[i + 1] : &thread, .id = 4096 * i};
    thread = (struct fake_thread){.id = (uint64_t)pthread_self(), .cframe = &thread.root};
    /* Written here: pages of a file that the child has not touched are not there for it. */
    file = (struct fake_text){.length = 6, .state = 1 << 2 | 1 << 6, .data = "x/y.py"};
    lines.size = 5;
    memcpy(lines.data, "lines", 5);
    for (int i = 0; i < FRAMES_A_RUN; i++)
        names[i] = (struct fake_text){.length = 1, .state = 1 << 2 | 1 << 6, .data = {(char)('a' + i)}};
    for (int i = 0; i < FRAMES_A_RUN; i++)
        codes[i] = (struct fake_code){.first_line = i + 1, .file = &file, .name = &names[i], .lines = &lines};
}

/* ---- watching it ---- */

struct expectation {
    unsigned flags;
    int runs;
    enum lie lie;
    bool told[FRAMES_A_RUN];
    uint32_t checks[FRAMES_A_RUN];
};

static const struct python_tail *tail_of(const struct cpu_sample *s, const struct python_entry **ret_entries)
{
    const struct python_tail *tail = cpu_sample_python_tail(s);

    assert_true(s->flags & CPU_SAMPLE_INTERPRETED);
    assert_true(tail->entries <= PYTHON_MAX_ENTRIES);
    *ret_entries = (const struct python_entry *)((const char *)tail - tail->entries * sizeof(**ret_entries));
    return tail;
}

static void expect_code(const struct python_code *c, struct expectation *e)
{
    for (int i = 0; i < FRAMES_A_RUN; i++) {
        if (c->code != (uintptr_t)&codes[i])
            continue;
        assert_true(python_code_is_sound(c));
        assert_int_equal(c->first_line, i + 1);
        assert_int_equal(c->file.length, 6);
        assert_memory_equal(c->file_data, "x/y.py", 6);
        assert_int_equal(c->name.length, 1);
        assert_int_equal(c->name_data[0], 'a' + i);
        assert_int_equal(c->lines_bytes, 5);
        assert_memory_equal(c->lines, lines.data, 5);
        assert_int_equal(c->instructions, offsetof(struct fake_code, instructions));
        e->told[i] = true;
        e->checks[i] = c->check;
        return;
    }
    fail_msg("a code object that there is not");
}

static void expect_frame(const struct python_entry *entry, int i, const struct expectation *e)
{
    assert_int_equal(entry->code, (uintptr_t)&codes[i]);
    assert_true(e->told[i]); /* ahead of the sample */
    assert_int_equal(entry->check, e->checks[i]);
}

/* What is said of code is as it should be. Of a thread that waited when the recording began the walk is another one's. */
static bool is_sample_to_look_at(const struct wire_header *header, struct expectation *e)
{
    const struct cpu_sample *s = (const struct cpu_sample *)header;

    if (header->kind == WIRE_PYTHON_CODE) {
        expect_code((const struct python_code *)header, e);
        return false;
    }
    return header->kind == WIRE_OFF_CPU_STACK ? s->user_end != UNWIND_END_NOT_RUNNING : workload_faulted(s);
}

/* Every run, at the native frame that has it. */
static bool look_at_runs(const struct wire_header *header, void *context)
{
    const struct cpu_sample *s = (const struct cpu_sample *)header;
    struct expectation *e = context;
    const struct python_entry *entries;
    const struct python_tail *tail;
    uint32_t at = 0, last = 0;

    if (!is_sample_to_look_at(header, e))
        return false;
    if (s->user_end != UNWIND_END_ENTRY)
        fail_msg("the walk ended with %u after %u frames", s->user_end, s->user_frames);
    tail = tail_of(s, &entries);
    assert_int_equal(tail->end, PYTHON_END_WHOLE);
    assert_int_equal(tail->entries, e->runs * (FRAMES_A_RUN + 1));
    for (int run = 0; run < e->runs; run++) {
        for (int i = 0; i < FRAMES_A_RUN; i++, at++) {
            expect_frame(&entries[at], i, e);
            assert_int_equal(entries[at].instruction, offsetof(struct fake_code, instructions) + 2 * (size_t)i);
        }
        assert_true(entries[at].code & PYTHON_MARK);
        assert_in_range(entries[at].instruction, last + 1, s->user_frames);
        last = entries[at++].instruction;
        assert_in_range(s->data[s->kernel_frames + last - 1] & ~CPU_FRAME_EXACT, (uintptr_t)__start_code_evaluate,
                        (uintptr_t)__stop_code_evaluate);
    }
    return true;
}

/* A mark that was found in the stack of an evaluator, further out than `*last`. */
static void expect_own_mark(const struct python_entry *mark, const struct cpu_sample *s, uint32_t *last)
{
    assert_true(mark->code & PYTHON_MARK);
    assert_in_range(mark->instruction, *last + 1, s->user_frames);
    *last = mark->instruction;
    assert_in_range(s->data[s->kernel_frames + *last - 1] & ~CPU_FRAME_EXACT, (uintptr_t)__start_code_evaluate,
                    (uintptr_t)__stop_code_evaluate);
}

/* Frames that have an evaluator each: marked, as far as there is room for marks, or counted. */
static bool look_at_objects(const struct wire_header *header, void *context)
{
    const struct cpu_sample *s = (const struct cpu_sample *)header;
    struct expectation *e = context;
    const bool is_marked = e->flags & PYTHON_CFRAMES && e->lie != UNEVEN;
    const struct python_entry *entries;
    const struct python_tail *tail;
    uint32_t at = 0, last = 0;

    if (!is_sample_to_look_at(header, e))
        return false;
    tail = tail_of(s, &entries);
    if (e->lie == CIRCLE || e->lie == NOWHERE) {
        assert_int_equal(tail->end, e->lie == CIRCLE ? PYTHON_END_TOO_DEEP : PYTHON_END_BAD_READ);
        assert_int_equal(entries[0].code, (uintptr_t)&codes[0]);
        return true;
    }
    assert_int_equal(tail->end, PYTHON_END_WHOLE);
    assert_int_equal(tail->flags, is_marked ? 0 : PYTHON_COUNTED);
    for (int run = 0; run < e->runs; run++) {
        const uint32_t last_instruction = (uint32_t)(e->flags & PYTHON_IN_WORDS ? 2 * (run - 1) : run - 1);

        expect_frame(&entries[at], run % FRAMES_A_RUN, e);
        assert_int_equal(entries[at].instruction, (uint32_t)offsetof(struct fake_code, instructions) + last_instruction);
        at++;
        if (is_marked && run < PYTHON_MAX_OWN_MARKS)
            expect_own_mark(&entries[at++], s, &last);
        else if (at < tail->entries && entries[at].code & PYTHON_MARK)
            at++; /* of the walk until it was seen that they do not go with the frames */
    }
    assert_int_equal(at, tail->entries);
    return true;
}

/* Every second run is of either: each state's are told in order, and all are found. */
static bool look_at_two_interpreters(const struct wire_header *header, void *context)
{
    const struct cpu_sample *s = (const struct cpu_sample *)header;
    struct expectation *e = context;
    const struct python_entry *entries;
    const struct python_tail *tail;
    bool found[CPU_MAX_USER_FRAMES + 1] = {false};
    uint32_t at = 0, last = 0;

    if (!is_sample_to_look_at(header, e))
        return false;
    tail = tail_of(s, &entries);
    assert_int_equal(tail->end, PYTHON_END_WHOLE);
    assert_int_equal(tail->flags, PYTHON_SEVERAL);
    assert_int_equal(tail->entries, e->runs * (FRAMES_A_RUN + 1));
    for (int run = 0; run < e->runs; run++) {
        for (int i = 0; i < FRAMES_A_RUN; i++)
            expect_frame(&entries[at++], i, e);
        if (run == e->runs / 2)
            last = 0;
        expect_own_mark(&entries[at++], s, &last);
        assert_false(found[last]);
        found[last] = true;
    }
    return true;
}

static bool look_at_waiting_runs(const struct wire_header *header, void *context)
{
    return header->kind != WIRE_OFF_CPU && look_at_runs(header, context);
}

static bool look_at_lie(const struct wire_header *header, void *context)
{
    struct expectation *e = context;
    const struct python_entry *entries;
    const struct python_tail *tail;

    if (header->kind == WIRE_PYTHON_CODE || !workload_faulted((const struct cpu_sample *)header))
        return false;
    if (e->lie == NO_THREAD) {
        assert_false(((const struct cpu_sample *)header)->flags & CPU_SAMPLE_INTERPRETED);
        return true;
    }
    tail = tail_of((const struct cpu_sample *)header, &entries);
    assert_int_equal(entries[0].code, (uintptr_t)&codes[0]);
    switch (e->lie) {
    case CIRCLE:
        assert_int_equal(tail->end, PYTHON_END_TOO_DEEP);
        assert_in_range(tail->entries, PYTHON_MAX_ENTRIES - 1, PYTHON_MAX_ENTRIES);
        break;
    case NOWHERE:
        assert_int_equal(tail->end, PYTHON_END_BAD_READ);
        assert_int_equal(tail->entries, 2);
        break;
    case ENDS_TOO_EARLY:
        assert_int_equal(tail->end, PYTHON_END_TORN);
        assert_int_equal(tail->entries, 3);
        break;
    case UNLIKE:
        assert_int_equal(tail->end, PYTHON_END_TORN);
        assert_int_equal(tail->entries, 4);
        break;
    case NOT_ON_THE_STACK: /* then no native frame runs it */
        assert_int_equal(tail->end, PYTHON_END_WHOLE);
        assert_int_equal(tail->entries, 4);
        assert_int_equal(entries[3].instruction, 0);
        break;
    default:
        assert_int_equal(tail->end, PYTHON_END_WHOLE);
        assert_int_equal(entries[1].check, 0);
        assert_int_equal(tail->entries, 4);
    }
    return true;
}

/* ---- recording them ---- */

#define FIRINGS 5

struct fake {
    struct expectation e;
    bool (*look)(const struct wire_header *, void *);
    struct workload child;
};

struct fakes {
    struct fake *of;
    size_t count;
};

static void enter_fake(void *context)
{
    const struct expectation *e = context;

    if (e->flags & PYTHON_FRAME_OBJECTS)
        _exit(evaluate_object(e->runs, e->lie));
    _exit(e->lie < CIRCLE ? evaluate(e->runs) : evaluate_and_lie(e->lie));
}

static void start_fake(struct fake *f)
{
    set_up(f->e.flags, f->e.lie);
    f->child = workload_start(enter_fake, &f->e);
}

/* Before it does anything, the kernel half knows its rows and its interpreter. */
static void put_fake(struct unwind_tables *tables, const struct fake *f)
{
    const struct interpreter_layouts layouts = {.python = layout_of(f->e.flags)};
    struct rows rows;

    assert_true(rows_put_process_and_tell(tables, f->child.pid, &rows) > 0);
    assert_int_equal(unwind_tables_put_process(tables, (uint32_t)f->child.pid, rows.mappings, rows.count, &layouts), 0);
}

static bool look_at_each(const struct wire_header *header, void *context)
{
    const struct fakes *fakes = context;

    for (size_t i = 0; i < fakes->count; i++)
        if (header->pid == (uint32_t)fakes->of[i].child.pid)
            return fakes->of[i].look(header, &fakes->of[i].e);
    fail_msg("a record of process %u, which was not asked for", header->pid);
    return false;
}

/* All in one recording: loading the programs is what takes time. Each fault is a sample. */
static void watch_fakes(struct fake *of, size_t count)
{
    struct source_options options = watch_defaults;
    struct fakes fakes = {of, count};

    for (size_t i = 0; i < count; i++) {
        start_fake(&of[i]);
        options.pids[options.pid_count++] = (uint32_t)of[i].child.pid;
    }
    options.ring_bytes = 16U << 20;
    struct watch w = workload_watch(options, "page-faults");
    for (size_t i = 0; i < count; i++)
        put_fake(cpu_source_unwind_tables(w.self), &of[i]);
    for (size_t i = 0; i < count; i++)
        workload_run(&of[i].child, workload_fault, FIRINGS);
    workload_expect(&w, count * FIRINGS, look_at_each, &fakes);
    for (size_t i = 0; i < count; i++)
        workload_end(&of[i].child);
    workload_unwatch(&w);
}

/* The stack with which it leaves its CPU. */
static void watch_waiting_fake(struct expectation e)
{
    struct source_options options = watch_defaults;
    struct fake f = {.e = e, .look = look_at_waiting_runs};
    struct fakes fakes = {&f, 1};

    start_fake(&f);
    options.pids[0] = (uint32_t)f.child.pid;
    options.pid_count = 1;
    struct watch w = watch_begin(&source_off_cpu, &options);
    put_fake(off_cpu_source_unwind_tables(w.self), &f);
    workload_begin(&f.child, workload_nap, 1);
    workload_interrupt(&f.child, 1, 0);
    workload_await(&f.child);
    assert_int_equal(w.source->stop(w.self), 0);
    watch_until(&w, 1, look_at_each, &fakes);
    workload_end(&f.child);
    watch_end(&w);
}

static void test_runs_of_cframes(void **state)
{
    struct fake fakes[] = {
        {.e = {PYTHON_CFRAMES, .runs = 1}, .look = look_at_runs},
        {.e = {PYTHON_CFRAMES, .runs = 20}, .look = look_at_runs},
        {.e = {PYTHON_CFRAMES, .runs = 250}, .look = look_at_runs},
    };

    (void)state;
    watch_fakes(fakes, array_size(fakes));
}

static void test_runs_of_marked_frames(void **state)
{
    struct fake fakes[] = {
        {.e = {PYTHON_MARKED_FRAMES, .runs = 1}, .look = look_at_runs},
        {.e = {PYTHON_MARKED_FRAMES, .runs = 250}, .look = look_at_runs},
    };

    (void)state;
    watch_fakes(fakes, array_size(fakes));
}

/* On one stack, by turns. */
static void test_runs_of_two_interpreters(void **state)
{
    struct fake fakes[] = {
        {.e = {PYTHON_CFRAMES, .runs = 2, .lie = TWO_INTERPRETERS}, .look = look_at_two_interpreters},
        {.e = {PYTHON_CFRAMES, .runs = 250, .lie = TWO_INTERPRETERS}, .look = look_at_two_interpreters},
        {.e = {PYTHON_MARKED_FRAMES, .runs = 250, .lie = TWO_INTERPRETERS}, .look = look_at_two_interpreters},
    };

    (void)state;
    watch_fakes(fakes, array_size(fakes));
}

/* The same where a thread waits. */
static void test_runs_that_wait(void **state)
{
    (void)state;
    watch_waiting_fake((struct expectation){PYTHON_CFRAMES, .runs = 20});
    watch_waiting_fake((struct expectation){PYTHON_MARKED_FRAMES, .runs = 250});
}

static void test_lies(void **state)
{
    struct fake fakes[NO_CODE - CIRCLE + 1];

    (void)state;
    for (enum lie lie = CIRCLE; lie <= NO_CODE; lie++)
        fakes[lie - CIRCLE] = (struct fake){.e = {PYTHON_CFRAMES, .runs = 1, .lie = lie}, .look = look_at_lie};
    watch_fakes(fakes, array_size(fakes));
}

static void test_frames_that_are_objects(void **state)
{
    const unsigned counted = PYTHON_FRAME_OBJECTS, marked = PYTHON_FRAME_OBJECTS | PYTHON_CFRAMES | PYTHON_IN_WORDS;
    struct fake fakes[] = {
        {.e = {counted, .runs = RUNS_MAX}, .look = look_at_objects},
        {.e = {marked, .runs = RUNS_MAX}, .look = look_at_objects},
        {.e = {marked, .runs = 20, .lie = UNEVEN}, .look = look_at_objects},
        {.e = {counted, .runs = 3, .lie = CIRCLE}, .look = look_at_objects},
        {.e = {marked, .runs = 3, .lie = NOWHERE}, .look = look_at_objects},
    };

    (void)state;
    watch_fakes(fakes, array_size(fakes));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_runs_of_cframes),
        cmocka_unit_test(test_runs_of_marked_frames),
        cmocka_unit_test(test_frames_that_are_objects),
        cmocka_unit_test(test_runs_of_two_interpreters),
        cmocka_unit_test(test_runs_that_wait),
        cmocka_unit_test(test_lies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
