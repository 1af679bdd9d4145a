/* Names of native code: the selection rules, on generated files, compared with a second, naive implementation. Every
 * lookup is made with caches of every size: they must not change any result. */
#include "resolve/symbols/symbols.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "../../send/export_metrics.h"
#include "../object_by_path.h"

#define SMALLEST 1
#define DIVIDING 90000 /* an index of several thousand symbols does not fit, its parts do */
#define LARGE    (8u << 20)
static const size_t cache_sizes[] = {SMALLEST, DIVIDING, LARGE};

int object_open_in_process_root(const struct object *o, const char *path)
{
    (void)o;
    (void)path;
    return -ENOENT;
}

/* --- generated files --- */

#define TEXT_OFFSET 0x1000
#define TEXT_VADDR  0x401000
#define TEXT_BYTES  0x8000
#define COLD_VADDR  (TEXT_VADDR + TEXT_BYTES) /* a second code section right after it */
#define COLD_BYTES  0x1000
#define FILE_BYTES  (TEXT_OFFSET + TEXT_BYTES + COLD_BYTES)

enum { SECTION_TEXT = 1, SECTION_COLD, SECTION_DATA, SECTION_SYMTAB, SECTION_STRTAB, SECTION_NAMES, SECTIONS };

struct test_symbol {
    uint64_t value, size;
    uint8_t type, binding;
    uint16_t section;
    const char *name;
};

/* A descriptor of an ELF file with these symbols. */
static int make_file(const struct test_symbol *symbols, size_t count)
{
    static const char names[] = "\0.text\0.text.cold\0.data\0.symtab\0.strtab\0.shstrtab";
    size_t strings_max = 1;
    for (size_t i = 0; i < count; i++)
        strings_max += strlen(symbols[i].name) + 1;
    Elf64_Sym *table = calloc(count + 1, sizeof(*table));
    char *strings = calloc(1, strings_max);
    assert_true(table && strings);
    size_t at = 1;
    for (size_t i = 0; i < count; i++) {
        table[i + 1] = (Elf64_Sym){.st_name = at,
                                   .st_info = ELF64_ST_INFO(symbols[i].binding, symbols[i].type),
                                   .st_shndx = symbols[i].section,
                                   .st_value = symbols[i].value,
                                   .st_size = symbols[i].size};
        memcpy(strings + at, symbols[i].name, strlen(symbols[i].name) + 1);
        at += strlen(symbols[i].name) + 1;
    }
    uint64_t symtab = FILE_BYTES, strtab = symtab + (count + 1) * sizeof(*table), shstrtab = strtab + strings_max;
    uint64_t headers = (shstrtab + sizeof(names) + 7) & ~7ull;
    Elf64_Ehdr header = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
                         .e_type = ET_EXEC,
                         .e_machine = EM_X86_64,
                         .e_version = EV_CURRENT,
                         .e_phoff = sizeof(header),
                         .e_shoff = headers,
                         .e_ehsize = sizeof(header),
                         .e_phentsize = sizeof(Elf64_Phdr),
                         .e_phnum = 1,
                         .e_shentsize = sizeof(Elf64_Shdr),
                         .e_shnum = SECTIONS,
                         .e_shstrndx = SECTION_NAMES};
    Elf64_Phdr segment = {.p_type = PT_LOAD,
                          .p_flags = PF_R | PF_X,
                          .p_offset = TEXT_OFFSET,
                          .p_vaddr = TEXT_VADDR,
                          .p_filesz = TEXT_BYTES + COLD_BYTES,
                          .p_memsz = TEXT_BYTES + COLD_BYTES};
    Elf64_Shdr sections[SECTIONS] = {
        [SECTION_TEXT] = {1, SHT_PROGBITS, SHF_ALLOC | SHF_EXECINSTR, TEXT_VADDR, TEXT_OFFSET, TEXT_BYTES},
        [SECTION_COLD] = {7, SHT_PROGBITS, SHF_ALLOC | SHF_EXECINSTR, COLD_VADDR, TEXT_OFFSET + TEXT_BYTES, COLD_BYTES},
        [SECTION_DATA] = {18, SHT_PROGBITS, SHF_ALLOC | SHF_WRITE, 0x500000, TEXT_OFFSET, 0x100},
        [SECTION_SYMTAB] = {24, SHT_SYMTAB, 0, 0, symtab, (count + 1) * sizeof(*table), SECTION_STRTAB, 1, 8,
                            sizeof(*table)},
        [SECTION_STRTAB] = {32, SHT_STRTAB, 0, 0, strtab, strings_max},
        [SECTION_NAMES] = {40, SHT_STRTAB, 0, 0, shstrtab, sizeof(names)},
    };
    int fd = memfd_create("made", MFD_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, headers + sizeof(sections)), 0);
    assert_int_equal(pwrite(fd, &header, sizeof(header), 0), sizeof(header));
    assert_int_equal(pwrite(fd, &segment, sizeof(segment), sizeof(header)), sizeof(segment));
    assert_int_equal(pwrite(fd, table, (count + 1) * sizeof(*table), symtab), (count + 1) * sizeof(*table));
    assert_int_equal(pwrite(fd, strings, strings_max, strtab), strings_max);
    assert_int_equal(pwrite(fd, names, sizeof(names), shstrtab), sizeof(names));
    assert_int_equal(pwrite(fd, sections, sizeof(sections), headers), sizeof(sections));
    free(table);
    free(strings);
    return fd;
}

static struct symbols *symbols_make(size_t cache_bytes, const char *debug_root)
{
    struct symbols_options options = {.cache_bytes = cache_bytes, .debug_root = debug_root};
    struct symbols *s = NULL;
    assert_int_equal(symbols_new(&options, &s), 0);
    return s;
}

static void expect(struct symbols *s, struct object *o, uint64_t vaddr, const char *name)
{
    struct symbol found;
    int r = symbols_find(s, o, vaddr - TEXT_VADDR + TEXT_OFFSET, &found);
    /* On a busy machine, the process that demangles may not answer in time: it is asked again. */
    for (int i = 0; i < 100 && strncmp(found.function, "_Z", 2) == 0 && strncmp(name, "_Z", 2) != 0; i++)
        r = symbols_find(s, o, vaddr - TEXT_VADDR + TEXT_OFFSET, &found);
    if (strcmp(found.function, name) || found.address != vaddr)
        print_message("at %#lx: %s, not %s\n", vaddr, found.function, name);
    assert_string_equal(found.function, name);
    assert_true(found.address == vaddr);
    assert_int_equal(r, *name ? 0 : -ENOENT);
}

#define FUNCTION(v, s, b, n)                                                                                           \
    {                                                                                                                  \
        TEXT_VADDR + (v), s, STT_FUNC, b, SECTION_TEXT, n                                                              \
    }
#define LABEL(v, b, n)                                                                                                 \
    {                                                                                                                  \
        TEXT_VADDR + (v), 0, STT_NOTYPE, b, SECTION_TEXT, n                                                            \
    }

static void test_symbol_selection_rules(void **state)
{
    (void)state;
    static const struct test_symbol symbols[] = {
        FUNCTION(0x100, 0x20, STB_GLOBAL, "plain"),
        FUNCTION(0x200, 0x20, STB_WEAK, "aaa_weak"),
        FUNCTION(0x200, 0x20, STB_LOCAL, "aab_local"),
        FUNCTION(0x200, 0x20, STB_GLOBAL, "zzz_global"),
        FUNCTION(0x300, 0x20, STB_GLOBAL, "__under"),
        FUNCTION(0x300, 0x20, STB_GLOBAL, "_under_fewer"),
        FUNCTION(0x300, 0x40, STB_WEAK, "longer_alias"),
        FUNCTION(0x400, 0x100, STB_GLOBAL, "outer"),
        FUNCTION(0x440, 0x20, STB_LOCAL, "inner"),
        LABEL(0x480, STB_LOCAL, "label_inside"),
        LABEL(0x600, STB_GLOBAL, "_start_like"),
        FUNCTION(0x640, 0x10, STB_GLOBAL, "after_start"),
        LABEL(0x700, STB_LOCAL, "$x"),
        LABEL(0x700, STB_LOCAL, ".Lmarker"),
        FUNCTION(0x800, 0, STB_GLOBAL, "no_size"),
        FUNCTION(0x7f00, 0, STB_GLOBAL, "last_of_section"),
        FUNCTION(0x900, 0x10, STB_GLOBAL, "memcpy@@GLIBC_2.14"),
        FUNCTION(0x910, 0x10, STB_GLOBAL, "_ZN3foo3barEi.part.0"),
        {TEXT_VADDR + 0x920, 0x10, STT_GNU_IFUNC, STB_GLOBAL, SECTION_TEXT, "indirect"},
        {TEXT_VADDR + 0x930, 0x10, STT_OBJECT, STB_GLOBAL, SECTION_TEXT, "table_in_text"},
        {TEXT_VADDR + 0x940, 0x10, STT_FUNC, STB_GLOBAL, SHN_UNDEF, "imported"},
        {0x500010, 0x10, STT_FUNC, STB_GLOBAL, SECTION_DATA, "in_data"},
        {COLD_VADDR + 0x10, 0x10, STT_FUNC, STB_LOCAL, SECTION_COLD, "cold"},
        {TEXT_VADDR + 0x950, UINT64_MAX - 4, STT_FUNC, STB_GLOBAL, SECTION_TEXT, "wraps"},
    };
    int fd = make_file(symbols, array_size(symbols));
    char path[32];
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    for (size_t c = 0; c < array_size(cache_sizes); c++) {
        struct symbols *s = symbols_make(cache_sizes[c], "/nonexistent");
        struct object o = {.id = 7, .path = path, .build_id = ""};
        for (int round = 0; round < 2; round++) {
            uint64_t v = TEXT_VADDR;
            expect(s, &o, v + 0x100, "plain");
            expect(s, &o, v + 0x11f, "plain");
            expect(s, &o, v + 0x120, ""); /* past its size */
            expect(s, &o, v + 0x0ff, "");
            expect(s, &o, v + 0x210, "zzz_global");
            expect(s, &o, v + 0x310, "_under_fewer");
            expect(s, &o, v + 0x330, "longer_alias"); /* only this one extends that far */
            expect(s, &o, v + 0x43f, "outer");
            expect(s, &o, v + 0x440, "inner");
            expect(s, &o, v + 0x460, "outer");
            expect(s, &o, v + 0x490, "outer");
            expect(s, &o, v + 0x500, "");
            expect(s, &o, v + 0x600, "_start_like");
            expect(s, &o, v + 0x63f, "_start_like");
            expect(s, &o, v + 0x640, "after_start");
            expect(s, &o, v + 0x650, "");
            expect(s, &o, v + 0x700, "");
            expect(s, &o, v + 0x8ff, "no_size");
            expect(s, &o, v + 0x905, "memcpy");
            expect(s, &o, v + 0x915, "foo::bar [clone .part.0]");
            expect(s, &o, v + 0x925, "indirect");
            expect(s, &o, v + 0x935, "");
            expect(s, &o, v + 0x945, "");
            expect(s, &o, v + 0x955, "");
            expect(s, &o, v + 0x7fff, "last_of_section");
            expect(s, &o, COLD_VADDR, ""); /* the label before does not extend into the next section */
            expect(s, &o, COLD_VADDR + 0x1f, "cold");
        }
        struct symbol found;
        for (int round = 0; round < 2; round++) {
            assert_int_equal(symbols_find(s, &o, TEXT_OFFSET + 0x915 + round, &found), 0);
            assert_string_equal(found.system_name, "_ZN3foo3barEi.part.0");
            assert_int_equal(symbols_find(s, &o, TEXT_OFFSET + 0x905, &found), 0);
            assert_string_equal(found.system_name, ""); /* the same */
            assert_int_equal(symbols_find(s, &o, TEXT_OFFSET + 0x935, &found), -ENOENT);
            assert_string_equal(found.system_name, "");
        }
        assert_int_equal(symbols_find(s, &o, 0x10, &found), -ENOENT); /* the ELF header is not code */
        assert_int_equal(symbols_find(s, &o, UINT64_MAX, &found), -ENOENT);
        struct object gone = {.id = 8, .path = "/nonexistent/file", .build_id = ""};
        assert_int_equal(symbols_find(s, &gone, 0x1000, &found), -ENOENT);
        assert_string_equal(found.function, "");
        struct object anonymous = {.id = 9, .path = path, .build_id = "", .is_anonymous = true};
        assert_int_equal(symbols_find(s, &anonymous, 0x1000, &found), -ENOENT);
        symbols_free(s);
    }
    close(fd);
}

/* Adds .eh_frame_hdr, between the program headers and the code: functions begin at these addresses. */
static void add_frame_table(int fd, const uint64_t *starts, uint32_t count)
{
    enum { OFFSET = 0x200, VADDR = TEXT_VADDR - TEXT_OFFSET + OFFSET, ENCODINGS = 0x3b031b01 };
    const uint32_t head[] = {ENCODINGS, 0, count};
    const uint16_t header_count = 2;
    const uint64_t bytes = sizeof(head) + 8ull * count;
    const Elf64_Phdr header = {
        .p_type = PT_GNU_EH_FRAME, .p_offset = OFFSET, .p_vaddr = VADDR, .p_filesz = bytes, .p_memsz = bytes};
    assert_int_equal(pwrite(fd, &header_count, 2, offsetof(Elf64_Ehdr, e_phnum)), 2);
    assert_int_equal(pwrite(fd, &header, sizeof(header), sizeof(Elf64_Ehdr) + sizeof(Elf64_Phdr)), sizeof(header));
    assert_int_equal(pwrite(fd, head, sizeof(head), OFFSET), sizeof(head));
    for (uint32_t i = 0; i < count; i++) {
        const int32_t entry[] = {(int32_t)(starts[i] - VADDR), 0};
        assert_int_equal(pwrite(fd, entry, sizeof(entry), OFFSET + sizeof(head) + sizeof(entry) * i), sizeof(entry));
    }
}

/* Stripped libraries have few symbols: the code after one may be a function that has none. */
static void test_label_ends_where_a_function_begins(void **state)
{
    (void)state;
    static const struct test_symbol symbols[] = {
        LABEL(0x100, STB_GLOBAL, "in_assembly"),
        FUNCTION(0x400, 0, STB_GLOBAL, "without_size"),
        FUNCTION(0x600, 0x40, STB_GLOBAL, "sized"),
    };
    static const uint64_t starts[] = {TEXT_VADDR + 0x180, TEXT_VADDR + 0x400, TEXT_VADDR + 0x500, TEXT_VADDR + 0x620};
    int fd = make_file(symbols, array_size(symbols));
    char path[32];
    add_frame_table(fd, starts, array_size(starts));
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    for (size_t c = 0; c < array_size(cache_sizes); c++) {
        struct symbols *s = symbols_make(cache_sizes[c], "/nonexistent");
        struct object o = {.id = 7, .path = path, .build_id = ""};
        expect(s, &o, TEXT_VADDR + 0x17f, "in_assembly");
        expect(s, &o, TEXT_VADDR + 0x180, "");
        expect(s, &o, TEXT_VADDR + 0x3ff, "");
        expect(s, &o, TEXT_VADDR + 0x4ff, "without_size");
        expect(s, &o, TEXT_VADDR + 0x500, "");
        expect(s, &o, TEXT_VADDR + 0x63f, "sized"); /* its size is known */
        symbols_free(s);
    }
    close(fd);
}

/* --- the naive implementation --- */

static int rank(const struct test_symbol *m)
{
    return (m->type == STT_NOTYPE) * 4 + (m->binding == STB_LOCAL ? 1 : m->binding == STB_WEAK ? 2 : 0);
}

static bool better(const struct test_symbol *a, const struct test_symbol *b)
{
    if (rank(a) != rank(b))
        return rank(a) < rank(b);
    size_t x = strspn(a->name, "_"), y = strspn(b->name, "_");
    if (x != y)
        return x < y;
    if (strlen(a->name) != strlen(b->name))
        return strlen(a->name) < strlen(b->name);
    return strcmp(a->name, b->name) < 0;
}

static const char *naive(const struct test_symbol *symbols, size_t count, uint64_t address)
{
    const struct test_symbol *best = NULL;
    for (size_t i = 0; i < count; i++) {
        const struct test_symbol *m = &symbols[i];
        if (m->value > address || address - m->value >= m->size)
            continue;
        if (!best || m->value > best->value || (m->value == best->value && better(m, best)))
            best = m;
    }
    if (best)
        return best->name;
    uint64_t last = 0;
    for (size_t i = 0; i < count; i++)
        if (symbols[i].value <= address && symbols[i].value > last)
            last = symbols[i].value;
    for (size_t i = 0; i < count; i++) {
        const struct test_symbol *m = &symbols[i];
        if (m->size && m->value <= last && last - m->value < m->size)
            return "";
        if (m->value != last || m->size)
            continue;
        uint64_t section_end = m->section == SECTION_TEXT ? COLD_VADDR : COLD_VADDR + COLD_BYTES;
        if (address < section_end && (!best || better(m, best)))
            best = m;
    }
    return best ? best->name : "";
}

static uint32_t random_state;
static uint32_t random_below(uint32_t n)
{
    random_state = random_state * 1664525 + 1013904223;
    return (random_state >> 8) % n;
}

static void test_random_tables_match_a_reference(void **state)
{
    (void)state;
    enum { COUNT_MAX = 4000 };
    static struct test_symbol symbols[COUNT_MAX];
    static char names[COUNT_MAX][24];
    for (unsigned seed = 1; seed <= 12; seed++) {
        random_state = seed * 77777;
        size_t count = seed % 4 == 0 ? COUNT_MAX : 5 + random_below(300);
        for (size_t i = 0; i < count; i++) {
            bool is_cold = random_below(8) == 0;
            uint64_t place = random_below(is_cold ? COLD_BYTES : TEXT_BYTES) & ~(random_below(2) ? 15u : 63u);
            static const uint8_t bindings[] = {STB_LOCAL, STB_GLOBAL, STB_WEAK};
            uint64_t size = random_below(3) == 0 ? 0 : random_below(random_below(10) == 0 ? 4000 : 40);
            snprintf(names[i], sizeof(names[i]), "%.*sn%zu", (int)random_below(3), "__", i);
            symbols[i] = (struct test_symbol){.value = (is_cold ? COLD_VADDR : TEXT_VADDR) + place,
                                              .size = size,
                                              .type = random_below(5) ? STT_FUNC : STT_NOTYPE,
                                              .binding = bindings[random_below(3)],
                                              .section = is_cold ? SECTION_COLD : SECTION_TEXT,
                                              .name = names[i]};
        }
        int fd = make_file(symbols, count);
        char path[32];
        snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
        struct object o = {.id = seed, .path = path, .build_id = ""};
        for (size_t c = 0; c < array_size(cache_sizes); c++) {
            struct symbols *s = symbols_make(cache_sizes[c], "/nonexistent");
            uint64_t step = count == COUNT_MAX ? 61 : 7;
            for (uint64_t v = TEXT_VADDR; v < COLD_VADDR + COLD_BYTES; v += step)
                expect(s, &o, v, naive(symbols, count, v));
            symbols_free(s);
        }
        close(fd);
    }
}

/* --- memory pressure --- */

static double index_builds(const struct symbols *s)
{
    _cleanup_(metric_set_freep) struct metric_set *set = NULL;
    assert_int_equal(metric_set_new(&set), 0);
    symbols_metrics(s, set);
    return value_of_metric(set, "sonde_self_symbol_index_builds", NULL);
}

/* An agent that is short of memory trims every second. */
static void test_trim_keeps_what_is_in_use(void **state)
{
    (void)state;
    static const struct test_symbol symbols[] = {FUNCTION(0x100, 0x2000, STB_GLOBAL, "plain")};
    int fd = make_file(symbols, array_size(symbols));
    char path[32];
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    struct symbols *s = symbols_make(LARGE, "/nonexistent");
    struct object used = {.id = 1, .path = path, .build_id = ""}, idle = {.id = 2, .path = path, .build_id = ""};
    expect(s, &idle, TEXT_VADDR + 0x100, "plain");
    for (uint64_t i = 0; i < SYMBOLS_KEPT_LOOKUPS + 1; i++) {
        expect(s, &used, TEXT_VADDR + 0x100 + i, "plain"); /* each a new address */
        if (i % 512 == 0)
            symbols_trim(s);
    }
    assert_true(index_builds(s) == 2);
    symbols_trim(s);
    expect(s, &idle, TEXT_VADDR + 0x101, "plain");
    expect(s, &used, TEXT_VADDR + 0x100, "plain");
    assert_true(index_builds(s) == 3);
    symbols_free(s);
    close(fd);
}

/* --- damage --- */

#define FILES_EACH 500 /* read by the same symbols: to start and to end them takes longer than the files */

static void test_damaged_files_are_safe(void **state)
{
    (void)state;
    struct symbols *s = NULL;
    static const struct test_symbol symbols[] = {FUNCTION(0x100, 0x20, STB_GLOBAL, "plain"),
                                                 FUNCTION(0x200, 0x20, STB_WEAK, "weak")};
    for (unsigned seed = 0; seed < 3000; seed++) {
        int fd = make_file(symbols, array_size(symbols));
        random_state = seed;
        struct stat status;
        assert_int_equal(fstat(fd, &status), 0);
        if (seed % 3 == 0)
            assert_int_equal(ftruncate(fd, random_below(status.st_size)), 0);
        for (unsigned i = 0; i < 1 + seed % 7 && seed % 3; i++) {
            /* the area of headers and tables */
            off_t at =
                random_below(4) == 0 ? random_below(120) : FILE_BYTES + random_below(status.st_size - FILE_BYTES);
            uint8_t byte = random_below(3) == 0 ? 0xff : random_below(256);
            assert_int_equal(pwrite(fd, &byte, 1, at), 1);
        }
        char path[32];
        snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
        struct object o = {.id = seed + 1, .path = path, .build_id = ""};
        struct symbol found;
        if (seed % FILES_EACH == 0) {
            symbols_free(s);
            s = symbols_make(seed / FILES_EACH % 2 ? LARGE : SMALLEST, "/nonexistent");
        }
        for (uint64_t offset = TEXT_OFFSET; offset < TEXT_OFFSET + 0x400; offset += 0x55)
            (void)symbols_find(s, &o, offset, &found);
        close(fd);
    }
    symbols_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_symbol_selection_rules),
        cmocka_unit_test(test_label_ends_where_a_function_begins),
        cmocka_unit_test(test_random_tables_match_a_reference),
        cmocka_unit_test(test_trim_keeps_what_is_in_use),
        cmocka_unit_test(test_damaged_files_are_safe),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
