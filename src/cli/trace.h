/* The verbs behind `sonde trace`, one file each. */
#pragma once

#include "cli/options.h"

extern const struct verb trace_verb_summary, trace_verb_show, trace_verb_convert;
