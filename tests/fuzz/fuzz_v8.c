/* Memory and files of a process: a V8 function record from the BPF side, which has a name of UTF-8 without control
 * characters or none; and the same bytes as an ELF file that publishes V8's structures. */
#include "check_name.h"

#include "resolve/elf/elf.h"
#include "resolve/interpreter/interpreter.h"
#include "resolve/interpreter/v8_layout.h"

#include <stdlib.h>
#include <string.h>

static void take_code(const uint8_t *data, size_t size)
{
    struct v8_code *record = calloc(1, size + 8);
    void *v8;
    if (!record || interpreter_v8.open(1 << 20, &v8) < 0)
        abort();
    memcpy(record, data, size);
    record->h.size_bytes = (__u32)size;
    if (interpreter_v8.take(v8, &record->h) == 0) {
        const struct interpreter_entry entry = {record->code, 1, record->check};
        struct interpreted_name name;
        if (interpreter_v8.find(v8, record->h.pid, &entry, &name) == 0) {
            check_name(name.function);
            check_name(name.file);
            (void)(interpreter_v8.is_part(name.function) || interpreter_v8.is_evaluator(name.function));
        }
    }
    interpreter_v8.free(v8);
    free(record);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    _cleanup_(elf_file_freep) struct elf_file *elf = NULL;
    struct v8_layout layout;
    if (size >= sizeof(struct v8_code))
        take_code(data, size);
    void *copy = malloc(size + 1);
    if (!copy)
        abort();
    memcpy(copy, data, size);
    if (elf_open_memory(copy, size, &elf) < 0)
        free(copy);
    else if (v8_layout_read(elf, &layout) == 0 && (layout.context_last == 0 || layout.frame_function >= 0))
        abort();
    return 0;
}
