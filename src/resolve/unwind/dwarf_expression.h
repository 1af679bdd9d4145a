/* Recognises, by their shape, the few DWARF expressions that compilers, linkers and C libraries write into call frame
 * information. Nothing is evaluated: any other shape is DWARF_EXPRESSION_OTHER, and its code is marked as unsupported.
 * Pure. */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum dwarf_expression_kind {
    DWARF_EXPRESSION_OTHER,
    DWARF_EXPRESSION_REGISTER, /* register + offset */
    DWARF_EXPRESSION_DEREF,    /* *(register + offset) + add: realigned stacks (GCC), assembly that switches stacks
                                  (OpenSSL) */
    DWARF_EXPRESSION_INDEXED,  /* *(register + offset + 8 * index) + add: OpenSSL's multiplications */
    DWARF_EXPRESSION_PLT,      /* sp + offset + ((ip & 15) >= threshold) * 8: what binutils writes for PLT stubs */
};

struct dwarf_expression {
    enum dwarf_expression_kind kind;
    uint32_t register_number;
    int64_t offset;
    int64_t add;
    uint32_t threshold;
    uint32_t index_register;
};

/* Classifies the expression of `size` bytes; never fails. */
struct dwarf_expression dwarf_expression_recognise(const uint8_t *data, size_t size);
