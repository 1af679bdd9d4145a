/* See opaque_port.h. */
#include "model/opaque_port.h"

const char *opaque_protocol_name(enum opaque_protocol protocol)
{
    static const char *const names[OPAQUE_PROTOCOLS] = {"unknown protocol", "TLS"};
    return names[protocol];
}
