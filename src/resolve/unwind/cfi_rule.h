/* From a row of call frame information, which can say nearly anything, to a rule of probes/unwind/unwind.h,
 * which holds what programs really do. What does not fit becomes UNWIND_CFA_UNSUPPORTED, so that a walk stops
 * there and says so. */
#pragma once

#include "resolve/unwind/cfa_program.h"

#include <linux/types.h>

#include "probes/unwind/unwind.h"

#include <stdbool.h>
#include <stdint.h>

/* The registers to follow on a machine (EM_X86_64, EM_AARCH64); `return_register` is the CIE's. */
struct cfa_registers cfi_rule_registers(uint16_t machine, uint64_t return_register);

/* `is_signal_frame`: the augmentation has an S. Fields that a rule does not use are 0, so that equal rules
 * are equal bytes. */
struct unwind_rule cfi_rule_from_row(uint16_t machine, const struct cfa_row *row, bool is_signal_frame);
