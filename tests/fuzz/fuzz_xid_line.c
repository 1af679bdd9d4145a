/* Lines of the kernel log: a line that is accepted is one of the kernel's, and its texts are terminated. */
#include "sources/gpu/xid_line.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct gpu_xid xid;
    if (!xid_line_parse((const char *)data, size, &xid))
        return 0;
    if (!memchr(xid.pci, 0, sizeof(xid.pci)) || !memchr(xid.process, 0, sizeof(xid.process)) ||
        !memchr(xid.text, 0, sizeof(xid.text)) || !xid.pci[0] || !memmem(data, size, ";NVRM: Xid (", 12))
        abort();
    return 0;
}
