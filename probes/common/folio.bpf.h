/* Pages of the page cache: folios, or single pages before 5.16. */
#pragma once

#include "probes/common/vmlinux.h"

#include <bpf/bpf_core_read.h>

static __always_inline __u32 folio_pages(const struct folio *folio)
{
    if (!bpf_core_type_exists(struct folio))
        return 1;
    const unsigned long page_flags = *(const unsigned long *)folio; /* its first field, under several types */
    if (!(page_flags >> bpf_core_enum_value(enum pageflags, PG_head) & 1))
        return 1;
    if (bpf_core_field_exists(((struct folio___pages_new *)0)->_nr_pages))
        return ((const struct folio___pages_new *)folio)->_nr_pages;
    if (bpf_core_field_exists(((struct folio___pages *)0)->_folio_nr_pages))
        return ((const struct folio___pages *)folio)->_folio_nr_pages;
    return 1;
}

static __always_inline const struct address_space *folio_mapping(const struct folio *folio)
{
    return bpf_core_type_exists(struct folio) ? folio->mapping : ((const struct page *)folio)->mapping;
}

static __always_inline __u64 folio_index(const struct folio *folio)
{
    return bpf_core_type_exists(struct folio) ? folio->index : ((const struct page *)folio)->index;
}
