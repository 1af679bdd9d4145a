/* Any bytes as an ELF file whose unwinding rows are wanted: what is built must be a table whose every search
 * ends in a rule. */
#include "cfi_check.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    void *file = malloc(size + 1);
    if (!file)
        return 0;
    memcpy(file, data, size);
    struct elf_file *f = NULL;
    if (elf_open_memory(file, size, &f) < 0) {
        free(file);
        return 0;
    }
    struct unwind_table *t = NULL;
    if (cfi_build(f, &t) == 0)
        check_table(t);
    unwind_table_free(t);
    elf_file_free(f);
    return 0;
}
