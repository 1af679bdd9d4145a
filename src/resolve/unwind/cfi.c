/* Builds a file's unwind table; see cfi.h. Visits all ranges of the index in order, converts each row of their FDEs to
 * a rule, and writes it; code between ranges gets UNWIND_CFA_NONE. Memory: the section, 16 bytes per function, and the
 * table. */
#include "resolve/unwind/cfi.h"

#include "resolve/unwind/cfi_go.h"
#include "resolve/unwind/cfi_index.h"
#include "resolve/unwind/cfi_known.h"
#include "resolve/unwind/cfi_rule.h"
#include "resolve/unwind/unwind_table.h"

#include <elf.h>
#include <errno.h>

#define SCAN_BUDGET_BYTES ((size_t)8 << 20)
#define CODE_ALIGN        16

struct build {
    const struct elf_file *f;
    const struct cfi_index *index;
    struct unwind_table_writer *writer;
    size_t scan_budget_bytes;
    uint32_t skipped;

    /* The FDE being written. */
    struct eh_frame_cie cie;
    uint32_t cie_source;
    const struct cfi_range *range;
    uint64_t vaddr; /* virtual address of range->start */
    bool is_signal_frame;
};

/* FDEs by Go's linker have a data alignment factor that no other linker writes. */
static bool is_by_go(const struct build *b)
{
    return b->index->go.count > 0 && b->cie_source == CFI_DEBUG_FRAME && b->cie.data_align == -4 &&
           elf_machine(b->f) == EM_X86_64;
}

static void write_row(void *context, uint64_t address, const struct cfa_row *row)
{
    struct build *b = context;
    uint64_t distance = address - b->vaddr;
    if (distance >= b->range->end - b->range->start)
        return; /* overlapped by the next range */
    struct unwind_rule rule = cfi_rule_from_row(elf_machine(b->f), row, b->is_signal_frame);
    if (is_by_go(b))
        cfi_go_save_fp(&rule);
    unwind_table_writer_add(b->writer, b->range->start + (uint32_t)distance, &rule);
}

static void write_fde(struct build *b, const struct cfi_range *range)
{
    const struct eh_frame *s = &b->index->sections[range->source];
    size_t position = range->position, cie_position = 0;
    struct eh_frame_fde fde;
    if (eh_frame_next(s, &position, &cie_position) != EH_FRAME_FDE)
        return;
    if (b->cie.position != cie_position || b->cie_source != range->source) {
        b->cie.position = SIZE_MAX;
        b->cie_source = range->source;
        if (eh_frame_read_cie(s, cie_position, &b->cie) < 0)
            return;
    }
    if (eh_frame_read_fde(s, range->position, &b->cie, &fde) < 0)
        return;
    b->range = range;
    b->vaddr = fde.start;
    b->is_signal_frame = b->cie.is_signal_frame;
    struct cfa_registers registers = cfi_rule_registers(elf_machine(b->f), b->cie.return_register);
    uint64_t stopped_at = 0;
    if (cfa_program_run(s, &b->cie, &fde, &registers, write_row, b, &stopped_at) < 0) {
        b->skipped++;
        write_row(b, stopped_at, &(struct cfa_row){.kind = CFA_UNKNOWN});
    }
}

static void write_go_function(struct build *b, const struct cfi_range *range)
{
    struct cfi_go_rows rows = cfi_go_rows(b->index, range);
    struct unwind_rule rule;
    uint32_t at;
    while (cfi_go_next(&rows, &at, &rule))
        unwind_table_writer_add(b->writer, range->start + at, &rule);
}

/* Writes code without unwind information. Gaps that end at a multiple of 16 and are shorter than 16 bytes are padding
 * between functions; rows for them would enlarge tables by a tenth and serve no purpose. */
static void write_gap(struct build *b, uint32_t from, uint32_t to)
{
    if (from >= to || (to % CODE_ALIGN == 0 && to - from < CODE_ALIGN))
        return;
    const struct unwind_rule none = {.cfa = UNWIND_CFA_NONE};
    unwind_table_writer_add(b->writer, from, &none);
    while (from < to) {
        uint32_t size = 0;
        struct unwind_rule rule;
        uint32_t at = cfi_known_trampoline(b->f, from, to, &b->scan_budget_bytes, &size, &rule);
        if (at >= to)
            return;
        unwind_table_writer_add(b->writer, at > from ? cfi_known_trampoline_from(b->f, at) : at, &rule);
        unwind_table_writer_add(b->writer, at + size, &none);
        from = at + size;
    }
}

/* The end of the executable segment that contains `offset`, where its last gap ends. */
static uint32_t code_end(const struct elf_file *f, uint32_t offset, uint32_t *ret_start)
{
    const struct elf_segment *segments;
    size_t count = elf_segments(f, &segments);
    for (size_t i = 0; i < count; i++) {
        const struct elf_segment *s = &segments[i];
        uint64_t end;
        if (!s->executable || offset < s->offset || offset - s->offset >= s->file_bytes ||
            __builtin_add_overflow(s->offset, s->file_bytes, &end))
            continue;
        *ret_start = (uint32_t)s->offset;
        return end < UINT32_MAX ? (uint32_t)end : UINT32_MAX;
    }
    *ret_start = offset;
    return offset;
}

/* Writes the gap between two ranges, which may be in different segments. */
static void write_between(struct build *b, uint32_t from, uint32_t to)
{
    uint32_t start, end = code_end(b->f, to, &start);
    (void)end;
    if (from >= start) {
        write_gap(b, from, to);
        return;
    }
    uint32_t ignored;
    if (from > 0)
        write_gap(b, from, code_end(b->f, from - 1, &ignored));
    write_gap(b, start, to);
}

static void write_all(struct build *b)
{
    const struct cfi_index *index = b->index;
    uint32_t covered = 0;
    for (size_t i = 0; i < index->range_count; i++) {
        const struct cfi_range *range = &index->ranges[i];
        if (range->start != covered)
            write_between(b, covered, range->start);
        if (range->source == CFI_KNOWN)
            unwind_table_writer_add(b->writer, range->start, &index->known[range->position]);
        else if (range->source == CFI_GO_TABLE)
            write_go_function(b, range);
        else
            write_fde(b, range);
        covered = range->end;
    }
    uint32_t ignored, end = code_end(b->f, covered - 1, &ignored);
    write_gap(b, covered, end);
    unwind_table_writer_add(b->writer, covered < end ? end : covered, &(struct unwind_rule){.cfa = UNWIND_CFA_NONE});
}

int cfi_build(const struct elf_file *f, struct unwind_table **ret)
{
    _cleanup_(cfi_index_freep) struct cfi_index *index = NULL;
    int r = cfi_index_new(f, &index);
    if (r < 0)
        return r;
    _cleanup_(unwind_table_writer_freep) struct unwind_table_writer *writer = NULL;
    r = unwind_table_writer_new(&writer);
    if (r < 0)
        return r;
    struct build b = {.f = f,
                      .index = index,
                      .writer = writer,
                      .scan_budget_bytes = SCAN_BUDGET_BYTES,
                      .cie.position = SIZE_MAX,
                      .skipped = index->skipped};
    write_all(&b);
    struct unwind_table *t = NULL;
    r = unwind_table_writer_finish(writer, &t);
    if (r < 0)
        return r;
    t->skipped += b.skipped;
    *ret = t;
    return 0;
}

uint64_t cfi_input_bytes(const struct elf_file *f)
{
    bool is_searched;
    const struct elf_section *sections[] = {elf_section(f, ".eh_frame"), elf_section(f, ".debug_frame"),
                                            go_table_section(f, &is_searched)};
    uint64_t bytes = 0;
    for (size_t i = 0; i < array_size(sections); i++) {
        const uint64_t more = sections[i] ? elf_section_data_bytes(f, sections[i]) : 0;
        bytes = more < UINT64_MAX - bytes ? bytes + more : UINT64_MAX;
    }
    const struct elf_section *all;
    return elf_sections(f, &all) == 0 ? cfi_index_bytes_by_header(f) : bytes;
}
