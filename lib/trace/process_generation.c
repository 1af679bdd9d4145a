/* See process_generation.h. */
#include "process_generation.h"

atomic_uint trace_generation;
