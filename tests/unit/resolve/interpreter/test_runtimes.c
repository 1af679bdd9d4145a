/* Whether a process may contain Node.js or Java, as far as /proc shows; tested on this process. */
#include "resolve/interpreter/runtimes.h"
#include "resolve/process/processes.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "../../emulated.h"

/* The scanner has a child that opens files for it: the scanned process is another one. */
static uint32_t start(bool with_child)
{
    int ready[2];
    char word = 0;
    assert_int_equal(pipe(ready), 0);
    const pid_t pid = fork();
    if (pid == 0) {
        if (with_child && fork() == 0)
            prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (write(ready[1], &word, 1) < 0)
            _exit(1);
        pause();
        _exit(0);
    }
    for (int i = 0; i < 1 + with_child; i++)
        assert_int_equal(read(ready[0], &word, 1), 1);
    close(ready[0]);
    close(ready[1]);
    return (uint32_t)pid;
}

static void stop(uint32_t pid)
{
    kill((pid_t)pid, SIGKILL);
    waitpid((pid_t)pid, NULL, 0);
}

static void test_small_program_without_children(void **state)
{
    skip_if_emulated(); /* the program would be the emulator */
    if (access("/proc/thread-self/children", F_OK) != 0) {
        print_message("this kernel does not list children\n");
        skip();
    }
    const uint32_t one = start(false);
    assert_false(runtimes_may_be_in(*state, &one, 1));
    stop(one);
}

static void test_undetermined_process_may_have_a_runtime(void **state)
{
    const uint32_t ids[] = {start(false), 0x7fffffff}, parent = start(true);
    assert_true(runtimes_may_be_in(*state, NULL, 0)); /* all */
    assert_true(runtimes_may_be_in(*state, ids, 2));
    assert_true(runtimes_may_be_in(*state, ids + 1, 1));
    assert_true(runtimes_may_be_in(*state, &parent, 1));
    stop(parent);
    stop(ids[0]);
}

static int begin(void **state)
{
    struct processes *processes;
    const int r = processes_new(1 << 20, &processes);
    *state = processes;
    return r;
}

static int end(void **state)
{
    processes_free(*state);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_small_program_without_children),
        cmocka_unit_test(test_undetermined_process_may_have_a_runtime),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
