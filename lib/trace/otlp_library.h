/* Loads the OTLP transport (otlp/transport.h) from libsonde-otlp.so at run time, so that libsonde itself depends only
 * on libc. */
#pragma once

#include "../otlp/transport.h"

/* Loads the library: from the directory of libsonde, else from the system's path. It stays loaded. -EOPNOTSUPP with
 * the reason in `why`. */
int trace_otlp_library_load(const struct otlp_transport **ret_transport, char *why, size_t why_size);
