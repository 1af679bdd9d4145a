/* The USDT probes of one ELF file; see usdt_probes.h. */
#include "resolve/usdt/usdt_probes.h"

#include "resolve/elf/probe_notes.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#define NOTES_MAX_BYTES ((size_t)4 << 20)
#define SITES_MAX       16384

static int compare_names(const struct usdt_site *a, const struct usdt_site *b)
{
    const int r = strcmp(a->provider, b->provider);
    return r ? r : strcmp(a->name, b->name);
}

static int compare_sites(const void *a, const void *b)
{
    const struct usdt_site *x = a, *y = b;
    const int r = compare_names(x, y);
    return r ? r : x->operands < y->operands ? -1 : x->operands > y->operands; /* order of the notes in the section */
}

/* Returns 0 with NULL and 0 bytes when there is no such section. */
static int read_notes(const struct elf_file *f, const char *section, void **ret, size_t *ret_size)
{
    const struct elf_section *s = elf_section(f, section);
    *ret_size = 0;
    int r = s ? elf_section_data(f, s, NOTES_MAX_BYTES, ret, ret_size) : 0;
    return r == -ENOENT ? 0 : r;
}

static int add_site(struct usdt_probes *p, const struct elf_file *f, const struct probe_note *note, uint64_t moved)
{
    struct usdt_site site = {
        .provider = note->provider,
        .name = note->name,
        .operands = note->arguments,
        .vaddr = note->site + moved,
        .semaphore_vaddr = note->semaphore ? note->semaphore + moved : 0,
    };
    if (elf_offset_from_vaddr(f, site.vaddr, &site.file_offset) < 0 ||
        elf_read(f, site.file_offset, &site.code, 1) < 0) {
        p->damaged++;
        return elf_error(f);
    }
    if (site.semaphore_vaddr)
        (void)elf_offset_from_vaddr(f, site.semaphore_vaddr, &site.semaphore_offset);
    p->sites[p->count++] = site;
    return 0;
}

static int read_sites(struct usdt_probes *p, const struct elf_file *f)
{
    size_t size;
    int r = read_notes(f, ".note.stapsdt", &p->texts[0], &size);
    if (r < 0 || size == 0)
        return r;
    const size_t smallest = 12 + 8 + 3 * 8; /* size of the smallest note */
    const size_t most = size / smallest + 1 < SITES_MAX ? size / smallest + 1 : SITES_MAX;
    p->sites = calloc(most, sizeof(*p->sites));
    if (!p->sites)
        return -ENOMEM;

    const struct elf_section *base = elf_section(f, ".stapsdt.base");
    struct cursor c = cursor_make(p->texts[0], size);
    struct probe_note note;
    while (r == 0 && probe_notes_next(&c, &note, &p->damaged)) {
        if (note.kind != PROBE_NOTE_SITE)
            continue;
        if (p->count == most)
            p->left_out++;
        else /* a prelinker moves the file but does not adjust these notes */
            r = add_site(p, f, &note, base && note.base ? base->vaddr - note.base : 0);
    }
    if (p->count)
        qsort(p->sites, p->count, sizeof(*p->sites), compare_sites);
    return r;
}

/* Not bsearch, which returns any of several equal elements. */
static struct usdt_site *find_first(const struct usdt_probes *p, const char *provider, const char *name)
{
    const struct usdt_site key = {.provider = provider, .name = name};
    size_t low = 0, high = p->count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (compare_names(&p->sites[middle], &key) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low < p->count && compare_names(&p->sites[low], &key) == 0 ? &p->sites[low] : NULL;
}

static int read_declarations(struct usdt_probes *p, const struct elf_file *f)
{
    size_t size;
    int r = read_notes(f, ".note.sonde", &p->texts[1], &size);
    struct cursor c = cursor_make(p->texts[1], size);
    struct probe_note note;
    while (r == 0 && probe_notes_next(&c, &note, &p->damaged)) {
        if (note.kind != PROBE_NOTE_DECLARATION)
            continue;
        struct usdt_site *site = find_first(p, note.provider, note.name);
        if (site)
            site->declaration = note.arguments; /* stored at the first site, for all sites of the probe */
    }
    return r;
}

int usdt_probes_read(const struct elf_file *f, struct usdt_probes **ret)
{
    _cleanup_(usdt_probes_freep) struct usdt_probes *p = calloc(1, sizeof(*p));
    if (!p)
        return -ENOMEM;
    int r = read_sites(p, f);
    if (r == 0)
        r = read_declarations(p, f);
    if (elf_error(f) < 0)
        r = elf_error(f);
    if (r < 0)
        return r;
    *ret = take_ptr(p);
    return 0;
}

int usdt_probes_read_file(int fd, struct usdt_probes **ret)
{
    _cleanup_(elf_file_freep) struct elf_file *elf = NULL;
    int r = elf_open(fd, &elf);
    if (r < 0) {
        close(fd);
        return r;
    }
    return usdt_probes_read(elf, ret);
}

void usdt_probes_free(struct usdt_probes *p)
{
    if (!p)
        return;
    free(p->sites);
    free(p->texts[0]);
    free(p->texts[1]);
    free(p);
}

size_t usdt_probes_run(const struct usdt_probes *p, size_t first)
{
    size_t n = 1;
    while (first + n < p->count && compare_names(&p->sites[first], &p->sites[first + n]) == 0)
        n++;
    return n;
}
