/* CPU samples: the source of signal "cpu". It has no options beyond the shared services. Pipeline thread only. */
#pragma once

#include "sources/source.h"

extern const struct source source_cpu;
