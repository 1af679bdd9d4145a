/* Converts a row of call frame information, which can express nearly anything, to a rule of probes/unwind/unwind.h,
 * which can express what compilers emit. Any other row becomes UNWIND_CFA_UNSUPPORTED. A walk stops there and
 * reports why. */
#pragma once

#include "resolve/unwind/cfa_program.h"

#include <linux/types.h>

#include "probes/unwind/unwind.h"

#include <stdbool.h>
#include <stdint.h>

/* The registers to track on a machine (EM_X86_64, EM_AARCH64); `return_register` is the CIE's. */
struct cfa_registers cfi_rule_registers(uint16_t machine, uint64_t return_register);

/* `is_signal_frame`: the CIE's augmentation has an S. Unused fields of a rule are 0, so that equal rules have equal
 * bytes. */
struct unwind_rule cfi_rule_from_row(uint16_t machine, const struct cfa_row *row, bool is_signal_frame);
