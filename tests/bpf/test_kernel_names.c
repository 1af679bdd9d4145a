/* Kernel names from BPF: each name must be in /proc/kallsyms at that address. On kernels without support the reason is
 * given. */
#include "sources/kernel_names/kernel_names.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include <cmocka.h>

#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define ADDRESSES 20000

struct symbol {
    uint64_t address;
    char type, name[512], module[64];
};

struct listing { /* sorted by address */
    struct symbol *symbols;
    size_t count;
};

static int compare(const void *a_p, const void *b_p)
{
    const struct symbol *a = a_p, *b = b_p;
    return a->address < b->address ? -1 : a->address > b->address;
}

static struct listing read_kallsyms(void)
{
    struct listing l = {0};
    size_t room = 0;
    char line[1024];
    FILE *f = fopen("/proc/kallsyms", "re");
    assert_non_null(f);
    while (fgets(line, sizeof(line), f)) {
        struct symbol s = {0};
        if (sscanf(line, "%" SCNx64 " %c %511s [%63[^]]]", &s.address, &s.type, s.name, s.module) < 3)
            continue;
        if (l.count == room) {
            room = room ? room * 2 : 1 << 16;
            l.symbols = realloc(l.symbols, room * sizeof(*l.symbols));
            assert_non_null(l.symbols);
        }
        l.symbols[l.count++] = s;
    }
    fclose(f);
    qsort(l.symbols, l.count, sizeof(*l.symbols), compare);
    return l;
}

/* Index after the last symbol at or before the address. */
static size_t index_after(const struct listing *l, uint64_t address)
{
    size_t low = 0, high = l->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (l->symbols[middle].address <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Asserts that the answer is one of the names at the last listed address before this one, with the right offset and
 * distance to the next. */
static void expect_listed(const struct listing *l, uint64_t address, const char *answer)
{
    size_t end = index_after(l, address);
    assert_true(end > 0);
    uint64_t start = l->symbols[end - 1].address, next = end < l->count ? l->symbols[end].address : 0;
    for (size_t i = end; i-- > 0 && l->symbols[i].address == start;) {
        char expected[640];
        snprintf(expected, sizeof(expected), "%s+0x%" PRIx64 "/0x%" PRIx64, l->symbols[i].name, address - start,
                 next - start);
        if (answer && !strcmp(answer, expected))
            return;
    }
    fail_msg("%" PRIx64 " is '%s', listed is %s+0x%" PRIx64 " of 0x%" PRIx64, address, answer ? answer : "not known",
             l->symbols[end - 1].name, address - start, next - start);
}

static struct kernel_names *open_or_skip(void)
{
    struct attach_report report = {0};
    struct kernel_names *n = NULL;
    int r = kernel_names_open(&report, &n);
    assert_int_equal(report.count, 1);
    assert_true(report.entries[0].attached);
    if (r < 0) {
        assert_string_equal(report.entries[0].method, "/proc/kallsyms");
        print_message("skipped: this kernel cannot be asked: %s\n", report.entries[0].fallback_reason);
        skip();
    }
    return n;
}

static void test_names_agree_with_kallsyms(void **state)
{
    (void)state;
    struct kernel_names *n = open_or_skip();
    struct listing l = read_kallsyms();
    uint64_t start, end, random = 88172645463325252ull;
    kernel_names_text(n, &start, &end);
    assert_true(start && start < end);
    for (int i = 0; i < ADDRESSES; i++) {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        uint64_t address = start + random % (end - start);
        expect_listed(&l, address, kernel_names_lookup(n, address));
    }
    for (size_t i = 1, asked = 0; i < l.count; i++) {
        uint64_t address = l.symbols[i].address;
        if (address <= start || address >= end || address == l.symbols[i - 1].address || asked++ % 7)
            continue;
        expect_listed(&l, address, kernel_names_lookup(n, address));
        expect_listed(&l, address - 1, kernel_names_lookup(n, address - 1));
    }
    free(l.symbols);
    kernel_names_free(n);
}

static bool is_listed(const struct listing *l, const struct symbol *s)
{
    for (size_t i = index_after(l, s->address); i-- > 0 && l->symbols[i].address == s->address;)
        if (!strcmp(l->symbols[i].name, s->name) && !strcmp(l->symbols[i].module, s->module))
            return true;
    return false;
}

/* Modules and BPF programs listed both before and after the query: others come and go meanwhile. */
static void test_modules_and_bpf_programs_are_named(void **state)
{
    (void)state;
    struct kernel_names *n = open_or_skip();
    struct listing before = read_kallsyms();
    char **answers = calloc(before.count, sizeof(*answers));
    size_t named = 0;
    assert_non_null(answers);
    for (size_t i = 0; i < before.count; i++)
        if (*before.symbols[i].module) {
            const char *answer = kernel_names_lookup(n, before.symbols[i].address);
            answers[i] = strdup(answer ? answer : "");
        }
    struct listing after = read_kallsyms();
    for (size_t i = 0; i < before.count; i++) {
        const struct symbol *s = &before.symbols[i];
        const bool is_bpf = !strcmp(s->module, "bpf");
        char suffix[80];
        snprintf(suffix, sizeof(suffix), " [%s]", s->module);
        if (!*s->module || !strncmp(s->module, "__builtin__", 11) || !strchr("tT", s->type) || *s->name == '$' ||
            !is_listed(&after, s))
            continue;
        if (!strstr(answers[i], "+0x0/0x") || (is_bpf ? strchr(answers[i], '[') != NULL : !strstr(answers[i], suffix)))
            fail_msg("%s%s is '%s'", s->name, suffix, answers[i]);
        named++;
    }
    print_message("%zu symbols of modules and BPF programs\n", named);
    assert_true(named > 0); /* at least our own two programs */
    for (size_t i = 0; i < before.count; i++)
        free(answers[i]);
    free(answers);
    free(before.symbols);
    free(after.symbols);
    kernel_names_free(n);
}

static void test_non_code_addresses_have_no_name(void **state)
{
    (void)state;
    struct kernel_names *n = open_or_skip();
    uint64_t start, end;
    kernel_names_text(n, &start, &end);
    const uint64_t nowhere[] = {0, 1, 0x1000, start - (1ull << 30), end, end + 0x1000, UINT64_MAX, 1ull << 63};
    for (size_t i = 0; i < sizeof(nowhere) / sizeof(*nowhere); i++)
        assert_null(kernel_names_lookup(n, nowhere[i]));
    kernel_names_free(n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names_agree_with_kallsyms),
        cmocka_unit_test(test_modules_and_bpf_programs_are_named),
        cmocka_unit_test(test_non_code_addresses_have_no_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
