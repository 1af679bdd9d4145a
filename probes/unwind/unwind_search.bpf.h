/* Finds the mapping that contains an address, and the rule for a file offset of its object. Included by unwind.bpf.h.
 *
 * Searches are branchless: the verifier would follow both paths of each branch, and loading would take ten times as
 * long. For the same reason an index may point past a table's end, within the value that contains it; the value read
 * there is ignored. */
#pragma once

/* 1 if value <= limit, else 0. Both below 2^63. */
static __always_inline __u64 unwind_at_most(__u64 value, __u64 limit)
{
    __u64 difference = value - limit - 1;

    UNWIND_SAME_REGISTER(difference);
    difference >>= 63;
    UNWIND_SAME_REGISTER(difference);
    return difference;
}

/* The last i < count with table[first + i] <= wanted; 0 if no element is. `mask` + 1: a power of two of elements of
 * `table` that lie within one value, to satisfy the verifier. `zero`: a 0 unknown to the verifier. */
#define UNWIND_SEARCH(table, first, mask, count, wanted, zero)                                                         \
    ({                                                                                                                 \
        __u64 search_i_ = zero;                                                                                        \
        _Pragma("unroll") for (__u64 search_step_ = ((mask) + 1) / 2; search_step_ > 0; search_step_ /= 2)             \
        {                                                                                                              \
            __u64 search_next_ = search_i_ + search_step_;                                                             \
            __u64 search_at_ = (search_next_ + (first)) & (mask);                                                      \
                                                                                                                       \
            UNWIND_SAME_REGISTER(search_at_);                                                                          \
            search_i_ += search_step_ * (unwind_at_most(search_next_ + 1, count) &                                     \
                                         unwind_at_most((table)[search_at_ & (mask)], wanted));                        \
        }                                                                                                              \
        search_i_;                                                                                                     \
    })

static __always_inline int unwind_no_mapping(struct unwind_walk *w, const struct unwind_process *process)
{
    w->end = 0; /* contains no address */
    w->is_in_flux = bpf_ktime_get_ns() - process->put_ns < UNWIND_FLUX_NS;
    return UNWIND_END_NO_MAPPING;
}

/* Finds the executable mapping that contains `address` and stores it in the walk. 0, or the reason of failure (enum
 * unwind_end). */
__noinline int unwind_find_mapping(__u64 address)
{
    struct unwind_scratch *scratch = unwind_scratch_get();
    struct unwind_chunk_mapping *mapping;
    struct unwind_chunk_key key = {};
    struct unwind_process *process;
    struct unwind_chunk *chunk;
    struct unwind_walk *w;
    __u64 i, count;

    if (!scratch)
        return UNWIND_END_NO_PROCESS;
    w = &scratch->walk;
    key.pid = w->pid;
    process = bpf_map_lookup_elem(&unwind_processes, &key.pid);
    if (!process)
        return UNWIND_END_NO_PROCESS;
    w->walks_code = process->interpreters.runtime == INTERPRETER_HOTSPOT;
    key.generation = process->generation;
    count = process->chunks;
    i = UNWIND_SEARCH(process->starts, 0, UNWIND_PROCESS_CHUNKS - 1, count, address, w->zero);
    key.chunk = i;
    chunk = bpf_map_lookup_elem(&unwind_chunks, &key);
    if (!chunk)
        return UNWIND_END_NO_PROCESS;
    count = chunk->count;
    i = UNWIND_SEARCH(chunk->starts, 0, 63, count, address, w->zero);
    UNWIND_SAME_REGISTER(i);
    if (i >= count || i >= UNWIND_CHUNK_MAPPINGS)
        return unwind_no_mapping(w, process);
    mapping = &chunk->mappings[i];
    w->start = chunk->starts[i];
    w->end = w->start + ((__u64)mapping->pages << UNWIND_PAGE_SHIFT);
    w->file_offset = (__u64)mapping->file_page << UNWIND_PAGE_SHIFT;
    w->object = mapping->object;
    w->serial = mapping->serial;
    w->in_interpreter |= w->start == w->interpreter_start;
    if (address < w->start || address >= w->end)
        return unwind_no_mapping(w, process);
    return 0;
}

/* Finds the rule for a file offset of an object and stores it in the walk. 0, or the reason of failure (enum
 * unwind_end). */
__noinline int unwind_find_rule(__u32 object, __u32 offset)
{
    struct unwind_scratch *scratch = unwind_scratch_get();
    struct unwind_object_header *header;
    struct unwind_page *page = NULL;
    struct unwind_rule_page *rules;
    __u32 key, low, high, pages, distance, rule;
    __u64 i, count;
    void *values;

    if (!scratch)
        return UNWIND_END_NO_TABLE;
    key = object;
    values = bpf_map_lookup_elem(&unwind_objects, &key);
    if (!values)
        return UNWIND_END_NO_TABLE;
    key = 0;
    header = bpf_map_lookup_elem(values, &key);
    if (!header)
        return UNWIND_END_NO_TABLE;
    pages = header->pages;
    count = header->index_count;
    i = UNWIND_SEARCH((const __u32 *)header, offsetof(struct unwind_object_header, index) / 4, 127, count, offset,
                      scratch->walk.zero);
    low = i << (header->index_shift & 31);
    high = (i + 1) << (header->index_shift & 31);
    if (high > pages)
        high = pages;
    for (int n = 0; n < 16; n++) {
        __u32 middle = (low + high) / 2;

        if (low + 1 >= high)
            break;
        key = 1 + middle;
        page = bpf_map_lookup_elem(values, &key);
        if (!page)
            return UNWIND_END_NO_TABLE;
        if (page->base <= offset)
            low = middle;
        else
            high = middle;
    }
    key = 1 + low;
    page = bpf_map_lookup_elem(values, &key);
    if (!page || low >= pages || page->base > offset)
        return UNWIND_END_NO_CFI;
    distance = offset - page->base;
    count = page->rows;
    i = UNWIND_SEARCH(page->distance, 0, 127, count, distance, scratch->walk.zero);
    UNWIND_SAME_REGISTER(i);
    if (i >= UNWIND_PAGE_ROWS)
        return UNWIND_END_NO_CFI;
    rule = page->rule[i];
    key = 1 + pages + rule / UNWIND_RULES_A_PAGE;
    rules = bpf_map_lookup_elem(values, &key);
    if (!rules)
        return UNWIND_END_NO_TABLE;
    scratch->walk.rule = rules->rules[rule % UNWIND_RULES_A_PAGE];
    return 0;
}
