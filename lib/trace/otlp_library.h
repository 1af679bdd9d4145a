/* Where libsonde finds the transport of OTLP (otlp/transport.h): in libsonde-otlp.so, at run time, so that
 * libsonde itself needs nothing but libc. */
#pragma once

#include "../otlp/transport.h"

/* Finds the library: beside this one, then where the system looks. It stays loaded. -EOPNOTSUPP with the
 * reason in `why`. */
int trace_otlp_library_load(const struct otlp_transport **ret_transport, char *why, size_t why_size);
