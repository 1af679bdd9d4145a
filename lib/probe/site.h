/* The machine's part of a probe: the few bytes that a consumer's breakpoint replaces, and where a call has
 * put the arguments when they run.
 *
 * A probe is a function that does nothing. It is called with its arguments as C calls, so at its first
 * instruction they lie where the ABI says, the first in registers, the others on the stack, and nothing that
 * the breakpoint could spoil is alive. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define PROBE_OPERAND_MAX 24
#define PROBE_STUB_SIZE   16 /* bytes from one stub to the next */

/* A stub is called with at least as many arguments as its probe has declared; at the others nobody looks. */
typedef void (*probe_stub)(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t);
typedef void (*probe_long_stub)(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t,
                                uint64_t, uint64_t, uint64_t, uint64_t);

struct probe_site {
    uint8_t code[PROBE_STUB_SIZE]; /* the stub; a consumer attaches to its first instruction */
    size_t size;
};

/* The ELF machine that we are, or 0 where probes cannot be made. */
uint16_t probe_site_machine(void);

/* The stub that costs least on this kernel when somebody is attached; never one whose first instruction the
 * kernel would single-step. */
const struct probe_site *probe_site_choose(void);

/* Where the argument `index` (from 0) is at the stub's first instruction, as notes have it: "%rdi",
 * "8(%rsp)". */
void probe_site_operand(unsigned index, char out[static PROBE_OPERAND_MAX]);

/* Fills `size` bytes with instructions that return: entered anywhere a stub may have been left, they do what
 * the stub would have done. */
void probe_site_fill_with_returns(void *code, size_t size);

/* The rules by which a debugger leaves a stub: an .eh_frame for `text_size` bytes that begin `text_distance`
 * bytes after its own first byte. Returns its size, at most PROBE_EH_FRAME_MAX. */
#define PROBE_EH_FRAME_MAX 64
size_t probe_site_eh_frame(int32_t text_distance, uint32_t text_size, uint8_t out[static PROBE_EH_FRAME_MAX]);
