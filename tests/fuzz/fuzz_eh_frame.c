/* Any bytes as the call frame information of a sound file: what is built must be a table whose every search
 * ends in a rule. The last byte chooses machine and section, the others are the section's contents. */
#include "cfi_check.h"

#include <elf.h>
#include <string.h>

#define CODE_VADDR  0x1000
#define CODE_OFFSET 0x1000
#define CODE_BYTES  0x2000
#define FRAME_VADDR 0x4000

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct head {
    Elf64_Ehdr header;
    Elf64_Phdr segments[2];
    Elf64_Shdr sections[3];
    char names[40];
};

/* A file with one code segment and `contents` as .eh_frame or .debug_frame. */
static void *make_file(bool arm, bool debug, const uint8_t *contents, size_t size, size_t *ret_size)
{
    size_t total = CODE_OFFSET + CODE_BYTES + size;
    uint8_t *file = calloc(1, total);
    if (!file)
        return NULL;
    struct head *h = (struct head *)file;
    memcpy(h->header.e_ident, ELFMAG "\2\1\1", 7);
    h->header.e_type = ET_DYN;
    h->header.e_machine = arm ? EM_AARCH64 : EM_X86_64;
    h->header.e_entry = CODE_VADDR;
    h->header.e_phoff = offsetof(struct head, segments);
    h->header.e_phentsize = sizeof(Elf64_Phdr);
    h->header.e_phnum = 2;
    h->header.e_shoff = offsetof(struct head, sections);
    h->header.e_shentsize = sizeof(Elf64_Shdr);
    h->header.e_shnum = 3;
    h->header.e_shstrndx = 2;
    h->segments[0] = (Elf64_Phdr){.p_type = PT_LOAD,
                                  .p_flags = PF_R | PF_X,
                                  .p_offset = CODE_OFFSET,
                                  .p_vaddr = CODE_VADDR,
                                  .p_filesz = CODE_BYTES,
                                  .p_memsz = CODE_BYTES};
    h->segments[1] = (Elf64_Phdr){.p_type = PT_LOAD,
                                  .p_flags = PF_R,
                                  .p_offset = CODE_OFFSET + CODE_BYTES,
                                  .p_vaddr = FRAME_VADDR,
                                  .p_filesz = size,
                                  .p_memsz = size};
    memcpy(h->names, "\0.eh_frame\0.debug_frame\0.names", 31);
    h->sections[1] = (Elf64_Shdr){.sh_name = debug ? 11 : 1,
                                  .sh_type = SHT_PROGBITS,
                                  .sh_addr = FRAME_VADDR,
                                  .sh_offset = CODE_OFFSET + CODE_BYTES,
                                  .sh_size = size};
    h->sections[2] = (Elf64_Shdr){
        .sh_name = 24, .sh_type = SHT_STRTAB, .sh_offset = offsetof(struct head, names), .sh_size = 31};
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
