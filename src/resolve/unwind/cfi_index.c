/* Index of a file's code ranges with unwind rules; see cfi_index.h. Sections are loaded whole while a table is built,
 * because FDEs are in no order; the limit on the section bounds everything derived from it. */
#include "resolve/unwind/cfi_index.h"

#include "resolve/unwind/cfi_go.h"
#include "resolve/unwind/cfi_known.h"

#include <elf.h>
#include <errno.h>
#include <string.h>

#define CFI_MAX_SECTION_BYTES ((size_t)256 << 20)

static uint64_t section_vaddr(const struct elf_file *f, const char *name)
{
    const struct elf_section *s = elf_section(f, name);
    return s ? s->vaddr : 0;
}

static int load_section(const struct elf_file *f, struct cfi_index *index, enum cfi_source source, const char *name)
{
    const struct elf_section *section = elf_section(f, name);
    if (!section)
        return -ENOENT;
    void *data;
    size_t size;
    int r = elf_section_data(f, section, CFI_MAX_SECTION_BYTES, &data, &size);
    if (r < 0)
        return r;
    index->section_data[source] = data;
    index->sections[source] = (struct eh_frame){
        .data = data,
        .size = size,
        .vaddr = section->vaddr,
        .is_debug_frame = source == CFI_DEBUG_FRAME,
        .text_vaddr = section_vaddr(f, ".text"),
        .data_vaddr = section_vaddr(f, ".got"),
    };
    return 0;
}

/* The part of a file that begins with .eh_frame. */
struct eh_frame_part {
    uint64_t offset, vaddr, size_bytes;
};

/* Without section headers, .eh_frame is found by the header that PT_GNU_EH_FRAME points to. Its size is unknown; the
 * part extends to the end of its segment. */
static int find_by_header(const struct elf_file *f, struct eh_frame_part *ret)
{
    const struct elf_segment *header = elf_eh_frame_header(f);
    uint8_t bytes[16];
    if (!header || header->file_bytes < sizeof(bytes) || elf_read(f, header->offset, bytes, sizeof(bytes)) < 0 ||
        bytes[0] != 1)
        return -ENOENT;
    struct eh_frame place = {.data = bytes, .size = sizeof(bytes), .vaddr = header->vaddr, .data_vaddr = header->vaddr};
    struct cursor c = cursor_make(bytes, sizeof(bytes));
    cursor_skip(&c, 4);
    uint64_t vaddr;
    if (!eh_frame_pointer(&place, &c, bytes[1], &vaddr))
        return -ENOENT;

    const struct elf_segment *segments;
    size_t count = elf_segments(f, &segments);
    for (size_t i = 0; i < count; i++) {
        const struct elf_segment *s = &segments[i];
        if (vaddr < s->vaddr || vaddr - s->vaddr >= s->file_bytes)
            continue;
        const uint64_t skipped = vaddr - s->vaddr;
        *ret = (struct eh_frame_part){
            .offset = s->offset + skipped, .vaddr = vaddr, .size_bytes = s->file_bytes - skipped};
        return 0;
    }
    return -ENOENT;
}

uint64_t cfi_index_bytes_by_header(const struct elf_file *f)
{
    struct eh_frame_part part;
    return find_by_header(f, &part) == 0 ? part.size_bytes : 0;
}

static int load_by_header(const struct elf_file *f, struct cfi_index *index)
{
    struct eh_frame_part part;
    int r = find_by_header(f, &part);
    if (r < 0)
        return r;
    if (part.size_bytes > CFI_MAX_SECTION_BYTES)
        return -EFBIG;
    _cleanup_free_ void *data = malloc(part.size_bytes);
    if (!data)
        return -ENOMEM;
    if (elf_read(f, part.offset, data, part.size_bytes) < 0)
        return -ENOEXEC;
    index->section_data[CFI_EH_FRAME] = data;
    index->sections[CFI_EH_FRAME] =
        (struct eh_frame){.data = take_ptr(data), .size = part.size_bytes, .vaddr = part.vaddr, .ends_at_zero = true};
    return 0;
}

static int index_section(const struct elf_file *f, struct cfi_index *index, enum cfi_source source)
{
    const struct eh_frame *s = &index->sections[source];
    struct eh_frame_cie cie = {.position = SIZE_MAX};
    bool cie_good = false;
    for (size_t position = 0, at = 0, cie_at = 0;; at = position) {
        enum eh_frame_entry entry = eh_frame_next(s, &position, &cie_at);
        if (entry == EH_FRAME_END)
            return 0;
        if (entry == EH_FRAME_BAD)
            index->skipped++;
        if (entry != EH_FRAME_FDE)
            continue;
        if (cie.position != cie_at) {
            cie_good = eh_frame_read_cie(s, cie_at, &cie) == 0;
            cie.position = cie_at;
        }
        struct eh_frame_fde fde;
        if (!cie_good || eh_frame_read_fde(s, at, &cie, &fde) < 0) {
            index->skipped++;
            continue;
        }
        if (source == CFI_DEBUG_FRAME && go_frames_have(&index->go, fde.start))
            continue;
        int r = cfi_ranges_add_code(f, index, fde.start, fde.end,
                                    &(struct cfi_range){.position = (uint32_t)at, .source = source});
        if (r < 0)
            return r;
    }
}

static int compare_ranges(const void *a, const void *b)
{
    const struct cfi_range *x = a, *y = b;
    if (x->start != y->start)
        return x->start < y->start ? -1 : 1;
    if (x->source != y->source)
        return x->source < y->source ? -1 : 1;
    return x->position < y->position ? -1 : x->position > y->position;
}

static bool is_sorted(const struct cfi_index *index)
{
    for (size_t i = 1; i < index->range_count; i++)
        if (compare_ranges(&index->ranges[i - 1], &index->ranges[i]) > 0)
            return false;
    return true;
}

/* Makes the ranges disjoint: a range of a better source takes precedence, and of two ranges of the same source, the
 * later one truncates the earlier one. */
static void make_disjoint(struct cfi_index *index)
{
    uint32_t covered[CFI_SOURCES] = {0}; /* end of the code covered by each source or a better one */
    size_t kept = 0;
    for (size_t i = 0; i < index->range_count; i++) {
        struct cfi_range range = index->ranges[i];
        struct cfi_range *before = kept ? &index->ranges[kept - 1] : NULL;
        bool is_covered = range.source > 0 && range.start < covered[range.source - 1];
        if (is_covered || (before && before->start == range.start))
            continue;
        if (before && before->end > range.start)
            before->end = range.start;
        for (uint32_t source = range.source; source < CFI_SOURCES; source++)
            if (covered[source] < range.end)
                covered[source] = range.end;
        index->ranges[kept++] = range;
    }
    index->range_count = kept;
}

int cfi_index_new(const struct elf_file *f, struct cfi_index **ret)
{
    _cleanup_(cfi_index_freep) struct cfi_index *index = calloc(1, sizeof(*index));
    if (!index)
        return -ENOMEM;
    const struct elf_section *sections;
    int r = load_section(f, index, CFI_EH_FRAME, ".eh_frame");
    if (r == -ENOENT && elf_sections(f, &sections) == 0)
        r = load_by_header(f, index);
    if (r < 0 && r != -ENOENT)
        return r;
    r = load_section(f, index, CFI_DEBUG_FRAME, ".debug_frame");
    if (r == -ENOMEM)
        return r;
    if (r < 0 && r != -ENOENT)
        index->skipped++; /* .eh_frame may suffice */

    r = cfi_known_add(f, index);
    if (r < 0)
        return r;
    for (enum cfi_source source = CFI_EH_FRAME; source <= CFI_DEBUG_FRAME && r == 0; source++)
        r = index_section(f, index, source);
    if (r == 0)
        r = cfi_go_add(f, index);
    if (r < 0)
        return r;
    if (!is_sorted(index))
        qsort(index->ranges, index->range_count, sizeof(*index->ranges), compare_ranges);
    make_disjoint(index);
    if (index->range_count == 0)
        return index->skipped ? -ENOEXEC : -ENOENT;
    *ret = take_ptr(index);
    return 0;
}

void cfi_index_free(struct cfi_index *index)
{
    if (!index)
        return;
    for (size_t i = 0; i < array_size(index->section_data); i++)
        free(index->section_data[i]);
    free(index->go_changes);
    free(index->ranges);
    free(index);
}
