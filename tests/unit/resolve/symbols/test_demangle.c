/* Demangling: known names, all names of the C++ library compared with c++filt, and hostile names. */
#include "resolve/symbols/demangle.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static void test_known_names(void **state)
{
    (void)state;
    static const char *const pairs[][2] = {
        {"", ""},
        {"main", "main"},
        {"_start", "_start"},
        {"main.main", "main.main"},
        {"runtime.(*mheap).alloc", "runtime.(*mheap).alloc"},
        {"foo.cold", "foo.cold"},
        {"_Z", "_Z"},
        {"_ZZZZZ", "_ZZZZZ"},
        {"_Rust_is_not_this", "_Rust_is_not_this"},
        {"_Z3fooi", "foo"},
        {"_Z3fooi.cold", "foo [clone .cold]"},
        {"_Z3fooi.isra.0.part.1", "foo [clone .isra.0.part.1]"},
        {"_Z3fooi.llvm.12345", "foo"},
        {"_Z3fooi@plt", "foo@plt"},
        {"_Z3fooi.cold@plt", "foo [clone .cold]@plt"},
        {"_ZNSt6vectorIiSaIiEE9push_backERKi", "std::vector<int, std::allocator<int> >::push_back"},
        {"_ZNSs4swapERSs", "std::string::swap"},
        {"_ZThn16_N3foo3barEv", "non-virtual thunk to foo::bar()"},
        {"_ZZ4mainENKUlvE_clEv", "main::{lambda()#1}::operator()"},
        {"_GLOBAL__I__Z3foov", "global constructors keyed to foo()"},
        /* Rust, legacy: the hash goes */
        {"_ZN4core3fmt9Formatter9write_str17h0123456789abcdefE", "core::fmt::Formatter::write_str"},
        {"_ZN71_$LT$Test$u20$$u2b$$u20$$u27$static$u20$as$u20$foo..Bar$LT$Test$GT$$GT$3bar17h930b740aa94f1d3aE",
         "<Test + 'static as foo::Bar<Test>>::bar"},
        {"_ZN4main4main17he714a2e23ed7db23E.llvm.77", "main::main"},
        {"_ZN4main4main17he714a2e23ed7db23E.cold", "main::main [clone .cold]"},
        {"_ZN4main4main17he714a2e23ed7db23E@plt", "main::main@plt"},
        /* Rust, v0 */
        {"_RNvC6_123foo3bar", "123foo::bar"},
        {"_RNvCs1234_7mycrate3foo", "mycrate::foo"},
        {"_RNvCs1234_7mycrate3foo@plt", "mycrate::foo@plt"},
        {"_RNCNCNgCs6DXkGYLi8lr_2cc5spawn00B5_", "cc::spawn::{closure#0}::{closure#0}"},
        {"_RINbNbCskIICzLVDPPb_5alloc5alloc8box_freeDINbNiB4_5boxed5FnBoxuEp6OutputuEL_ECs1iopQbuBiw2_3std",
         "alloc::alloc::box_free::<dyn alloc::boxed::FnBox<(), Output = ()>>"},
    };
    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
        char out[DEMANGLED_MAX];
        assert_ptr_equal(demangle(pairs[i][0], out), out);
        assert_string_equal(out, pairs[i][1]);
    }
}

/* All dynamic symbols of the C++ library through c++filt, without parameters as in Sonde. */
static void test_whole_library_matches_cxxfilt(void **state)
{
    (void)state;
    FILE *f =
        popen("exec 2>/dev/null; lib=$(ldconfig -p | sed -n 's/.*libstdc++.so.6 .*=> //p' | head -1);"
              "nm -D --defined-only \"$lib\" | awk '{sub(/@.*/, \"\", $3); print $3}' | sort -u >/tmp/sonde-mangled.$$;"
              "c++filt -p -i </tmp/sonde-mangled.$$ | paste /tmp/sonde-mangled.$$ -; rm -f /tmp/sonde-mangled.$$",
              "re");
    assert_non_null(f);
    char *line = NULL;
    size_t room = 0, checked = 0;
    ssize_t n;
    while ((n = getline(&line, &room, f)) > 0) {
        line[n - 1] = '\0';
        char *expected = strchr(line, '\t');
        assert_non_null(expected);
        *expected++ = '\0';
        if (strchr(line, '.'))
            continue;
        char out[DEMANGLED_MAX];
        demangle(line, out);
        if (strlen(expected) >= DEMANGLED_MAX)
            continue;
        assert_string_equal(out, expected);
        checked++;
    }
    free(line);
    pclose(f);
    if (!checked) {
        print_message("skipped: no c++filt, nm or libstdc++\n");
        skip();
    }
    print_message("%zu names\n", checked);
    assert_true(checked > 1000);
}

static void test_long_names_are_truncated(void **state)
{
    (void)state;
    char *name = malloc(100000), out[DEMANGLED_MAX];
    memset(name, 'a', 99999);
    name[99999] = '\0';
    demangle(name, out);
    assert_int_equal(strlen(out), DEMANGLED_MAX - 1);
    assert_string_equal(out + DEMANGLED_MAX - 4, "...");
    /* mangled, with a long demangled form */
    size_t at = snprintf(name, 100, "_Z1fIN");
    for (int i = 0; i < 300; i++)
        at += snprintf(name + at, 100, "10abcdefghij");
    snprintf(name + at, 100, "EEvv");
    demangle(name, out);
    assert_int_equal(strlen(out), DEMANGLED_MAX - 1);
    assert_memory_equal(out, "f<abcdefghij::abcdefghij", 24);
    assert_string_equal(out + DEMANGLED_MAX - 4, "...");
    free(name);
}

#define HOSTILE_STACK (2u << 20)

static void *demangle_hostile(void *unused)
{
    char *name = malloc(9000), out[DEMANGLED_MAX];
    /* a run of each character that can open a construct, of lengths up to and over the bound */
    static const size_t lengths[] = {10, 100, 1000, 2040, 4090, 4095, 4096, 8000};
    static const char *const heads[] = {"_Z",   "_Z1f",   "_Z1fI", "_ZN",    "_ZZ", "_R",
                                        "_RNv", "_RIC1a", "_RMC0", "_RYFG_", "_ZTv"};
    for (size_t h = 0; h < sizeof(heads) / sizeof(heads[0]); h++)
        for (size_t l = 0; l < sizeof(lengths) / sizeof(lengths[0]); l++)
            for (int c = 33; c < 127; c++) {
                size_t head = strlen(heads[h]);
                memcpy(name, heads[h], head);
                memset(name + head, c, lengths[l]);
                name[head + lengths[l]] = '\0';
                demangle(name, out);
                if (strlen(out) >= DEMANGLED_MAX)
                    abort();
            }
    /* results that double with every step: pairs of back references */
    size_t at = snprintf(name, 9000, "_Z1fI1pIiiE");
    for (int i = 0; i < 200; i++)
        at += snprintf(name + at, 9000 - at, "S%c_IS%c_S%c_E", '0' + i % 9, '0' + i % 9, '0' + i % 9);
    snprintf(name + at, 9000 - at, "Evv");
    demangle(name, out);
    at = snprintf(name, 9000, "_RIC1aTuu");
    for (int i = 0; i < 200; i++)
        at += snprintf(name + at, 9000 - at, "TB%c_B%c_E", '0' + i % 10, 'a' + i % 20);
    snprintf(name + at, 9000 - at, "EE");
    demangle(name, out);
    free(name);
    return unused;
}

/* All in a thread whose stack is a small part of the usual size. */
static void test_hostile_names_are_bounded(void **state)
{
    (void)state;
    pthread_attr_t attributes;
    pthread_t thread;
    assert_int_equal(pthread_attr_init(&attributes), 0);
    assert_int_equal(pthread_attr_setstacksize(&attributes, HOSTILE_STACK), 0);
    assert_int_equal(pthread_create(&thread, &attributes, demangle_hostile, NULL), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    pthread_attr_destroy(&attributes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known_names),
        cmocka_unit_test(test_whole_library_matches_cxxfilt),
        cmocka_unit_test(test_long_names_are_truncated),
        cmocka_unit_test(test_hostile_names_are_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
