/* Any bytes as the call frame information of an otherwise valid file: every lookup in the unwind table must return a
 * rule. The last byte selects machine and section, the others are the section's contents. */
#include "cfi_check.h"

#include "../unit/resolve/frame_file.h"

#define CODE_VADDR  0x1000
#define CODE_OFFSET 0x1000
#define CODE_BYTES  0x2000
#define FRAME_VADDR 0x4000

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A file with one code segment and `contents` as .eh_frame or .debug_frame. */
static void *make_file(bool arm, bool debug, const uint8_t *contents, size_t size, size_t *ret_size)
{
    size_t total = CODE_OFFSET + CODE_BYTES + size;
    uint8_t *file = calloc(1, total);
    if (!file)
        return NULL;
    frame_file_fill(file, &(struct frame_file){
                              .debug_frame = debug,
                              .machine = arm ? EM_AARCH64 : EM_X86_64,
                              .entry = CODE_VADDR,
                              .code_offset = CODE_OFFSET,
                              .code_vaddr = CODE_VADDR,
                              .code_bytes = CODE_BYTES,
                              .frames_offset = CODE_OFFSET + CODE_BYTES,
                              .frames_vaddr = FRAME_VADDR,
                              .frames_bytes = size,
                              .section_bytes = size,
                          });
    memcpy(file + CODE_OFFSET + CODE_BYTES, contents, size);
    *ret_size = total;
    return file;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    uint8_t choice = data[size - 1];
    size_t bytes;
    void *file = make_file(choice & 1, choice & 2, data, size - 1, &bytes);
    struct elf_file *f = NULL;
    if (!file || elf_open_memory(file, bytes, &f) < 0)
        abort();
    struct unwind_table *t = NULL;
    if (cfi_build(f, &t) == 0)
        check_table(t);
    unwind_table_free(t);
    elf_file_free(f);
    return 0;
}
