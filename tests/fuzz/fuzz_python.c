/* Memory and files of a process: a code object record from the BPF side, its names and the lines of all its
 * instructions; and the same bytes as an ELF file with an interpreter. Names are UTF-8 without control characters. */
#include "check_name.h"

#include "resolve/elf/elf.h"
#include "resolve/interpreter/interpreter.h"
#include "resolve/interpreter/python_layout.h"

#include <stdlib.h>
#include <string.h>

static void take_code(const uint8_t *data, size_t size)
{
    struct python_code *record = calloc(1, size + 8);
    void *python;
    if (!record || interpreter_cpython.open(1 << 20, &python) < 0)
        abort();
    memcpy(record, data, size);
    record->h.size_bytes = (__u32)size;
    if (interpreter_cpython.take(python, &record->h) == 0) {
        for (uint32_t offset = 0; offset < 128; offset += 2) {
            const struct interpreter_entry entry = {record->code, record->instructions + offset, record->check};
            struct interpreted_name name;
            if (interpreter_cpython.find(python, record->h.pid, &entry, &name) < 0)
                abort();
            check_name(name.function);
            check_name(name.file);
        }
    }
    interpreter_cpython.free(python);
    free(record);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    _cleanup_(elf_file_freep) struct elf_file *elf = NULL;
    struct python_file found;
    if (size >= sizeof(struct python_code))
        take_code(data, size);
    void *copy = malloc(size + 1);
    if (!copy)
        abort();
    memcpy(copy, data, size);
    if (elf_open_memory(copy, size, &elf) < 0)
        free(copy);
    else
        (void)python_layout_read(elf, true, &found);
    return 0;
}
