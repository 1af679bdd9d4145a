/* Code without FDEs whose frames follow from the code itself: PLT stubs of linkers that do not describe them (lld,
 * mold), .init and .fini, the entry point, Go functions that switch stacks, and signal trampolines, whose instructions
 * are fixed by the kernel's ABI. */
#include "resolve/unwind/cfi_known.h"

#include "resolve/unwind/cfi_go.h"

#include <elf.h>
#include <string.h>

#define PLT_STUB_BYTES  16
#define ENTRY_MAX_BYTES 64 /* longer than any _start, which sets up a few arguments and calls */
#define SCAN_STEP_BYTES ((size_t)64 << 10)

static const struct unwind_rule at_call = {.cfa = UNWIND_CFA_SP, .cfa_offset = 8, .ra_offset = -8};
static const struct unwind_rule arm_at_call = {.cfa = UNWIND_CFA_SP}; /* the return address is in x30 */

/* The first stub pushes one more word and jumps to the dynamic linker: `push GOT+8; jmp *GOT+16`. */
static int add_x86_lazy_head(struct cfi_index *index, uint64_t start)
{
    struct unwind_rule rule = at_call;
    rule.cfa_offset = 16;
    int r = cfi_ranges_add_known(index, start, start + 6, &rule);
    rule.cfa_offset = 24;
    return r < 0 ? r : cfi_ranges_add_known(index, start + 6, start + PLT_STUB_BYTES, &rule);
}

/* Lazy stubs push the relocation index before they jump to the first stub; all others leave the stack unchanged. */
static int add_x86_plt(const struct elf_file *f, struct cfi_index *index, uint64_t start, uint64_t end)
{
    uint8_t head[2 * PLT_STUB_BYTES] = {0};
    size_t size = end - start < sizeof(head) ? end - start : sizeof(head);
    if (elf_read(f, start, head, size) < 0)
        return 0;
    static const uint8_t push_got[2] = {0xff, 0x35}, endbr64[4] = {0xf3, 0x0f, 0x1e, 0xfa};
    struct unwind_rule rule = at_call;
    if (memcmp(head, push_got, sizeof(push_got)) == 0) {
        int r = add_x86_lazy_head(index, start);
        if (r < 0)
            return r;
        start += PLT_STUB_BYTES;
        const uint8_t *stub = head + PLT_STUB_BYTES;
        bool has_endbr = memcmp(stub, endbr64, sizeof(endbr64)) == 0;
        if (start % PLT_STUB_BYTES == 0 && stub[has_endbr ? 4 : 6] == 0x68)
            rule = (struct unwind_rule){.cfa = UNWIND_CFA_PLT, .cfa_offset = has_endbr ? 9 : 11, .ra_offset = -8};
    }
    return cfi_ranges_add_known(index, start, end, &rule);
}

/* arm64's first stub saves x16 and x30 with its first instruction (or the second, after `bti c`). */
static int add_arm_plt(const struct elf_file *f, struct cfi_index *index, uint64_t start, uint64_t end)
{
    static const uint8_t save_lr[4] = {0xf0, 0x7b, 0xbf, 0xa9};
    uint8_t head[8];
    if (end - start >= 32 && elf_read(f, start, head, sizeof(head)) == 0) {
        bool second = memcmp(head + 4, save_lr, sizeof(save_lr)) == 0;
        if (second || memcmp(head, save_lr, sizeof(save_lr)) == 0) {
            struct unwind_rule saved = {.cfa = UNWIND_CFA_SP, .cfa_offset = 16, .ra_offset = -8};
            uint64_t from = start + (second ? 8 : 4);
            int r = cfi_ranges_add_known(index, start, from, &arm_at_call);
            if (r == 0)
                r = cfi_ranges_add_known(index, from, start + 32, &saved);
            if (r < 0)
                return r;
            start += 32;
        }
    }
    return cfi_ranges_add_known(index, start, end, &arm_at_call);
}

static int add_plts(const struct elf_file *f, struct cfi_index *index)
{
    static const char *const names[] = {".plt", ".plt.got", ".plt.sec", ".iplt"};
    for (size_t i = 0; i < array_size(names); i++) {
        const struct elf_section *s = elf_section(f, names[i]);
        uint64_t end;
        if (!s || s->type != SHT_PROGBITS || !(s->flags & SHF_EXECINSTR) ||
            __builtin_add_overflow(s->offset, s->size_bytes, &end))
            continue;
        int r = elf_machine(f) == EM_AARCH64 ? add_arm_plt(f, index, s->offset, end)
                                             : add_x86_plt(f, index, s->offset, end);
        if (r < 0)
            return r;
    }
    return 0;
}

/* .init and .fini are one function each, assembled by the linker from pieces of crti.o and crtn.o without FDEs: on
 * x86-64 `sub $8, %rsp` first (after endbr64) and `add $8, %rsp; ret` last, on arm64 a pair of saved registers. */
static int add_init_section(const struct elf_file *f, struct cfi_index *index, const char *name)
{
    const struct elf_section *s = elf_section(f, name);
    uint8_t code[64];
    uint64_t end;
    if (!s || s->type != SHT_PROGBITS || s->size_bytes < 9 || s->size_bytes > sizeof(code) ||
        __builtin_add_overflow(s->offset, s->size_bytes, &end) || elf_read(f, s->offset, code, s->size_bytes) < 0)
        return 0;
    bool arm = elf_machine(f) == EM_AARCH64;
    static const uint8_t x86_in[] = {0x48, 0x83, 0xec, 0x08}, x86_out[] = {0x48, 0x83, 0xc4, 0x08, 0xc3};
    static const uint8_t arm_in[] = {0xfd, 0x7b, 0xbf, 0xa9},
                         arm_out[] = {0xfd, 0x7b, 0xc1, 0xa8, 0xc0, 0x03, 0x5f, 0xd6};
    const uint8_t *in = memmem(code, 8, arm ? arm_in : x86_in, 4), *last = code + s->size_bytes;
    const uint8_t *out = arm ? last - sizeof(arm_out) : last - sizeof(x86_out);
    if (!in || out < in + 4 || memcmp(out, arm ? arm_out : x86_out, (size_t)(last - out)) != 0)
        return 0;
    struct unwind_rule outside = arm ? arm_at_call : at_call, inside = outside;
    inside.cfa_offset = 16;
    if (arm) { /* x29 and x30 at sp */
        inside.fp = UNWIND_FP_AT_CFA;
        inside.fp_offset = -16;
        inside.ra_offset = -8;
    }
    uint64_t from = s->offset + (uint64_t)(in - code) + 4, to = s->offset + (uint64_t)(out - code) + 4;
    int r = cfi_ranges_add_known(index, s->offset, from, &outside);
    if (r == 0)
        r = cfi_ranges_add_known(index, from, to, &inside);
    return r < 0 ? r : cfi_ranges_add_known(index, to, end, &outside);
}

/* The entry function first clears the frame pointer (the ABI's mark of the outermost frame) or passes on its stack
 * pointer. An entry point that does neither belongs to a shared library and is not used. */
static bool is_entry_function(const struct elf_file *f, uint64_t entry)
{
    static const struct {
        uint16_t machine;
        uint8_t size, code[4];
    } starts[] = {
        {EM_X86_64, 2, {0x31, 0xed}},              /* xor %ebp, %ebp */
        {EM_X86_64, 3, {0x48, 0x31, 0xed}},        /* xor %rbp, %rbp */
        {EM_X86_64, 3, {0x48, 0x89, 0xe7}},        /* mov %rsp, %rdi */
        {EM_AARCH64, 4, {0x1d, 0x00, 0x80, 0xd2}}, /* mov x29, #0 */
        {EM_AARCH64, 4, {0xe0, 0x03, 0x00, 0x91}}, /* mov x0, sp */
    };
    static const uint8_t pads[][4] = {{0xf3, 0x0f, 0x1e, 0xfa} /* endbr64 */, {0x5f, 0x24, 0x03, 0xd5} /* bti c */};
    uint8_t head[8];
    if (elf_read(f, entry, head, sizeof(head)) < 0)
        return false;
    const uint8_t *code = head;
    for (size_t i = 0; i < array_size(pads); i++)
        if (memcmp(head, pads[i], sizeof(pads[i])) == 0)
            code = head + sizeof(pads[i]);
    for (size_t i = 0; i < array_size(starts); i++)
        if (starts[i].machine == elf_machine(f) && memcmp(code, starts[i].code, starts[i].size) == 0)
            return true;
    return false;
}

static struct unwind_rule go_rule(const struct go_frame *frame)
{
    struct unwind_rule rule = {.cfa = UNWIND_CFA_UNSUPPORTED};
    switch (frame->kind) {
    case GO_FRAME_OUTERMOST:
        rule.cfa = UNWIND_CFA_END;
        break;
    case GO_FRAME_BY_DEPTH:
        rule = at_call;
        rule.cfa_offset += (int32_t)frame->depth;
        cfi_go_save_fp(&rule);
        break;
    case GO_FRAME_SCHEDULER:
        rule = at_call;
        rule.cfa = UNWIND_CFA_SP_SCHEDULER;
        rule.cfa_offset += (int32_t)frame->depth;
        cfi_go_save_fp(&rule);
        break;
    case GO_FRAME_BY_GOROUTINE:
        rule = at_call;
        rule.cfa = UNWIND_CFA_GOROUTINE;
        rule.cfa_offset += (int32_t)frame->depth;
        cfi_go_save_fp(&rule);
        break;
    case GO_FRAME_GROWING:
        rule.cfa = UNWIND_CFA_GOROUTINE;
        break;
    case GO_FRAME_BY_POINTER:
        rule = (struct unwind_rule){
            .cfa = UNWIND_CFA_FP, .cfa_offset = 16, .ra_offset = -8, .fp = UNWIND_FP_AT_CFA, .fp_offset = -16};
        break;
    case GO_FRAME_TRAMPOLINE: /* found by its instructions (cfi_known_trampoline) */
    case GO_FRAME_LOST:
        break;
    }
    return rule;
}

static int add_go(const struct elf_file *f, struct cfi_index *index)
{
    go_frames_find(f, &index->go);
    for (size_t i = 0; i < index->go.count; i++) {
        const struct go_frame *frame = &index->go.at[i];
        const struct unwind_rule rule = go_rule(frame);
        uint64_t start, last;
        if (frame->kind == GO_FRAME_TRAMPOLINE || elf_offset_from_vaddr(f, frame->start, &start) < 0 ||
            elf_offset_from_vaddr(f, frame->end - 1, &last) < 0 || last < start)
            continue;
        int r = cfi_ranges_add_known(index, start, last + 1, &rule);
        if (r < 0)
            return r;
    }
    return 0;
}

int cfi_known_add(const struct elf_file *f, struct cfi_index *index)
{
    int r = add_plts(f, index);
    if (r == 0)
        r = add_go(f, index);
    if (r == 0)
        r = add_init_section(f, index, ".init");
    if (r == 0)
        r = add_init_section(f, index, ".fini");
    uint64_t entry;
    if (r < 0 || elf_entry(f) == 0 || elf_offset_from_vaddr(f, elf_entry(f), &entry) < 0 ||
        !is_entry_function(f, entry))
        return r;
    return cfi_ranges_add_known(index, entry, entry + ENTRY_MAX_BYTES, &(struct unwind_rule){.cfa = UNWIND_CFA_END});
}

struct trampoline {
    uint8_t code[12];
    uint8_t size;
    int16_t ucontext; /* offset from the stack pointer */
};

static const struct trampoline x86_trampolines[] = {
    {{0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05}, 9, 0}, /* mov $15, %rax; syscall */
    {{0xb8, 0x0f, 0, 0, 0, 0x0f, 0x05}, 7, 0},             /* mov $15, %eax; syscall */
};
static const struct trampoline arm_trampolines[] = {
    {{0x68, 0x11, 0x80, 0xd2, 0x01, 0, 0, 0xd4}, 8, 128}, /* mov x8, #139; svc #0 */
};

static const struct trampoline *first_trampoline(uint16_t machine, const uint8_t *data, size_t size, size_t *ret_at)
{
    const struct trampoline *list = machine == EM_AARCH64 ? arm_trampolines : x86_trampolines, *found = NULL;
    size_t count = machine == EM_AARCH64 ? array_size(arm_trampolines) : array_size(x86_trampolines);
    for (size_t i = 0; i < count; i++) {
        const uint8_t *at = memmem(data, size, list[i].code, list[i].size);
        if (at && (!found || (size_t)(at - data) < *ret_at)) {
            found = &list[i];
            *ret_at = (size_t)(at - data);
        }
    }
    return found;
}

uint32_t cfi_known_trampoline(const struct elf_file *f, uint32_t from, uint32_t to, size_t *budget_bytes,
                              uint32_t *ret_size, struct unwind_rule *ret_rule)
{
    _cleanup_free_ uint8_t *step = NULL;
    while (from<to && * budget_bytes> 0) {
        size_t size = to - from < SCAN_STEP_BYTES ? to - from : SCAN_STEP_BYTES;
        if (!step)
            step = malloc(size);
        if (!step || elf_read(f, from, step, size) < 0)
            return to;
        *budget_bytes -= *budget_bytes < size ? *budget_bytes : size;
        size_t at;
        const struct trampoline *t = first_trampoline(elf_machine(f), step, size, &at);
        if (t) {
            *ret_size = t->size;
            *ret_rule = (struct unwind_rule){.cfa = UNWIND_CFA_SIGNAL, .cfa_offset = t->ucontext};
            return from + (uint32_t)at;
        }
        if (size == to - from)
            return to;
        from += (uint32_t)(size - sizeof(t->code)); /* a trampoline may span two steps */
    }
    return to;
}

uint32_t cfi_known_trampoline_from(const struct elf_file *f, uint32_t at)
{
    uint8_t before;
    bool is_padding =
        at > 0 && elf_read(f, at - 1, &before, 1) == 0 && (before == 0x90 || before == 0xcc || before == 0);
    return is_padding ? at - 1 : at;
}
