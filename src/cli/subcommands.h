/* The subcommands of `sonde`: each is in src/cli/NAME.c, or in the directory src/cli/NAME. `agent` is in up. */
#pragma once

#include "cli/options.h"

extern const struct subcommand subcommand_up, subcommand_agent, subcommand_record, subcommand_diff, subcommand_why,
    subcommand_requests, subcommand_io, subcommand_trace, subcommand_probes, subcommand_bpf, subcommand_token,
    subcommand_doctor, subcommand_version, subcommand_events, subcommand_memory, subcommand_server, subcommand_calls,
    subcommand_gpu;

/* NULL-terminated, in the order of `sonde --help`. */
extern const struct subcommand *const subcommands[];
