/* The architecture-specific part of a probe: the instruction that a tracer's breakpoint replaces, and the location of
 * the arguments when it is reached.
 *
 * A probe site is an empty function. It is called with the arguments in the C calling convention, so at its first
 * instruction they are where the ABI puts them, in registers and then on the stack, and no other live state can be
 * damaged by the breakpoint. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define PROBE_OPERAND_MAX 24
#define PROBE_STUB_SIZE   16 /* distance between stubs in bytes */

/* A stub is called with at least as many arguments as its probe declares; excess arguments are ignored. */
typedef void (*probe_stub)(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t);
typedef void (*probe_long_stub)(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t,
                                uint64_t, uint64_t, uint64_t, uint64_t);

struct probe_site {
    uint8_t code[PROBE_STUB_SIZE]; /* the stub; a tracer attaches to its first instruction */
    size_t size;
};

/* The ELF machine of this process, or 0 where probes are not supported. */
uint16_t probe_site_machine(void);

/* The stub with the lowest cost on this kernel while a tracer is attached; never one whose first instruction the
 * kernel would single-step. */
const struct probe_site *probe_site_choose(void);

/* Writes the location of argument `index` (from 0) at the stub's first instruction, in USDT operand syntax: "%rdi",
 * "8(%rsp)". */
void probe_site_operand(unsigned index, char out[static PROBE_OPERAND_MAX]);

/* Fills `size` bytes with return instructions: a thread that enters at any stub offset returns at once, as the stub
 * would. */
void probe_site_fill_with_returns(void *code, size_t size);

/* Writes the unwind information of the stubs: an .eh_frame for `text_size` bytes that begin `text_distance` bytes
 * after the first byte of the .eh_frame. Returns its size, at most PROBE_EH_FRAME_MAX. */
#define PROBE_EH_FRAME_MAX 64
size_t probe_site_eh_frame(int32_t text_distance, uint32_t text_size, uint8_t out[static PROBE_EH_FRAME_MAX]);
