/* Interpreter of call frame instructions; see cfa_program.h.
 *
 * Untrusted input: every instruction consumes at least one byte of its section, so the work is bounded by the section
 * size. A CIE's instructions run once per FDE that refers to it; they have a limit of their own. */
#include "resolve/unwind/cfa_program.h"

#include <errno.h>
#include <string.h>

#define CFA_MAX_REMEMBERED 32
#define CFA_MAX_CIE_BYTES  1024

/* If the upper two bits of an instruction are not 0, they are the opcode and the other six are its operand. */
enum {
    CFA_ADVANCE_LOC = 0x40,
    CFA_OFFSET = 0x80,
    CFA_RESTORE = 0xc0,

    CFA_NOP = 0x00,
    CFA_SET_LOC = 0x01,
    CFA_ADVANCE_LOC1 = 0x02,
    CFA_ADVANCE_LOC2 = 0x03,
    CFA_ADVANCE_LOC4 = 0x04,
    CFA_OFFSET_EXTENDED = 0x05,
    CFA_RESTORE_EXTENDED = 0x06,
    CFA_UNDEFINED = 0x07,
    CFA_SAME_VALUE = 0x08,
    CFA_IN_REGISTER = 0x09,
    CFA_REMEMBER_STATE = 0x0a,
    CFA_RESTORE_STATE = 0x0b,
    CFA_DEF_CFA = 0x0c,
    CFA_DEF_CFA_REGISTER = 0x0d,
    CFA_DEF_CFA_OFFSET = 0x0e,
    CFA_DEF_CFA_EXPRESSION = 0x0f,
    CFA_AT_EXPRESSION = 0x10,
    CFA_OFFSET_EXTENDED_SF = 0x11,
    CFA_DEF_CFA_SF = 0x12,
    CFA_DEF_CFA_OFFSET_SF = 0x13,
    CFA_VAL_OFFSET = 0x14,
    CFA_VAL_OFFSET_SF = 0x15,
    CFA_VAL_EXPRESSION = 0x16,
    CFA_MIPS_ADVANCE_LOC8 = 0x1d,
    CFA_AARCH64_NEGATE_RA_STATE_WITH_PC = 0x2c,
    CFA_AARCH64_NEGATE_RA_STATE = 0x2d, /* SPARC's window_save elsewhere */
    CFA_GNU_ARGS_SIZE = 0x2e,
    CFA_GNU_NEGATIVE_OFFSET_EXTENDED = 0x2f,
};

struct program {
    const struct eh_frame *section;
    const struct eh_frame_cie *cie;
    const struct eh_frame_fde *fde;
    const struct cfa_registers *registers;
    cfa_row_fn fn;
    void *context;

    struct cursor c;
    uint64_t address;
    bool in_cie, past_end;
    struct cfa_row row;
    struct cfa_row initial; /* state after the CIE's instructions: what DW_CFA_restore goes back to */
    struct cfa_row remembered[CFA_MAX_REMEMBERED];
    size_t remembered_count;
};

static void set_saved(struct program *p, uint64_t number, struct cfa_saved saved)
{
    for (int i = 0; i < CFA_TRACK_COUNT; i++)
        if (p->registers->number[i] == number)
            p->row.saved[i] = saved;
}

static void set_saved_factored(struct program *p, uint64_t number, enum cfa_saved_kind kind, int64_t factored)
{
    int64_t offset;
    if (__builtin_mul_overflow(factored, p->cie->data_align, &offset))
        p->c.failed = true;
    set_saved(p, number, (struct cfa_saved){.kind = kind, .offset = offset});
}

static void set_saved_expression(struct program *p, enum cfa_saved_kind kind)
{
    uint64_t number = cursor_uleb128(&p->c);
    size_t size = cursor_uleb128(&p->c);
    const uint8_t *data = cursor_bytes(&p->c, size);
    set_saved(p, number, (struct cfa_saved){.kind = kind, .expression = data, .expression_bytes = size});
}

static void restore_register(struct program *p, uint64_t number)
{
    for (int i = 0; i < CFA_TRACK_COUNT; i++)
        if (p->registers->number[i] == number)
            p->row.saved[i] = p->initial.saved[i];
}

/* Advances to `address`, and emits the row that is valid up to it. */
static void advance_to(struct program *p, uint64_t address)
{
    if (p->c.failed)
        return;
    if (p->in_cie || address < p->address) {
        p->c.failed = true;
        return;
    }
    if (address > p->address)
        p->fn(p->context, p->address, &p->row);
    p->address = address;
    p->past_end = address >= p->fde->end;
}

static void advance_by(struct program *p, uint64_t factored)
{
    uint64_t delta, address;
    if (__builtin_mul_overflow(factored, p->cie->code_align, &delta) ||
        __builtin_add_overflow(p->address, delta, &address))
        p->c.failed = true;
    else
        advance_to(p, address);
}

static void set_location(struct program *p)
{
    uint64_t address;
    if (eh_frame_pointer(p->section, &p->c, p->cie->pointer_encoding, &address))
        advance_to(p, address);
    else
        p->c.failed = true;
}

static void define_cfa(struct program *p, uint64_t number, int64_t offset)
{
    p->row.kind = CFA_REGISTER;
    p->row.register_number = number;
    p->row.offset = offset;
}

static int64_t factored_offset(struct program *p)
{
    int64_t offset = 0;
    if (__builtin_mul_overflow(cursor_sleb128(&p->c), p->cie->data_align, &offset))
        p->c.failed = true;
    return offset;
}

static void define_cfa_expression(struct program *p)
{
    size_t size = cursor_uleb128(&p->c);
    p->row.kind = CFA_EXPRESSION;
    p->row.expression = cursor_bytes(&p->c, size);
    p->row.expression_bytes = size;
}

static void remember_state(struct program *p)
{
    if (p->remembered_count == CFA_MAX_REMEMBERED)
        p->c.failed = true;
    else
        p->remembered[p->remembered_count++] = p->row;
}

static void restore_state(struct program *p)
{
    if (p->remembered_count == 0)
        p->c.failed = true;
    else
        p->row = p->remembered[--p->remembered_count];
}

/* Executes an instruction that defines the CFA. False: `op` is another instruction. */
static bool step_cfa(struct program *p, uint8_t op)
{
    uint64_t number;
    switch (op) {
    case CFA_DEF_CFA:
        number = cursor_uleb128(&p->c);
        define_cfa(p, number, (int64_t)cursor_uleb128(&p->c));
        return true;
    case CFA_DEF_CFA_SF:
        number = cursor_uleb128(&p->c);
        define_cfa(p, number, factored_offset(p));
        return true;
    case CFA_DEF_CFA_REGISTER:
        number = cursor_uleb128(&p->c);
        if (p->row.kind != CFA_REGISTER)
            p->c.failed = true;
        p->row.register_number = number;
        return true;
    case CFA_DEF_CFA_OFFSET:
    case CFA_DEF_CFA_OFFSET_SF:
        if (p->row.kind != CFA_REGISTER)
            p->c.failed = true;
        p->row.offset = op == CFA_DEF_CFA_OFFSET ? (int64_t)cursor_uleb128(&p->c) : factored_offset(p);
        return true;
    case CFA_DEF_CFA_EXPRESSION:
        define_cfa_expression(p);
        return true;
    default:
        return false;
    }
}

/* Executes an instruction that defines where a register is saved. False: `op` is another instruction. */
static bool step_register(struct program *p, uint8_t op)
{
    uint64_t number;
    switch (op) {
    case CFA_OFFSET_EXTENDED:
    case CFA_VAL_OFFSET:
        number = cursor_uleb128(&p->c);
        set_saved_factored(p, number, op == CFA_VAL_OFFSET ? CFA_SAVED_IS_OFFSET : CFA_SAVED_AT_OFFSET,
                           (int64_t)cursor_uleb128(&p->c));
        return true;
    case CFA_OFFSET_EXTENDED_SF:
    case CFA_VAL_OFFSET_SF:
        number = cursor_uleb128(&p->c);
        set_saved_factored(p, number, op == CFA_VAL_OFFSET_SF ? CFA_SAVED_IS_OFFSET : CFA_SAVED_AT_OFFSET,
                           cursor_sleb128(&p->c));
        return true;
    case CFA_GNU_NEGATIVE_OFFSET_EXTENDED:
        number = cursor_uleb128(&p->c);
        set_saved_factored(p, number, CFA_SAVED_AT_OFFSET, (int64_t)(0 - cursor_uleb128(&p->c)));
        return true;
    case CFA_RESTORE_EXTENDED:
        restore_register(p, cursor_uleb128(&p->c));
        return true;
    case CFA_UNDEFINED:
        set_saved(p, cursor_uleb128(&p->c), (struct cfa_saved){.kind = CFA_SAVED_UNDEFINED});
        return true;
    case CFA_SAME_VALUE:
        set_saved(p, cursor_uleb128(&p->c), (struct cfa_saved){.kind = CFA_SAVED_SAME});
        return true;
    case CFA_IN_REGISTER:
        number = cursor_uleb128(&p->c);
        set_saved(p, number,
                  (struct cfa_saved){.kind = CFA_SAVED_IN_REGISTER, .offset = (int64_t)cursor_uleb128(&p->c)});
        return true;
    case CFA_AT_EXPRESSION:
        set_saved_expression(p, CFA_SAVED_AT_EXPRESSION);
        return true;
    case CFA_VAL_EXPRESSION:
        set_saved_expression(p, CFA_SAVED_IS_EXPRESSION);
        return true;
    default:
        return false;
    }
}

/* Executes any other instruction. */
static void step_other(struct program *p, uint8_t op)
{
    switch (op) {
    case CFA_AARCH64_NEGATE_RA_STATE_WITH_PC: /* return addresses are signed: the reader strips the signature */
    case CFA_AARCH64_NEGATE_RA_STATE:
        break;
    case CFA_SET_LOC:
        set_location(p);
        break;
    case CFA_ADVANCE_LOC1:
        advance_by(p, cursor_u8(&p->c));
        break;
    case CFA_ADVANCE_LOC2:
        advance_by(p, cursor_u16(&p->c));
        break;
    case CFA_ADVANCE_LOC4:
        advance_by(p, cursor_u32(&p->c));
        break;
    case CFA_MIPS_ADVANCE_LOC8:
        advance_by(p, cursor_u64(&p->c));
        break;
    case CFA_REMEMBER_STATE:
        remember_state(p);
        break;
    case CFA_RESTORE_STATE:
        restore_state(p);
        break;
    case CFA_GNU_ARGS_SIZE:
        cursor_uleb128(&p->c);
        break;
    default:
        p->c.failed = true;
    }
}

static void step(struct program *p)
{
    uint8_t op = cursor_u8(&p->c), low = op & 0x3f;
    switch (op & 0xc0) {
    case CFA_ADVANCE_LOC:
        advance_by(p, low);
        break;
    case CFA_OFFSET:
        set_saved_factored(p, low, CFA_SAVED_AT_OFFSET, (int64_t)cursor_uleb128(&p->c));
        break;
    case CFA_RESTORE:
        restore_register(p, low);
        break;
    default:
        /* NOPs pad every program: test for them first. */
        if (op != CFA_NOP && !step_cfa(p, op) && !step_register(p, op))
            step_other(p, op);
    }
}

int cfa_program_run(const struct eh_frame *s, const struct eh_frame_cie *cie, const struct eh_frame_fde *fde,
                    const struct cfa_registers *registers, cfa_row_fn fn, void *context, uint64_t *ret_stopped_at)
{
    struct program p; /* not zero-initialised as a whole: the stack of remembered rows */
    p.section = s;
    p.cie = cie;
    p.fde = fde;
    p.registers = registers;
    p.fn = fn;
    p.context = context;
    p.c = cie->instructions;
    p.address = fde->start;
    p.in_cie = true;
    p.past_end = false;
    p.row = (struct cfa_row){.kind = CFA_UNKNOWN};
    p.initial = p.row;
    p.remembered_count = 0;

    if (cursor_left(&p.c) > CFA_MAX_CIE_BYTES)
        p.c.failed = true;
    while (cursor_left(&p.c) > 0)
        step(&p);
    if (!p.c.failed) {
        p.initial = p.row;
        p.in_cie = false;
        p.c = fde->instructions;
        while (cursor_left(&p.c) > 0 && !p.past_end)
            step(&p);
    }
    if (p.c.failed) {
        *ret_stopped_at = p.address;
        return -ENOEXEC;
    }
    if (!p.past_end)
        fn(context, p.address, &p.row);
    return 0;
}
