/* What the errors mean that NVIDIA's driver logs (Xid), and what to do about them. Static tables. */
#pragma once

#include <stdint.h>

struct xid {
    uint32_t code;
    const char *meaning; /* "an illegal memory access of a kernel" */
    const char *action;  /* "restart the application" */
};

/* Never NULL: a code that is not in the catalogue has the general advice. */
const struct xid *xid_find(uint32_t code);
