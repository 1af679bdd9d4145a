/* Any bytes as an ELF file: the unwind table built from it must return a rule for every lookup, and so must the
 * finder, which works without the table. */
#include "cfi_check.h"
#include "resolve/unwind/cfi_finder.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Takes ownership of the file. */
static void check_finder(struct elf_file *f, size_t size)
{
    struct cfi_finder *finder = NULL;
    if (cfi_finder_new(f, &finder) < 0) {
        elf_file_free(f);
        return;
    }
    for (size_t i = 0; i < 64; i++) {
        struct unwind_rule rule;
        if (cfi_finder_find(finder, (uint32_t)(size * i / 64), &rule) == 0 &&
            (rule.cfa > UNWIND_CFA_UNSUPPORTED || rule.fp > UNWIND_FP_UNDEFINED))
            abort();
    }
    cfi_finder_free(finder);
}

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
    check_finder(f, size);
    return 0;
}
