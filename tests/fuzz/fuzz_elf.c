/* Any bytes as an ELF file: headers, sections (also compressed ones), notes, address conversions, the thread context
 * variable, Go's build info. */
#include "resolve/elf/elf.h"
#include "resolve/elf/go_labels.h"
#include "resolve/elf/thread_context.h"

#include <string.h>

#define SECTION_MAX_BYTES (1 << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    void *copy = malloc(size + 1);
    if (!copy)
        return 0;
    memcpy(copy, data, size);
    struct elf_file *f = NULL;
    if (elf_open_memory(copy, size, &f) < 0) {
        free(copy);
        return 0;
    }
    const struct elf_section *sections;
    size_t count = elf_sections(f, &sections);
    for (size_t i = 0; i < count && i < 64; i++) {
        void *contents = NULL;
        size_t bytes = 0;
        if (elf_section_data(f, &sections[i], SECTION_MAX_BYTES, &contents, &bytes) == 0 &&
            bytes > SECTION_MAX_BYTES)
            abort();
        free(contents);
        if (strlen(sections[i].name) > size)
            abort();
    }
    uint8_t id[64];
    if (elf_build_id(f, id) > sizeof(id))
        abort();
    uint64_t offset, vaddr;
    if (elf_offset_from_vaddr(f, elf_entry(f), &offset) == 0 && elf_vaddr_from_offset(f, offset, &vaddr) < 0)
        abort(); /* the segment that gave the offset contains it */
    (void)elf_section(f, ".text");
    struct thread_context_symbol context = {0};
    if (thread_context_read(f, &context) == 0 && context.kind == THREAD_CONTEXT_NONE)
        abort();
    struct go_labels_file go = {0};
    if (go_labels_read(f, &go) == 0 && (go.layout.kind == GO_LABELS_NONE || !memchr(go.version, 0, sizeof(go.version))))
        abort();
    elf_file_free(f);
    return 0;
}
