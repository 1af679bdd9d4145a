/* The unwind table compared with an independent reading of the same files: every row that readelf prints for a file's
 * call frame information must be the rule that a lookup in our table finds, at the row's first byte and at its last.
 * Files that are not installed are skipped and listed; arguments on the command line are files to check instead. */
#include "resolve/unwind/cfi.h"
#include "resolve/unwind/cfi_finder.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define COLUMNS_MAX 64

struct oracle {
    const struct elf_file *file;
    const struct unwind_table *table;
    uint64_t fde_end;
    char columns[COLUMNS_MAX][8]; /* of the current FDE, from "CFA" on */
    size_t column_count;
    char row[COLUMNS_MAX][24]; /* the current row; it ends where the next begins */
    uint64_t row_start;
    bool has_row, is_signal;
    unsigned rows, wrong, unsupported, elsewhere;
};

static const char *cell(const struct oracle *o, const char *column)
{
    for (size_t i = 0; i < o->column_count; i++)
        if (strcmp(o->columns[i], column) == 0)
            return o->row[i];
    return "absent";
}

static bool is_one_of(unsigned kind, unsigned a, unsigned b, unsigned c, unsigned d)
{
    return kind == a || kind == b || kind == c || kind == d;
}

static bool cfa_agrees(const struct oracle *o, const struct unwind_rule *rule)
{
    const char *text = cell(o, "CFA");
    bool arm = elf_machine(o->file) == EM_AARCH64;
    if (strcmp(text, "exp") == 0)
        return is_one_of(rule->cfa, UNWIND_CFA_PLT, UNWIND_CFA_SP_DEREF, UNWIND_CFA_FP_DEREF, UNWIND_CFA_UNSUPPORTED) ||
               rule->cfa == UNWIND_CFA_SP_INDEXED;
    char name[8];
    int offset;
    if (sscanf(text, "%7[a-z0-9]%d", name, &offset) != 2)
        return false;
    if (rule->cfa_offset != offset)
        return false;
    if (strcmp(name, arm ? "sp" : "rsp") == 0)
        return rule->cfa == UNWIND_CFA_SP;
    if (strcmp(name, arm ? "x29" : "rbp") == 0)
        return rule->cfa == UNWIND_CFA_FP;
    return rule->cfa == UNWIND_CFA_REGISTER;
}

static bool fp_agrees(const struct oracle *o, const struct unwind_rule *rule)
{
    const char *text = cell(o, elf_machine(o->file) == EM_AARCH64 ? "x29" : "rbp");
    int offset;
    if (sscanf(text, "c%d", &offset) == 1)
        return rule->fp == UNWIND_FP_AT_CFA && rule->fp_offset == offset;
    if (strcmp(text, "exp") == 0)
        return rule->fp == UNWIND_FP_AT_FP || rule->fp == UNWIND_FP_UNDEFINED || rule->fp == UNWIND_FP_AT_CFA;
    if (strcmp(text, "u") == 0) /* readelf also prints this for registers not mentioned */
        return rule->fp == UNWIND_FP_SAME || rule->fp == UNWIND_FP_UNDEFINED;
    if (strcmp(text, "s") == 0 || strcmp(text, "absent") == 0)
        return rule->fp == UNWIND_FP_SAME;
    return rule->fp == UNWIND_FP_UNDEFINED;
}

static bool bx_agrees(const struct oracle *o, const struct unwind_rule *rule)
{
    int offset;
    if (elf_machine(o->file) == EM_X86_64 && sscanf(cell(o, "rbx"), "c%d", &offset) == 1 && offset < 0 &&
        offset >= -8 * 255)
        return rule->bx_words * 8 == -offset;
    return rule->bx_words == 0;
}

static bool rule_agrees(struct oracle *o, const struct unwind_rule *rule)
{
    const char *ra = cell(o, "ra");
    bool arm = elf_machine(o->file) == EM_AARCH64;
    int offset;
    if (o->is_signal)
        return rule->cfa == UNWIND_CFA_SIGNAL;
    if (rule->cfa == UNWIND_CFA_UNSUPPORTED) {
        o->unsupported++;
        return strcmp(cell(o, "CFA"), "exp") == 0 || sscanf(ra, "c%d", &offset) != 1 || offset < INT16_MIN;
    }
    if (arm && (strcmp(ra, "u") == 0 || strcmp(ra, "s") == 0 || strcmp(ra, "absent") == 0)) {
        if (rule->cfa == UNWIND_CFA_END)
            return strcmp(ra, "u") == 0;
        if (rule->ra_offset != 0)
            return false;
    } else if (strcmp(ra, "u") == 0) {
        return rule->cfa == UNWIND_CFA_END;
    } else if (sscanf(ra, "r%d", &offset) == 1) { /* in a register, as during vfork */
        if (rule->ra_offset != 0 || rule->cfa_register != offset)
            return false;
    } else if (sscanf(ra, "c%d", &offset) != 1 || rule->ra_offset != offset) {
        return false;
    }
    return cfa_agrees(o, rule) && fp_agrees(o, rule) && bx_agrees(o, rule);
}

/* Checks the current row, which applies up to `end`. */
static void check_row(struct oracle *o, uint64_t end)
{
    if (!o->has_row || end <= o->row_start)
        return;
    o->has_row = false;
    uint64_t offset;
    if (elf_offset_from_vaddr(o->file, o->row_start, &offset) < 0 || offset > UINT32_MAX) {
        o->elsewhere++;
        return;
    }
    uint32_t places[2] = {(uint32_t)offset, (uint32_t)(offset + (end - o->row_start) - 1)};
    o->rows++;
    for (size_t i = 0; i < array_size(places); i++) {
        const struct unwind_rule *rule = unwind_table_find(o->table, places[i]);
        if (rule && rule_agrees(o, rule))
            continue;
        if (o->wrong++ < 10)
            print_message("at %#" PRIx64
                          " (offset %#x): readelf has CFA %s ra %s, we have cfa %d %d ra %d fp %d %d bx %d\n",
                          o->row_start, places[i], cell(o, "CFA"), cell(o, "ra"), rule ? rule->cfa : -1,
                          rule ? rule->cfa_offset : 0, rule ? rule->ra_offset : 0, rule ? rule->fp : 0,
                          rule ? rule->fp_offset : 0, rule ? rule->bx_words : 0);
    }
}

/* Splits a line into fixed cells; a register is printed as "r8 (r8)": the second half is dropped. */
static size_t split(char *line, char *to, size_t width)
{
    size_t count = 0;
    char *rest = line;
    for (char *word; count < COLUMNS_MAX && (word = strsep(&rest, " \n"));)
        if (word[0] != '\0' && word[0] != '(')
            snprintf(to + count++ * width, width, "%s", word);
    return count;
}

static bool cie_is_signal(const char *line)
{
    const char *quote = strchr(line, '"'), *end = quote ? strchr(quote + 1, '"') : NULL;
    return end && memchr(quote, 'S', (size_t)(end - quote));
}

#define SIGNAL_CIES_MAX 16

struct signal_cies {
    char positions[SIGNAL_CIES_MAX][20];
    size_t count;
};

/* "00000018 000000000000002c 0000001c FDE cie=00000000 pc=0000000000001060..00000000000010db" */
static void take_description(struct oracle *o, const char *line, const struct signal_cies *signals)
{
    uint64_t start = 0, end = 0;
    char cie[20] = "";
    const char *at = strstr(line, "cie=");
    o->fde_end = 0;
    if (!at || sscanf(at, "cie=%19[0-9a-f] pc=%" SCNx64 "..%" SCNx64, cie, &start, &end) != 3)
        return;
    o->fde_end = end;
    o->is_signal = false;
    for (size_t i = 0; i < signals->count; i++)
        o->is_signal |= strcmp(signals->positions[i], cie) == 0;
}

static void read_all(struct oracle *o, FILE *from)
{
    char *line = NULL;
    size_t size = 0;
    struct signal_cies signals = {0};
    while (getline(&line, &size, from) > 0) {
        uint64_t address;
        int used = 0;
        if (strstr(line, " FDE ")) {
            check_row(o, o->fde_end);
            take_description(o, line, &signals);
        } else if (strstr(line, " CIE ")) {
            check_row(o, o->fde_end);
            o->fde_end = 0;
            if (cie_is_signal(line) && signals.count < SIGNAL_CIES_MAX)
                sscanf(line, "%19[0-9a-f]", signals.positions[signals.count++]);
        } else if (strncmp(line, "   LOC", 6) == 0) {
            o->column_count = split(line + 6, o->columns[0], sizeof(o->columns[0]));
        } else if (o->fde_end && sscanf(line, "%16" SCNx64 "%n", &address, &used) == 1 && used == 16) {
            check_row(o, address < o->fde_end ? address : o->fde_end);
            o->row_start = address;
            o->has_row = address < o->fde_end;
            split(line + 16, o->row[0], sizeof(o->row[0]));
        }
    }
    check_row(o, o->fde_end);
    free(line);
}

static int check_file(const char *path, bool *ret_checked)
{
    *ret_checked = false;
    _cleanup_(elf_file_freep) struct elf_file *f = NULL;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        print_message("skipped: %s: %s\n", path, strerror(errno));
        return 0;
    }
    assert_int_equal(elf_open(fd, &f), 0);
    _cleanup_(unwind_table_freep) struct unwind_table *table = NULL;
    assert_int_equal(cfi_build(f, &table), 0);

    char command[PATH_MAX + 100];
    char resolved_path[PATH_MAX]; /* /proc/self/exe would be readelf itself */
    assert_non_null(realpath(path, resolved_path));
    snprintf(command, sizeof(command), "readelf --debug-dump=frames-interp --wide '%s' 2>/dev/null", resolved_path);
    FILE *from = popen(command, "r");
    assert_non_null(from);
    struct oracle o = {.file = f, .table = table};
    read_all(&o, from);
    int status = pclose(from);
    if (status != 0 && o.rows == 0) {
        print_message("skipped: %s: readelf failed\n", path);
        return 0;
    }
    print_message(
        "%s: %u rows of readelf, %u wrong, %u unsupported, %u outside code; table: %u rows, %u rules, %u skipped, %zu bytes\n",
        path, o.rows, o.wrong, o.unsupported, o.elsewhere, table->row_count, table->rule_count, table->skipped,
        table->value_count * UNWIND_VALUE_BYTES);
    *ret_checked = o.rows > 0;
    return o.wrong ? -1 : 0;
}

/* The single-rule finder must agree with the table, at addresses spread over all code, also between functions. */
static void check_finder(const char *path)
{
    _cleanup_(elf_file_freep) struct elf_file *f = NULL;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    assert_int_equal(elf_open(fd, &f), 0);
    _cleanup_(unwind_table_freep) struct unwind_table *table = NULL;
    assert_int_equal(cfi_build(f, &table), 0);
    const struct elf_segment *segments;
    size_t count = elf_segments(f, &segments);
    struct elf_segment code = {0};
    for (size_t i = 0; i < count; i++)
        if (segments[i].executable)
            code = segments[i];
    _cleanup_(cfi_finder_freep) struct cfi_finder *finder = NULL;
    int r = cfi_finder_new(f, &finder);
    if (r < 0) {
        print_message("skipped: %s: no search table\n", path);
        return;
    }
    take_ptr(f);
    unsigned checked = 0, untold = 0, wrong = 0;
    uint64_t step = code.file_bytes / 20000 * 2 + 1;
    for (uint64_t at = code.offset; at < code.offset + code.file_bytes && at <= UINT32_MAX; at += step) {
        const struct unwind_rule none = {.cfa = UNWIND_CFA_NONE}, *wanted = unwind_table_find(table, (uint32_t)at);
        struct unwind_rule rule;
        r = cfi_finder_find(finder, (uint32_t)at, &rule);
        if (!wanted)
            wanted = &none;
        checked++;
        if (r == -ENOENT) {
            untold++;
            continue;
        }
        assert_int_equal(r, 0);
        /* Between functions, tables extend rules to the next 16 bytes. */
        if (memcmp(&rule, wanted, sizeof(rule)) != 0 && rule.cfa != UNWIND_CFA_NONE && ++wrong < 10)
            print_message("%s: %" PRIx64 ": found %u%+d, table %u%+d\n", path, at, rule.cfa, rule.cfa_offset,
                          wanted->cfa, wanted->cfa_offset);
        if (rule.cfa == UNWIND_CFA_NONE && wanted->cfa != UNWIND_CFA_NONE) {
            struct unwind_rule next;
            assert_int_equal(cfi_finder_find(finder, (uint32_t)(at | 15) + 1, &next), 0);
            wrong += next.cfa == UNWIND_CFA_NONE;
        }
    }
    print_message("%s: %u places, %u untold, %u wrong\n", path, checked, untold, wrong);
    assert_int_equal(wrong, 0);
    assert_true(untold < checked / 2 + 1);
}

static const char *const *files;
static size_t file_count;

static void test_every_readelf_row_is_found(void **state)
{
    (void)state;
    unsigned checked = 0;
    int wrong = 0;
    for (size_t i = 0; i < file_count; i++) {
        bool was_checked;
        wrong |= check_file(files[i], &was_checked);
        checked += was_checked;
    }
    assert_int_equal(wrong, 0);
    if (checked == 0) {
        print_message("skipped: none of the files could be checked (is binutils installed?)\n");
        skip();
    }
}

static void test_finder_agrees_with_the_table(void **state)
{
    (void)state;
    for (size_t i = 0; i < file_count; i++)
        check_finder(files[i]);
}

int main(int argc, char **argv)
{
    static const char *const usual[] = {
        "/proc/self/exe",
        "/lib/x86_64-linux-gnu/libc.so.6",
        "/lib64/ld-linux-x86-64.so.2",
        "/lib/x86_64-linux-gnu/libcrypto.so.3",
        "/lib/x86_64-linux-gnu/libstdc++.so.6",
        "/usr/bin/python3.11",
        "/usr/aarch64-linux-gnu/lib/libc.so.6",
        "/usr/aarch64-linux-gnu/lib/ld-linux-aarch64.so.1",
    };
    files = argc > 1 ? (const char *const *)argv + 1 : usual;
    file_count = argc > 1 ? (size_t)argc - 1 : array_size(usual);
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_readelf_row_is_found),
                                       cmocka_unit_test(test_finder_agrees_with_the_table)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
