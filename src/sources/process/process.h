/* Process lifecycle events: the source of signal "process". It uses no shared tables and has no options. Pipeline
 * thread only. */
#pragma once

#include "sources/source.h"

extern const struct source source_process;
