/* Unwind tables: the writer, and the lookup of user space; see unwind_table.h and probes/unwind/unwind.h. */
#include "resolve/unwind/unwind_table.h"

#include <errno.h>
#include <string.h>
#include <xxhash.h>

#define FIRST_PAGES   16
#define FIRST_RULES   64
#define RECENT_RULES  256
#define RULE_NONE     0 /* the writer adds these two first */
#define RULE_REPLACED 1 /* replaces rules beyond UNWIND_MAX_RULES */

struct unwind_table_writer {
    struct unwind_page *pages; /* [0] is reserved for the header */
    size_t page_count, page_capacity;
    struct unwind_rule *rules;
    size_t rule_count, rule_capacity;
    uint32_t recent[RECENT_RULES]; /* rule numbers + 1, by a cheap hash: few rules cover nearly all rows */
    uint32_t *slots;               /* hash table of rule numbers + 1; size a power of two, half full at most */
    size_t slot_count;
    uint32_t last_rule;
    uint32_t row_count, skipped;
    int error;
};

static int slots_grow(struct unwind_table_writer *w)
{
    size_t count = w->slot_count ? w->slot_count * 2 : FIRST_RULES * 2;
    uint32_t *slots = calloc(count, sizeof(*slots));
    if (!slots)
        return -ENOMEM;
    for (size_t i = 0; i < w->rule_count; i++) {
        size_t at = XXH3_64bits(&w->rules[i], sizeof(w->rules[i])) & (count - 1);
        while (slots[at])
            at = (at + 1) & (count - 1);
        slots[at] = (uint32_t)i + 1;
    }
    free(w->slots);
    w->slots = slots;
    w->slot_count = count;
    return 0;
}

static bool same_rule(const struct unwind_rule *a, const struct unwind_rule *b)
{
    uint64_t x[2], y[2];
    _Static_assert(sizeof(x) == sizeof(*a), "covers the whole rule");
    memcpy(x, a, sizeof(x));
    memcpy(y, b, sizeof(y));
    return x[0] == y[0] && x[1] == y[1];
}

static int find_rule(struct unwind_table_writer *w, const struct unwind_rule *rule, uint32_t *ret)
{
    if ((w->rule_count + 1) * 2 > w->slot_count) {
        int r = slots_grow(w);
        if (r < 0)
            return r;
    }
    size_t at = XXH3_64bits(rule, sizeof(*rule)) & (w->slot_count - 1);
    for (; w->slots[at]; at = (at + 1) & (w->slot_count - 1)) {
        if (same_rule(&w->rules[w->slots[at] - 1], rule)) {
            *ret = w->slots[at] - 1;
            return 0;
        }
    }
    if (w->rule_count == UNWIND_MAX_RULES) {
        w->skipped++;
        *ret = RULE_REPLACED;
        return 0;
    }
    if (w->rule_count == w->rule_capacity) {
        size_t capacity = w->rule_capacity ? w->rule_capacity * 2 : FIRST_RULES;
        struct unwind_rule *rules = reallocarray(w->rules, capacity, sizeof(*rules));
        if (!rules)
            return -ENOMEM;
        w->rules = rules;
        w->rule_capacity = capacity;
    }
    w->rules[w->rule_count] = *rule;
    w->slots[at] = (uint32_t)w->rule_count + 1;
    *ret = (uint32_t)w->rule_count++;
    return 0;
}

static int rule_number(struct unwind_table_writer *w, const struct unwind_rule *rule, uint32_t *ret)
{
    uint32_t mixed =
        ((uint32_t)rule->cfa_offset ^ (uint32_t)rule->fp_offset << 7 ^ (uint32_t)rule->bx_words << 13 ^ rule->cfa) *
        0x9e3779b1u;
    uint32_t *recent = &w->recent[mixed >> 24];
    _Static_assert(RECENT_RULES == 1 << 8, "the hash gives 8 bits");
    if (*recent && same_rule(&w->rules[*recent - 1], rule)) {
        *ret = *recent - 1;
        return 0;
    }
    int r = find_rule(w, rule, ret);
    if (r == 0)
        *recent = *ret + 1;
    return r;
}

/* Ensures capacity for `count` pages. */
static int reserve_pages(struct unwind_table_writer *w, size_t count)
{
    if (count <= w->page_capacity)
        return 0;
    size_t capacity = w->page_capacity + w->page_capacity / 2;
    if (capacity < count)
        capacity = count > FIRST_PAGES ? count : FIRST_PAGES;
    struct unwind_page *pages = reallocarray(w->pages, capacity, sizeof(*pages));
    if (!pages)
        return -ENOMEM;
    w->pages = pages;
    w->page_capacity = capacity;
    return 0;
}

static int add_page(struct unwind_table_writer *w, uint32_t base)
{
    if (w->page_count == UNWIND_MAX_PAGES + 1)
        return -EFBIG;
    int r = reserve_pages(w, w->page_count + 1);
    if (r < 0)
        return r;
    struct unwind_page *page = &w->pages[w->page_count++];
    memset(page, 0, sizeof(*page));
    page->base = base;
    return 0;
}

static int add_row(struct unwind_table_writer *w, uint32_t file_offset, uint32_t rule)
{
    struct unwind_page *page = w->page_count > 1 ? &w->pages[w->page_count - 1] : NULL;
    if (page && page->base + page->distance[page->rows - 1] == file_offset) {
        page->rule[page->rows - 1] = (uint16_t)rule; /* the previous row was empty */
        return 0;
    }
    if (!page || page->rows == UNWIND_PAGE_ROWS || file_offset - page->base > UINT16_MAX) {
        int r = add_page(w, file_offset);
        if (r < 0)
            return r;
        page = &w->pages[w->page_count - 1];
    }
    page->distance[page->rows] = (uint16_t)(file_offset - page->base);
    page->rule[page->rows] = (uint16_t)rule;
    page->rows++;
    w->row_count++;
    return 0;
}

int unwind_table_writer_new(struct unwind_table_writer **ret)
{
    _cleanup_(unwind_table_writer_freep) struct unwind_table_writer *w = calloc(1, sizeof(*w));
    if (!w)
        return -ENOMEM;
    uint32_t number;
    int r = reserve_pages(w, 1);
    if (r == 0)
        r = rule_number(w, &(struct unwind_rule){.cfa = UNWIND_CFA_NONE}, &number);
    if (r == 0)
        r = rule_number(w, &(struct unwind_rule){.cfa = UNWIND_CFA_UNSUPPORTED}, &number);
    if (r < 0)
        return r;
    w->page_count = 1;
    w->last_rule = RULE_NONE; /* code before the first row has no rule */
    *ret = take_ptr(w);
    return 0;
}

void unwind_table_writer_free(struct unwind_table_writer *w)
{
    if (!w)
        return;
    free(w->pages);
    free(w->rules);
    free(w->slots);
    free(w);
}

void unwind_table_writer_add(struct unwind_table_writer *w, uint32_t file_offset, const struct unwind_rule *rule)
{
    uint32_t number;
    if (w->error < 0)
        return;
    w->error = rule_number(w, rule, &number);
    if (w->error < 0 || number == w->last_rule)
        return;
    w->error = add_row(w, file_offset, number);
    w->last_rule = number;
}

static void fill_header(struct unwind_object_header *header, const struct unwind_page *pages, size_t page_count,
                        size_t rule_count)
{
    *header = (struct unwind_object_header){.pages = (uint32_t)page_count, .rules = (uint32_t)rule_count};
    size_t places = sizeof(header->index) / sizeof(header->index[0]);
    while (((page_count + ((size_t)1 << header->index_shift) - 1) >> header->index_shift) > places)
        header->index_shift++;
    for (size_t i = 0; i << header->index_shift < page_count; i++)
        header->index[header->index_count++] = pages[i << header->index_shift].base;
}

int unwind_table_writer_finish(struct unwind_table_writer *w, struct unwind_table **ret)
{
    if (w->error < 0)
        return w->error;
    if (w->row_count == 0)
        return -ENOENT;
    size_t rule_pages = (w->rule_count + UNWIND_RULES_A_PAGE - 1) / UNWIND_RULES_A_PAGE;
    size_t value_count = w->page_count + rule_pages;
    struct unwind_page *values =
        reallocarray(w->pages, value_count, UNWIND_VALUE_BYTES); /* trims the excess capacity */
    if (!values)
        return -ENOMEM;
    w->pages = values;
    w->page_capacity = value_count;
    struct unwind_table *t = calloc(1, sizeof(*t));
    if (!t)
        return -ENOMEM;

    struct unwind_object_header header;
    fill_header(&header, values + 1, w->page_count - 1, w->rule_count);
    memcpy(&values[0], &header, sizeof(header));
    memset(&values[w->page_count], 0, rule_pages * UNWIND_VALUE_BYTES);
    memcpy(&values[w->page_count], w->rules, w->rule_count * sizeof(*w->rules));
    *t = (struct unwind_table){.values = values,
                               .value_count = value_count,
                               .row_count = w->row_count,
                               .rule_count = (uint32_t)w->rule_count,
                               .skipped = w->skipped};
    w->pages = NULL;
    w->page_count = w->page_capacity = 0;
    w->error = -EINVAL; /* the writer cannot be used again */
    *ret = t;
    return 0;
}

void unwind_table_free(struct unwind_table *t)
{
    if (!t)
        return;
    free(t->values);
    free(t);
}

/* Index of the last of `count` ascending numbers that is <= `x`; the first one must be. */
#define LAST_NOT_ABOVE(count, x, number_of)                                                                            \
    ({                                                                                                                 \
        size_t low_ = 0, high_ = (count);                                                                              \
        while (high_ - low_ > 1) {                                                                                     \
            size_t i = low_ + (high_ - low_) / 2;                                                                      \
            if ((number_of) <= (x))                                                                                    \
                low_ = i;                                                                                              \
            else                                                                                                       \
                high_ = i;                                                                                             \
        }                                                                                                              \
        low_;                                                                                                          \
    })

const struct unwind_rule *unwind_table_find(const struct unwind_table *t, uint32_t file_offset)
{
    const struct unwind_object_header *header = t->values;
    const struct unwind_page *pages = (const struct unwind_page *)t->values + 1;
    if (header->pages == 0 || file_offset < pages[0].base)
        return NULL;
    size_t first = LAST_NOT_ABOVE(header->index_count, file_offset, header->index[i]) << header->index_shift;
    size_t count = (size_t)1 << header->index_shift;
    if (count > header->pages - first)
        count = header->pages - first;
    const struct unwind_page *page = &pages[first + LAST_NOT_ABOVE(count, file_offset, pages[first + i].base)];
    uint32_t distance = file_offset - page->base;
    size_t row = LAST_NOT_ABOVE(page->rows, distance, page->distance[i]);
    const struct unwind_rule *rules = (const struct unwind_rule *)(pages + header->pages);
    return &rules[page->rule[row]];
}
