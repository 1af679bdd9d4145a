/* V8 frames, at a known number of page faults, in a program that has only V8's structures and frame layout: on every
 * kernel, and with inconsistent structures. Real V8 is tested in tests/e2e/test_node.py. */
#include "sources/tables/unwind_tables.h"
#include "watch.h"
#include "workload.h"

#include "probes/unwind/unwind_maps.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include <cmocka.h>

#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#if defined(__x86_64__)

/* ---- V8's structures ---- */

enum { CONTEXT_TYPE = 210, SHARED_TYPE = 262, SCOPE_TYPE = 261, SCRIPT_TYPE = 167, OTHER_TYPE = 300 };
enum { ONE_BYTE_STRING = V8_ONE_BYTE, TWO_BYTE_STRING = 0 };

static const struct v8_layout layout = {
    .context_first = CONTEXT_TYPE - 2,
    .context_last = CONTEXT_TYPE + 2,
    .shared_type = SHARED_TYPE,
    .scope_type = SCOPE_TYPE,
    .script_type = SCRIPT_TYPE,
    .not_string = 0xff80,
    .frame_function = -16,
    .map_type = 12,
    .function_shared = 24,
    .shared_scope = 16,
    .shared_script = 32,
    .scope_flags = 8,
    .scope_variables = 32,
    .script_source = 8,
    .script_name = 16,
    .script_id = 64,
    .string_length = 12,
    .string_chars = 16,
    .cons_first = 16,
    .cons_second = 24,
    .sliced_parent = 16,
    .sliced_offset = 24,
    .thin_actual = 16,
    .external_data = 24,
};

struct object {
    uint64_t map, words[9];
};

struct string {
    uint64_t map;
    uint32_t hash, length;
    union {
        char one[304];
        uint16_t two[152];
        uint64_t words[2];
    };
};

static struct {
    uint64_t before;
    uint32_t more;
    uint16_t type, rest;
} maps[16];
static size_t map_count;

#define FUNCTIONS 3
#define DEEP      700

static struct object context, functions[FUNCTIONS], shared[FUNCTIONS], scopes[FUNCTIONS], script;
static struct string names[FUNCTIONS], pieces[4], file, source;

static uint64_t tagged(const void *object)
{
    return (uintptr_t)object + V8_TAG;
}

static uint64_t small(uint64_t value)
{
    return value << 32;
}

static uint64_t map_of(unsigned type)
{
    for (size_t i = 0; i < map_count; i++)
        if (maps[i].type == type)
            return tagged(&maps[i]);
    maps[map_count].type = (uint16_t)type;
    return tagged(&maps[map_count++]);
}

static void make_one_byte(struct string *s, const char *text)
{
    *s = (struct string){.map = map_of(ONE_BYTE_STRING), .length = (uint32_t)strlen(text)};
    memcpy(s->one, text, strlen(text));
}

static void make_pair(struct string *s, unsigned representation, uint32_t length, uint64_t first, uint64_t second)
{
    *s = (struct string){.map = map_of(V8_ONE_BYTE | representation), .length = length, .words = {first, second}};
}

/* "Shop.größe": concatenated, the first a slice of a longer one; U+95A2 and U+6570; an external one. */
static void make_names(void)
{
    make_one_byte(&pieces[0], "myShop.");
    make_pair(&pieces[1], V8_SLICED, 5, tagged(&pieces[0]), small(2));
    make_one_byte(&pieces[2], "gr\xf6\xdf"
                              "e");
    make_pair(&names[0], V8_CONS, 10, tagged(&pieces[1]), tagged(&pieces[2]));
    names[1] = (struct string){.map = map_of(TWO_BYTE_STRING), .length = 2, .two = {0x95a2, 0x6570}};
    make_one_byte(&pieces[3], "thin");
    make_pair(&names[2], V8_THIN, 4, tagged(&pieces[3]), 0);
}

#define HAS_NAME (1U << 12)
#define START(i) (20 + 9 * (uint64_t)(i))

static void make_all(void)
{
    map_count = 0;
    make_names();
    make_one_byte(&file, "/srv/app.js");
    memset(&source, ' ', sizeof(source));
    source.map = map_of(ONE_BYTE_STRING);
    source.length = sizeof(source.one);
    for (size_t i = 4; i < sizeof(source.one); i += 5)
        source.one[i] = '\n';
    context = (struct object){.map = map_of(CONTEXT_TYPE)};
    script = (struct object){.map = map_of(SCRIPT_TYPE), .words = {tagged(&source), tagged(&file), [7] = small(77)}};
    for (unsigned i = 0; i < FUNCTIONS; i++) {
        functions[i] = (struct object){.map = map_of(OTHER_TYPE), .words = {[2] = tagged(&shared[i])}};
        shared[i] =
            (struct object){.map = map_of(SHARED_TYPE), .words = {[1] = tagged(&scopes[i]), [3] = tagged(&script)}};
        scopes[i] = (struct object){
            .map = map_of(SCOPE_TYPE),
            .words = {small(HAS_NAME), 0, 0, tagged(&names[i]), 0, small(START(i)), small(START(i) + 5)}};
    }
}

/* ---- the workload ---- */

enum corruption {
    INTACT,
    NO_CONTEXT,
    UNLIKE_SHARED,
    UNLIKE_SCOPE,
    MANY_LOCALS,
    BACKWARDS,
    NOWHERE,
    OF_V8S_OWN,
    CIRCLE_OF_CONS,
    CIRCLE_OF_THIN,
    PART_OF_PARTS,
    PART_TOO_LONG,
    NO_STRING,
    LONGER_THAN_MEMORY,
    SHORT_SOURCE,
    MIXED_LINES,
    CORRUPTIONS,
};

static void corrupt(enum corruption corruption)
{
    switch (corruption) {
    case NO_CONTEXT:
        context.map = map_of(OTHER_TYPE);
        break;
    case UNLIKE_SHARED:
        shared[0].map = map_of(OTHER_TYPE);
        break;
    case UNLIKE_SCOPE:
        scopes[0].map = map_of(OTHER_TYPE);
        break;
    case MANY_LOCALS:
        scopes[0].words[2] = small(0x7fffffff);
        break;
    case BACKWARDS:
        scopes[0].words[6] = 0;
        break;
    case NOWHERE:
        functions[0].words[2] = 0x7fff00000001;
        break;
    case OF_V8S_OWN: /* a function that belongs to no script has only its name */
        shared[0].words[1] = tagged(&names[0]);
        break;
    case CIRCLE_OF_CONS:
        make_pair(&names[0], V8_CONS, 10, tagged(&names[0]), tagged(&names[0]));
        break;
    case CIRCLE_OF_THIN:
        make_pair(&names[0], V8_THIN, 10, tagged(&names[0]), 0);
        break;
    case PART_OF_PARTS:
        make_pair(&pieces[3], V8_SLICED, 3, tagged(&pieces[0]), small(1));
        make_pair(&names[0], V8_SLICED, 2, tagged(&pieces[3]), small(1));
        break;
    case PART_TOO_LONG:
        make_pair(&names[0], V8_SLICED, 8, tagged(&pieces[0]), small(2));
        break;
    case NO_STRING:
        names[0].map = map_of(OTHER_TYPE);
        break;
    case LONGER_THAN_MEMORY:
        make_one_byte(&names[0], "x");
        names[0].length = UINT32_MAX;
        break;
    case SHORT_SOURCE:
        source.length = 10;
        break;
    case MIXED_LINES: /* some end in a lone carriage return */
        source.one[10] = '\r';
        break;
    default:
        break;
    }
}

#define FIRINGS    5
#define CODE_BYTES 256
#define PAGE       4096

static const uint8_t enter[] = {0x55, 0x48, 0x89, 0xe5}; /* push rbp; mov rbp, rsp */
static const uint8_t wide[] = {0x48, 0xb8}, push[] = {0x50},
                     call[] = {0xff, 0xd0};                         /* mov rax, ...; push rax; call rax */
static const uint8_t touch[] = {0xc6, 0x00, 0x00}, jump[] = {0xe9}; /* mov byte [rax], 0; jmp ... */
static const uint8_t mov_edi[] = {0xbf}, mov_rsi[] = {0x48, 0xbe}, mov_edx[] = {0xba}, mov_eax[] = {0xb8},
                     syscall_[] = {0x0f, 0x05};

static uint8_t *put(uint8_t *at, const void *bytes, size_t size)
{
    memcpy(at, bytes, size);
    return at + size;
}

static uint8_t *put_push(uint8_t *at, uint64_t word)
{
    return put(put(put(at, wide, sizeof(wide)), &word, sizeof(word)), push, sizeof(push));
}

static uint8_t *put_number(uint8_t *at, const uint8_t *code, size_t size, uint32_t number)
{
    return put(put(at, code, size), &number, sizeof(number));
}

static uint8_t *put_syscall(uint8_t *at, uint32_t number, int fd, const void *buffer, uint32_t bytes)
{
    const uint64_t address = (uintptr_t)buffer;

    at = put_number(at, mov_edi, sizeof(mov_edi), (uint32_t)fd);
    at = put(put(at, mov_rsi, sizeof(mov_rsi)), &address, sizeof(address));
    at = put_number(at, mov_edx, sizeof(mov_edx), bytes);
    return put(put_number(at, mov_eax, sizeof(mov_eax), number), syscall_, sizeof(syscall_));
}

/* A workload: on a request it touches pages that it has not touched before. */
static void put_workload(uint8_t *at)
{
    static uint8_t buffer[WORKLOAD_REQUEST_BYTES] = {1};
    const uint8_t *start = at;
    int requests, answers;
    uint64_t page = (uintptr_t)mmap(NULL, FIRINGS * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    buffer[0]++; /* resident from here on */
    workload_ends(&requests, &answers);
    at = put_syscall(at, SYS_write, answers, buffer, 1);
    at = put_syscall(at, SYS_read, requests, buffer, sizeof(buffer));
    for (int i = 0; i < FIRINGS; i++, page += PAGE)
        at = put(put(put(at, wide, sizeof(wide)), &page, sizeof(page)), touch, sizeof(touch));
    put_number(at, jump, sizeof(jump), (uint32_t)(start - at - 5));
}

/* Builds frames as V8's code does; each calls the next, and the last one is the workload. The functions alternate, the
 * first of them innermost. */
static void run_frames(uint8_t *code, unsigned count)
{
    memset(code, 0xcc, (size_t)count * CODE_BYTES);
    for (unsigned i = 0; i < count; i++) {
        uint8_t *at = put(code + (size_t)i * CODE_BYTES, enter, sizeof(enter));
        const uint64_t next = (uintptr_t)code + (size_t)(i + 1) * CODE_BYTES;

        at = put_push(put_push(at, tagged(&context)), tagged(&functions[(count - 1 - i) % FUNCTIONS]));
        if (i < count - 1)
            put(put(put(at, wide, sizeof(wide)), &next, sizeof(next)), call, sizeof(call));
        else
            put_workload(at);
    }
    ((void (*)(void))(uintptr_t)code)();
}

/* ---- recording ---- */

struct expectation {
    unsigned frames;
    enum corruption corruption;
    bool emitted[FUNCTIONS];
    uint32_t checks[FUNCTIONS];
    struct v8_code first; /* the code record of the first function */
};

static const struct interpreter_tail *tail_of(const struct stack_record *s,
                                              const struct interpreter_entry **ret_entries)
{
    const struct interpreter_tail *tail = stack_record_interpreter_tail(s);

    assert_true(tail->entries <= INTERPRETER_MAX_ENTRIES);
    assert_int_equal(tail->interpreter, INTERPRETER_V8);
    assert_int_equal(tail->flags, INTERPRETER_TAIL_PLACED);
    assert_int_equal(tail->end, INTERPRETER_END_WHOLE);
    *ret_entries = (const struct interpreter_entry *)((const char *)tail - tail->entries * sizeof(**ret_entries));
    return tail;
}

static void take_code(const struct v8_code *c, struct expectation *e)
{
    assert_true(v8_code_is_sound(c));
    for (int i = 0; i < FUNCTIONS; i++) {
        if (c->code != tagged(&shared[i]))
            continue;
        e->emitted[i] = true;
        e->checks[i] = c->check;
        if (i == 0)
            e->first = *c;
        return;
    }
    fail_msg("a function that there is not");
}

static void expect_text(const struct v8_text *text, const uint8_t *data, unsigned width, const void *expected,
                        uint32_t length)
{
    assert_int_equal(text->width, width);
    assert_int_equal(text->length, length);
    assert_memory_equal(data, expected, length * width);
}

static void expect_intact(const struct v8_code *c)
{
    if (c->code == tagged(&shared[0]))
        expect_text(&c->name, c->name_data, 1,
                    "Shop.gr\xf6\xdf"
                    "e",
                    10);
    else if (c->code == tagged(&shared[1]))
        expect_text(&c->name, c->name_data, 2, names[1].two, 2);
    else
        expect_text(&c->name, c->name_data, 1, "thin", 4);
    expect_text(&c->file, c->file_data, 1, "/srv/app.js", 11);
    for (int i = 0; i < FUNCTIONS; i++)
        if (c->code == tagged(&shared[i]))
            assert_int_equal(c->line, 1 + START(i) / 5);
}

static bool check_intact(const struct record_header *header, void *context_)
{
    struct expectation *e = context_;
    const struct interpreter_entry *entries;

    if (header->kind == RECORD_V8_CODE) {
        take_code((const struct v8_code *)header, e);
        expect_intact((const struct v8_code *)header);
        return false;
    }
    assert_int_equal(tail_of((const struct stack_record *)header, &entries)->entries, e->frames);
    for (unsigned i = 0; i < e->frames; i++) {
        assert_int_equal(entries[i].code, tagged(&shared[i % FUNCTIONS]));
        assert_int_equal(entries[i].instruction, i + 1); /* each native frame is one of them */
        assert_true(e->emitted[i % FUNCTIONS]);          /* emitted before the sample */
        assert_int_equal(entries[i].check, e->checks[i % FUNCTIONS]);
    }
    return true;
}

static void expect_corrupted(const struct expectation *e, const struct interpreter_entry *entries, uint32_t count)
{
    const struct v8_code *first = &e->first;

    switch (e->corruption) {
    case NO_CONTEXT:
        assert_int_equal(count, 0);
        return;
    case OF_V8S_OWN:
        assert_int_equal(count, FUNCTIONS - 1); /* its native frame is kept */
        assert_int_equal(entries[0].instruction, 2);
        return;
    case UNLIKE_SHARED:
    case UNLIKE_SCOPE:
    case MANY_LOCALS:
    case BACKWARDS:
    case NOWHERE:
        assert_int_equal(count, FUNCTIONS);
        assert_int_equal(entries[0].check, 0); /* without a name, and counted */
        assert_false(e->emitted[0]);
        assert_int_equal(entries[1].check, e->checks[1]);
        return;
    default:
        assert_int_equal(count, FUNCTIONS);
        assert_true(e->emitted[0]);
    }
    if (e->corruption == SHORT_SOURCE || e->corruption == MIXED_LINES) {
        assert_int_equal(first->line, 0);
        assert_int_equal(first->name.length, 10);
    } else if (e->corruption == LONGER_THAN_MEMORY) { /* as much of it as fits */
        assert_int_equal(first->name.width, 1);
        assert_int_equal(first->name.length, V8_NAME_BYTES / 2);
    } else {
        assert_int_equal(first->name.width, 0);
        assert_int_equal(first->line, 1 + START(0) / 5);
    }
}

static bool check_corrupted(const struct record_header *header, void *context_)
{
    struct expectation *e = context_;
    const struct interpreter_entry *entries;
    const struct interpreter_tail *tail;

    if (header->kind == RECORD_V8_CODE) {
        take_code((const struct v8_code *)header, e);
        return false;
    }
    tail = tail_of((const struct stack_record *)header, &entries);
    expect_corrupted(e, entries, tail->entries);
    return true;
}

/* A program whose frames are recorded. */
struct program {
    struct expectation e;
    bool (*check)(const struct record_header *, void *);
    uint8_t *code;
    size_t bytes;
    struct workload child;
};

struct programs {
    struct program *of;
    size_t count;
};

/* In the child: pages that it has not touched cannot be read. */
static void enter_program(void *program)
{
    const struct program *p = program;

    make_all();
    corrupt(p->e.corruption);
    run_frames(p->code, p->e.frames);
}

static void start_program(struct program *p)
{
    p->bytes = (p->e.frames * CODE_BYTES + PAGE - 1) & ~(PAGE - 1UL);
    p->code = mmap(NULL, p->bytes, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(p->code, MAP_FAILED);
    p->child = workload_start(enter_program, p);
    make_all(); /* the same, to compare with */
}

static void stop_program(struct program *p)
{
    workload_end(&p->child);
    assert_int_equal(munmap(p->code, p->bytes), 0);
}

/* Whether it is a code record, or a sample of the workload's own fault. */
static bool is_checked(const struct record_header *header, const struct program *p)
{
    const struct stack_record *s = (const struct stack_record *)header;

    if (header->kind != RECORD_CPU_SAMPLE)
        return true;
    return !(s->flags & STACK_RECORD_LEAF_IN_KERNEL) && s->user_frames &&
           (s->data[s->kernel_frames] & ~FRAME_EXACT) - (uintptr_t)p->code < p->bytes;
}

static bool check_each(const struct record_header *header, void *context_)
{
    const struct programs *programs = context_;

    for (size_t i = 0; i < programs->count; i++)
        if (header->pid == (uint32_t)programs->of[i].child.pid)
            return is_checked(header, &programs->of[i]) && programs->of[i].check(header, &programs->of[i].e);
    fail_msg("a record of process %u, which was not asked for", header->pid);
    return false;
}

/* All in one recording: loading the programs takes long. */
static void watch_programs(struct program *of, size_t count)
{
    struct watch_options options = watch_defaults;
    const struct interpreter_layouts layouts = {.runtime = INTERPRETER_V8, .v8 = layout};
    struct programs programs = {of, count};
    struct unwind_tables *tables;
    struct watch w;

    for (size_t i = 0; i < count; i++) {
        start_program(&of[i]);
        options.filter.pids[options.filter.pid_count++] = (uint32_t)of[i].child.pid;
    }
    w = workload_watch(options, "page-faults");
    tables = watch_unwind_tables(&w);
    for (size_t i = 0; i < count; i++) {
        const struct unwind_mapping mapping = {.start = (uintptr_t)of[i].code,
                                               .end = (uintptr_t)of[i].code + of[i].bytes,
                                               .object = UNWIND_OBJECT_NO_CODE};
        assert_int_equal(unwind_tables_put_process(tables, (uint32_t)of[i].child.pid, &mapping, 1, &layouts), 0);
    }
    for (size_t i = 0; i < count; i++)
        workload_run(&of[i].child, NULL, 0);
    workload_expect(&w, count * FIRINGS, check_each, &programs);
    for (size_t i = 0; i < count; i++)
        stop_program(&of[i]);
    workload_unwatch(&w);
}

static void test_walk_v8_frames(void **state)
{
    (void)state;
    struct program programs[] = {{.e = {.frames = FUNCTIONS}, .check = check_intact},
                                 {.e = {.frames = DEEP}, .check = check_intact}};
    watch_programs(programs, 2);
}

static void test_inconsistent_structures_end_the_walk(void **state)
{
    (void)state;
    struct program programs[CORRUPTIONS - 1] = {0};
    for (enum corruption corruption = INTACT + 1; corruption < CORRUPTIONS; corruption++)
        programs[corruption - 1] =
            (struct program){.e = {.frames = FUNCTIONS, .corruption = corruption}, .check = check_corrupted};
    watch_programs(programs, CORRUPTIONS - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_walk_v8_frames),
        cmocka_unit_test(test_inconsistent_structures_end_the_walk),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

int main(void)
{
    return 77; /* not this machine's frame layout: skipped */
}

#endif
