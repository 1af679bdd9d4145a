/* The flight recorder: context switches, wake-ups and ends of threads, what its rings keep, and that they are silent
 * while it is disabled. Events are checked one by one and not counted exactly: some kernels do not show every switch
 * and wake-up that the threads of this test share a CPU with. */
#include "recording.h"

#include "sources/attach/preempt_count.h"
#include "sources/recorder/recorder.h"

#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define RECORDS 8192
#define MANY_RECORDS                                                                                                   \
    65536 /* also the other CPU's ring, which a busy machine fills, is not overwritten during a test                   \
           */
#define ROUNDS 200

/* Two threads that wake each other by pipes. */
struct player {
    int read_fd, write_fd;
    uint32_t tid;
    bool begins;
    size_t sleeps; /* by the kernel's count; no sleep in a round if the byte is already there */
};

static void *play(void *context)
{
    struct player *p = context;
    struct rusage before, after;
    char byte = 0;
    p->tid = (uint32_t)gettid();
    getrusage(RUSAGE_THREAD, &before);
    for (int i = 0; i < ROUNDS; i++) {
        if (p->begins)
            assert_int_equal(write(p->write_fd, &byte, 1), 1);
        assert_int_equal(read(p->read_fd, &byte, 1), 1);
        if (!p->begins)
            assert_int_equal(write(p->write_fd, &byte, 1), 1);
    }
    getrusage(RUSAGE_THREAD, &after);
    p->sleeps = (size_t)(after.ru_nvcsw - before.ru_nvcsw);
    return NULL;
}

static void play_together(struct player players[2])
{
    int there[2], back[2];
    pthread_t threads[2];
    assert_int_equal(pipe(there), 0);
    assert_int_equal(pipe(back), 0);
    players[0] = (struct player){.read_fd = back[0], .write_fd = there[1], .begins = true};
    players[1] = (struct player){.read_fd = there[0], .write_fd = back[1]};
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, play, &players[i]);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < 2; i++) {
        close(there[i]);
        close(back[i]);
    }
}

/* How many wake-ups of a thread by the other one's writes there are; each must be complete. */
static size_t check_wakings(const struct flight_window *w, const struct player *sleeper, const struct player *waker)
{
    const struct recorder_record *record;
    size_t at = 0, count = 0;
    while ((record = recording_next(w, &at, RECORDER_WAKING, sleeper->tid))) {
        if (recorder_low(record->value) != waker->tid || record->syscall != SYS_write)
            continue;
        assert_int_equal(recorder_high(record->value), getpid());
        assert_int_equal(record->flags, 0);
        assert_int_equal(record->object, waker->write_fd);
        count++;
    }
    return count;
}

/* How many times the thread slept in its read. */
static size_t check_switches(const struct flight_window *w, const struct player *sleeper)
{
    const struct recorder_record *record;
    size_t at = 0, count = 0;
    while ((record = recording_next(w, &at, RECORDER_SWITCH, sleeper->tid))) {
        assert_int_equal(recorder_high(record->value), getpid());
        assert_true(recorder_low(record->value) != sleeper->tid);
        if (record->flags || record->syscall != SYS_read)
            continue;
        assert_int_equal(record->object, sleeper->read_fd);
        count++;
    }
    return count;
}

static void test_threads_that_wake_each_other(void **state)
{
    struct recording r;
    struct player players[2];
    (void)state;
    recording_begin(&r, RECORDS);
    play_together(players);
    struct flight_window w = recording_window(&r);
    for (int i = 0; i < 2; i++) {
        const size_t wakings = check_wakings(&w, &players[i], &players[!i]);
        const size_t switches = check_switches(&w, &players[i]);
        if (wakings < players[i].sleeps / 2 || switches < players[i].sleeps / 2)
            fail_msg("%zu wake-ups and %zu switches of %zu", wakings, switches, players[i].sleeps);
    }
    for (size_t i = 1; i < w.count; i++)
        assert_true(w.records[i].time_ns >= w.records[i - 1].time_ns);
    flight_recorder_window_free(&w);
    recording_end(&r);
}

/* A timer wakes from an interrupt: the current thread's system call means nothing there. */
static void test_waking_by_a_timer(void **state)
{
    struct recording r;
    size_t at = 0, count = 0;
    const struct recorder_record *record;
    (void)state;
    if (!preempt_count_find().distance) {
        print_message("this kernel does not distinguish wake-ups by interrupts from others\n");
        skip();
    }
    recording_begin(&r, RECORDS);
    /* A timer may expire before its thread has left the CPU: then it has not slept. */
    for (struct rusage before, now; getrusage(RUSAGE_THREAD, &before) == 0;) {
        usleep(2000);
        getrusage(RUSAGE_THREAD, &now);
        count += now.ru_nvcsw > before.ru_nvcsw;
        if (count == 50)
            break;
    }
    count = 0;
    struct flight_window w = recording_window(&r);
    while ((record = recording_next(&w, &at, RECORDER_WAKING, (uint32_t)gettid()))) {
        if (!(record->flags & (RECORDER_IN_HARDIRQ | RECORDER_IN_SOFTIRQ)))
            continue;
        assert_int_equal(record->syscall, RECORDER_NO_SYSCALL);
        assert_int_equal(record->object, 0);
        count++;
    }
    assert_true(count >= 25); /* it may have slept for something else, too */
    flight_recorder_window_free(&w);
    recording_end(&r);
}

static void *end_at_once(void *tid)
{
    *(uint32_t *)tid = (uint32_t)gettid();
    return NULL;
}

/* Returns when the thread is gone: pthread_join returns a little before that. */
static uint32_t run_thread_to_its_end(void)
{
    pthread_t thread;
    uint32_t tid;
    pthread_create(&thread, NULL, end_at_once, &tid);
    pthread_join(thread, NULL);
    while (tgkill(getpid(), (pid_t)tid, 0) == 0)
        usleep(100);
    return tid;
}

static void test_end_of_a_thread(void **state)
{
    struct recording r;
    size_t at = 0;
    (void)state;
    recording_begin(&r, RECORDS);
    const uint64_t before_ns = clock_monotonic_ns();
    const uint32_t tid = run_thread_to_its_end();
    struct flight_window w = recording_window(&r);
    const struct recorder_record *record = recording_next(&w, &at, RECORDER_EXIT, tid);
    assert_non_null(record);
    assert_int_equal(record->value, getpid());
    assert_true(record->object >= before_ns && record->object < record->time_ns);
    flight_recorder_window_free(&w);
    recording_end(&r);
}

static void end_threads(int count)
{
    for (int i = 0; i < count; i++)
        run_thread_to_its_end();
}

/* The newest stay, and the window says from when on it has all of them. */
static void test_full_rings_keep_the_newest(void **state)
{
    struct recording r;
    struct flight_window w;
    size_t at = 0;
    (void)state;
    recording_begin(&r, 64);
    w = recording_window(&r);
    assert_true(w.complete_from_ns <= r.start_ns);
    flight_recorder_window_free(&w);
    end_threads(500);
    const uint64_t late_ns = clock_monotonic_ns();
    const uint32_t tid = run_thread_to_its_end();
    w = recording_window(&r);
    assert_true(w.complete_from_ns > r.start_ns);
    assert_true(w.complete_from_ns < clock_monotonic_ns());
    assert_non_null(recording_next(&w, &at, RECORDER_EXIT, tid));
    const struct flight_recorder_stats stats = flight_recorder_stats(r.fr, clock_monotonic_ns());
    assert_true(stats.object_records >= 250);
    assert_true(stats.scheduler_records >= 250);
    assert_true(stats.history_ns < clock_monotonic_ns() - r.start_ns);
    assert_int_equal(stats.windows, 2);
    assert_int_equal(stats.windows_overwritten, 1);
    flight_recorder_window_free(&w);
    assert_true(late_ns > r.start_ns);
    recording_end(&r);
}

static void test_bounds_of_a_window(void **state)
{
    struct recording r;
    struct flight_window all, some;
    (void)state;
    recording_begin(&r, MANY_RECORDS);
    end_threads(20);
    all = recording_window(&r);
    size_t first = 0;
    while (first < all.count && all.records[first].time_ns < all.complete_from_ns)
        first++;
    assert_true(all.count >= first + 20);
    const uint64_t from_ns = all.records[first + 5].time_ns, to_ns = all.records[first + 15].time_ns;
    assert_int_equal(flight_recorder_window(r.fr, from_ns, to_ns, SIZE_MAX, &some), 0);
    assert_true(some.count >= 11);
    assert_int_equal(some.records[0].time_ns, from_ns);
    assert_int_equal(some.records[some.count - 1].time_ns, to_ns);
    flight_recorder_window_free(&some);
    assert_int_equal(flight_recorder_window(r.fr, from_ns, to_ns, 4, &some), 0);
    assert_in_range(some.count, 1, 4);
    assert_int_equal(some.records[some.count - 1].time_ns, to_ns);
    assert_true(some.complete_from_ns > from_ns && some.complete_from_ns <= some.records[0].time_ns);
    flight_recorder_window_free(&some);
    flight_recorder_window_free(&all);
    recording_end(&r);
}

static uint64_t records_written(const struct recording *r)
{
    const struct flight_recorder_stats stats = flight_recorder_stats(r->fr, clock_monotonic_ns());
    return stats.scheduler_records + stats.object_records;
}

static void check_silent(const struct recording *r)
{
    int ends[2];
    char byte;
    usleep(10000); /* a program that was running may still write */
    const uint64_t before = records_written(r);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    assert_int_equal(write(ends[0], "a", 1), 1);
    assert_int_equal(read(ends[1], &byte, 1), 1);
    end_threads(10);
    assert_int_equal(records_written(r), before);
    struct flight_window w = recording_window(r);
    assert_int_equal(w.count, 0);
    assert_true(w.complete_from_ns == UINT64_MAX);
    flight_recorder_window_free(&w);
    close(ends[0]);
    close(ends[1]);
}

static void test_disabled_writes_nothing(void **state)
{
    struct recording r;
    (void)state;
    recording_begin(&r, RECORDS);
    flight_recorder_enable(r.fr, false); /* the programs stay attached */
    check_silent(&r);
    flight_recorder_enable(r.fr, true);
    assert_int_equal(source_recorder.shed(r.recorder, SOURCE_DETAIL_SLOWEST_PATHS), 0);
    assert_true(source_recorder.is_enabled(r.recorder));
    assert_int_equal(source_recorder.shed(r.recorder, SOURCE_DETAIL_LEAST), 0);
    assert_false(source_recorder.is_enabled(r.recorder));
    check_silent(&r);
    assert_int_equal(source_recorder.shed(r.recorder, SOURCE_DETAIL_FULL), 0);
    assert_true(source_recorder.is_enabled(r.recorder));
    const uint64_t before = records_written(&r), again_ns = clock_monotonic_ns();
    end_threads(10);
    assert_true(records_written(&r) > before);
    struct flight_window w = recording_window(&r);
    assert_true(w.complete_from_ns > r.start_ns && w.complete_from_ns <= again_ns);
    flight_recorder_window_free(&w);
    assert_int_equal(source_recorder.stop(r.recorder), 0);
    check_silent(&r);
    recording_end(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_threads_that_wake_each_other),
        cmocka_unit_test(test_waking_by_a_timer),
        cmocka_unit_test(test_end_of_a_thread),
        cmocka_unit_test(test_full_rings_keep_the_newest),
        cmocka_unit_test(test_bounds_of_a_window),
        cmocka_unit_test(test_disabled_writes_nothing),
        cmocka_unit_test(test_sockets_of_one_thread),
        cmocka_unit_test(test_datagrams),
        cmocka_unit_test(test_peeking_is_no_receive),
        cmocka_unit_test(test_tcp_sequence_numbers),
        cmocka_unit_test(test_calls_of_a_server),
        cmocka_unit_test(test_service_calls_on_unix_sockets),
        cmocka_unit_test(test_other_sends_are_no_calls),
        cmocka_unit_test(test_answer_of_one_letter_is_no_request),
        cmocka_unit_test(test_connect_and_close),
        cmocka_unit_test(test_retransmissions),
        cmocka_unit_test(test_peers),
        cmocka_unit_test(test_control_frames),
        cmocka_unit_test(test_every_attach_method),
        cmocka_unit_test(test_files_that_are_waited_for),
        cmocka_unit_test(test_goroutines_that_no_thread_is_seen_to_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
