/* Invariants of every unwind table, whatever input it was built from. Shared by the fuzzers. */
#pragma once

#include "resolve/unwind/cfi.h"

static inline void check_table(const struct unwind_table *t)
{
    const struct unwind_object_header *h = t->values;
    if (h->pages == 0 || h->pages > UNWIND_MAX_PAGES || h->index_count > 124 || t->rule_count != h->rules ||
        t->value_count != 1 + h->pages + (h->rules + UNWIND_RULES_A_PAGE - 1) / UNWIND_RULES_A_PAGE)
        abort();
    const struct unwind_page *pages = (const struct unwind_page *)t->values + 1;
    for (size_t i = 0; i < h->pages; i++) {
        if (pages[i].rows == 0 || pages[i].rows > UNWIND_PAGE_ROWS ||
            (i && pages[i].base <= pages[i - 1].base))
            abort();
        for (size_t j = 0; j < pages[i].rows; j++) {
            if (pages[i].rule[j] >= h->rules || (j && pages[i].distance[j] <= pages[i].distance[j - 1]))
                abort();
            const struct unwind_rule *rule = unwind_table_find(t, pages[i].base + pages[i].distance[j]);
            if (!rule || rule->cfa > UNWIND_CFA_UNSUPPORTED || rule->fp > UNWIND_FP_UNDEFINED)
                abort();
        }
    }
    (void)unwind_table_find(t, 0);
    if (!unwind_table_find(t, UINT32_MAX))
        abort();
}
