/* zstd for packets: a seventh smaller than gzip for profiles, at four times the CPU. Only in the agent, so that
 * libsonde's transport does not depend on libzstd. */
#pragma once

#include "transport.h"

extern const struct otlp_encoding otlp_zstd;
