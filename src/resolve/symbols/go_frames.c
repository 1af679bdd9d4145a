/* See go_frames.h. The runtime marks them in its table of functions (flags TOPFRAME and SPWRITE of Go's
 * assembler, runtime/symtab.go), which stripped programs have too. */
#include "resolve/symbols/go_frames.h"

#include "base/cleanup.h"
#include "base/cursor.h"
#include "resolve/symbols/go_table.h"

#include <elf.h>
#include <string.h>

#define NAME_BYTES   32
#define CODE_BYTES   256 /* longer than the way of any to its other stack */
#define DEPTHS_BYTES 64
#define DEPTH_MAX    65536
#define PIECES_MAX   24 /* of one function */

static bool is_one_of(const char *name, const char *const *list)
{
    for (; *list; list++)
        if (strcmp(name, *list) == 0)
            return true;
    return false;
}

/* The beginning of an x86-64 function. */
struct beginning {
    uint8_t code[CODE_BYTES];
    size_t bytes;
};

static void read_beginning(const struct elf_file *f, const struct go_function_record *function, struct beginning *ret)
{
    const uint64_t size = function->end - function->start;
    uint64_t offset;
    ret->bytes = size < sizeof(ret->code) ? size : sizeof(ret->code);
    if (elf_machine(f) != EM_X86_64 || elf_offset_from_vaddr(f, function->start, &offset) < 0 ||
        elf_read(f, offset, ret->code, ret->bytes) < 0)
        ret->bytes = 0;
}

/* From where on a function's frame pointer is its own, by which it keeps its caller while the stack pointer
 * is another's: all that call others begin with it since Go 1.21, those with room of their own did before.
 * 0: never. */
static size_t pointer_from(const struct beginning *b)
{
    static const uint8_t push_and_move[] = {0x55, 0x48, 0x89, 0xe5},
                         by_address[] = {0x48, 0x8d, 0x6c, 0x24}; /* lea n(%rsp), %rbp; n is one byte */
    const size_t prologue = b->bytes < 24 ? b->bytes : 24;
    if (prologue >= sizeof(push_and_move) && memcmp(b->code, push_and_move, sizeof(push_and_move)) == 0)
        return sizeof(push_and_move);
    const uint8_t *at = memmem(b->code, prologue, by_address, sizeof(by_address));
    return at ? (size_t)(at - b->code) + sizeof(by_address) + 1 : 0;
}

/* Inside of the first `mov n(%register), %rsp` from there on, or `mov %register, %rsp`, by which the runtime goes over
 * to another stack: what was true holds where that begins, and no longer where the next one does. 0: there is none. */
static size_t leaves_at(const struct beginning *b, size_t from)
{
    for (size_t i = from; i + 2 < b->bytes; i++) {
        const uint8_t *code = b->code + i;
        const bool is_loaded =
            (code[0] & 0xfe) == 0x48 && code[1] == 0x8b && (code[2] & 0x38) == 0x20 && code[2] < 0xc0;
        const bool is_moved = (code[0] & 0xfb) == 0x48 && code[1] == 0x89 && (code[2] & 0xc7) == 0xc4;
        if (is_loaded || is_moved)
            return i + 1;
    }
    return 0;
}

/* What a function is once it may have left its caller's stack. False: its description is right, or as near as
 * we get. */
static bool is_special(const struct elf_file *f, const struct go_function_record *function, const char *name,
                       enum go_frame_kind *ret)
{
    /* They work for whatever ran before on that thread, of which nothing is left on their stack. */
    static const char *const outermost[] = {"runtime.mcall", "runtime.switchToCrashStack0", NULL};
    /* It goes over to a goroutine's stack, on which nothing tells yet where that is to go on. */
    static const char *const starting[] = {"gogo", "runtime.gogo", NULL};
    /* The kernel calls the one, and what lies behind it is the interrupted stack; the other's child is
     * mstart's. */
    static const char *const described[] = {"runtime.sigtramp", "runtime.clone", NULL};
    /* Described as a function, while the walk needs it as what it is: the trampoline by which a signal
     * handler returns. */
    static const char *const trampolines[] = {"runtime.sigreturn", "runtime.sigreturn__sigaction", NULL};
    if (is_one_of(name, trampolines)) {
        *ret = GO_FRAME_TRAMPOLINE;
        return true;
    }
    if (!(function->flags & (GO_FUNCTION_TOP_FRAME | GO_FUNCTION_SP_WRITE)) || is_one_of(name, described))
        return false;
    *ret = GO_FRAME_BY_POINTER;
    if (function->flags & GO_FUNCTION_TOP_FRAME || is_one_of(name, outermost))
        *ret = GO_FRAME_OUTERMOST;
    else if (is_one_of(name, starting))
        *ret = GO_FRAME_LOST;
    else if (strcmp(name, "runtime.morestack") == 0)
        *ret = GO_FRAME_GROWING;
    else if (strcmp(name, "runtime.systemstack") == 0)
        *ret = GO_FRAME_BY_GOROUTINE;
    /* Elsewhere rows do not follow the frame pointer: mostly these run on their caller's stack. */
    return elf_machine(f) == EM_X86_64 || *ret != GO_FRAME_BY_POINTER;
}

static void add(struct go_frames *frames, const struct go_frame *piece)
{
    if (piece->start < piece->end)
        frames->at[frames->count++] = *piece;
}

/* How deep the stack is along a function. False: the table does not tell. */
static bool read_depths(const struct go_table *t, const struct go_function_record *function,
                        uint8_t bytes[DEPTHS_BYTES], struct go_depths *ret)
{
    const uint64_t size = t->functions - t->changes;
    if (!function->depths || function->depths >= size)
        return false;
    const size_t count = size - function->depths < DEPTHS_BYTES ? size - function->depths : DEPTHS_BYTES;
    if (elf_read(t->file, t->offset + t->changes + function->depths, bytes, count) < 0)
        return false;
    *ret = GO_DEPTHS_AT(cursor_make(bytes, count));
    return true;
}

static bool next_depth(const struct go_frames *frames, uint64_t most, struct go_depths *d)
{
    return frames->count < most && go_depths_next(d) && d->depth >= 0 && d->depth <= DEPTH_MAX;
}

/* The pieces of a function up to `end`, where it leaves its caller's stack, or its end; returns how far the
 * table tells of it. A depth of 0 is before its frame, or after it: the frame pointer is its caller's. */
static uint64_t add_depths(struct go_frames *frames, const struct go_table *t,
                           const struct go_function_record *function, size_t pointer_from, uint64_t end)
{
    uint8_t bytes[DEPTHS_BYTES];
    const uint64_t most = frames->count + PIECES_MAX - 3;
    uint64_t at = function->start;
    struct go_depths d;
    if (!read_depths(t, function, bytes, &d))
        return at;
    const uint64_t own = pointer_from ? function->start + pointer_from : end;
    while (at < end && next_depth(frames, most, &d)) {
        const uint64_t told = function->start + d.at, to = told < end ? told : end;
        const uint64_t by_depth = d.depth == 0 || to < own ? to : own > at ? own : at;
        add(frames, &(struct go_frame){at, by_depth, GO_FRAME_BY_DEPTH, (uint32_t)d.depth});
        add(frames, &(struct go_frame){by_depth, to, GO_FRAME_BY_POINTER, 0});
        at = to;
    }
    return at;
}

/* The pieces of one that goes over to its thread's stack and comes back, as which it is recognized. */
static bool add_there_and_back(struct go_frames *frames, const struct go_table *t,
                               const struct go_function_record *function, const struct beginning *b)
{
    uint8_t bytes[DEPTHS_BYTES];
    const size_t leaves = leaves_at(b, 0), back = leaves ? leaves_at(b, leaves) : 0;
    const uint64_t most = frames->count + PIECES_MAX - 4;
    uint64_t at = function->start;
    struct go_depths d;
    if (!back || leaves_at(b, back) || !read_depths(t, function, bytes, &d))
        return false;
    while (at < function->end && next_depth(frames, most, &d)) {
        const uint64_t told = function->start + d.at, end = told < function->end ? told : function->end;
        const uint64_t cuts[] = {function->start + leaves, function->start + back, end};
        for (size_t i = 0; i < array_size(cuts) && at < end; i++) {
            const uint64_t to = cuts[i] < at ? at : cuts[i] < end ? cuts[i] : end;
            add(frames,
                &(struct go_frame){at, to, i == 1 ? GO_FRAME_BY_GOROUTINE : GO_FRAME_BY_DEPTH, (uint32_t)d.depth});
            at = to;
        }
    }
    add(frames, &(struct go_frame){at, function->end, GO_FRAME_LOST, 0});
    return true;
}

static void add_scheduler(struct go_frames *frames, const struct go_table *t, const struct go_function_record *function)
{
    uint8_t bytes[DEPTHS_BYTES];
    const uint64_t most = frames->count + PIECES_MAX - 1;
    uint64_t at = function->start;
    struct go_depths d;
    if (!read_depths(t, function, bytes, &d))
        return;
    while (at < function->end && next_depth(frames, most, &d)) {
        const uint64_t told = function->start + d.at, to = told < function->end ? told : function->end;
        add(frames, &(struct go_frame){at, to, GO_FRAME_SCHEDULER, (uint32_t)d.depth});
        at = to;
    }
    add(frames, &(struct go_frame){at, function->end, GO_FRAME_LOST, 0});
}

static void add_function(struct go_frames *frames, const struct elf_file *f, const struct go_table *t,
                         const struct go_function_record *function, enum go_frame_kind kind)
{
    struct beginning beginning = {.bytes = 0};
    uint64_t at = function->start, end = function->start;
    if (kind != GO_FRAME_TRAMPOLINE && !(function->flags & GO_FUNCTION_TOP_FRAME))
        read_beginning(f, function, &beginning);
    const size_t pointer = pointer_from(&beginning);
    if (kind == GO_FRAME_BY_GOROUTINE && add_there_and_back(frames, t, function, &beginning))
        return;
    if (kind == GO_FRAME_BY_GOROUTINE)
        kind = GO_FRAME_BY_POINTER;
    if (kind != GO_FRAME_BY_POINTER)
        end += leaves_at(&beginning, 0);
    else if (pointer)
        end = function->end;
    else
        kind = GO_FRAME_LOST;
    if (at < end)
        at = add_depths(frames, t, function, pointer, end);
    add(frames, &(struct go_frame){at, function->end, kind, 0});
}

void go_frames_find(const struct elf_file *f, struct go_frames *ret)
{
    struct go_table table;
    _cleanup_(go_table_walk_freep) struct go_table_walk *walk = NULL;
    struct go_function_record function;
    enum go_frame_kind kind;
    char name[NAME_BYTES];
    uint64_t scheduler = 0; /* the one that is not marked, and the only one that finds goroutines to run */
    ret->count = 0;
    if (go_table_find(f, &table) < 0 || go_table_walk_new(&table, &walk) < 0)
        return;
    if (elf_machine(f) == EM_X86_64)
        (void)go_table_find_name(&table, "runtime.schedule", &scheduler);
    while (ret->count + PIECES_MAX <= GO_FRAMES_MAX && go_table_next(walk, &function)) {
        memset(name, 0, sizeof(name));
        if (function.name_offset == scheduler) {
            add_scheduler(ret, &table, &function);
            continue;
        }
        if (function.flags && elf_read(f, function.name_offset, name, sizeof(name) - 1) == 0 &&
            is_special(f, &function, name, &kind))
            add_function(ret, f, &table, &function, kind);
    }
}

bool go_frames_have(const struct go_frames *frames, uint64_t start)
{
    for (size_t i = 0; i < frames->count; i++)
        if (frames->at[i].start == start)
            return true;
    return false;
}
