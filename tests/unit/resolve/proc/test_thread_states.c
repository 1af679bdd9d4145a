/* The states of a process's threads, as /proc has them. */
#include "resolve/proc/thread_states.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cmocka.h>

static int pipe_fds[2];

static void *wait_for_input(void *ret_tid)
{
    char byte;
    (void)prctl(PR_SET_NAME, "wai\nter");
    __atomic_store_n((pid_t *)ret_tid, gettid(), __ATOMIC_RELEASE);
    return (void *)read(pipe_fds[0], &byte, 1);
}

static void test_each_thread_has_its_name_and_state(void **state)
{
    char own[64], other[64];
    pthread_t thread;
    pid_t tid = 0;
    (void)state;
    assert_int_equal(pipe(pipe_fds), 0);
    assert_int_equal(prctl(PR_SET_NAME, "main"), 0);
    assert_int_equal(pthread_create(&thread, NULL, wait_for_input, &tid), 0);
    while (!__atomic_load_n(&tid, __ATOMIC_ACQUIRE))
        usleep(100);
    snprintf(own, sizeof(own), "%d main R", getpid());
    snprintf(other, sizeof(other), "%d wai?ter S", tid);
    for (;;) { /* until the thread waits */
        _cleanup_buf_ struct buf out = {0};
        thread_states_put((uint32_t)getpid(), (uint32_t)tid, 8, &out);
        assert_non_null(strstr(out.data, own));
        if (strncmp(out.data, other, strlen(other)) == 0)
            break;
        usleep(100);
    }
    _cleanup_buf_ struct buf one = {0};
    thread_states_put((uint32_t)getpid(), (uint32_t)getpid(), 1, &one);
    assert_string_equal(one.data, own);
    assert_int_equal(write(pipe_fds[1], "", 1), 1);
    pthread_join(thread, NULL);
}

static void test_a_process_that_has_ended_has_none(void **state)
{
    _cleanup_buf_ struct buf out = {0};
    (void)state;
    thread_states_put(4194304, 4194304, 8, &out);
    assert_int_equal(out.size, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_thread_has_its_name_and_state),
        cmocka_unit_test(test_a_process_that_has_ended_has_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
