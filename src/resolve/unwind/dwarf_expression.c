/* Matching of expression shapes; see dwarf_expression.h. */
#include "resolve/unwind/dwarf_expression.h"

#include "base/cursor.h"

enum {
    OP_DEREF = 0x06,
    OP_AND = 0x1a,
    OP_MUL = 0x1e,
    OP_PLUS = 0x22,
    OP_PLUS_UCONST = 0x23,
    OP_SHL = 0x24,
    OP_GE = 0x2a,
    OP_LIT0 = 0x30,
    OP_LIT31 = 0x4f,
    OP_BREG0 = 0x70,
    OP_BREG31 = 0x8f,
    OP_BREGX = 0x92,
    OP_NOP = 0x96,
};

#define REGISTER_X86_64_IP 16

static bool take_register(struct cursor *c, uint32_t *ret_register, int64_t *ret_offset)
{
    uint8_t op = cursor_u8(c);
    if (op >= OP_BREG0 && op <= OP_BREG31)
        *ret_register = op - OP_BREG0;
    else if (op == OP_BREGX)
        *ret_register = (uint32_t)cursor_uleb128(c);
    else
        return false;
    *ret_offset = cursor_sleb128(c);
    return !c->failed;
}

/* Matches the rest of a PLT expression after `breg7 8; breg16 0;`: lit15; and; litN; ge; lit3; shl; plus. */
static bool take_plt_tail(struct cursor *c, uint32_t *ret_threshold)
{
    if (cursor_u8(c) != OP_LIT0 + 15 || cursor_u8(c) != OP_AND)
        return false;
    uint8_t threshold = cursor_u8(c);
    if (threshold < OP_LIT0 || threshold > OP_LIT31)
        return false;
    if (cursor_u8(c) != OP_GE || cursor_u8(c) != OP_LIT0 + 3 || cursor_u8(c) != OP_SHL || cursor_u8(c) != OP_PLUS)
        return false;
    *ret_threshold = threshold - OP_LIT0;
    return !c->failed && cursor_left(c) == 0;
}

/* Matches the rest of an indexed expression after `breg7 N; bregM 0;`: lit8; mul; plus; deref; plus_uconst K. */
static bool take_indexed_tail(struct cursor *c, int64_t *ret_add)
{
    static const uint8_t tail[] = {OP_LIT0 + 8, OP_MUL, OP_PLUS, OP_DEREF, OP_PLUS_UCONST};
    for (size_t i = 0; i < sizeof(tail); i++)
        if (cursor_u8(c) != tail[i])
            return false;
    uint64_t add = cursor_uleb128(c);
    *ret_add = (int64_t)add;
    return !c->failed && cursor_left(c) == 0 && add <= INT16_MAX;
}

struct dwarf_expression dwarf_expression_recognise(const uint8_t *data, size_t size)
{
    const struct dwarf_expression other = {.kind = DWARF_EXPRESSION_OTHER};
    struct cursor c = cursor_make(data, size);
    struct dwarf_expression e = {.kind = DWARF_EXPRESSION_REGISTER};
    if (!take_register(&c, &e.register_number, &e.offset))
        return other;

    struct cursor plt = c;
    uint32_t second;
    int64_t second_offset;
    if (take_register(&plt, &second, &second_offset)) {
        struct cursor indexed = plt;
        if (second_offset == 0 && take_indexed_tail(&indexed, &e.add)) {
            e.kind = DWARF_EXPRESSION_INDEXED;
            e.index_register = second;
            return e;
        }
        e.add = 0;
        if (second != REGISTER_X86_64_IP || second_offset != 0 || !take_plt_tail(&plt, &e.threshold))
            return other;
        e.kind = DWARF_EXPRESSION_PLT;
        return e;
    }

    int64_t *sum = &e.offset; /* additions before the dereference change the address, later ones the value */
    while (cursor_left(&c) > 0) {
        uint8_t op = cursor_u8(&c);
        uint64_t n = 0;
        if (op == OP_DEREF && e.kind == DWARF_EXPRESSION_REGISTER) {
            e.kind = DWARF_EXPRESSION_DEREF;
            sum = &e.add;
            continue;
        }
        if (op == OP_PLUS_UCONST)
            n = cursor_uleb128(&c);
        else if (op >= OP_LIT0 && op <= OP_LIT31 && cursor_u8(&c) == OP_PLUS)
            n = op - OP_LIT0;
        else if (op != OP_NOP)
            return other;
        if (c.failed || __builtin_add_overflow(*sum, n, sum))
            return other;
    }
    return c.failed ? other : e;
}
