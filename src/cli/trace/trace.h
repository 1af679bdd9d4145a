/* The subcommands of `sonde trace`, one source file each. */
#pragma once

#include "cli/options.h"

extern const struct subcommand trace_subcommand_summary, trace_subcommand_show, trace_subcommand_convert;
