/* The interface for another interpreter, exercised with a fictitious one, which consists of one struct interpreter.
 * Its code records are stored, and its frames are named, placed and counted like CPython's, alongside CPython. */
#include "../sample_fixture.h"

#define FORTH        1 /* its number */
#define FORTH_RECORD 200
#define WORDS        8

struct forth_code {
    struct record_header h;
    uint64_t code;
    char name[16];
};

struct forth {
    char names[WORDS][16]; /* by code address */
    struct missing_code missing;
    size_t missing_count, entries_max;
};

static struct forth *opened;
static size_t max_bytes_given;

static int forth_open(size_t max_bytes, void **ret_self)
{
    max_bytes_given = max_bytes;
    *ret_self = opened = calloc(1, sizeof(*opened));
    return 0;
}

static void forth_free(void *self)
{
    assert_ptr_equal(self, opened);
    free(self);
    opened = NULL;
}

static void forth_limit_cache(void *self, size_t entries)
{
    ((struct forth *)self)->entries_max = entries;
}

static int forth_layout(void *self, const struct process *process, struct interpreter_layouts *ret)
{
    assert_ptr_equal(self, opened);
    ret->python.text_start = process->mappings[0].start; /* a real one would have its own member */
    return 0;
}

static int forth_take(void *self, const struct record_header *record)
{
    const struct forth_code *c = (const struct forth_code *)record;
    if (record->size_bytes != sizeof(*c) || c->code >= WORDS || !memchr(c->name, 0, sizeof(c->name)))
        return -EBADMSG;
    memcpy(((struct forth *)self)->names[c->code], c->name, sizeof(c->name));
    return 0;
}

static int forth_find(void *self, uint32_t pid, const struct interpreter_entry *entry, struct interpreted_name *ret)
{
    struct forth *f = self;
    if (entry->code >= WORDS || !f->names[entry->code][0]) {
        f->missing = (struct missing_code){entry->code, pid, entry->check};
        f->missing_count = 1;
        return -ENOENT;
    }
    *ret =
        (struct interpreted_name){.function = f->names[entry->code], .file = "/words.fs", .line = entry->instruction};
    return 0;
}

/* The inner interpreter, as its function is named. */
static bool forth_is_evaluator(const char *function)
{
    return strcmp(function, "program+5200") == 0;
}

static size_t forth_missing(void *self, struct missing_code *ret, size_t max)
{
    struct forth *f = self;
    const size_t count = f->missing_count < max ? f->missing_count : max;
    if (count)
        *ret = f->missing;
    f->missing_count -= count;
    return count;
}

/* A helper function of a word. */
static bool forth_is_part(const char *function)
{
    return strcmp(function, "program+5400") == 0;
}

static void forth_metrics(const void *self, struct metric_set *set)
{
    metric_add(set, "sonde_self_forth_bytes", METRIC_GAUGE, "bytes", "", sizeof(*(const struct forth *)self),
               METRIC_NO_LABELS);
}

static uint64_t forth_unsupported(const void *self)
{
    (void)self;
    return 3;
}

static const struct interpreter forth = {
    .name = "Forth",
    .frame_kind = FRAME_DOTNET, /* a kind that no other frame here has */
    .mapping = "[forth]",
    .memory_share = 4,
    .record_kind = FORTH_RECORD,
    .open = forth_open,
    .limit_cache = forth_limit_cache,
    .layout = forth_layout,
    .take = forth_take,
    .find = forth_find,
    .is_evaluator = forth_is_evaluator,
    .is_part = forth_is_part,
    .missing = forth_missing,
    .unsupported = forth_unsupported,
    .metrics = forth_metrics,
    .free = forth_free,
};

static int setup_both(void **state)
{
    setup(state);
    use_interpreters(*state, (const struct interpreter *[]){[INTERPRETER_CPYTHON] = &fake_cpython, [FORTH] = &forth},
                     2);
    return 0;
}

static int emit_word(struct fixture *f, uint64_t code, const char *name)
{
    struct forth_code record = {.h = {.size_bytes = sizeof(record), .kind = FORTH_RECORD, .pid = PROGRAM},
                                .code = code};
    snprintf(record.name, sizeof(record.name), "%s", name);
    return interpreters_take(f->interpreters, &record.h);
}

static struct stack_record *make_stack(struct fixture *f, const uint64_t *addresses, unsigned count)
{
    struct stack_record *r = make_cpu_sample(f, PROGRAM, 0, count, UNWIND_END_ENTRY);
    memcpy(r->data, addresses, count * sizeof(*addresses));
    return r;
}

static void put_forth(struct stack_record *r, const struct interpreter_entry *entries, uint32_t count, unsigned flags)
{
    put_entries(r, entries, count, INTERPRETER_END_WHOLE);
    struct interpreter_tail *tail = (struct interpreter_tail *)((char *)r + r->h.size_bytes - sizeof(*tail));
    tail->flags = (uint8_t)flags;
    tail->interpreter = FORTH;
}

static void test_frames_replace_the_evaluators(void **state)
{
    struct fixture *f = *state;
    struct sample s;
    const uint64_t natives[] = {0x1101, 0x1201, 0x1301, 0x1201, 0x1401};
    const struct interpreter_entry entries[] = {CODE(1), CODE(2), MARK(0x7010, 1), CODE(3), MARK(0x7110, 3)};
    assert_int_equal(emit_word(f, 1, "dup"), 0);
    assert_int_equal(emit_word(f, 2, "square"), 0);
    assert_int_equal(emit_word(f, 3, "main"), 0);
    struct stack_record *r = make_stack(f, natives, 5);
    put_forth(r, entries, 5, 0);
    assert_string_equal(resolved(f, r),
                        "program+5100 dup square program+5300 main"); /* program+5400 belongs to "main" */
    assert_int_equal(sum(&f->losses), 0);
    assert_int_equal(sample_resolve(f->resolver, r, &f->losses, &s), 0);
    assert_int_equal(s.frames[0].kind, FRAME_NATIVE);
    assert_int_equal(s.frames[1].kind, FRAME_DOTNET);
    assert_string_equal(s.frames[2].file, "/words.fs");
    assert_int_equal(s.frames[2].line, 20);
    assert_string_equal(s.frames[2].mapping, "");
    assert_int_equal(s.frames[3].kind, FRAME_NATIVE);
    assert_int_equal(s.frames[4].kind, FRAME_DOTNET);
}

static void test_evaluators_without_marks_are_counted(void **state)
{
    struct fixture *f = *state;
    const uint64_t natives[] = {0x1101, EVALUATOR, 0x1201, 0x1301, 0x1201}; /* the first one is CPython's */
    const struct interpreter_entry entries[] = {CODE(1), CODE(2)};
    emit_word(f, 1, "dup");
    emit_word(f, 2, "square");
    struct stack_record *r = make_stack(f, natives, 5);
    put_forth(r, entries, 2, INTERPRETER_TAIL_COUNTED);
    assert_string_equal(resolved(f, r), "program+5100 _PyEval_EvalFrameDefault dup program+5300 square");
    assert_int_equal(f->losses.count[LOSS_INTERPRETED], 1); /* no record names CPython's frame */
    assert_int_equal(sum(&f->losses), 1);
}

/* An entry of the native frame number `frame`. */
#define PLACED(number, frame)                                                                                          \
    {                                                                                                                  \
        .code = (number), .instruction = (frame) + 1, .check = 1                                                       \
    }

static void test_each_frame_has_a_native_frame(void **state)
{
    struct fixture *f = *state;
    const uint64_t natives[] = {0x1101, 0x1301, 0x1401, 0x1501, 0x1201};
    const struct interpreter_entry entries[] = {PLACED(1, 1), PLACED(2, 3), PLACED(3, 4)};
    emit_word(f, 1, "dup");
    emit_word(f, 2, "square");
    emit_word(f, 3, "main");
    struct stack_record *r = make_stack(f, natives, 5);
    put_forth(r, entries, 3, INTERPRETER_TAIL_PLACED);
    assert_string_equal(resolved(f, r), "program+5100 dup square main"); /* program+5400 belongs to "square" */
    assert_int_equal(sum(&f->losses), 0);
    r = make_stack(f, natives, 5);
    put_forth(r, entries, 2, INTERPRETER_TAIL_PLACED);
    assert_string_equal(resolved(f, r), "program+5100 dup square program+5200"); /* an evaluator without its frame */
    assert_int_equal(f->losses.count[LOSS_INTERPRETED], 1);
}

static void test_callees_of_the_leaf_are_kept(void **state)
{
    struct fixture *f = *state;
    const uint64_t called[] = {0x1301, 0x1201}, part[] = {0x1401, 0x1201};
    const struct interpreter_entry entries[] = {PLACED(1, INTERPRETER_ENTRY_CALLER), PLACED(2, 1)};
    emit_word(f, 1, "dup");
    emit_word(f, 2, "square");
    struct stack_record *r = make_stack(f, called, 2);
    put_forth(r, entries, 2, INTERPRETER_TAIL_PLACED);
    assert_string_equal(resolved(f, r), "program+5300 dup square");
    r = make_stack(f, part, 2);
    put_forth(r, entries, 2, INTERPRETER_TAIL_PLACED);
    assert_string_equal(resolved(f, r), "dup square");
    assert_int_equal(sum(&f->losses), 0);
}

static void test_inlined_functions_share_a_frame(void **state)
{
    struct fixture *f = *state;
    const uint64_t natives[] = {0x1101, 0x1301, 0x1201};
    const struct interpreter_entry entries[] = {
        PLACED(1, 1 | 5 << INTERPRETER_ENTRY_POSITION_SHIFT),
        PLACED(2, 1 | INTERPRETER_ENTRY_POSITION_MAX << INTERPRETER_ENTRY_POSITION_SHIFT), PLACED(3, 2)};
    emit_word(f, 1, "dup");
    emit_word(f, 2, "square");
    emit_word(f, 3, "main");
    struct stack_record *r = make_stack(f, natives, 3);
    put_forth(r, entries, 3, INTERPRETER_TAIL_PLACED);
    assert_string_equal(resolved(f, r), "program+5100 dup square main");
    assert_int_equal(sum(&f->losses), 0);
}

/* Our recordings do not contain these; a damaged one may. */
static void test_invalid_places_leave_frames_unplaced(void **state)
{
    struct fixture *f = *state;
    const uint64_t natives[] = {0x1101, 0x1301};
    const struct interpreter_entry backwards[] = {PLACED(1, 1), PLACED(2, 0)},
                                   nowhere[] = {PLACED(1, 700), PLACED(2, 1)},
                                   marks[] = {MARK(0x7010, 1), PLACED(1, 0)};
    emit_word(f, 1, "dup");
    emit_word(f, 2, "square");
    struct stack_record *r = make_stack(f, natives, 2);
    put_forth(r, backwards, 2, INTERPRETER_TAIL_PLACED);
    assert_string_equal(resolved(f, r), "program+5100 dup square");
    assert_int_equal(f->losses.count[LOSS_INTERPRETED], 1);
    r = make_stack(f, natives, 2);
    put_forth(r, nowhere, 2, INTERPRETER_TAIL_PLACED);
    assert_string_equal(resolved(f, r), "program+5100 program+5300 dup square");
    assert_int_equal(f->losses.count[LOSS_INTERPRETED], 1);
    r = make_stack(f, natives, 2);
    put_forth(r, marks, 2, INTERPRETER_TAIL_PLACED);
    assert_string_equal(resolved(f, r), "dup program+5300");
}

static void test_interpreters_do_not_share_evaluators(void **state)
{
    struct fixture *f = *state;
    const uint64_t natives[] = {0x1101, EVALUATOR, 0x1201};
    const struct interpreter_entry entries[] = {CODE(2), MARK(0x7010, 1)};
    emit_word(f, 2, "square");
    struct stack_record *r = make_stack(f, natives, 3);
    put_entries(r, entries, 2, INTERPRETER_END_WHOLE);
    assert_string_equal(resolved(f, r), "program+5100 p2 program+5200"); /* CPython's, with CPython's name */
    assert_int_equal(f->losses.count[LOSS_INTERPRETED], 1);              /* no record names the second entry */
    r = make_stack(f, natives, 3);                                       /* no record names either */
    assert_string_equal(resolved(f, r), "program+5100 _PyEval_EvalFrameDefault program+5200");
    assert_int_equal(f->losses.count[LOSS_INTERPRETED], 1);
}

static void test_unknown_code_has_no_name_and_is_requested(void **state)
{
    struct fixture *f = *state;
    const uint64_t natives[] = {0x1101, 0x1201};
    const struct interpreter_entry entries[] = {CODE(5), MARK(0x7010, 1)};
    struct missing_code missing[4];
    struct stack_record *r = make_stack(f, natives, 2);
    put_forth(r, entries, 2, 0);
    assert_string_equal(resolved(f, r), "program+5100 [forth]");
    assert_int_equal(f->losses.count[LOSS_INTERPRETED], 1);
    assert_int_equal(interpreters_missing(f->interpreters, missing, 4), 1);
    assert_true(missing[0].code == 5 && missing[0].pid == PROGRAM && missing[0].check == 1);
    assert_int_equal(interpreters_missing(f->interpreters, missing, 4), 0);
    struct interpreter_tail *tail = (struct interpreter_tail *)((char *)r + r->h.size_bytes - sizeof(*tail));
    tail->interpreter = 77; /* of a later version */
    assert_string_equal(resolved(f, r), "program+5100 [interpreter]");
    assert_int_equal(f->losses.count[LOSS_INTERPRETED], 1);
}

static void test_records_reach_their_interpreter(void **state)
{
    struct fixture *f = *state;
    const struct record_header foreign = {.size_bytes = sizeof(foreign), .kind = FORTH_RECORD + 1};
    assert_int_equal(emit_word(f, WORDS, "out of bounds"), -EBADMSG);
    assert_int_equal(interpreters_take(f->interpreters, &foreign), -EBADMSG);
    const struct record_header python = {.size_bytes = sizeof(python), .kind = RECORD_PYTHON_CODE};
    assert_int_equal(interpreters_take(f->interpreters, &python), -EBADMSG); /* shorter than any of its records */
}

static void test_calls_for_all_interpreters_reach_it(void **state)
{
    struct fixture *f = *state;
    _cleanup_(interpreters_freep) struct interpreters *x = NULL;
    _cleanup_(metric_set_freep) struct metric_set *set = NULL;
    const struct process_mapping mapping = {.start = 0x1000, .end = 0x2000};
    const struct process process = {.pid = PROGRAM, .mappings = (struct process_mapping *)&mapping, .mapping_count = 1};
    struct interpreter_layouts layouts;
    use_interpreters(f, (const struct interpreter *[]){&fake_cpython}, 1);
    assert_null(opened); /* the opened interpreter is freed */
    assert_int_equal(interpreters_new((const struct interpreter *[]){&interpreter_cpython, &forth}, 2, 1 << 20, &x), 0);
    assert_int_equal(max_bytes_given, 1 << 19);
    interpreters_limit_cache(x, 3);
    assert_int_equal(opened->entries_max, 3);
    assert_int_equal(interpreters_layout(x, &process, &layouts), 0);
    assert_int_equal(layouts.python.text_start, 0x1000);
    assert_int_equal(layouts.python.interpreters, 0);
    assert_int_equal(metric_set_new(&set), 0);
    interpreters_metrics(x, set);
    assert_string_equal(metric_set_family(set, metric_set_families(set) - 1).name, "sonde_self_forth_bytes");
    size_t from = 0;
    assert_string_equal(interpreters_unsupported(x, &from), "Forth");
    assert_null(interpreters_unsupported(x, &from));
}

static int no_open(size_t max_bytes, void **ret_self)
{
    (void)max_bytes;
    (void)ret_self;
    return -ENOMEM;
}

static void test_failed_open_frees_the_other_interpreters(void **state)
{
    (void)state;
    struct interpreter failing = forth;
    struct interpreters *x = NULL;
    failing.open = no_open;
    assert_int_equal(interpreters_new((const struct interpreter *[]){&forth, &failing}, 2, 1 << 20, &x), -ENOMEM);
    assert_null(x);
    assert_null(opened);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_frames_replace_the_evaluators, setup_both, teardown),
        cmocka_unit_test_setup_teardown(test_each_frame_has_a_native_frame, setup_both, teardown),
        cmocka_unit_test_setup_teardown(test_callees_of_the_leaf_are_kept, setup_both, teardown),
        cmocka_unit_test_setup_teardown(test_inlined_functions_share_a_frame, setup_both, teardown),
        cmocka_unit_test_setup_teardown(test_invalid_places_leave_frames_unplaced, setup_both, teardown),
        cmocka_unit_test_setup_teardown(test_evaluators_without_marks_are_counted, setup_both, teardown),
        cmocka_unit_test_setup_teardown(test_interpreters_do_not_share_evaluators, setup_both, teardown),
        cmocka_unit_test_setup_teardown(test_unknown_code_has_no_name_and_is_requested, setup_both, teardown),
        cmocka_unit_test_setup_teardown(test_records_reach_their_interpreter, setup_both, teardown),
        cmocka_unit_test_setup_teardown(test_calls_for_all_interpreters_reach_it, setup_both, teardown),
        cmocka_unit_test(test_failed_open_frees_the_other_interpreters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
