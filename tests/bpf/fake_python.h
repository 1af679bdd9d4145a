/* Memory of a process that looks like a Python interpreter to the walk: the structures of one version's layout, and C
 * functions that push frames as its evaluator does. */
#pragma once

#include <linux/types.h>

#include "probes/python.h"

#include <stdint.h>

#define FRAMES_A_RUN 3
#define RUNS_MAX     600

enum corruption {
    INTACT,
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

extern struct fake_code fake_codes[FRAMES_A_RUN]; /* a, b and c in x/y.py, lines 1 to 3 */
extern const char *const fake_lines;              /* line table of each, five bytes */

/* Section with the code of the evaluators, whose frames the walk looks for on the stack. */
extern const char __start_code_evaluate[], __stop_code_evaluate[];

struct python_layout fake_python_layout(unsigned flags);
/* Fills the structures. Call it before the child is forked. */
void fake_python_set_up(unsigned flags, enum corruption corruption);
/* In the child: pushes that many frames, or runs of frames, and serves as a workload (workload.h) on top of them. */
_Noreturn void fake_python_enter(unsigned flags, int runs, enum corruption corruption);
