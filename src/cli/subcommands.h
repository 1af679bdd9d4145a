/* The verbs of the command line, one file each. */
#pragma once

#include "cli/options.h"

extern const struct verb subcommand_up, subcommand_agent, subcommand_record, subcommand_diff, subcommand_why,
    subcommand_trace, subcommand_probes, subcommand_bpf, subcommand_doctor;

/* Ended by NULL; the order of `sonde --help`. */
extern const struct verb *const verbs[];
