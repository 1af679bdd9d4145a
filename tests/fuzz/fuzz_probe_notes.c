/* Any bytes as an ELF file with USDT notes, and as a section of such notes: strings end within it, and probes are in
 * order. */
#include "resolve/elf/probe_notes.h"
#include "resolve/usdt/usdt_probes.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_file(const struct elf_file *f)
{
    struct usdt_probes *p = NULL;
    if (usdt_probes_read(f, &p) < 0)
        return;
    for (size_t i = 0, run; i < p->count; i += run) {
        run = usdt_probes_run(p, i);
        const struct usdt_site *s = &p->sites[i];
        if (i + run > p->count || (i > 0 && strcmp(s[-1].provider, s->provider) == 0 && strcmp(s[-1].name, s->name) == 0))
            abort();
        uint64_t offset;
        if (elf_offset_from_vaddr(f, s->vaddr, &offset) < 0 || offset != s->file_offset || offset >= elf_size(f))
            abort();
    }
    usdt_probes_free(p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct cursor c = cursor_make(data, size);
    struct probe_note note;
    uint64_t damaged = 0, count = 0;
    for (; probe_notes_next(&c, &note, &damaged); count++)
        if (strlen(note.provider) + strlen(note.name) + strlen(note.arguments) + 3 > size || !note.name[0])
            abort();
    if (count + damaged > size / 12 + 1)
        abort();
    void *copy = malloc(size + 1);
    struct elf_file *f = NULL;
    if (!copy)
        return 0;
    memcpy(copy, data, size);
    if (elf_open_memory(copy, size, &f) < 0) {
        free(copy);
        return 0;
    }
    read_file(f);
    elf_file_free(f);
    return 0;
}
