/* What is of a Python interpreter in the memory of a process that has none: its structures, of a version's
 * layout, and C functions that push its frames as its evaluator does. */
#pragma once

#include <linux/types.h>

#include "probes/python.h"

#include <stdint.h>

#define FRAMES_A_RUN 3
#define RUNS_MAX     600

enum lie {
    TRUTH,
    TWO_INTERPRETERS,
    CIRCLE,
    NOWHERE,
    ENDS_TOO_EARLY,
    UNLIKE,
    NOT_ON_THE_STACK,
    NO_THREAD,
    NO_CODE,
    UNEVEN
};

struct fake_text;

struct fake_code {
    uint64_t object[2];
    int32_t first_line, reserved;
    struct fake_text *file, *name;
    const void *lines;
    uint64_t rest[6];
    uint16_t instructions[8];
};

extern struct fake_code fake_codes[FRAMES_A_RUN]; /* of the functions a, b and c in x/y.py, from line 1, 2 and 3 */
extern const char *const fake_lines;              /* of each, five bytes */

/* The code of the evaluators, whose frames are looked for on stacks. */
extern const char __start_code_evaluate[], __stop_code_evaluate[];

struct python_layout fake_python_layout(unsigned flags);
/* Fills the structures, which a child that is forked afterwards has. */
void fake_python_set_up(unsigned flags, enum lie lie);
/* In that child: pushes so many frames, or runs of frames, and serves as a workload (workload.h) on top of
 * them. */
_Noreturn void fake_python_enter(unsigned flags, int runs, enum lie lie);
