/* See go_frames.h. The runtime marks these functions in its function table (flags TOPFRAME and SPWRITE of Go's
 * assembler, runtime/symtab.go), which stripped programs have too. */
#include "resolve/symbols/go_frames.h"

#include "base/cleanup.h"
#include "base/cursor.h"
#include "resolve/symbols/go_table.h"

#include <elf.h>
#include <string.h>

#define NAME_BYTES   32
#define CODE_BYTES   256 /* enough to reach the stack switch in each of them */
#define DEPTHS_BYTES 64
#define DEPTH_MAX    65536
#define PIECES_MAX   24 /* ranges per function */

static bool is_one_of(const char *name, const char *const *list)
{
    for (; *list; list++)
        if (strcmp(name, *list) == 0)
            return true;
    return false;
}

/* The first bytes of an x86-64 function. */
struct prologue_code {
    uint8_t code[CODE_BYTES];
    size_t bytes;
};

static void read_prologue_code(const struct elf_file *f, const struct go_function_record *function,
                               struct prologue_code *ret)
{
    const uint64_t size = function->end - function->start;
    uint64_t offset;
    ret->bytes = size < sizeof(ret->code) ? size : sizeof(ret->code);
    if (elf_machine(f) != EM_X86_64 || elf_offset_from_vaddr(f, function->start, &offset) < 0 ||
        elf_read(f, offset, ret->code, ret->bytes) < 0)
        ret->bytes = 0;
}

/* From the returned offset on, the frame pointer is the function's own and still leads to its caller after the stack
 * pointer has been switched. All functions that call others set it at their start since Go 1.21, those with a frame
 * did before. 0: never. */
static size_t own_pointer_offset(const struct prologue_code *b)
{
    static const uint8_t push_and_move[] = {0x55, 0x48, 0x89, 0xe5},
                         by_address[] = {0x48, 0x8d, 0x6c, 0x24}; /* lea n(%rsp), %rbp; n is one byte */
    const size_t prologue = b->bytes < 24 ? b->bytes : 24;
    if (prologue >= sizeof(push_and_move) && memcmp(b->code, push_and_move, sizeof(push_and_move)) == 0)
        return sizeof(push_and_move);
    const uint8_t *at = memmem(b->code, prologue, by_address, sizeof(by_address));
    return at ? (size_t)(at - b->code) + sizeof(by_address) + 1 : 0;
}

/* Finds the first `mov n(%register), %rsp` or `mov %register, %rsp` from `from` on, the runtime's switch of
 * stacks, and returns an offset inside it: the rule before still holds at that instruction's start, and no longer at
 * the next one. 0: not found. */
static size_t find_stack_switch(const struct prologue_code *b, size_t from)
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

/* The rule for a function that may have left its caller's stack. False: its .debug_frame is right, or the best
 * available. */
static bool find_stack_rule(const struct elf_file *f, const struct go_function_record *function, const char *name,
                            enum go_frame_kind *ret)
{
    /* They run on behalf of whatever ran before on that thread; nothing of it is left on their stack. */
    static const char *const outermost[] = {"runtime.mcall", "runtime.switchToCrashStack0", NULL};
    /* It switches to a goroutine's stack, which does not yet show where execution continues. */
    static const char *const starting[] = {"gogo", "runtime.gogo", NULL};
    /* sigtramp is called by the kernel, on top of the interrupted stack; clone's child is mstart's. */
    static const char *const debug_frame_ok[] = {"runtime.sigtramp", "runtime.clone", NULL};
    /* Described as a function, but the unwinder needs it as the trampoline that a signal handler returns to. */
    static const char *const trampolines[] = {"runtime.sigreturn", "runtime.sigreturn__sigaction", NULL};
    if (is_one_of(name, trampolines)) {
        *ret = GO_FRAME_TRAMPOLINE;
        return true;
    }
    if (!(function->flags & (GO_FUNCTION_TOP_FRAME | GO_FUNCTION_SP_WRITE)) || is_one_of(name, debug_frame_ok))
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
    /* On other architectures rows do not use the frame pointer: these functions mostly run on their caller's stack. */
    return elf_machine(f) == EM_X86_64 || *ret != GO_FRAME_BY_POINTER;
}

static void add_range(struct go_frames *frames, const struct go_frame *piece)
{
    if (piece->start < piece->end)
        frames->at[frames->count++] = *piece;
}

/* The stack depths of a function. False: the table has none. */
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

/* Adds the ranges of a function up to `end`, where it leaves its caller's stack, or its end; returns the end of
 * the known depths, an address. A depth of 0 is before the frame is set up or after it is removed: the frame pointer is
 * then the caller's. */
static uint64_t add_depths(struct go_frames *frames, const struct go_table *t,
                           const struct go_function_record *function, size_t pointer_offset, uint64_t end)
{
    uint8_t bytes[DEPTHS_BYTES];
    const uint64_t most = frames->count + PIECES_MAX - 3;
    uint64_t at = function->start;
    struct go_depths d;
    if (!read_depths(t, function, bytes, &d))
        return at;
    const uint64_t own = pointer_offset ? function->start + pointer_offset : end;
    while (at < end && next_depth(frames, most, &d)) {
        const uint64_t known = function->start + d.at, to = known < end ? known : end;
        const uint64_t by_depth = d.depth == 0 || to < own ? to : own > at ? own : at;
        add_range(frames, &(struct go_frame){at, by_depth, GO_FRAME_BY_DEPTH, (uint32_t)d.depth});
        add_range(frames, &(struct go_frame){by_depth, to, GO_FRAME_BY_POINTER, 0});
        at = to;
    }
    return at;
}

/* Adds the ranges of a function that switches to its thread's stack and back, recognized by exactly two switches.
 * False: it is not one. */
static bool add_switch_and_return(struct go_frames *frames, const struct go_table *t,
                                  const struct go_function_record *function, const struct prologue_code *b)
{
    uint8_t bytes[DEPTHS_BYTES];
    const size_t leaves = find_stack_switch(b, 0), back = leaves ? find_stack_switch(b, leaves) : 0;
    const uint64_t most = frames->count + PIECES_MAX - 4;
    uint64_t at = function->start;
    struct go_depths d;
    if (!back || find_stack_switch(b, back) || !read_depths(t, function, bytes, &d))
        return false;
    while (at < function->end && next_depth(frames, most, &d)) {
        const uint64_t known = function->start + d.at, end = known < function->end ? known : function->end;
        const uint64_t cuts[] = {function->start + leaves, function->start + back, end};
        for (size_t i = 0; i < array_size(cuts) && at < end; i++) {
            const uint64_t to = cuts[i] < at ? at : cuts[i] < end ? cuts[i] : end;
            add_range(frames, &(struct go_frame){at, to, i == 1 ? GO_FRAME_BY_GOROUTINE : GO_FRAME_BY_DEPTH,
                                                 (uint32_t)d.depth});
            at = to;
        }
    }
    add_range(frames, &(struct go_frame){at, function->end, GO_FRAME_LOST, 0});
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
        const uint64_t known = function->start + d.at, to = known < function->end ? known : function->end;
        add_range(frames, &(struct go_frame){at, to, GO_FRAME_SCHEDULER, (uint32_t)d.depth});
        at = to;
    }
    add_range(frames, &(struct go_frame){at, function->end, GO_FRAME_LOST, 0});
}

static void add_function(struct go_frames *frames, const struct elf_file *f, const struct go_table *t,
                         const struct go_function_record *function, enum go_frame_kind kind)
{
    struct prologue_code code = {.bytes = 0};
    uint64_t at = function->start, end = function->start;
    if (kind != GO_FRAME_TRAMPOLINE && !(function->flags & GO_FUNCTION_TOP_FRAME))
        read_prologue_code(f, function, &code);
    const size_t pointer = own_pointer_offset(&code);
    if (kind == GO_FRAME_BY_GOROUTINE && add_switch_and_return(frames, t, function, &code))
        return;
    if (kind == GO_FRAME_BY_GOROUTINE)
        kind = GO_FRAME_BY_POINTER;
    if (kind != GO_FRAME_BY_POINTER)
        end += find_stack_switch(&code, 0);
    else if (pointer)
        end = function->end;
    else
        kind = GO_FRAME_LOST;
    if (at < end)
        at = add_depths(frames, t, function, pointer, end);
    add_range(frames, &(struct go_frame){at, function->end, kind, 0});
}

void go_frames_find(const struct elf_file *f, struct go_frames *ret)
{
    struct go_table table;
    _cleanup_(go_table_walk_freep) struct go_table_walk *walk = NULL;
    struct go_function_record function;
    enum go_frame_kind kind;
    char name[NAME_BYTES];
    uint64_t scheduler = 0; /* runtime.schedule has no flag, and is the only function that finds goroutines to run */
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
            find_stack_rule(f, &function, name, &kind))
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
