/* Tasks in state D are recorded from the second walk on, with their stacks in the kernel. A parent of a vforked child
 * is in state D until the child executes a program or exits. */
#include "../watch.h"

#include "sources/blocked/blocked.h"

#include "probes/blocked.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define LOAD_NEEDED 0.05 /* below, the node counts as idle */
#define PATIENCE_S  60

static const struct blocked_options settings = {.enabled = true, .threshold_ns = 10000000000ull};

/* The source's clock runs ahead, so that it walks at once (-Wl,--wrap). */
uint64_t __real_clock_monotonic_ns(void);
uint64_t __wrap_clock_monotonic_ns(void);
static uint64_t ahead_ns;

uint64_t __wrap_clock_monotonic_ns(void)
{
    return __real_clock_monotonic_ns() + ahead_ns;
}

static void wait_for_signal(int ready)
{
    (void)!write(ready, "", 1);
    for (;;)
        pause();
}

static void wait_for_borrower(int ready)
{
    prctl(PR_SET_NAME, "lends");
    const pid_t child = vfork();
    if (child == 0) {
        prctl(PR_SET_NAME, "borrows");
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        wait_for_signal(ready);
    }
    _exit(0);
}

static void wait_for_load(void)
{
    double load = 0;
    for (int s = 0; s < PATIENCE_S && load < LOAD_NEEDED; s++) {
        FILE *file = fopen("/proc/loadavg", "r");
        assert_non_null(file);
        assert_int_equal(fscanf(file, "%lf", &load), 1);
        fclose(file);
        if (load < LOAD_NEEDED)
            sleep(1);
    }
    assert_true(load >= LOAD_NEEDED);
}

struct search {
    pid_t blocked, sleeping;
    struct blocked_record found;
    unsigned walks, of_sleeping;
};

static bool keep_record(const struct record_header *header, void *context)
{
    struct search *s = context;
    const struct blocked_record *r = (const struct blocked_record *)header;
    if (header->kind == RECORD_BLOCKED_WALK) {
        assert_true(((const struct blocked_walk *)header)->tasks > 2);
        s->walks++;
        return true;
    }
    assert_int_equal(header->kind, RECORD_BLOCKED);
    s->of_sleeping += (pid_t)header->tid == s->sleeping;
    if ((pid_t)header->tid == s->blocked)
        s->found = *r;
    return false;
}

static void test_a_blocked_task_is_found_with_its_holder(void **state)
{
    struct watch_options options = watch_defaults;
    options.settings = &settings;
    struct search s = {.blocked = watch_child(wait_for_borrower), .sleeping = watch_child(wait_for_signal)};
    (void)state;
    wait_for_load();
    struct watch w = watch_begin(&source_blocked, &options);
    watch_until(&w, 1, keep_record, &s);
    assert_int_equal(s.found.h.tid, 0); /* it may have only just begun to wait */
    ahead_ns += BLOCKED_INTERVAL_NS;
    watch_until(&w, 1, keep_record, &s);
    assert_int_equal(s.found.h.pid, s.blocked);
    assert_in_range(s.found.blocked_ns, BLOCKED_INTERVAL_NS, BLOCKED_INTERVAL_NS * PATIENCE_S);
    assert_int_equal(s.found.interval_ns, s.found.blocked_ns);
    assert_string_equal(s.found.task.comm, "lends");
    assert_string_equal(s.found.task.holder_comm, "borrows");
    assert_int_equal(s.found.task.flags, BLOCKED_BY_CHILD);
    assert_true(s.found.task.frames > 2);
    const uint64_t before_ns = s.found.blocked_ns;
    ahead_ns += BLOCKED_INTERVAL_NS;
    watch_until(&w, 1, keep_record, &s);
    assert_true(s.found.blocked_ns >= before_ns + BLOCKED_INTERVAL_NS);
    assert_int_equal(s.found.interval_ns, s.found.blocked_ns - before_ns);

    assert_int_equal(kill((pid_t)s.found.task.holder_pid, SIGKILL), 0);
    assert_int_equal(waitpid(s.blocked, NULL, 0), s.blocked);
    s.found = (struct blocked_record){0};
    ahead_ns += BLOCKED_INTERVAL_NS;
    watch_until(&w, 1, keep_record, &s);
    assert_int_equal(s.found.h.tid, 0);
    assert_int_equal(s.walks, 4);
    assert_int_equal(s.of_sleeping, 0);
    watch_end(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_a_blocked_task_is_found_with_its_holder)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
