/* BPF programs as kernel code; see bpf_programs.h. A program's address ranges are read when it is first listed. Its
 * names and lines, which require loading its BTF, are read on the first lookup of an address in it. */
#include "resolve/kernel/bpf_programs.h"

#include "base/hex.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef HAVE_LIBBPF

struct bpf_programs {
    char unused;
};

int bpf_programs_new(struct bpf_programs **ret)
{
    *ret = calloc(1, sizeof(**ret));
    return *ret ? 0 : -ENOMEM;
}

void bpf_programs_free(struct bpf_programs *p)
{
    free(p);
}

void bpf_programs_limit(struct bpf_programs *p, size_t detailed)
{
    (void)p;
    (void)detailed;
}

bool bpf_programs_refresh(struct bpf_programs *p)
{
    (void)p;
    return false;
}

bool bpf_programs_find(struct bpf_programs *p, uint64_t address, struct bpf_place *ret)
{
    (void)p;
    (void)address;
    (void)ret;
    return false;
}

size_t bpf_programs_count(const struct bpf_programs *p)
{
    (void)p;
    return 0;
}

#else

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <linux/bpf.h>

#define PROGRAMS_MAX  4096  /* known at the same time */
#define FUNCTIONS_MAX 256   /* of one program: BPF_MAX_SUBPROGS */
#define LINES_MAX     65536 /* of one program */
#define DETAILED_MAX  64    /* programs whose names and lines are kept */
#define NAME_BYTES    256

struct line {
    uint64_t address;
    uint32_t file; /* offset in detail.texts */
    uint32_t line;
};

struct function {
    uint64_t start, end;
    char name[NAME_BYTES];
};

struct detail {
    struct function *functions;
    uint32_t function_count;
    struct line *lines; /* sorted by address */
    uint32_t line_count;
    char *texts; /* file names, end to end */
    size_t text_bytes;
    uint64_t used; /* value of lookups at the last use */
};

struct range {
    uint64_t start, end;
    uint32_t program; /* program ID */
};

struct program {
    uint32_t id;
    bool seen; /* in the current listing */
    bool unloaded;
    struct detail *detail; /* NULL: not read yet, or evicted */
};

struct bpf_programs {
    struct program *programs; /* sorted by ID */
    size_t count;
    struct range *ranges; /* sorted by start */
    size_t range_count;
    size_t detailed_max;
    uint64_t lookups;
};

static void detail_free(struct detail *d)
{
    if (!d)
        return;
    free(d->functions);
    free(d->lines);
    free(d->texts);
    free(d);
}
DEFINE_FREEP(detail)

int bpf_programs_new(struct bpf_programs **ret)
{
    struct bpf_programs *p = calloc(1, sizeof(*p));
    if (!p)
        return -ENOMEM;
    p->detailed_max = DETAILED_MAX;
    *ret = p;
    return 0;
}

void bpf_programs_limit(struct bpf_programs *p, size_t detailed)
{
    p->detailed_max = detailed < DETAILED_MAX ? detailed : DETAILED_MAX;
}

void bpf_programs_free(struct bpf_programs *p)
{
    if (!p)
        return;
    for (size_t i = 0; i < p->count; i++)
        detail_free(p->programs[i].detail);
    free(p->programs);
    free(p->ranges);
    free(p);
}

size_t bpf_programs_count(const struct bpf_programs *p)
{
    return p->count;
}

static struct program *find_program(const struct bpf_programs *p, uint32_t id)
{
    size_t low = 0, high = p->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (p->programs[middle].id < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low < p->count && p->programs[low].id == id ? &p->programs[low] : NULL;
}

static void remove_program(struct bpf_programs *p, uint32_t id)
{
    struct program *program = find_program(p, id);
    if (!program)
        return;
    detail_free(program->detail);
    size_t index = program - p->programs;
    memmove(program, program + 1, (p->count - index - 1) * sizeof(*program));
    p->count--;
    size_t kept = 0;
    for (size_t i = 0; i < p->range_count; i++)
        if (p->ranges[i].program != id)
            p->ranges[kept++] = p->ranges[i];
    p->range_count = kept;
}

static int compare_ranges(const void *a, const void *b)
{
    uint64_t x = ((const struct range *)a)->start, y = ((const struct range *)b)->start;
    return x < y ? -1 : x > y;
}

/* Removes unloaded programs whose addresses a new program occupies. */
static void evict_overlapping(struct bpf_programs *p, const struct range *fresh, uint32_t count)
{
    for (uint32_t f = 0; f < count; f++)
        for (size_t i = 0; i < p->range_count; i++) {
            const struct range *r = &p->ranges[i];
            if (r->start >= fresh[f].end || fresh[f].start >= r->end || r->program == fresh[f].program)
                continue;
            remove_program(p, r->program);
            i = -1; /* start over: the array has changed */
        }
}

/* Reads the address ranges of the program's functions; returns their number, 0 if the kernel does not reveal them. */
static uint32_t read_ranges(int fd, uint32_t id, struct range ret[FUNCTIONS_MAX])
{
    uint64_t starts[FUNCTIONS_MAX];
    uint32_t lengths[FUNCTIONS_MAX];
    struct bpf_prog_info info = {
        .nr_jited_ksyms = FUNCTIONS_MAX,
        .jited_ksyms = (uintptr_t)starts,
        .nr_jited_func_lens = FUNCTIONS_MAX,
        .jited_func_lens = (uintptr_t)lengths,
    };
    uint32_t size = sizeof(info);
    if (bpf_obj_get_info_by_fd(fd, &info, &size) || !info.jited_ksyms || !info.jited_func_lens)
        return 0;
    uint32_t count = info.nr_jited_ksyms < info.nr_jited_func_lens ? info.nr_jited_ksyms : info.nr_jited_func_lens;
    if (count > FUNCTIONS_MAX)
        count = FUNCTIONS_MAX;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < count; i++)
        if (starts[i])
            ret[kept++] = (struct range){.start = starts[i], .end = starts[i] + lengths[i], .program = id};
    return kept;
}

/* Adds a program. False: no address ranges are available for it, or out of memory. */
static bool add_program(struct bpf_programs *p, uint32_t id)
{
    _cleanup_close_ int fd = bpf_prog_get_fd_by_id(id);
    if (fd < 0)
        return false;
    struct range ranges[FUNCTIONS_MAX];
    uint32_t count = read_ranges(fd, id, ranges);
    evict_overlapping(p, ranges, count);
    struct program *programs = realloc(p->programs, (p->count + 1) * sizeof(*programs));
    if (!programs)
        return false;
    p->programs = programs;
    if (count) {
        struct range *grown = realloc(p->ranges, (p->range_count + count) * sizeof(*grown));
        if (!grown)
            return false;
        p->ranges = grown;
        memcpy(grown + p->range_count, ranges, count * sizeof(*ranges));
        p->range_count += count;
    }
    size_t at = p->count++;
    for (; at && programs[at - 1].id > id; at--) /* IDs ascend, so this loop rarely runs */
        programs[at] = programs[at - 1];
    programs[at] = (struct program){.id = id, .seen = true};
    return count > 0;
}

/* Removes one unloaded program to make space. False: all programs are still loaded. */
static bool remove_unloaded(struct bpf_programs *p)
{
    for (size_t i = 0; i < p->count; i++)
        if (p->programs[i].unloaded) {
            remove_program(p, p->programs[i].id);
            return true;
        }
    return false;
}

bool bpf_programs_refresh(struct bpf_programs *p)
{
    for (size_t i = 0; i < p->count; i++)
        p->programs[i].seen = false;
    bool found = false;
    uint32_t id = 0;
    while (!bpf_prog_get_next_id(id, &id)) {
        struct program *known = find_program(p, id);
        if (known)
            known->seen = true;
        else if (p->count < PROGRAMS_MAX || remove_unloaded(p))
            found |= add_program(p, id);
    }
    for (size_t i = 0; i < p->count; i++)
        p->programs[i].unloaded = !p->programs[i].seen;
    if (found)
        qsort(p->ranges, p->range_count, sizeof(*p->ranges), compare_ranges);
    return found;
}

/* The parts of bpf_prog_info about functions and lines; the arrays follow the struct in the same allocation. */
struct program_info {
    struct bpf_prog_info info;
    uint64_t *starts;
    uint32_t *lengths;
    uint8_t (*tags)[BPF_TAG_SIZE];
    struct bpf_func_info *functions;
    struct bpf_line_info *lines;
    uint64_t *line_addresses;
};

static void *carve_array(uint8_t **at, size_t count, size_t element_bytes)
{
    void *piece = *at;
    *at += (count * element_bytes + 7) & ~(size_t)7;
    return piece;
}

/* The caller frees. NULL: the program was unloaded, or its information is unavailable. */
static struct program_info *read_info(int fd)
{
    struct bpf_prog_info head = {0};
    uint32_t size = sizeof(head);
    if (bpf_obj_get_info_by_fd(fd, &head, &size))
        return NULL;
    uint32_t functions = head.nr_jited_ksyms, named = head.nr_func_info, lines = head.nr_line_info;
    if (functions > FUNCTIONS_MAX || named > FUNCTIONS_MAX || lines > LINES_MAX)
        return NULL;
    bool has_lines = lines && lines == head.nr_jited_line_info && head.btf_id &&
                     head.line_info_rec_size <= sizeof(struct bpf_line_info) &&
                     head.jited_line_info_rec_size == sizeof(uint64_t);
    bool has_names = named && head.func_info_rec_size <= sizeof(struct bpf_func_info);
    if (!has_lines)
        lines = 0;
    if (!has_names)
        named = 0;
    size_t bytes = sizeof(struct program_info) + functions * (8 + 4 + BPF_TAG_SIZE) +
                   named * sizeof(struct bpf_func_info) + lines * (sizeof(struct bpf_line_info) + 8) + 6 * 8;
    struct program_info *p = calloc(1, bytes);
    if (!p)
        return NULL;
    uint8_t *at = (uint8_t *)(p + 1);
    p->starts = carve_array(&at, functions, 8);
    p->lengths = carve_array(&at, functions, 4);
    p->tags = carve_array(&at, functions, BPF_TAG_SIZE);
    p->functions = carve_array(&at, named, sizeof(*p->functions));
    p->lines = carve_array(&at, lines, sizeof(*p->lines));
    p->line_addresses = carve_array(&at, lines, 8);
    p->info = (struct bpf_prog_info){
        .nr_jited_ksyms = functions,
        .jited_ksyms = (uintptr_t)p->starts,
        .nr_jited_func_lens = functions,
        .jited_func_lens = (uintptr_t)p->lengths,
        .nr_prog_tags = functions,
        .prog_tags = (uintptr_t)p->tags,
        .nr_func_info = named,
        .func_info_rec_size = sizeof(*p->functions),
        .func_info = (uintptr_t)p->functions,
        .nr_line_info = lines,
        .line_info_rec_size = sizeof(*p->lines),
        .line_info = (uintptr_t)p->lines,
        .nr_jited_line_info = lines,
        .jited_line_info_rec_size = 8,
        .jited_line_info = (uintptr_t)p->line_addresses,
    };
    size = sizeof(p->info);
    bool changed = bpf_obj_get_info_by_fd(fd, &p->info, &size) || p->info.nr_jited_ksyms != functions ||
                   p->info.nr_jited_func_lens != functions || p->info.nr_prog_tags != functions;
    if (changed) {
        free(p);
        return NULL;
    }
    if (!p->info.jited_line_info || !p->info.line_info)
        p->info.nr_line_info = 0;
    if (!p->info.func_info)
        p->info.nr_func_info = 0;
    return p;
}

static int fill_functions(struct detail *d, const struct program_info *p, const struct btf *btf)
{
    d->functions = calloc(p->info.nr_jited_ksyms ? p->info.nr_jited_ksyms : 1, sizeof(*d->functions));
    if (!d->functions)
        return -ENOMEM;
    for (uint32_t i = 0; i < p->info.nr_jited_ksyms; i++) {
        struct function *f = &d->functions[d->function_count++];
        const char *name = p->info.name;
        if (btf && i < p->info.nr_func_info) {
            const struct btf_type *type = btf__type_by_id(btf, p->functions[i].type_id);
            const char *full = type ? btf__name_by_offset(btf, type->name_off) : NULL;
            if (full && *full)
                name = full;
        }
        char tag[2 * BPF_TAG_SIZE + 1];
        hex_write(i ? p->tags[i] : p->info.tag, BPF_TAG_SIZE, tag);
        f->start = p->starts[i];
        f->end = p->starts[i] + p->lengths[i];
        snprintf(f->name, sizeof(f->name), *name ? "bpf_prog_%s_%s" : "bpf_prog_%s", tag, name);
    }
    return 0;
}

/* Adds a file name unless it is present; `*ret` is its offset. The caller skips consecutive lines of one file. */
static int add_file_name(struct detail *d, const char *text, uint32_t *ret)
{
    size_t size = strlen(text) + 1;
    for (size_t at = 0; at < d->text_bytes; at += strlen(d->texts + at) + 1)
        if (!strcmp(d->texts + at, text)) {
            *ret = at;
            return 0;
        }
    char *grown = realloc(d->texts, d->text_bytes + size);
    if (!grown)
        return -ENOMEM;
    d->texts = grown;
    memcpy(grown + d->text_bytes, text, size);
    *ret = d->text_bytes;
    d->text_bytes += size;
    return 0;
}

static int compare_lines(const void *a, const void *b)
{
    uint64_t x = ((const struct line *)a)->address, y = ((const struct line *)b)->address;
    return x < y ? -1 : x > y;
}

static int fill_lines(struct detail *d, const struct program_info *p, const struct btf *btf)
{
    if (!btf || !p->info.nr_line_info)
        return 0;
    d->lines = calloc(p->info.nr_line_info, sizeof(*d->lines));
    if (!d->lines)
        return -ENOMEM;
    uint32_t file_name_off = UINT32_MAX, file = 0;
    for (uint32_t i = 0; i < p->info.nr_line_info; i++) {
        const struct bpf_line_info *from = &p->lines[i];
        if (!p->line_addresses[i])
            continue;
        if (from->file_name_off != file_name_off) {
            const char *name = btf__name_by_offset(btf, from->file_name_off);
            int r = add_file_name(d, name ? name : "", &file);
            if (r < 0)
                return r;
            file_name_off = from->file_name_off;
        }
        d->lines[d->line_count++] = (struct line){
            .address = p->line_addresses[i], .file = file, .line = BPF_LINE_INFO_LINE_NUM(from->line_col)};
    }
    qsort(d->lines, d->line_count, sizeof(*d->lines), compare_lines);
    return 0;
}

static struct detail *read_detail(uint32_t id)
{
    _cleanup_close_ int fd = bpf_prog_get_fd_by_id(id);
    if (fd < 0)
        return NULL;
    _cleanup_free_ struct program_info *p = read_info(fd);
    _cleanup_(detail_freep) struct detail *d = calloc(1, sizeof(*d));
    if (!p || !d)
        return NULL;
    struct btf *btf = p->info.btf_id ? btf__load_from_kernel_by_id(p->info.btf_id) : NULL;
    int r = fill_functions(d, p, btf);
    if (r == 0)
        r = fill_lines(d, p, btf);
    btf__free(btf);
    return r < 0 ? NULL : take_ptr(d);
}

/* The names and lines of a program, read on first use; evicts the least recently used program's. */
static struct detail *program_detail(struct bpf_programs *p, struct program *program)
{
    if (!program->detail && !program->unloaded) {
        size_t held = 0;
        struct program *oldest = NULL;
        for (size_t i = 0; i < p->count; i++) {
            struct program *other = &p->programs[i];
            if (!other->detail)
                continue;
            held++;
            if (!oldest || other->detail->used < oldest->detail->used)
                oldest = other;
        }
        if (held >= p->detailed_max) {
            detail_free(oldest->detail);
            oldest->detail = NULL;
        }
        program->detail = read_detail(program->id);
    }
    if (program->detail)
        program->detail->used = p->lookups;
    return program->detail;
}

static const struct range *find_range(const struct bpf_programs *p, uint64_t address)
{
    size_t low = 0, high = p->range_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (p->ranges[middle].start <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low && address < p->ranges[low - 1].end ? &p->ranges[low - 1] : NULL;
}

/* Sets the line of `address`: the last one that begins at or before it within its function. */
static void find_line(const struct detail *d, const struct function *f, uint64_t address, struct bpf_place *place)
{
    uint32_t low = 0, high = d->line_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (d->lines[middle].address <= address)
            low = middle + 1;
        else
            high = middle;
    }
    if (!low || d->lines[low - 1].address < f->start)
        return;
    place->file = d->texts + d->lines[low - 1].file;
    place->line = d->lines[low - 1].line;
}

bool bpf_programs_find(struct bpf_programs *p, uint64_t address, struct bpf_place *ret)
{
    const struct range *range = find_range(p, address);
    struct program *program = range ? find_program(p, range->program) : NULL;
    if (!program)
        return false;
    p->lookups++;
    const struct detail *d = program_detail(p, program);
    for (uint32_t i = 0; d && i < d->function_count; i++) {
        const struct function *f = &d->functions[i];
        if (address < f->start || address >= f->end)
            continue;
        *ret = (struct bpf_place){.function = f->name, .file = ""};
        find_line(d, f, address, ret);
        return true;
    }
    return false;
}

#endif
