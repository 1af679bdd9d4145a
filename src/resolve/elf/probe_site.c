/* See probe_site.h. */
#include "resolve/elf/probe_site.h"

#include "resolve/elf/x86_code.h"

size_t probe_code_read(const struct elf_file *f, uint64_t address, uint8_t *code, size_t max)
{
    const struct elf_segment *segments;
    const size_t count = elf_segments(f, &segments);
    for (size_t i = 0; i < count; i++) {
        const struct elf_segment *s = &segments[i];
        if (!s->executable || address < s->vaddr || address - s->vaddr >= s->file_bytes)
            continue;
        const uint64_t left = s->file_bytes - (address - s->vaddr);
        const size_t bytes = left < max ? (size_t)left : max;
        return elf_read(f, s->offset + (address - s->vaddr), code, bytes) == 0 ? bytes : 0;
    }
    return 0;
}

uint64_t probe_site_at_entry(const struct elf_file *f, uint64_t address)
{
    uint8_t code[PROBE_CODE_BYTES];
    const size_t size = probe_code_read(f, address, code, sizeof(code));
    struct x86_instruction i;
    size_t at = 0;
    if (!x86_decode(code, size, address, &i))
        return 0;
    if (i.kind == X86_ENDBR) {
        at = i.bytes;
        if (!x86_decode(code + at, size - at, address + at, &i))
            return 0;
    }
    return i.is_emulated ? address + at : 0;
}

uint64_t probe_site_with_arguments(const struct elf_file *f, uint64_t address)
{
    uint8_t code[PROBE_CODE_BYTES];
    const size_t size = probe_code_read(f, address, code, sizeof(code));
    struct x86_instruction i;
    for (size_t at = 0; at < size; at += i.bytes) {
        if (!x86_decode(code + at, size - at, address + at, &i))
            return 0;
        if (i.is_emulated)
            return address + at;
        if (!i.keeps_arguments)
            return 0;
    }
    return 0;
}
