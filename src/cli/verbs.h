/* The verbs of the command line, one file each. */
#pragma once

#include "cli/options.h"

extern const struct verb verb_up, verb_agent, verb_record, verb_diff, verb_why, verb_trace, verb_probes, verb_bpf, verb_doctor;

/* Ended by NULL; the order of `sonde --help`. */
extern const struct verb *const verbs[];
