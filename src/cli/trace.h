/* The verbs behind `sonde trace`, one file each. */
#pragma once

#include "cli/options.h"

extern const struct verb trace_subcommand_summary, trace_subcommand_show, trace_subcommand_convert;
