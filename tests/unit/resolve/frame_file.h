/* The headers of a file with code and call frame information and nothing else, for tests and fuzzers of cfi.c. A test
 * may add one segment and one section. Header only: each test is a program of its own. */
#pragma once

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct frame_file_head {
    Elf64_Ehdr header;
    Elf64_Phdr segments[3];
    Elf64_Shdr sections[4];
    char names[64]; /* of sections: 1 .eh_frame, 11 .debug_frame, 24 .names, 31 .plt */
};

struct frame_file {
    bool debug_frame; /* otherwise .eh_frame */
    uint16_t machine;
    uint64_t entry;
    uint64_t code_offset, code_vaddr, code_bytes;
    uint64_t frames_offset, frames_vaddr, frames_bytes;
    uint64_t section_bytes; /* of the frames_bytes */
};

static inline struct frame_file_head *frame_file_fill(void *file, const struct frame_file *m)
{
    static const char names[] = "\0.eh_frame\0.debug_frame\0.names\0.plt";
    struct frame_file_head *h = file;
    h->header = (Elf64_Ehdr){
        .e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
        .e_type = ET_DYN,
        .e_machine = m->machine,
        .e_entry = m->entry,
        .e_phoff = offsetof(struct frame_file_head, segments),
        .e_phentsize = sizeof(Elf64_Phdr),
        .e_phnum = 3,
        .e_shoff = offsetof(struct frame_file_head, sections),
        .e_shentsize = sizeof(Elf64_Shdr),
        .e_shnum = 4,
        .e_shstrndx = 2,
    };
    h->segments[0] = (Elf64_Phdr){.p_type = PT_LOAD,
                                  .p_flags = PF_R | PF_X,
                                  .p_offset = m->code_offset,
                                  .p_vaddr = m->code_vaddr,
                                  .p_filesz = m->code_bytes,
                                  .p_memsz = m->code_bytes};
    h->segments[1] = (Elf64_Phdr){.p_type = PT_LOAD,
                                  .p_flags = PF_R,
                                  .p_offset = m->frames_offset,
                                  .p_vaddr = m->frames_vaddr,
                                  .p_filesz = m->frames_bytes,
                                  .p_memsz = m->frames_bytes};
    memcpy(h->names, names, sizeof(names));
    h->sections[1] = (Elf64_Shdr){.sh_name = m->debug_frame ? 11 : 1,
                                  .sh_type = SHT_PROGBITS,
                                  .sh_addr = m->frames_vaddr,
                                  .sh_offset = m->frames_offset,
                                  .sh_size = m->section_bytes};
    h->sections[2] = (Elf64_Shdr){.sh_name = 24,
                                  .sh_type = SHT_STRTAB,
                                  .sh_offset = offsetof(struct frame_file_head, names),
                                  .sh_size = sizeof(names)};
    return h;
}
