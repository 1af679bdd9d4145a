/* See fake_python.h. */
#include "fake_python.h"

#include "workload.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

/* ---- an interpreter's structures ---- */

struct fake_text {
    uint64_t object[2], length, hash;
    uint32_t state, reserved;
    uint64_t before_data;
    char data[40];
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

/* An interpreter frame before 3.11. */
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
    struct fake_cframe *cframe, root; /* 3.10 only */
    uint64_t id;
};

struct fake_interpreter {
    struct fake_interpreter *next;
    uint64_t threads_made;
    struct fake_thread *threads;
};

static struct fake_interpreter inner, interpreter, *interpreters = &interpreter;
static struct fake_thread thread, thread_of_inner, others[40];
static struct fake_frame frames[RUNS_MAX * FRAMES_A_RUN];
static struct fake_object objects[RUNS_MAX];
struct fake_code fake_codes[FRAMES_A_RUN];
static struct fake_text file, names[FRAMES_A_RUN];
static struct {
    uint64_t object[2], size, hash;
    uint8_t data[8];
} lines;
const char *const fake_lines = (const char *)lines.data;

struct python_layout fake_python_layout(unsigned flags)
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
        .cframe_current =
            (uint16_t)(objects_way ? offsetof(struct fake_cframe, previous) : offsetof(struct fake_cframe, current)),
        .frame_code = (uint16_t)(objects_way ? offsetof(struct fake_object, code) : offsetof(struct fake_frame, code)),
        .frame_previous =
            (uint16_t)(objects_way ? offsetof(struct fake_object, back) : offsetof(struct fake_frame, previous)),
        .frame_instruction =
            (uint16_t)(objects_way ? offsetof(struct fake_object, last) : offsetof(struct fake_frame, instruction)),
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

/* ---- the workload ---- */

static unsigned frame_style; /* PYTHON_CFRAMES or PYTHON_MARKED_FRAMES */

static void (*volatile serve)(void) =
    workload_serve; /* hides from the compiler that it never returns, which would let it drop frames */
/* Pushes the given number of frame runs. */
__attribute__((noinline, noclone, section("code_evaluate"))) static int evaluate(int runs)
{
    struct fake_thread *t = interpreter.next && runs % 2 ? &thread_of_inner : &thread;
    struct fake_cframe here = {.previous = frame_style == PYTHON_CFRAMES ? t->current : NULL};
    struct fake_frame entry = {.owner = PYTHON_OWNED_BY_CSTACK,
                               .previous = frame_style == PYTHON_CFRAMES ? NULL : t->current};
    struct fake_frame *run = &frames[(runs - 1) * FRAMES_A_RUN];

    for (int i = 0; i < FRAMES_A_RUN; i++) /* the last one is called first */
        run[i] = (struct fake_frame){
            .code = &fake_codes[i], .previous = &run[i + 1], .instruction = &fake_codes[i].instructions[i]};
    if (frame_style == PYTHON_CFRAMES) {
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

/* Each evaluator has one frame of its own, as before 3.11. */
__attribute__((noinline, noclone, section("code_evaluate"))) static int evaluate_object(int runs,
                                                                                        enum corruption corruption)
{
    struct fake_cframe here = {.previous = thread.cframe};
    struct fake_object *o = &objects[runs - 1];

    *o = (struct fake_object){.back = thread.current, .code = &fake_codes[(runs - 1) % FRAMES_A_RUN], .last = runs - 2};
    if (corruption != UNEVEN || runs > 1) /* otherwise about to start, or at its end */
        thread.cframe = &here;
    thread.current = o;
    if (runs > 1)
        return evaluate_object(runs - 1, corruption) + (int)here.before;
    if (corruption == CIRCLE)
        objects[1].back = objects;
    if (corruption == NOWHERE)
        objects[1].back = (void *)0xffff888000000000;
    serve();
    return (int)here.before;
}

static void corrupt(enum corruption corruption, struct fake_cframe *here)
{
    static struct fake_cframe elsewhere;
    struct fake_frame *leaf = &frames[0];

    elsewhere = *here;

    switch (corruption) {
    case CIRCLE:
        leaf[1].previous = leaf;
        break;
    case NOWHERE:
        leaf[1].previous = (void *)0xffff888000000000;
        break;
    case ENDS_TOO_EARLY:
        leaf[1].owner = 1;
        break;
    case UNLIKE: /* the previous run names another frame than the one that called this run */
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

/* Same as above, with inconsistent structures. */
__attribute__((noinline, noclone, section("code_evaluate"))) static int evaluate_corrupted(enum corruption corruption)
{
    struct fake_cframe here = {0};

    for (int i = 0; i < FRAMES_A_RUN; i++)
        frames[i] = (struct fake_frame){.code = &fake_codes[i],
                                        .previous = i < FRAMES_A_RUN - 1 ? &frames[i + 1] : NULL,
                                        .instruction = fake_codes[i].instructions};
    frames[FRAMES_A_RUN - 1].owner = 1;
    here.current = frames;
    thread.current = &here;
    corrupt(corruption, &here);
    return (int)here.before;
}

void fake_python_set_up(unsigned flags, enum corruption corruption)
{
    frame_style = flags;
    inner = (struct fake_interpreter){.threads_made = 1, .threads = &thread_of_inner};
    interpreter = (struct fake_interpreter){
        .next = corruption == TWO_INTERPRETERS ? &inner : NULL, .threads_made = 41, .threads = &others[0]};
    thread_of_inner = (struct fake_thread){.id = (uint64_t)pthread_self()};
    for (size_t i = 0; i < 40; i++)
        others[i] = (struct fake_thread){.next = i < 39 ? &others[i + 1] : &thread, .id = 4096 * i};
    thread = (struct fake_thread){.id = (uint64_t)pthread_self(), .cframe = &thread.root};
    /* Written at run time: pages of the file that the child has not touched cannot be read. */
    file = (struct fake_text){.length = 6, .state = 1 << 2 | 1 << 6, .data = "x/y.py"};
    lines.size = 5;
    memcpy(lines.data, "lines", 5);
    for (int i = 0; i < FRAMES_A_RUN; i++)
        names[i] = (struct fake_text){.length = 1, .state = 1 << 2 | 1 << 6, .data = {(char)('a' + i)}};
    for (int i = 0; i < FRAMES_A_RUN; i++)
        fake_codes[i] = (struct fake_code){.first_line = i + 1, .file = &file, .name = &names[i], .lines = &lines};
}

_Noreturn void fake_python_enter(unsigned flags, int runs, enum corruption corruption)
{
    if (flags & PYTHON_FRAME_OBJECTS)
        _exit(evaluate_object(runs, corruption));
    _exit(corruption < CIRCLE ? evaluate(runs) : evaluate_corrupted(corruption));
}
