/* A record and the critical path of the same request: which of them gives the components, and what the cause says. */
#include "request_records.h"

#include <sys/syscall.h>

static struct path_segment make_segment(uint64_t start_ns, uint64_t end_ns, enum request_part_kind kind, uint32_t tid)
{
    return (struct path_segment){
        .start_ns = start_ns, .end_ns = end_ns, .kind = kind, .tid = tid, .syscall = -1, .reason = ""};
}

static void test_time_before_the_read(void **state)
{
    (void)state;
    struct request_record r = make_record(1300);
    r.unread_ns = 300;
    r.runtime_ns = 1000;
    r.flags = REQUEST_ACCOUNTED;
    struct request *request;
    assert_int_equal(diagnose_request(&r, NULL, &no_names, &request), 0);
    assert_int_equal(request->part_count, 2);
    assert_part(request, 0, REQUEST_PART_CPU, 1000);
    assert_part(request, 1, REQUEST_PART_UNREAD, 300);
    request_free(request);
}

/* The path shows what came before the read, the thread's own waits what came after it. */
static void test_path_shows_the_time_before_the_read(void **state)
{
    (void)state;
    struct request_record r = make_record(1300);
    r.start_ns = 4700;
    r.unread_ns = 300;
    struct path_segment items[] = {make_segment(4700, 5000, REQUEST_PART_UNREAD, 3),
                                   make_segment(5000, 6000, REQUEST_PART_CPU, r.h.tid)};
    const struct path_segments path = {.items = items, .count = 2};
    struct request *request;
    assert_int_equal(diagnose_request(&r, &path, &no_names, &request), 0);
    assert_int_equal(request->start_ns, 4700);
    assert_int_equal(request->duration_ns, 1300);
    assert_int_equal(request->part_count, 2);
    assert_part(request, 0, REQUEST_PART_CPU, 1000);
    assert_part(request, 1, REQUEST_PART_UNREAD, 300);
    assert_int_equal(request->segment_count, 2);
    assert_int_equal(request->segments[1].start_ns, 300);
    request_free(request);
}

/* Another thread went on with the request: only the path shows what it did. */
static void test_path_explains_what_the_thread_does_not(void **state)
{
    (void)state;
    struct request_record r = make_record(1000);
    r.start_ns = 5000;
    r.unattributed_ns = 900;
    r.flags = REQUEST_HANDED_OVER;
    struct path_segment items[] = {make_segment(5000, 5100, REQUEST_PART_CPU, r.h.tid),
                                   make_segment(5100, 6000, REQUEST_PART_DISK, 77)};
    const struct path_segments path = {.items = items, .count = 2};
    struct request *request;
    assert_int_equal(diagnose_request(&r, &path, &no_names, &request), 0);
    assert_int_equal(request->part_count, 2);
    assert_part(request, 0, REQUEST_PART_DISK, 900);
    assert_string_equal(request->parts[0].detail, "page fault in thread 77");
    assert_part(request, 1, REQUEST_PART_CPU, 100);
    request_free(request);
}

/* The service that it called is a process of this node: the cause continues there. */
static void test_cause_continues_in_the_called_process(void **state)
{
    (void)state;
    struct request_record r = make_record(1000);
    r.start_ns = 5000;
    add_wait(&r, SYS_recvfrom, REQUEST_OBJECT_SOCKET, 0, 900);
    struct path_segment items[] = {make_segment(5000, 5100, REQUEST_PART_CPU, r.h.tid),
                                   make_segment(5100, 6000, REQUEST_PART_LOCK, 77)};
    items[0].pid = r.h.pid;
    items[1].pid = 70;
    items[1].for_tid = 78;
    const struct path_segments path = {.items = items, .count = 2};
    struct request *request;
    assert_int_equal(diagnose_request(&r, &path, &no_names, &request), 0);
    assert_part(request, 0, REQUEST_PART_DOWNSTREAM, 900);
    assert_non_null(strstr(request->cause,
                           "; there, 900 ns waiting for a lock or another thread, held by thread 77 of process 70"));
    request_free(request);
}

/* Java's Thread.sleep waits for a futex that nobody wakes. */
static void test_timed_wait_for_a_futex_is_sleep(void **state)
{
    (void)state;
    struct request_record r = make_record(1000);
    r.start_ns = 5000;
    add_wait(&r, SYS_futex, REQUEST_OBJECT_NONE, 0, 900);
    struct path_segment items[] = {make_segment(5000, 5100, REQUEST_PART_CPU, r.h.tid),
                                   make_segment(5100, 6000, REQUEST_PART_SLEEP, r.h.tid)};
    items[1].syscall = SYS_futex;
    const struct path_segments path = {.items = items, .count = 2};
    struct request *request;
    assert_int_equal(diagnose_request(&r, &path, &no_names, &request), 0);
    assert_part(request, 0, REQUEST_PART_SLEEP, 900);
    request_free(request);
    items[1].tid = 77; /* another thread's */
    assert_int_equal(diagnose_request(&r, &path, &no_names, &request), 0);
    assert_part(request, 0, REQUEST_PART_LOCK, 900);
    request_free(request);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_time_before_the_read),
        cmocka_unit_test(test_path_shows_the_time_before_the_read),
        cmocka_unit_test(test_path_explains_what_the_thread_does_not),
        cmocka_unit_test(test_cause_continues_in_the_called_process),
        cmocka_unit_test(test_timed_wait_for_a_futex_is_sleep),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
