/* Binary search in .eh_frame_hdr, then one FDE and its CIE are read; see cfi_finder.h. Code that the
 * search table lacks has a known layout (cfi_known.c) or no rule, unless the file has a .debug_frame or
 * Go's own table, which .eh_frame_hdr does not cover. */
#include "resolve/unwind/cfi_finder.h"

#include "resolve/elf/frame_table.h"
#include "resolve/unwind/cfi_index.h"
#include "resolve/unwind/cfi_known.h"
#include "resolve/unwind/cfi_rule.h"

#include <errno.h>
#include <string.h>

#define ENTRY_MAX_BYTES  65536 /* of an FDE; the longest one seen is a tenth of it */
#define TRAMPOLINE_BYTES 16

struct cfi_finder {
    struct elf_file *f;
    struct frame_table table;
    uint64_t text_vaddr, data_vaddr;
    bool is_partial;        /* the file has unwind information that the search table lacks */
    struct cfi_index known; /* only known ranges, without FDEs */
};

/* A copy of one entry of .eh_frame. */
struct entry_copy {
    struct eh_frame view;
    uint8_t *data;
};

static void entry_copy_clear(struct entry_copy *e)
{
    free(e->data);
}

static uint64_t section_vaddr(const struct elf_file *f, const char *name)
{
    const struct elf_section *s = elf_section(f, name);
    return s ? s->vaddr : 0;
}

int cfi_finder_new(struct elf_file *f, struct cfi_finder **ret)
{
    struct frame_table table;
    int r = frame_table_open(f, &table);
    if (r < 0)
        return r;
    _cleanup_(cfi_finder_freep) struct cfi_finder *s = calloc(1, sizeof(*s));
    if (!s)
        return -ENOMEM;
    r = cfi_known_add(f, &s->known);
    if (elf_error(f) < 0) /* the known ranges may be incomplete */
        r = elf_error(f);
    if (r < 0)
        return r;
    s->table = table;
    s->text_vaddr = section_vaddr(f, ".text");
    s->data_vaddr = section_vaddr(f, ".got");
    s->is_partial = elf_section(f, ".debug_frame") || s->known.go.count > 0;
    s->f = f;
    *ret = take_ptr(s);
    return 0;
}

void cfi_finder_free(struct cfi_finder *s)
{
    if (!s)
        return;
    elf_file_free(s->f);
    free(s->known.ranges);
    free(s);
}

bool cfi_finder_is_complete(const struct cfi_finder *s)
{
    return !s->is_partial;
}

static int read_entry(const struct cfi_finder *s, uint64_t vaddr, struct entry_copy *ret)
{
    uint64_t offset;
    uint32_t length;
    int r = elf_offset_from_vaddr(s->f, vaddr, &offset);
    if (r < 0)
        return r;
    if (elf_read(s->f, offset, &length, sizeof(length)) < 0)
        return -EIO;
    if (length < 4 || length > ENTRY_MAX_BYTES)
        return -ENOENT;
    uint8_t *data = malloc(length + sizeof(length));
    if (!data)
        return -ENOMEM;
    if (elf_read(s->f, offset, data, length + sizeof(length)) < 0) {
        free(data);
        return -EIO;
    }
    ret->data = data;
    ret->view = (struct eh_frame){.data = data,
                                  .size = length + sizeof(length),
                                  .vaddr = vaddr,
                                  .text_vaddr = s->text_vaddr,
                                  .data_vaddr = s->data_vaddr};
    return 0;
}

struct wanted {
    uint16_t machine;
    bool is_signal_frame;
    uint64_t vaddr;
    uint64_t fde_end; /* end of the last FDE that begins at or before vaddr */
    struct unwind_rule rule;
};

static void keep_row(void *context, uint64_t address, const struct cfa_row *row)
{
    struct wanted *w = context;
    if (address <= w->vaddr)
        w->rule = cfi_rule_from_row(w->machine, row, w->is_signal_frame);
}

/* -ENOENT: the FDE does not cover w->vaddr, or is damaged. */
static int rule_of_fde(const struct cfi_finder *s, uint64_t fde_vaddr, struct wanted *w)
{
    __attribute__((cleanup(entry_copy_clear))) struct entry_copy fde_copy = {0}, cie_copy = {0};
    int r = read_entry(s, fde_vaddr, &fde_copy);
    if (r < 0)
        return r;
    uint32_t back; /* distance back to the CIE */
    memcpy(&back, fde_copy.data + 4, sizeof(back));
    if (back == 0)
        return -ENOENT;
    r = read_entry(s, fde_vaddr + 4 - back, &cie_copy);
    if (r < 0)
        return r;
    struct eh_frame_cie cie;
    struct eh_frame_fde fde;
    if (eh_frame_read_cie(&cie_copy.view, 0, &cie) < 0 || eh_frame_read_fde(&fde_copy.view, 0, &cie, &fde) < 0)
        return -ENOENT;
    w->fde_end = fde.end;
    if (w->vaddr < fde.start || w->vaddr >= fde.end)
        return -ENOENT;
    w->is_signal_frame = cie.is_signal_frame;
    struct cfa_registers registers = cfi_rule_registers(w->machine, cie.return_register);
    uint64_t stopped_at;
    if (cfa_program_run(&fde_copy.view, &cie, &fde, &registers, keep_row, w, &stopped_at) < 0)
        keep_row(w, stopped_at, &(struct cfa_row){.kind = CFA_UNKNOWN});
    return 0;
}

/* Finds an undescribed signal trampoline that covers `offset`. It begins at `offset`, up to `before_bytes` earlier if
 * `offset` is a later instruction, or at the next byte (cfi_known_trampoline_from). */
static bool find_trampoline(const struct cfi_finder *s, uint32_t offset, uint32_t before_bytes, struct unwind_rule *ret)
{
    if (offset >= UINT32_MAX - TRAMPOLINE_BYTES)
        return false;
    uint32_t from = offset - before_bytes, to = offset + TRAMPOLINE_BYTES, at, size;
    size_t budget_bytes = TRAMPOLINE_BYTES * TRAMPOLINE_BYTES;
    struct unwind_rule rule;
    while ((at = cfi_known_trampoline(s->f, from, to, &budget_bytes, &size, &rule)) <= offset + 1) {
        from = at + size;
        if (offset >= from)
            continue;
        if (offset < cfi_known_trampoline_from(s->f, at))
            break;
        *ret = rule;
        return true;
    }
    return false;
}

/* FDEs take precedence over known ranges, and truncate them. */
static bool find_known_rule(const struct cfi_finder *s, uint32_t offset, const struct wanted *w,
                            struct unwind_rule *ret)
{
    for (size_t i = 0; i < s->known.range_count; i++) {
        const struct cfi_range *range = &s->known.ranges[i];
        uint64_t start_vaddr;
        if (offset < range->start || offset >= range->end ||
            elf_vaddr_from_offset(s->f, range->start, &start_vaddr) < 0 || w->fde_end > start_vaddr)
            continue;
        *ret = s->known.known[range->position];
        return true;
    }
    uint64_t before_bytes = w->vaddr >= w->fde_end ? w->vaddr - w->fde_end : 0;
    if (before_bytes > TRAMPOLINE_BYTES)
        before_bytes = TRAMPOLINE_BYTES;
    return find_trampoline(s, offset, before_bytes < offset ? (uint32_t)before_bytes : offset, ret);
}

int cfi_finder_find(struct cfi_finder *s, uint32_t file_offset, struct unwind_rule *ret)
{
    struct wanted w = {.machine = elf_machine(s->f)};
    struct frame_table_entry entry;
    int r = elf_vaddr_from_offset(s->f, file_offset, &w.vaddr);
    if (r == 0)
        r = frame_table_search(&s->table, w.vaddr, &entry);
    if (r == 0)
        r = rule_of_fde(s, entry.fde, &w);
    if (r == -ENOENT) {
        if (s->is_partial)
            return -ENOENT;
        if (!find_known_rule(s, file_offset, &w, &w.rule))
            w.rule = (struct unwind_rule){.cfa = UNWIND_CFA_NONE};
        r = 0;
    }
    if (elf_error(s->f) < 0)
        return elf_error(s->f);
    if (r == 0)
        *ret = w.rule;
    return r;
}
