/* HTTP requests: the source of signal "request". It has no options beyond the shared services. Pipeline thread only. */
#pragma once

#include "sources/source.h"

extern const struct source source_request;
