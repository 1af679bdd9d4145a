/* The confined process that demangles: its answers, and names that would keep it busy for years. */
#include "resolve/symbols/demangler.h"

#include "base/turn_time.h"

#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

#include <cmocka.h>

#include "../../emulated.h"

#include "../../send/export_metrics.h"

#define NAME_BYTES 1024

/* libiberty tries each of the nested conversions in two ways: 2^60 steps. */
static void write_endless_cplus(char name[NAME_BYTES], unsigned levels)
{
    size_t at = (size_t)snprintf(name, NAME_BYTES, "_Zcv");
    for (unsigned i = 0; i < levels; i++)
        at += (size_t)snprintf(name + at, NAME_BYTES - at, "T_Icv");
}

/* Each type holds the one inside it and a reference to that: twice as much text a level, printed character by
 * character. */
static void write_endless_rust(char name[NAME_BYTES], unsigned levels)
{
    static const char digits[] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    size_t at = (size_t)snprintf(name, NAME_BYTES, "_RIC1a");
    const size_t outermost = at - 2; /* positions count from after "_R" */
    memset(name + at, 'I', levels);
    at += levels;
    at += (size_t)snprintf(name + at, NAME_BYTES - at, "C1b");
    for (unsigned i = levels; i > 0; i--) { /* "B" and the position of the next type, minus 1, in base 62 */
        const size_t n = outermost + i - 1;
        if (n < 62)
            at += (size_t)snprintf(name + at, NAME_BYTES - at, "B%c_E", digits[n]);
        else
            at += (size_t)snprintf(name + at, NAME_BYTES - at, "B%c%c_E", digits[n / 62], digits[n % 62]);
    }
    snprintf(name + at, NAME_BYTES - at, "E");
}

static double metric(const struct name_process *d, const char *name)
{
    struct metric_set *set;
    assert_int_equal(metric_set_new(&set), 0);
    demangler_metrics(d, set);
    const double value = value_of_metric(set, name, NULL);
    metric_set_free(set);
    return value;
}

static void expect_answer(struct name_process *d, const char *name, int result, const char *text)
{
    char out[DEMANGLED_MAX];
    assert_int_equal(demangler_demangle(d, name, out), result);
    assert_string_equal(out, text);
}

/* The process answers, after more than one attempt on a node that gives it no CPU. */
static void expect_name(struct name_process *d, const char *name, const char *text)
{
    char out[DEMANGLED_MAX];
    while (demangler_demangle(d, name, out) == -EAGAIN)
        poll(NULL, 0, 10);
    assert_string_equal(out, text);
}

static pid_t process_of(void)
{
    char path[64];
    int pid = 0;
    snprintf(path, sizeof(path), "/proc/self/task/%d/children", getpid());
    FILE *f = fopen(path, "re");
    assert_non_null(f);
    assert_int_equal(fscanf(f, "%d", &pid), 1);
    fclose(f);
    return pid;
}

static int setup(void **state)
{
    return name_process_new((struct name_process **)state);
}

static int teardown(void **state)
{
    name_process_free(*state);
    return 0;
}

static void test_answers_are_those_of_demangle(void **state)
{
    static const char *const names[] = {
        "main", "", "_Z", "_ZN3foo3barEv", "_RNvC6_123foo3bar", "_ZNSt6vectorIiSaIiEE9push_backERKi", "_Z3foov.cold",
    };
    char expected[DEMANGLED_MAX], *many = calloc(1, 2 * DEMANGLE_SYMBOL_MAX);
    for (size_t i = 0; i < array_size(names); i++)
        expect_name(*state, names[i], demangle(names[i], expected));
    memset(many, 'a', DEMANGLE_SYMBOL_MAX + 100);
    expect_name(*state, many, demangle(many, expected));
    memcpy(many, "_Z", 2);
    expect_name(*state, many, demangle(many, expected));
    free(many);
    assert_true(metric(*state, "sonde_self_names_demangled") >= 4);
}

static void expect_refused(struct name_process *d, const char *name)
{
    char cut[DEMANGLED_MAX];
    const double before = metric(d, "sonde_self_names_refused");
    demangle_copy(name, cut);
    expect_name(d, name, cut);
    assert_true(metric(d, "sonde_self_names_refused") == before + 1);
    /* Others wait, and then are answered; the name itself is not tried again. */
    expect_answer(d, "_Z1gv", -EAGAIN, "_Z1gv");
    expect_name(d, "_Z1fv", "f");
    expect_name(d, name, cut);
    assert_true(metric(d, "sonde_self_names_refused") == before + 1);
}

static void test_endless_names_are_refused(void **state)
{
    char name[NAME_BYTES];
    skip_if_emulated();
    write_endless_cplus(name, 60);
    expect_refused(*state, name);
    write_endless_rust(name, 60);
    expect_refused(*state, name);
}

/* The same shapes, short: they have to be demangled, so it is the time that refuses the long ones. */
static void test_short_ones_are_demangled(void **state)
{
    char name[NAME_BYTES], expected[DEMANGLED_MAX];
    skip_if_emulated();
    write_endless_rust(name, 3);
    expect_name(*state, name, demangle(name, expected));
    assert_string_not_equal(name, expected);
    write_endless_cplus(name, 3);
    expect_name(*state, name, demangle(name, expected));
}

static void test_a_process_that_crashes_is_started_again(void **state)
{
    const pid_t first = process_of();
    expect_name(*state, "_Z1fv", "f");
    kill(first, SIGKILL);
    siginfo_t ended;
    assert_int_equal(waitid(P_PID, (id_t)first, &ended, WEXITED | WNOWAIT), 0);
    expect_name(*state, "_Z1fv", "f");
    assert_int_not_equal(process_of(), first);
}

static void test_a_late_answer_is_not_that_of_the_next_name(void **state)
{
    const pid_t pid = process_of();
    expect_name(*state, "_Z1fv", "f");
    kill(pid, SIGSTOP);
    expect_answer(*state, "_Z5firstv", -EAGAIN, "_Z5firstv");
    expect_answer(*state, "_Z6secondv", -EAGAIN, "_Z6secondv"); /* without a wait */
    kill(pid, SIGCONT);
    expect_name(*state, "_Z1fv", "f");
    expect_name(*state, "_Z5thirdv", "third");
    assert_int_equal(process_of(), pid);
    assert_true(metric(*state, "sonde_self_names_refused") == 0);
    assert_true(metric(*state, "sonde_self_names_unanswered") >= 2);
}

static void test_turn_without_time_asks_for_no_name(void **state)
{
    turn_time_begin(0, 0);
    expect_answer(*state, "_Z1fv", -EAGAIN, "_Z1fv");
    turn_time_end();
    assert_true(metric(*state, "sonde_self_names_demangled") == 0);
    assert_true(metric(*state, "sonde_self_names_unanswered") == 1);
    expect_name(*state, "_Z1fv", "f");
}

/* No capability, a seccomp filter, no root's UID. */
static void test_the_process_is_confined(void **state)
{
    char path[64], line[256];
    bool filtered = false, without_capabilities = false;
    skip_if_emulated(); /* no seccomp filter can be set */
    expect_name(*state, "_Z1fv", "f");
    snprintf(path, sizeof(path), "/proc/%d/status", process_of());
    FILE *f = fopen(path, "re");
    assert_non_null(f);
    while (fgets(line, sizeof(line), f)) {
        filtered |= strcmp(line, "Seccomp:\t2\n") == 0;
        without_capabilities |= strcmp(line, "CapEff:\t0000000000000000\n") == 0;
    }
    fclose(f);
    assert_true(filtered);
    assert_true(without_capabilities);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_answers_are_those_of_demangle, setup, teardown),
        cmocka_unit_test_setup_teardown(test_endless_names_are_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(test_short_ones_are_demangled, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_process_that_crashes_is_started_again, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_late_answer_is_not_that_of_the_next_name, setup, teardown),
        cmocka_unit_test_setup_teardown(test_turn_without_time_asks_for_no_name, setup, teardown),
        cmocka_unit_test_setup_teardown(test_the_process_is_confined, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
