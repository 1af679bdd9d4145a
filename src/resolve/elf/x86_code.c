/* See x86_code.h. Lengths by the opcode maps of the Intel SDM, volume 2, appendix A. What the kernel emulates: push of
 * a register without a prefix other than 0x41, nop of one byte, direct calls, jumps and branches
 * (arch/x86/kernel/uprobes.c). */
#include "resolve/elf/x86_code.h"

#include <string.h>

#define ESCAPE    0x0f
#define REX_W     8
#define SI_DI     0xc0 /* the registers 6 and 7, */
#define DX_CX     0x06 /* and 1 and 2, as bits */
#define REX_B     1
#define SP        4
#define BP        5
#define PREFIXES  4
#define BYTES_MAX 15

/* How far an instruction has been read. */
struct reader {
    const uint8_t *code;
    size_t size, at;
    uint8_t rex;
    bool is_short; /* has the prefix 0x66: immediates have 16 bits instead of 32 */
};

/* No instruction is longer than `BYTES_MAX`. */
static bool has(const struct reader *r, size_t bytes)
{
    return r->at + bytes <= r->size && r->at + bytes <= BYTES_MAX;
}

/* False: too many, or the code ends. */
static bool skip_prefixes(struct reader *r)
{
    for (; has(r, 1); r->at++) {
        const uint8_t b = r->code[r->at];
        if (r->at > PREFIXES)
            return false;
        if (b == 0x66)
            r->is_short = true;
        else if (b != 0xf0 && b != 0xf2 && b != 0xf3 && b != 0x2e && b != 0x3e && b != 0x64 && b != 0x65)
            break;
    }
    if (has(r, 1) && (r->code[r->at] & 0xf0) == 0x40)
        r->rex = r->code[r->at++];
    return has(r, 1);
}

/* Length of a ModRM byte with its SIB byte and displacement; 0: the code ends. */
static size_t operand_bytes(const struct reader *r)
{
    if (!has(r, 1))
        return 0;
    const uint8_t modrm = r->code[r->at], mod = modrm >> 6, rm = modrm & 7;
    size_t bytes = 1;
    bool has_base = true;
    if (mod == 3)
        return 1;
    if (rm == 4) {
        if (!has(r, 2))
            return 0;
        has_base = (r->code[r->at + 1] & 7) != 5;
        bytes++;
    } else if (rm == 5) {
        has_base = false;
    }
    return bytes + (mod == 1 ? 1 : mod == 2 || !has_base ? 4 : 0);
}

/* Which opcodes have a ModRM byte. */
static bool has_operand(uint8_t opcode)
{
    if (opcode < 0x40)
        return (opcode & 7) < 4;
    return opcode == 0x63 || opcode == 0x69 || opcode == 0x6b || (opcode >= 0x80 && opcode <= 0x8f) ||
           (opcode & 0xfe) == 0xc0 || (opcode & 0xfe) == 0xc6 || (opcode >= 0xd0 && opcode <= 0xd3) ||
           (opcode >= 0xd8 && opcode <= 0xdf) || (opcode & 0xfe) == 0xf6 || (opcode & 0xfe) == 0xfe;
}

/* Whether an opcode without a ModRM byte is known. */
static bool is_plain(uint8_t opcode)
{
    if (opcode < 0x40)
        return (opcode & 7) == 4 || (opcode & 7) == 5;
    return (opcode >= 0x50 && opcode <= 0x5f) || opcode == 0x68 || opcode == 0x6a ||
           (opcode >= 0x70 && opcode <= 0x7f) || (opcode >= 0x90 && opcode <= 0x99) ||
           (opcode >= 0xa4 && opcode <= 0xbf) || opcode == 0xc3 || opcode == 0xc9 || opcode == 0xcc || opcode == 0xe8 ||
           opcode == 0xe9 || opcode == 0xeb || opcode == 0xf4;
}

/* `reg`: the middle field of the ModRM byte, an extension of some opcodes. */
static size_t immediate_bytes(const struct reader *r, uint8_t opcode, uint8_t reg)
{
    const size_t wide = r->is_short ? 2 : 4;
    if (opcode < 0x40)
        return (opcode & 7) == 4 ? 1 : (opcode & 7) == 5 ? wide : 0;
    if (opcode >= 0xb8 && opcode <= 0xbf)
        return r->rex & REX_W ? 8 : wide;
    switch (opcode) {
    case 0xe8:
    case 0xe9:
        return 4;
    case 0x68:
    case 0x69:
    case 0x81:
    case 0xa9:
    case 0xc7:
        return wide;
    case 0x6a:
    case 0x6b:
    case 0x80:
    case 0x83:
    case 0xa8:
    case 0xc0:
    case 0xc1:
    case 0xc6:
    case 0xeb:
        return 1;
    case 0xf6:
        return reg < 2 ? 1 : 0;
    case 0xf7:
        return reg < 2 ? wide : 0;
    }
    return (opcode >= 0x70 && opcode <= 0x7f) || (opcode >= 0xb0 && opcode <= 0xb7) ? 1 : 0;
}

/* Of opcodes behind 0x0f. */
static bool is_branch2(uint8_t opcode)
{
    return opcode >= 0x80 && opcode <= 0x8f;
}

static bool is_plain2(uint8_t opcode)
{
    return opcode == 0x05 || opcode == 0x0b || opcode == 0x31 || opcode == 0x77 || opcode == 0xa2 ||
           (opcode >= 0xc8 && opcode <= 0xcf) || is_branch2(opcode);
}

static size_t immediate2_bytes(uint8_t opcode)
{
    if (is_branch2(opcode))
        return 4;
    return (opcode >= 0x70 && opcode <= 0x73) || opcode == 0xa4 || opcode == 0xac || opcode == 0xba || opcode == 0xc2 ||
                   (opcode >= 0xc4 && opcode <= 0xc6)
               ? 1
               : 0;
}

static enum x86_kind kind_of(uint8_t opcode, uint8_t reg)
{
    if (opcode >= 0x50 && opcode <= 0x57)
        return X86_PUSH;
    if (opcode >= 0x70 && opcode <= 0x7f)
        return X86_BRANCH;
    switch (opcode) {
    case 0x90:
        return X86_NOP;
    case 0xe8:
        return X86_CALL;
    case 0xe9:
    case 0xeb:
        return X86_JUMP;
    case 0xc3:
    case 0xcc:
    case 0xf4:
        return X86_END;
    case 0xff:
        return reg == 4 || reg == 5 ? X86_END : X86_OTHER;
    }
    return X86_OTHER;
}

/* Whether it is an arithmetic instruction or a move that writes no register of an argument. */
static bool keeps_arguments(const struct reader *r, uint8_t opcode, uint8_t modrm)
{
    const bool to_memory = modrm >> 6 != 3;
    const unsigned reg = 1u << (modrm >> 3 & 7), rm = 1u << (modrm & 7);
    if (opcode == 0x85 || opcode == 0x39 || opcode == 0x3b) /* test, cmp */
        return true;
    if (opcode == 0x8b || opcode == 0x33)
        return r->rex & 4 || !(reg & (SI_DI | DX_CX));
    if (opcode == 0x89 || opcode == 0x31 || opcode == 0x83 || opcode == 0x81)
        return to_memory || r->rex & 1 || !(rm & (SI_DI | DX_CX));
    return false;
}

/* Whether the operand at `r->at` is memory by a register other than rsp, and other than rbp below its frame's begin. */
static bool is_foreign_memory(const struct reader *r)
{
    const uint8_t *operand = r->code + r->at, mod = operand[0] >> 6, rm = operand[0] & 7;
    if (mod == 3)
        return false;
    const uint8_t base = rm == SP ? operand[1] & 7 : rm, *displacement = operand + (rm == SP ? 2 : 1);
    if (mod == 0 && base == BP) /* an address without a base */
        return false;
    if (r->rex & REX_B || (base != SP && base != BP))
        return true;
    return base == BP && displacement[mod == 1 ? 0 : 3] < 0x80;
}

/* `reg`: as above. */
static bool is_store(const struct reader *r, uint8_t opcode, uint8_t reg)
{
    const bool writes = (opcode < 0x38 && (opcode & 7) < 2) || opcode == 0x88 || opcode == 0x89 || opcode == 0xc6 ||
                        opcode == 0xc7 || ((opcode == 0x80 || opcode == 0x81 || opcode == 0x83) && reg != 7);
    return writes && is_foreign_memory(r);
}

/* Of moves from SSE's registers. */
static bool is_store2(const struct reader *r, uint8_t opcode)
{
    return (opcode == 0x11 || opcode == 0x13 || opcode == 0x17 || opcode == 0x29 || opcode == 0x7f || opcode == 0xd6) &&
           is_foreign_memory(r);
}

static uint64_t relative_target(const struct reader *r, uint64_t address, size_t bytes)
{
    int32_t wide = 0;
    if (bytes == 1)
        return address + r->at + (uint64_t)(int64_t)(int8_t)r->code[r->at - 1];
    memcpy(&wide, r->code + r->at - 4, sizeof(wide));
    return address + r->at + (uint64_t)(int64_t)wide;
}

static bool decode_two_bytes(struct reader *r, uint64_t address, struct x86_instruction *ret)
{
    static const uint8_t endbr64[] = {0xf3, 0x0f, 0x1e, 0xfa};
    const bool is_first = r->at == 2 && r->code[0] == 0xf3;
    if (!has(r, 1))
        return false;
    const uint8_t opcode = r->code[r->at++];
    if (opcode == 0x38 || opcode == 0x3a) /* three bytes */
        return false;
    const size_t operand = is_plain2(opcode) ? 0 : operand_bytes(r), immediate = immediate2_bytes(opcode);
    if ((!operand && !is_plain2(opcode)) || !has(r, operand + immediate))
        return false;
    const bool stores = operand && is_store2(r, opcode);
    r->at += operand + immediate;
    *ret = (struct x86_instruction){.bytes = (uint8_t)r->at, .is_store = stores};
    if (is_first && r->at == sizeof(endbr64) && memcmp(r->code, endbr64, sizeof(endbr64)) == 0) {
        ret->kind = X86_ENDBR;
        ret->keeps_arguments = true;
    }
    if (opcode == 0x0b)
        ret->kind = X86_END;
    if (is_branch2(opcode)) {
        ret->kind = X86_BRANCH;
        ret->is_emulated = !r->is_short;
        ret->target = relative_target(r, address, 4);
    }
    return true;
}

bool x86_decode(const uint8_t *code, size_t size, uint64_t address, struct x86_instruction *ret)
{
    struct reader r = {.code = code, .size = size};
    if (!skip_prefixes(&r))
        return false;
    const size_t prefixes = r.at;
    const uint8_t opcode = r.code[r.at++];
    if (opcode == ESCAPE)
        return decode_two_bytes(&r, address, ret);
    if (!has_operand(opcode) && !is_plain(opcode))
        return false;
    const size_t operand = has_operand(opcode) ? operand_bytes(&r) : 0;
    if (has_operand(opcode) && (!operand || !has(&r, operand)))
        return false;
    const uint8_t modrm = operand ? r.code[r.at] : 0;
    const size_t immediate = immediate_bytes(&r, opcode, modrm >> 3 & 7);
    const bool stores = operand && is_store(&r, opcode, modrm >> 3 & 7);
    r.at += operand;
    if (!has(&r, immediate))
        return false;
    r.at += immediate;
    *ret = (struct x86_instruction){.bytes = (uint8_t)r.at, .kind = kind_of(opcode, modrm >> 3 & 7)};
    const bool is_relative = ret->kind == X86_CALL || ret->kind == X86_JUMP || ret->kind == X86_BRANCH;
    if (is_relative)
        ret->target = relative_target(&r, address, immediate);
    ret->is_emulated = (is_relative || ret->kind == X86_PUSH || ret->kind == X86_NOP) &&
                       (prefixes == 0 || (ret->kind == X86_PUSH && prefixes == 1 && r.rex == 0x41));
    ret->is_store = stores;
    ret->keeps_arguments = operand && keeps_arguments(&r, opcode, modrm);
    return true;
}
