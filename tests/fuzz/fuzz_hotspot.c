/* A Java method record from the BPF side, with any memory contents: name and file are UTF-8 without control
 * characters. */
#include "check_name.h"

#include "resolve/interpreter/interpreter.h"

#include <stdlib.h>
#include <string.h>

#include "probes/hotspot.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct hotspot_method record = {0};
    struct interpreted_name name;
    void *hotspot;
    if (interpreter_hotspot.open(1 << 20, &hotspot) < 0)
        abort();
    memcpy(&record, data, size < sizeof(record) ? size : sizeof(record));
    record.h.size_bytes = sizeof(record);
    if (interpreter_hotspot.take(hotspot, &record.h) < 0)
        abort();
    const struct interpreter_entry entry = {.code = record.method, .check = record.check};
    if (interpreter_hotspot.find(hotspot, record.h.pid, &entry, &name) < 0)
        abort();
    check_name(name.function);
    check_name(name.file);
    interpreter_hotspot.free(hotspot);
    return 0;
}
