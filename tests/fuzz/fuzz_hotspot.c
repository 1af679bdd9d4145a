/* A Java method record from the BPF side, with any memory contents: name and file are UTF-8 without control
 * characters; any line table ends. */
#include "check_name.h"

#include "resolve/interpreter/interpreter.h"

#include <stdlib.h>
#include <string.h>

#include "probes/hotspot.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    union {
        struct hotspot_method m;
        uint8_t bytes[sizeof(struct hotspot_method) + 256];
    } memory = {0};
    struct hotspot_method *record = &memory.m;
    struct interpreted_name name;
    void *hotspot;
    if (interpreter_hotspot.open(1 << 20, &hotspot) < 0)
        abort();
    memcpy(&memory, data, size < sizeof(memory) ? size : sizeof(memory));
    record->h.size_bytes = sizeof(memory);
    record->lines_bytes %= 257;
    if (interpreter_hotspot.take(hotspot, &record->h) < 0)
        abort();
    const struct interpreter_entry entry = {
        .code = record->method, .check = record->check, .instruction = record->h.tid};
    if (interpreter_hotspot.find(hotspot, record->h.pid, &entry, &name) < 0)
        abort();
    check_name(name.function);
    check_name(name.file);
    interpreter_hotspot.free(hotspot);
    return 0;
}
