/* The life of libsonde-cuda in a program: idle until a recorder comes, and out of the way of fork and exit. Each test
 * is a process of its own, because the library begins once in a process. */
#include "fake_cuda.h"
#include "fake_cupti.h"
#include "recorder.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define WAIT_MS 20000

int InitializeInjection(void);

static void *kernel;

/* Runs `program` in a child process, which ends by exit(); returns its exit status. */
static int run(void (*program)(void))
{
    int status;
    const pid_t pid = fork();
    if (pid == 0) {
        kernel = fake_kernel("k", 10);
        program();
        exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void require(bool is_so, int status)
{
    if (!is_so)
        _exit(status);
}

/* The program goes on to launch kernels meanwhile. */
static bool wait_for(bool (*is_so)(void))
{
    for (int ms = 0; ms < WAIT_MS; ms++) {
        cuLaunchKernel(kernel);
        if (is_so())
            return true;
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    return false;
}

static bool is_subscribed(void)
{
    return fake_cupti()->subscribed;
}

static bool is_detached(void)
{
    return !fake_cupti()->subscribed && fake_cupti()->finalize_count > 0;
}

static void be_idle(void)
{
    require(InitializeInjection() == 1 && InitializeInjection() == 1, 1);
    cuLaunchKernel(kernel);
    require(!fake_cupti()->subscribed && fake_cupti()->calls_enabled == 0, 2);
}

static void begin_recorded(void)
{
    recorded.is_attached = true;
    require(InitializeInjection() == 1, 1);
    cuLaunchKernel(kernel);
    require(recorded.launches == 1, 2); /* the first launch of the program */
}

static void follow_recorder(void)
{
    require(InitializeInjection() == 1, 1);
    for (int i = 0; i < 3; i++) {
        fake_cupti()->finalize_count = 0;
        recorded.is_attached = true;
        require(wait_for(is_subscribed), 2);
        recorded.is_attached = false;
        require(wait_for(is_detached), 3);
        require(recorded.windows[GPU_WINDOW_ENDED] == (uint32_t)i + 1, 4);
    }
}

/* Registered before the library's own handler, so it runs after it. */
static void check_end(void)
{
    require(recorded.windows[GPU_WINDOW_ENDED] == 1, 5);
    require(recorded_sum("k", NO_LAUNCH).count == 1, 6);
}

static void exit_in_window(void)
{
    atexit(check_end);
    begin_recorded();
}

static void fork_in_window(void)
{
    int status;
    begin_recorded();
    const pid_t pid = fork();
    if (pid == 0) {
        cuLaunchKernel(kernel);
        require(recorded.launches == 1, 7); /* the window is the parent's */
        exit(0);                            /* the handler finds no window */
    }
    require(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0, 8);
    cuLaunchKernel(kernel);
    require(recorded.launches == 2, 9);
}

static bool is_child;
static _Atomic int child_status = -1;

/* LeakSanitizer asks at the exit: it cannot search the child, which has the memory of threads that do not exist there.
 */
int __lsan_is_turned_off(void);

int __lsan_is_turned_off(void)
{
    return is_child;
}

/* In place of libc's, for the handler of exit: a child must not wait for a lock whose owner does not exist there. */
int pthread_mutex_timedlock(pthread_mutex_t *mutex, const struct timespec *until)
{
    (void)until;
    const int r = is_child ? pthread_mutex_trylock(mutex) : pthread_mutex_lock(mutex);
    require(r == 0, 10);
    return r;
}

/* In the library's thread, which holds its lock. */
static void fork_once(void)
{
    int status;
    fake_cupti()->on_flush = NULL;
    const pid_t pid = fork();
    if (pid == 0) {
        is_child = true;
        exit(0);
    }
    require(waitpid(pid, &status, 0) == pid, 11);
    child_status = WIFEXITED(status) ? WEXITSTATUS(status) : 12;
}

static bool has_child_ended(void)
{
    return child_status >= 0;
}

static void fork_in_tick(void)
{
    fake_cupti()->on_flush = fork_once;
    begin_recorded();
    require(wait_for(has_child_ended), 13);
    require(child_status == 0, child_status);
}

static void test_is_idle_without_a_recorder(void **state)
{
    (void)state;
    assert_int_equal(run(be_idle), 0);
}

static void test_records_the_first_launch(void **state)
{
    (void)state;
    assert_int_equal(run(begin_recorded), 0);
}

static void test_follows_recorders(void **state)
{
    (void)state;
    assert_int_equal(run(follow_recorder), 0);
}

static void test_an_exit_reports_what_remains(void **state)
{
    (void)state;
    assert_int_equal(run(exit_in_window), 0);
}

static void test_a_forked_child_is_not_recorded(void **state)
{
    (void)state;
    assert_int_equal(run(fork_in_window), 0);
}

static void test_a_forked_child_does_not_wait_for_the_parents_thread(void **state)
{
    (void)state;
    assert_int_equal(run(fork_in_tick), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_is_idle_without_a_recorder),
        cmocka_unit_test(test_records_the_first_launch),
        cmocka_unit_test(test_follows_recorders),
        cmocka_unit_test(test_an_exit_reports_what_remains),
        cmocka_unit_test(test_a_forked_child_is_not_recorded),
        cmocka_unit_test(test_a_forked_child_does_not_wait_for_the_parents_thread),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
