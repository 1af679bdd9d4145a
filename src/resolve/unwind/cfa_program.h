/* Interprets the call frame instructions of one FDE (all of DWARF 5, section 6.4.2, and the extensions of GNU and
 * arm64) and emits its rows: from an address on, how to compute the canonical frame address (CFA) and where the
 * registers that a walk needs are saved. Rows are emitted as they are; the caller decides which of them unwind rules
 * can express (cfi_rule.h). */
#pragma once

#include "resolve/unwind/eh_frame.h"

#include <stdint.h>

enum cfa_kind {
    CFA_UNKNOWN,  /* not defined yet */
    CFA_REGISTER, /* register + offset */
    CFA_EXPRESSION,
};

enum cfa_saved_kind {
    CFA_SAVED_UNSPECIFIED, /* not mentioned: as the ABI defines; callee-saved registers */
    CFA_SAVED_UNDEFINED,
    CFA_SAVED_SAME,
    CFA_SAVED_AT_OFFSET, /* stored at CFA + offset */
    CFA_SAVED_IS_OFFSET, /* the value is CFA + offset */
    CFA_SAVED_IN_REGISTER,
    CFA_SAVED_AT_EXPRESSION,
    CFA_SAVED_IS_EXPRESSION,
};

struct cfa_saved {
    enum cfa_saved_kind kind;
    int64_t offset;            /* or the register number, for CFA_SAVED_IN_REGISTER */
    const uint8_t *expression; /* borrowed from the section */
    size_t expression_bytes;
};

/* The registers whose save locations are tracked. */
enum cfa_tracked { CFA_TRACK_FP, CFA_TRACK_RA, CFA_TRACK_BX, CFA_TRACK_COUNT };

struct cfa_row {
    enum cfa_kind kind;
    uint64_t register_number;
    int64_t offset;
    const uint8_t *expression;
    size_t expression_bytes;
    struct cfa_saved saved[CFA_TRACK_COUNT];
};

/* DWARF numbers of the tracked registers; UINT64_MAX: the machine has no such register. */
struct cfa_registers {
    uint64_t number[CFA_TRACK_COUNT];
};

typedef void (*cfa_row_fn)(void *context, uint64_t address, const struct cfa_row *row);

/* Calls `fn` for every row, in ascending order of addresses; the first is fde->start, all are below fde->end. -ENOEXEC:
 * the instructions are damaged from some point on; the rows emitted so far are valid, and `*ret_stopped_at` is the
 * first address without a row. */
int cfa_program_run(const struct eh_frame *s, const struct eh_frame_cie *cie, const struct eh_frame_fde *fde,
                    const struct cfa_registers *registers, cfa_row_fn fn, void *context, uint64_t *ret_stopped_at);
