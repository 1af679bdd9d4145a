/* Writes the ELF object, front to back:
 *
 *     headers, build id, stubs, .eh_frame         one executable segment
 *     semaphores                                  one writable segment, on the next page: the kernel counts
 *                                                 attached tracers in it
 *     notes, symbols, names, section headers      read from the file only; bcc finds no notes in front of the stubs
 *
 * Every tracer reads the stapsdt note of type 3: address, semaphore, names, operands. A second note of type
 * 0x50, owner "sonde", holds the names of the arguments (stapsdt has no field for them):
 * "provider\0probe\0declaration\0". */
#include "image.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum section {
    S_NONE,
    S_BUILD_ID,
    S_BASE,
    S_TEXT,
    S_EH_FRAME,
    S_PROBES,
    S_STAPSDT,
    S_SONDE,
    S_SYMTAB,
    S_STRTAB,
    S_SHSTRTAB,
    S_COUNT,
};

static const char SECTION_NAMES[] =
    "\0.note.gnu.build-id\0.stapsdt.base\0.text\0.eh_frame\0.probes\0.note.stapsdt\0.note.sonde\0"
    ".symtab\0.strtab\0.shstrtab";

enum { SEGMENTS = 4, STAPSDT_TYPE = 3, SONDE_TYPE = 0x50, TEXT_ALIGN = 64 };

/* Append-only buffer. The first error is kept; later writes do nothing. */
struct writer {
    uint8_t *bytes;
    size_t size, capacity;
    int error;
    Elf64_Shdr sections[S_COUNT];
};

static void append(struct writer *w, const void *data, size_t size)
{
    if (w->error == 0 && w->capacity - w->size < size) {
        size_t capacity = (w->size + size) * 2;
        uint8_t *bytes = realloc(w->bytes, capacity);
        if (bytes) {
            w->bytes = bytes;
            w->capacity = capacity;
        } else {
            w->error = -ENOMEM;
        }
    }
    if (w->error == 0 && size > 0) {
        if (data)
            memcpy(w->bytes + w->size, data, size);
        else
            memset(w->bytes + w->size, 0, size);
    }
    w->size += size;
}

static void append_string(struct writer *w, const char *text)
{
    append(w, text, strlen(text) + 1);
}

static void align(struct writer *w, size_t alignment)
{
    append(w, NULL, (alignment - w->size % alignment) % alignment);
}

static size_t begin(struct writer *w, enum section section, uint32_t type, uint64_t flags, size_t alignment)
{
    align(w, alignment);
    w->sections[section] = (Elf64_Shdr){.sh_type = type,
                                        .sh_flags = flags,
                                        .sh_addr = flags & SHF_ALLOC ? w->size : 0,
                                        .sh_offset = w->size,
                                        .sh_addralign = alignment};
    return w->size;
}

static void end(struct writer *w, enum section section)
{
    w->sections[section].sh_size = w->size - w->sections[section].sh_offset;
}

/* Header of a note whose description is `size` bytes. */
static void append_note(struct writer *w, const char *owner, uint32_t type, size_t size)
{
    Elf64_Nhdr head = {.n_namesz = (uint32_t)strlen(owner) + 1, .n_descsz = (uint32_t)size, .n_type = type};
    append(w, &head, sizeof(head));
    append_string(w, owner);
    align(w, 4);
}

static void append_stapsdt(struct writer *w, const char *provider, const struct probe_image_entry *probe,
                           const uint64_t addresses[3])
{
    char operands[SONDE_PROBE_ARGUMENTS_MAX * (PROBE_OPERAND_MAX + 4)];
    probe_arguments_describe(probe->arguments, operands, sizeof(operands));
    append_note(w, "stapsdt", STAPSDT_TYPE, 3 * 8 + strlen(provider) + strlen(probe->name) + strlen(operands) + 3);
    append(w, addresses, 3 * 8);
    append_string(w, provider);
    append_string(w, probe->name);
    append_string(w, operands);
    align(w, 4);
}

static void append_declaration(struct writer *w, const char *provider, const struct probe_image_entry *probe)
{
    const char *declaration = probe->arguments->declaration;
    append_note(w, "sonde", SONDE_TYPE, strlen(provider) + strlen(probe->name) + strlen(declaration) + 3);
    append_string(w, provider);
    append_string(w, probe->name);
    append_string(w, declaration);
    align(w, 4);
}

/* The mapped part of the file. */
static void write_segments(struct writer *w, size_t count, const struct probe_site *site, size_t page_size,
                           struct probe_image *image)
{
    uint8_t eh_frame[PROBE_EH_FRAME_MAX];
    append(w, NULL, sizeof(Elf64_Ehdr) + SEGMENTS * sizeof(Elf64_Phdr)); /* filled in at the end */
    begin(w, S_BUILD_ID, SHT_NOTE, SHF_ALLOC, 4);
    append_note(w, "GNU", NT_GNU_BUILD_ID, PROBE_BUILD_ID_SIZE);
    append(w, NULL, PROBE_BUILD_ID_SIZE); /* likewise */
    end(w, S_BUILD_ID);
    begin(w, S_BASE, SHT_PROGBITS, SHF_ALLOC, 1); /* required by the format; a prelinker would move it with the rest */
    append(w, NULL, 1);
    end(w, S_BASE);
    image->stubs_offset = begin(w, S_TEXT, SHT_PROGBITS, SHF_ALLOC | SHF_EXECINSTR, TEXT_ALIGN);
    for (size_t i = 0; i < count; i++)
        append(w, site->code, PROBE_STUB_SIZE);
    end(w, S_TEXT);
    size_t frame = begin(w, S_EH_FRAME, SHT_PROGBITS, SHF_ALLOC, 8);
    append(w, eh_frame,
           probe_site_eh_frame((int32_t)(image->stubs_offset - frame), (uint32_t)(count * PROBE_STUB_SIZE), eh_frame));
    end(w, S_EH_FRAME);
    image->text_segment_size = image->semaphores_offset =
        begin(w, S_PROBES, SHT_PROGBITS, SHF_ALLOC | SHF_WRITE, page_size);
    append(w, NULL, count * sizeof(uint16_t));
    end(w, S_PROBES);
    image->data_segment_size = (count * sizeof(uint16_t) + page_size - 1) / page_size * page_size;
}

static void write_notes(struct writer *w, const char *provider, const struct probe_image_entry *probes, size_t count,
                        const struct probe_image *image)
{
    uint64_t base = w->sections[S_BASE].sh_addr;
    begin(w, S_STAPSDT, SHT_NOTE, 0, 4);
    for (size_t i = 0; i < count; i++)
        append_stapsdt(w, provider, &probes[i],
                       (uint64_t[]){image->stubs_offset + i * PROBE_STUB_SIZE, base,
                                    image->semaphores_offset + i * sizeof(uint16_t)});
    end(w, S_STAPSDT);
    begin(w, S_SONDE, SHT_NOTE, 0, 4);
    for (size_t i = 0; i < count; i++)
        append_declaration(w, provider, &probes[i]);
    end(w, S_SONDE);
}

static void write_symbols(struct writer *w, const struct probe_image_entry *probes, size_t count,
                          const struct probe_image *image)
{
    size_t name = 1;
    begin(w, S_SYMTAB, SHT_SYMTAB, 0, 8);
    append(w, NULL, sizeof(Elf64_Sym));
    for (size_t i = 0; i < count; i++) {
        Elf64_Sym symbol = {.st_name = (uint32_t)name,
                            .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC),
                            .st_shndx = S_TEXT,
                            .st_value = image->stubs_offset + i * PROBE_STUB_SIZE,
                            .st_size = PROBE_STUB_SIZE};
        append(w, &symbol, sizeof(symbol));
        name += strlen(probes[i].name) + 1;
    }
    end(w, S_SYMTAB);
    w->sections[S_SYMTAB].sh_entsize = sizeof(Elf64_Sym);
    w->sections[S_SYMTAB].sh_link = S_STRTAB;
    w->sections[S_SYMTAB].sh_info = 1; /* index of the first non-local symbol */
    begin(w, S_STRTAB, SHT_STRTAB, 0, 1);
    append(w, NULL, 1);
    for (size_t i = 0; i < count; i++)
        append_string(w, probes[i].name);
    end(w, S_STRTAB);
}

static size_t write_sections(struct writer *w)
{
    const char *name = SECTION_NAMES;
    begin(w, S_SHSTRTAB, SHT_STRTAB, 0, 1);
    append(w, SECTION_NAMES, sizeof(SECTION_NAMES));
    end(w, S_SHSTRTAB);
    for (size_t i = 0; i < S_COUNT; i++, name += strlen(name) + 1)
        w->sections[i].sh_name = (uint32_t)(name - SECTION_NAMES);
    align(w, 8);
    size_t offset = w->size;
    append(w, w->sections, sizeof(w->sections));
    return offset;
}

static void fill_in_headers(struct writer *w, size_t sections_offset, size_t page_size)
{
    const Elf64_Shdr *id = &w->sections[S_BUILD_ID], *code = &w->sections[S_EH_FRAME], *data = &w->sections[S_PROBES];
    Elf64_Ehdr head = {
        .e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB, EV_CURRENT, ELFOSABI_NONE},
        .e_type = ET_DYN,
        .e_machine = probe_site_machine(),
        .e_version = EV_CURRENT,
        .e_phoff = sizeof(head),
        .e_shoff = sections_offset,
        .e_ehsize = sizeof(head),
        .e_phentsize = sizeof(Elf64_Phdr),
        .e_phnum = SEGMENTS,
        .e_shentsize = sizeof(Elf64_Shdr),
        .e_shnum = S_COUNT,
        .e_shstrndx = S_SHSTRTAB,
    };
    size_t code_end = code->sh_offset + code->sh_size;
    Elf64_Phdr segments[SEGMENTS] = {
        {PT_LOAD, PF_R | PF_X, 0, 0, 0, code_end, code_end, page_size},
        {PT_LOAD, PF_R | PF_W, data->sh_offset, data->sh_offset, data->sh_offset, data->sh_size, data->sh_size,
         page_size},
        {PT_NOTE, PF_R, id->sh_offset, id->sh_offset, id->sh_offset, id->sh_size, id->sh_size, 4},
        {PT_GNU_STACK, PF_R | PF_W, 0, 0, 0, 0, 0, 16},
    };
    memcpy(w->bytes, &head, sizeof(head));
    memcpy(w->bytes + sizeof(head), segments, sizeof(segments));
}

/* 128-bit FNV-1a over the whole image: an identity, not a signature. */
static void fill_in_build_id(struct writer *w, struct probe_image *image)
{
    unsigned __int128 prime = ((unsigned __int128)1 << 88) + 0x13b;
    unsigned __int128 hash = ((unsigned __int128)0x6c62272e07bb0142 << 64) + 0x62b821756295c58d;
    for (size_t i = 0; i < w->size; i++)
        hash = (hash ^ w->bytes[i]) * prime;
    memcpy(image->build_id, &hash, sizeof(hash));
    size_t end_of_note = w->sections[S_BUILD_ID].sh_offset + w->sections[S_BUILD_ID].sh_size;
    memcpy(w->bytes + end_of_note - PROBE_BUILD_ID_SIZE, &hash, sizeof(hash));
}

int probe_image_make(const char *provider, const struct probe_image_entry *probes, size_t count,
                     const struct probe_site *site, size_t page_size, struct probe_image *ret_image)
{
    struct writer w = {0};
    struct probe_image image = {0};
    write_segments(&w, count, site, page_size, &image);
    write_notes(&w, provider, probes, count, &image);
    write_symbols(&w, probes, count, &image);
    size_t sections_offset = write_sections(&w);
    if (w.error < 0) {
        free(w.bytes);
        return w.error;
    }
    fill_in_headers(&w, sections_offset, page_size);
    fill_in_build_id(&w, &image);
    image.bytes = w.bytes;
    image.size = w.size;
    *ret_image = image;
    return 0;
}

void probe_image_done(struct probe_image *image)
{
    free(image->bytes);
    *image = (struct probe_image){0};
}
