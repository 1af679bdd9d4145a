/* The walk of interpreter frames, at a known number of page faults and naps, in a program that has only Python's
 * structures: on every kernel, and with inconsistent structures. Real interpreters are tested in
 * tests/e2e/test_python_frames.py. */
#include "fake_python.h"
#include "rows.h"
#include "watch.h"
#include "workload.h"

#include "probes/offcpu.h"
#include "probes/unwind/unwind_maps.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include <cmocka.h>

#include <string.h>

struct expectation {
    unsigned flags;
    int runs;
    enum corruption corruption;
    bool emitted[FRAMES_A_RUN];
    uint32_t checks[FRAMES_A_RUN];
};

static const struct interpreter_tail *tail_of(const struct stack_record *s,
                                              const struct interpreter_entry **ret_entries)
{
    const struct interpreter_tail *tail = stack_record_interpreter_tail(s);

    assert_true(s->flags & STACK_RECORD_INTERPRETED);
    assert_true(tail->entries <= INTERPRETER_MAX_ENTRIES);
    *ret_entries = (const struct interpreter_entry *)((const char *)tail - tail->entries * sizeof(**ret_entries));
    return tail;
}

static void expect_code(const struct python_code *c, struct expectation *e)
{
    for (int i = 0; i < FRAMES_A_RUN; i++) {
        if (c->code != (uintptr_t)&fake_codes[i])
            continue;
        assert_true(python_code_is_sound(c));
        assert_int_equal(c->first_line, i + 1);
        assert_int_equal(c->file.length, 6);
        assert_memory_equal(c->file_data, "x/y.py", 6);
        assert_int_equal(c->name.length, 1);
        assert_int_equal(c->name_data[0], 'a' + i);
        assert_int_equal(c->lines_bytes, 5);
        assert_memory_equal(c->lines, fake_lines, 5);
        assert_int_equal(c->instructions, offsetof(struct fake_code, instructions));
        e->emitted[i] = true;
        e->checks[i] = c->check;
        return;
    }
    fail_msg("a code object that there is not");
}

static void expect_frame(const struct interpreter_entry *entry, int i, const struct expectation *e)
{
    assert_int_equal(entry->code, (uintptr_t)&fake_codes[i]);
    assert_true(e->emitted[i]); /* emitted before the sample */
    assert_int_equal(entry->check, e->checks[i]);
}

/* Asserts that emitted code is correct. If a thread waited when the recording began, its first walk is of another
 * state. */
static bool is_checked_sample(const struct record_header *header, struct expectation *e)
{
    const struct stack_record *s = (const struct stack_record *)header;

    if (header->kind == RECORD_PYTHON_CODE) {
        expect_code((const struct python_code *)header, e);
        return false;
    }
    return header->kind == RECORD_OFF_CPU_STACK ? s->user_end != UNWIND_END_NOT_RUNNING : workload_faulted(s);
}

/* Every run, at the native frame that runs it. */
static bool check_runs(const struct record_header *header, void *context)
{
    const struct stack_record *s = (const struct stack_record *)header;
    struct expectation *e = context;
    const struct interpreter_entry *entries;
    const struct interpreter_tail *tail;
    uint32_t at = 0, last = 0;

    if (!is_checked_sample(header, e))
        return false;
    if (s->user_end != UNWIND_END_ENTRY)
        fail_msg("the walk ended with %u after %u frames", s->user_end, s->user_frames);
    tail = tail_of(s, &entries);
    assert_int_equal(tail->end, INTERPRETER_END_WHOLE);
    assert_int_equal(tail->entries, e->runs * (FRAMES_A_RUN + 1));
    for (int run = 0; run < e->runs; run++) {
        for (int i = 0; i < FRAMES_A_RUN; i++, at++) {
            expect_frame(&entries[at], i, e);
            assert_int_equal(entries[at].instruction, offsetof(struct fake_code, instructions) + 2 * (size_t)i);
        }
        assert_true(entries[at].code & INTERPRETER_ENTRY_MARK);
        assert_in_range(entries[at].instruction, last + 1, s->user_frames);
        last = entries[at++].instruction;
        assert_in_range(s->data[s->kernel_frames + last - 1] & ~FRAME_EXACT, (uintptr_t)__start_code_evaluate,
                        (uintptr_t)__stop_code_evaluate);
    }
    return true;
}

/* A mark found in the stack of an evaluator, further out than `*last`. */
static void expect_own_mark(const struct interpreter_entry *mark, const struct stack_record *s, uint32_t *last)
{
    assert_true(mark->code & INTERPRETER_ENTRY_MARK);
    assert_in_range(mark->instruction, *last + 1, s->user_frames);
    *last = mark->instruction;
    assert_in_range(s->data[s->kernel_frames + *last - 1] & ~FRAME_EXACT, (uintptr_t)__start_code_evaluate,
                    (uintptr_t)__stop_code_evaluate);
}

/* Frames that have an evaluator each: marked as long as there are mark slots, then counted. */
static bool check_objects(const struct record_header *header, void *context)
{
    const struct stack_record *s = (const struct stack_record *)header;
    struct expectation *e = context;
    const bool is_marked = e->flags & PYTHON_CFRAMES && e->corruption != UNEVEN;
    const struct interpreter_entry *entries;
    const struct interpreter_tail *tail;
    uint32_t at = 0, last = 0;

    if (!is_checked_sample(header, e))
        return false;
    tail = tail_of(s, &entries);
    if (e->corruption == CIRCLE || e->corruption == NOWHERE) {
        assert_int_equal(tail->end, e->corruption == CIRCLE ? INTERPRETER_END_TOO_DEEP : INTERPRETER_END_BAD_READ);
        assert_int_equal(entries[0].code, (uintptr_t)&fake_codes[0]);
        return true;
    }
    assert_int_equal(tail->end, INTERPRETER_END_WHOLE);
    assert_int_equal(tail->flags, is_marked ? 0 : INTERPRETER_TAIL_COUNTED);
    for (int run = 0; run < e->runs; run++) {
        const uint32_t last_instruction = (uint32_t)(e->flags & PYTHON_IN_WORDS ? 2 * (run - 1) : run - 1);

        expect_frame(&entries[at], run % FRAMES_A_RUN, e);
        assert_int_equal(entries[at].instruction,
                         (uint32_t)offsetof(struct fake_code, instructions) + last_instruction);
        at++;
        if (is_marked && run < PYTHON_MAX_OWN_MARKS)
            expect_own_mark(&entries[at++], s, &last);
        else if (at < tail->entries && entries[at].code & INTERPRETER_ENTRY_MARK)
            at++; /* from before the walk noticed that they do not match the frames */
    }
    assert_int_equal(at, tail->entries);
    return true;
}

/* Runs of the two interpreters alternate: each state's are recorded in order, and all are found. */
static bool check_two_interpreters(const struct record_header *header, void *context)
{
    const struct stack_record *s = (const struct stack_record *)header;
    struct expectation *e = context;
    const struct interpreter_entry *entries;
    const struct interpreter_tail *tail;
    bool found[STACK_MAX_USER_FRAMES + 1] = {false};
    uint32_t at = 0, last = 0;

    if (!is_checked_sample(header, e))
        return false;
    tail = tail_of(s, &entries);
    assert_int_equal(tail->end, INTERPRETER_END_WHOLE);
    assert_int_equal(tail->flags, INTERPRETER_TAIL_SEVERAL);
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

static bool check_waiting_runs(const struct record_header *header, void *context)
{
    return header->kind != RECORD_OFF_CPU && check_runs(header, context);
}

static bool check_corrupted(const struct record_header *header, void *context)
{
    struct expectation *e = context;
    const struct interpreter_entry *entries;
    const struct interpreter_tail *tail;

    if (header->kind == RECORD_PYTHON_CODE || !workload_faulted((const struct stack_record *)header))
        return false;
    if (e->corruption == NO_THREAD) {
        assert_false(((const struct stack_record *)header)->flags & STACK_RECORD_INTERPRETED);
        return true;
    }
    tail = tail_of((const struct stack_record *)header, &entries);
    assert_int_equal(entries[0].code, (uintptr_t)&fake_codes[0]);
    switch (e->corruption) {
    case CIRCLE:
        assert_int_equal(tail->end, INTERPRETER_END_TOO_DEEP);
        assert_in_range(tail->entries, INTERPRETER_MAX_ENTRIES - 1, INTERPRETER_MAX_ENTRIES);
        break;
    case NOWHERE:
        assert_int_equal(tail->end, INTERPRETER_END_BAD_READ);
        assert_int_equal(tail->entries, 2);
        break;
    case ENDS_TOO_EARLY:
        assert_int_equal(tail->end, INTERPRETER_END_TORN);
        assert_int_equal(tail->entries, 3);
        break;
    case UNLIKE:
        assert_int_equal(tail->end, INTERPRETER_END_TORN);
        assert_int_equal(tail->entries, 4);
        break;
    case NOT_ON_THE_STACK: /* then no native frame runs it */
        assert_int_equal(tail->end, INTERPRETER_END_WHOLE);
        assert_int_equal(tail->entries, 4);
        assert_int_equal(entries[3].instruction, 0);
        break;
    default:
        assert_int_equal(tail->end, INTERPRETER_END_WHOLE);
        assert_int_equal(entries[1].check, 0);
        assert_int_equal(tail->entries, 4);
    }
    return true;
}

/* ---- recording them ---- */

#define FIRINGS 5

struct fake {
    struct expectation e;
    bool (*check)(const struct record_header *, void *);
    struct workload child;
};

struct fakes {
    struct fake *of;
    size_t count;
};

static void enter_fake(void *context)
{
    const struct expectation *e = context;

    fake_python_enter(e->flags, e->runs, e->corruption);
}

static void start_fake(struct fake *f)
{
    fake_python_set_up(f->e.flags, f->e.corruption);
    f->child = workload_start(enter_fake, &f->e);
}

/* Loads the unwind table and interpreter of the process before it does anything. */
static void put_fake(struct unwind_tables *tables, const struct fake *f)
{
    const struct interpreter_layouts layouts = {.python = fake_python_layout(f->e.flags)};
    struct loaded_mappings loaded;

    assert_true(unwind_load_process_mappings(tables, f->child.pid, &loaded) > 0);
    assert_int_equal(unwind_tables_put_process(tables, (uint32_t)f->child.pid, loaded.mappings, loaded.count, &layouts),
                     0);
}

static bool check_each(const struct record_header *header, void *context)
{
    const struct fakes *fakes = context;

    for (size_t i = 0; i < fakes->count; i++)
        if (header->pid == (uint32_t)fakes->of[i].child.pid)
            return fakes->of[i].check(header, &fakes->of[i].e);
    fail_msg("a record of process %u, which was not asked for", header->pid);
    return false;
}

/* All in one recording: loading the programs takes long. Each fault is a sample. */
static void watch_fakes(struct fake *of, size_t count)
{
    struct watch_options options = watch_defaults;
    struct fakes fakes = {of, count};

    for (size_t i = 0; i < count; i++) {
        start_fake(&of[i]);
        options.filter.pids[options.filter.pid_count++] = (uint32_t)of[i].child.pid;
    }
    options.ring_bytes = 16U << 20;
    struct watch w = workload_watch(options, "page-faults");
    for (size_t i = 0; i < count; i++)
        put_fake(watch_unwind_tables(&w), &of[i]);
    for (size_t i = 0; i < count; i++)
        workload_run(&of[i].child, workload_fault, FIRINGS);
    workload_expect(&w, count * FIRINGS, check_each, &fakes);
    for (size_t i = 0; i < count; i++)
        workload_end(&of[i].child);
    workload_unwatch(&w);
}

/* Watches the stack that the process has as it leaves its CPU. */
static void watch_waiting_fake(struct expectation e)
{
    struct watch_options options = watch_defaults;
    struct fake f = {.e = e, .check = check_waiting_runs};
    struct fakes fakes = {&f, 1};

    start_fake(&f);
    options.filter.pids[0] = (uint32_t)f.child.pid;
    options.filter.pid_count = 1;
    struct watch w = watch_begin(&source_off_cpu, &options);
    put_fake(watch_unwind_tables(&w), &f);
    workload_begin(&f.child, workload_nap, 1);
    workload_interrupt(&f.child, 1, 0);
    workload_await(&f.child);
    assert_int_equal(w.source->stop(w.self), 0);
    watch_until(&w, 1, check_each, &fakes);
    workload_end(&f.child);
    watch_end(&w);
}

static void test_walk_runs_of_cframes(void **state)
{
    struct fake fakes[] = {
        {.e = {PYTHON_CFRAMES, .runs = 1}, .check = check_runs},
        {.e = {PYTHON_CFRAMES, .runs = 20}, .check = check_runs},
        {.e = {PYTHON_CFRAMES, .runs = 250}, .check = check_runs},
    };

    (void)state;
    watch_fakes(fakes, array_size(fakes));
}

static void test_walk_runs_of_marked_frames(void **state)
{
    struct fake fakes[] = {
        {.e = {PYTHON_MARKED_FRAMES, .runs = 1}, .check = check_runs},
        {.e = {PYTHON_MARKED_FRAMES, .runs = 250}, .check = check_runs},
    };

    (void)state;
    watch_fakes(fakes, array_size(fakes));
}

/* Alternating on one stack. */
static void test_walk_runs_of_two_interpreters(void **state)
{
    struct fake fakes[] = {
        {.e = {PYTHON_CFRAMES, .runs = 2, .corruption = TWO_INTERPRETERS}, .check = check_two_interpreters},
        {.e = {PYTHON_CFRAMES, .runs = 250, .corruption = TWO_INTERPRETERS}, .check = check_two_interpreters},
        {.e = {PYTHON_MARKED_FRAMES, .runs = 250, .corruption = TWO_INTERPRETERS}, .check = check_two_interpreters},
    };

    (void)state;
    watch_fakes(fakes, array_size(fakes));
}

/* The same for a waiting thread. */
static void test_walk_runs_of_a_waiting_thread(void **state)
{
    (void)state;
    watch_waiting_fake((struct expectation){PYTHON_CFRAMES, .runs = 20});
    watch_waiting_fake((struct expectation){PYTHON_MARKED_FRAMES, .runs = 250});
}

static void test_inconsistent_structures_end_the_walk(void **state)
{
    struct fake fakes[NO_CODE - CIRCLE + 1];

    (void)state;
    for (enum corruption corruption = CIRCLE; corruption <= NO_CODE; corruption++)
        fakes[corruption - CIRCLE] =
            (struct fake){.e = {PYTHON_CFRAMES, .runs = 1, .corruption = corruption}, .check = check_corrupted};
    watch_fakes(fakes, array_size(fakes));
}

static void test_walk_frame_objects(void **state)
{
    const unsigned counted = PYTHON_FRAME_OBJECTS, marked = PYTHON_FRAME_OBJECTS | PYTHON_CFRAMES | PYTHON_IN_WORDS;
    struct fake fakes[] = {
        {.e = {counted, .runs = RUNS_MAX}, .check = check_objects},
        {.e = {marked, .runs = RUNS_MAX}, .check = check_objects},
        {.e = {marked, .runs = 20, .corruption = UNEVEN}, .check = check_objects},
        {.e = {counted, .runs = 3, .corruption = CIRCLE}, .check = check_objects},
        {.e = {marked, .runs = 3, .corruption = NOWHERE}, .check = check_objects},
    };

    (void)state;
    watch_fakes(fakes, array_size(fakes));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_walk_runs_of_cframes),
        cmocka_unit_test(test_walk_runs_of_marked_frames),
        cmocka_unit_test(test_walk_frame_objects),
        cmocka_unit_test(test_walk_runs_of_two_interpreters),
        cmocka_unit_test(test_walk_runs_of_a_waiting_thread),
        cmocka_unit_test(test_inconsistent_structures_end_the_walk),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
