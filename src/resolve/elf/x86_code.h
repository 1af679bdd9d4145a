/* Reads x86-64 instructions one after another: their lengths, their direct targets, and what the kernel's uprobes make
 * of them. Only what compilers emit at the start of C functions is known. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum x86_kind {
    X86_OTHER,
    X86_PUSH,
    X86_NOP,
    X86_ENDBR,  /* endbr64 */
    X86_JUMP,   /* direct */
    X86_BRANCH, /* conditional */
    X86_CALL,   /* direct */
    X86_END,    /* nothing continues behind it: a return, an indirect jump, a trap */
};

struct x86_instruction {
    uint8_t bytes; /* its length */
    enum x86_kind kind;
    bool is_emulated;     /* the kernel emulates it at a uprobe; any other one it single-steps, at about 14 us a hit */
    bool keeps_arguments; /* it is known not to write rdi, rsi, rdx and rcx, which hold a function's arguments */
    uint64_t target;      /* of a direct call, jump or branch */
    bool is_store;        /* a move or arithmetic that writes memory by a register, but not to the function's frame */
};

/* Decodes the instruction at `code`, whose address is `address`. False: unknown, or longer than `size` bytes. */
bool x86_decode(const uint8_t *code, size_t size, uint64_t address, struct x86_instruction *ret);
