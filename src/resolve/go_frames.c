/* See go_frames.h. The runtime marks them in its table of functions (flags TOPFRAME and SPWRITE of Go's
 * assembler, runtime/symtab.go), which stripped programs have too. */
#include "resolve/go_frames.h"

#include "base/cleanup.h"
#include "base/cursor.h"
#include "resolve/go_table.h"

#include <elf.h>
#include <string.h>

#define NAME_BYTES     32
#define PROLOGUE_BYTES 24

static bool is_one_of(const char *name, const char *const *list)
{
    for (; *list; list++)
        if (strcmp(name, *list) == 0)
            return true;
    return false;
}

/* How an x86-64 function keeps its caller while the stack pointer is another's: all that call others save the
 * frame pointer first since Go 1.21, those with room of their own did before. */
static enum go_frame_kind kind_of_code(const struct elf_file *f, uint64_t start)
{
    static const uint8_t push_and_move[] = {0x55, 0x48, 0x89, 0xe5},
                         by_address[] = {0x48, 0x8d, 0x6c, 0x24}; /* lea n(%rsp), %rbp */
    uint8_t code[PROLOGUE_BYTES];
    uint64_t offset;
    if (elf_offset_from_vaddr(f, start, &offset) < 0 || elf_read(f, offset, code, sizeof(code)) < 0)
        return GO_FRAME_LOST;
    if (memcmp(code, push_and_move, sizeof(push_and_move)) == 0)
        return GO_FRAME_PUSHED;
    return memmem(code, sizeof(code), by_address, sizeof(by_address)) ? GO_FRAME_BY_POINTER : GO_FRAME_LOST;
}

/* False: its description is right, or as near as we get. */
static bool is_special(const struct elf_file *f, const struct go_function_record *function, const char *name,
                       enum go_frame_kind *ret)
{
    /* They work for whatever ran before on that thread, of which nothing is left on their stack. */
    static const char *const outermost[] = {
        "gogo", "runtime.gogo", "runtime.mcall", "runtime.morestack", "runtime.switchToCrashStack0", NULL};
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
    if (function->flags & GO_FUNCTION_TOP_FRAME || is_one_of(name, outermost)) {
        *ret = GO_FRAME_OUTERMOST;
        return true;
    }
    *ret = kind_of_code(f, function->start);
    return elf_machine(f) == EM_X86_64; /* elsewhere rows do not follow the frame pointer: mostly these run on
                                           their caller's stack */
}

void go_frames_find(const struct elf_file *f, struct go_frames *ret)
{
    struct go_table table;
    _cleanup_(go_table_walk_freep) struct go_table_walk *walk = NULL;
    struct go_function_record function;
    char name[NAME_BYTES];
    ret->count = 0;
    if (go_table_find(f, &table) < 0 || go_table_walk_new(&table, &walk) < 0)
        return;
    while (ret->count < GO_FRAMES_MAX && go_table_next(walk, &function)) {
        struct go_frame frame = {.start = function.start, .end = function.end};
        memset(name, 0, sizeof(name));
        if (function.flags && elf_read(f, function.name_offset, name, sizeof(name) - 1) == 0 &&
            is_special(f, &function, name, &frame.kind))
            ret->at[ret->count++] = frame;
    }
}

bool go_frames_have(const struct go_frames *frames, uint64_t start)
{
    for (size_t i = 0; i < frames->count; i++)
        if (frames->at[i].start == start)
            return true;
    return false;
}
