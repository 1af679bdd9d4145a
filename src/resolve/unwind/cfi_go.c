/* Unwind rules of Go functions; see cfi_go.h. */
#include "resolve/unwind/cfi_go.h"

#include <elf.h>
#include <errno.h>

#define CHANGES_MAX_BYTES ((uint64_t)256 << 20)

static struct go_depths depths_at(const struct cfi_index *index, uint32_t position)
{
    struct cursor c = cursor_make(index->go_changes, index->go_changes_bytes);
    cursor_seek(&c, position);
    return GO_DEPTHS_AT(c);
}

/* The bytes of the function that the table describes. The linker may place padding or another language's code after
 * them. Terminates: every step consumes at least one byte. */
static uint64_t described_bytes(const struct cfi_index *index, const struct go_function_record *function)
{
    struct go_depths d = depths_at(index, function->depths);
    const uint64_t size = function->end - function->start;
    while (d.at < size && go_depths_next(&d))
        continue;
    return d.at < size ? d.at : size;
}

static int load_changes(const struct go_table *t, struct cfi_index *index)
{
    const uint64_t size = t->functions - t->changes;
    if (size == 0 || size > CHANGES_MAX_BYTES)
        return -ENOENT;
    index->go_changes = malloc(size);
    if (!index->go_changes)
        return -ENOMEM;
    index->go_changes_bytes = size;
    return elf_read(t->file, t->offset + t->changes, index->go_changes, size) < 0 ? -ENOENT : 0;
}

int cfi_go_add(const struct elf_file *f, struct cfi_index *index)
{
    struct go_table table;
    struct go_function_record function;
    _cleanup_(go_table_walk_freep) struct go_table_walk *walk = NULL;
    if (elf_machine(f) != EM_X86_64 || index->sections[CFI_DEBUG_FRAME].size > 0 || go_table_find(f, &table) < 0)
        return 0;
    int r = load_changes(&table, index);
    if (r == 0)
        r = go_table_walk_new(&table, &walk);
    uint64_t covered = 0; /* no linker writes overlapping functions, and they would be read repeatedly */
    while (r == 0 && go_table_next(walk, &function)) {
        if (function.start < covered || !function.depths || go_frames_have(&index->go, function.start))
            continue;
        covered = function.end;
        const uint64_t size = described_bytes(index, &function);
        if (size > 0)
            r = cfi_ranges_add_code(f, index, function.start, function.start + size,
                                    &(struct cfi_range){.position = function.depths, .source = CFI_GO_TABLE});
    }
    return r == -ENOENT ? 0 : r;
}

struct cfi_go_rows cfi_go_rows(const struct cfi_index *index, const struct cfi_range *range)
{
    return (struct cfi_go_rows){.depths = depths_at(index, range->position), .size = range->end - range->start};
}

bool cfi_go_next(struct cfi_go_rows *rows, uint32_t *ret_at, struct unwind_rule *ret)
{
    const uint64_t at = rows->depths.at;
    if (at >= rows->size || !go_depths_next(&rows->depths))
        return false;
    const int64_t cfa_offset = rows->depths.depth + 8;
    *ret_at = (uint32_t)at;
    *ret = (struct unwind_rule){.cfa = UNWIND_CFA_UNSUPPORTED};
    if (cfa_offset >= 0 && cfa_offset <= INT32_MAX) /* 1 GiB occurs: runtime.call1073741824 */
        *ret = (struct unwind_rule){.cfa = UNWIND_CFA_SP, .cfa_offset = (int32_t)cfa_offset, .ra_offset = -8};
    cfi_go_save_fp(ret);
    return true;
}

void cfi_go_save_fp(struct unwind_rule *rule)
{
    const bool is_on_stack =
        rule->cfa == UNWIND_CFA_SP || rule->cfa == UNWIND_CFA_SP_SCHEDULER || rule->cfa == UNWIND_CFA_GOROUTINE;
    if (is_on_stack && rule->cfa_offset >= 16 && rule->fp == UNWIND_FP_SAME) {
        rule->fp = UNWIND_FP_AT_CFA;
        rule->fp_offset = -16;
    }
}
