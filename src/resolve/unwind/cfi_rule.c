/* Conversion of rows to rules; see cfi_rule.h. Register numbers: x86-64 psABI, figure 3.36; DWARF for the Arm 64-bit
 * architecture. */
#include "resolve/unwind/cfi_rule.h"

#include "resolve/unwind/dwarf_expression.h"

#include <elf.h>

enum { X86_BX = 3, X86_FP = 6, X86_SP = 7 };
enum { ARM_FP = 29, ARM_SP = 31 };

/* Offset of the interrupted stack pointer in the kernel's struct ucontext. C libraries describe their signal trampoline
 * by `CFA = *(sp + offset)`, which gives the location of the ucontext. */
#define X86_UCONTEXT_SP 160
/* On arm64 the frame is struct siginfo, then the ucontext. The trampoline is in the vdso, whose FDE depends on the
 * kernel version. */
#define ARM_UCONTEXT 128

struct cfa_registers cfi_rule_registers(uint16_t machine, uint64_t return_register)
{
    bool arm = machine == EM_AARCH64;
    struct cfa_registers r;
    r.number[CFA_TRACK_FP] = arm ? ARM_FP : X86_FP;
    r.number[CFA_TRACK_RA] = return_register;
    r.number[CFA_TRACK_BX] = arm ? UINT64_MAX : X86_BX;
    return r;
}

static uint64_t sp_number(uint16_t machine)
{
    return machine == EM_AARCH64 ? ARM_SP : X86_SP;
}

static uint64_t fp_number(uint16_t machine)
{
    return machine == EM_AARCH64 ? ARM_FP : X86_FP;
}

static bool fits_s32(int64_t v)
{
    return v >= INT32_MIN && v <= INT32_MAX;
}

static bool fits_s16(int64_t v)
{
    return v >= INT16_MIN && v <= INT16_MAX;
}

static bool set_cfa_register(uint16_t machine, uint64_t number, int64_t offset, struct unwind_rule *rule)
{
    if (!fits_s32(offset) || number > UINT8_MAX)
        return false;
    rule->cfa_offset = (int32_t)offset;
    if (number == sp_number(machine)) {
        rule->cfa = UNWIND_CFA_SP;
    } else if (number == fp_number(machine)) {
        rule->cfa = UNWIND_CFA_FP;
    } else {
        rule->cfa = UNWIND_CFA_REGISTER;
        rule->cfa_register = (uint8_t)number;
    }
    return true;
}

static bool set_cfa_expression(uint16_t machine, const struct cfa_row *row, struct unwind_rule *rule)
{
    struct dwarf_expression e = dwarf_expression_recognise(row->expression, row->expression_bytes);
    switch (e.kind) {
    case DWARF_EXPRESSION_REGISTER:
        return set_cfa_register(machine, e.register_number, e.offset, rule);
    case DWARF_EXPRESSION_DEREF:
        if (!fits_s32(e.offset) || !fits_s16(e.add))
            return false;
        if (e.register_number == sp_number(machine))
            rule->cfa = UNWIND_CFA_SP_DEREF;
        else if (e.register_number == fp_number(machine))
            rule->cfa = UNWIND_CFA_FP_DEREF;
        else
            return false;
        rule->cfa_offset = (int32_t)e.offset;
        rule->cfa_add = (int16_t)e.add;
        return true;
    case DWARF_EXPRESSION_INDEXED:
        if (machine != EM_X86_64 || e.register_number != X86_SP || e.index_register >= UNWIND_LEAF_REGISTERS ||
            !fits_s32(e.offset))
            return false;
        rule->cfa = UNWIND_CFA_SP_INDEXED;
        rule->cfa_register = (uint8_t)e.index_register;
        rule->cfa_offset = (int32_t)e.offset;
        rule->cfa_add = (int16_t)e.add;
        return true;
    case DWARF_EXPRESSION_PLT:
        if (machine != EM_X86_64 || e.register_number != X86_SP || e.offset != 8 || e.threshold > 15)
            return false;
        rule->cfa = UNWIND_CFA_PLT;
        rule->cfa_offset = (int32_t)e.threshold;
        return true;
    default:
        return false;
    }
}

/* Sets where the caller's frame pointer is. If it cannot be expressed it is undefined: a walk that does not need it
 * continues. */
static void set_fp(uint16_t machine, const struct cfa_saved *saved, struct unwind_rule *rule)
{
    rule->fp = UNWIND_FP_UNDEFINED;
    switch (saved->kind) {
    case CFA_SAVED_UNSPECIFIED:
    case CFA_SAVED_SAME:
        rule->fp = UNWIND_FP_SAME;
        break;
    case CFA_SAVED_AT_OFFSET:
        if (!fits_s32(saved->offset))
            break;
        rule->fp = UNWIND_FP_AT_CFA;
        rule->fp_offset = (int32_t)saved->offset;
        break;
    case CFA_SAVED_AT_EXPRESSION: {
        struct dwarf_expression e = dwarf_expression_recognise(saved->expression, saved->expression_bytes);
        if (e.kind != DWARF_EXPRESSION_REGISTER)
            break;
        int64_t from_cfa = e.offset - rule->cfa_offset;
        if (e.register_number == fp_number(machine) && fits_s32(e.offset)) {
            rule->fp = UNWIND_FP_AT_FP;
            rule->fp_offset = (int32_t)e.offset;
        } else if (e.register_number == sp_number(machine) && rule->cfa == UNWIND_CFA_SP && fits_s32(e.offset) &&
                   fits_s32(from_cfa)) {
            rule->fp = UNWIND_FP_AT_CFA;
            rule->fp_offset = (int32_t)from_cfa;
        }
        break;
    }
    default:
        break;
    }
}

static bool set_return_address(uint16_t machine, const struct cfa_saved *saved, struct unwind_rule *rule)
{
    if (machine == EM_AARCH64 && (saved->kind == CFA_SAVED_UNSPECIFIED || saved->kind == CFA_SAVED_SAME))
        return true; /* still in the link register: ra_offset 0 */
    if (machine == EM_X86_64 && saved->kind == CFA_SAVED_IN_REGISTER && rule->cfa != UNWIND_CFA_REGISTER &&
        rule->cfa != UNWIND_CFA_SP_INDEXED && saved->offset >= 0 && saved->offset < UNWIND_LEAF_REGISTERS) {
        rule->cfa_register = (uint8_t)saved->offset;
        return true;
    }
    if (saved->kind != CFA_SAVED_AT_OFFSET || !fits_s16(saved->offset) || saved->offset == 0)
        return false;
    rule->ra_offset = (int16_t)saved->offset;
    return true;
}

static void set_bx(const struct cfa_saved *saved, struct unwind_rule *rule)
{
    if (saved->kind == CFA_SAVED_AT_OFFSET && saved->offset < 0 && saved->offset % 8 == 0 &&
        saved->offset >= -8 * UINT8_MAX)
        rule->bx_words = (uint8_t)(-saved->offset / 8);
}

static bool signal_rule(uint16_t machine, const struct cfa_row *row, struct unwind_rule *ret)
{
    int64_t ucontext = ARM_UCONTEXT;
    if (machine == EM_X86_64) {
        if (row->kind != CFA_EXPRESSION)
            return false;
        struct dwarf_expression e = dwarf_expression_recognise(row->expression, row->expression_bytes);
        if (e.kind != DWARF_EXPRESSION_DEREF || e.register_number != X86_SP || e.add != 0 || !fits_s16(e.offset))
            return false;
        ucontext = e.offset - X86_UCONTEXT_SP;
    }
    *ret = (struct unwind_rule){.cfa = UNWIND_CFA_SIGNAL, .cfa_offset = (int32_t)ucontext};
    return true;
}

struct unwind_rule cfi_rule_from_row(uint16_t machine, const struct cfa_row *row, bool is_signal_frame)
{
    const struct unwind_rule unsupported = {.cfa = UNWIND_CFA_UNSUPPORTED};
    struct unwind_rule rule = {0};
    const struct cfa_saved *ra = &row->saved[CFA_TRACK_RA];
    if (ra->kind == CFA_SAVED_UNDEFINED)
        return (struct unwind_rule){.cfa = UNWIND_CFA_END};
    if (is_signal_frame && signal_rule(machine, row, &rule))
        return rule;

    bool fits = false;
    if (row->kind == CFA_REGISTER)
        fits = set_cfa_register(machine, row->register_number, row->offset, &rule);
    else if (row->kind == CFA_EXPRESSION)
        fits = set_cfa_expression(machine, row, &rule);
    if (!fits || !set_return_address(machine, ra, &rule))
        return unsupported;
    set_fp(machine, &row->saved[CFA_TRACK_FP], &rule);
    set_bx(&row->saved[CFA_TRACK_BX], &rule);
    return rule;
}
