/* Runs the instructions of one function's call frame information (the whole set of DWARF 5, section 6.4.2,
 * and GNU's and arm64's own) and hands out its rows: from this address on, the canonical frame address and
 * the registers that a walk needs are found so. What rows cannot express is handed out too: it is the caller
 * who knows what they can hold. */
#pragma once

#include "resolve/unwind/eh_frame.h"

#include <stdint.h>

enum cfa_kind {
    CFA_UNKNOWN,  /* no instruction said anything yet */
    CFA_REGISTER, /* register + offset */
    CFA_EXPRESSION,
};

enum cfa_saved_kind {
    CFA_SAVED_UNSPECIFIED, /* as the ABI has it: kept registers keep their values */
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
    int64_t offset;            /* or the register's number */
    const uint8_t *expression; /* borrowed from the section */
    size_t expression_bytes;
};

/* Registers whose saved places are followed. */
enum cfa_tracked { CFA_TRACK_FP, CFA_TRACK_RA, CFA_TRACK_BX, CFA_TRACK_COUNT };

struct cfa_row {
    enum cfa_kind kind;
    uint64_t register_number;
    int64_t offset;
    const uint8_t *expression;
    size_t expression_bytes;
    struct cfa_saved saved[CFA_TRACK_COUNT];
};

/* The DWARF numbers of the tracked registers; UINT64_MAX: this machine has none. */
struct cfa_registers {
    uint64_t number[CFA_TRACK_COUNT];
};

typedef void (*cfa_row_fn)(void *context, uint64_t address, const struct cfa_row *row);

/* Calls `fn` with ascending addresses, the first of them fde->start, all below fde->end. -ENOEXEC: the
 * instructions are damaged from some place on; the rows handed out until then are good, and `*ret_stopped_at`
 * is the address from which nothing is known. */
int cfa_program_run(const struct eh_frame *s, const struct eh_frame_cie *cie, const struct eh_frame_fde *fde,
                    const struct cfa_registers *registers, cfa_row_fn fn, void *context, uint64_t *ret_stopped_at);
