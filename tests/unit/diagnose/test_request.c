/* From records to explanations: parts that sum, whatever the record says; kinds by system call, object and state; the cause. */
#include "diagnose/request.h"

#include "diagnose/waits.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include <cmocka.h>

static const struct request_names no_names;

static struct request_record make_record(uint64_t duration_ns)
{
    struct request_record r = {
        .h = {.kind = WIRE_REQUEST, .pid = 4711, .tid = 4712},
        .id = 7, .start_ns = 1000, .duration_ns = duration_ns, .status = 200,
        .peer_family = AF_INET, .peer_port = 80, .peer_address = {127, 0, 0, 1}, .comm = "server",
    };
    memcpy(r.line, "GET /users/42?x HTTP/1.1\r\n", 26);
    r.line_bytes = 26;
    return r;
}

static struct request *diagnose(const struct request_record *record)
{
    struct request *request = NULL;
    uint64_t sum = 0;
    assert_int_equal(diagnose_request(record, &no_names, &request), 0);
    for (size_t i = 0; i < request->part_count; i++)
        sum += request->parts[i].duration_ns;
    assert_int_equal(sum, record->duration_ns);
    return request;
}

static void add_wait(struct request_record *r, int number, int object, int state, uint64_t ns)
{
    r->waits[r->wait_count++] = (struct request_wait){.syscall = number, .object = (__u8)object, .state = (__u8)state, .duration_ns = ns,
                                                      .longest_ns = ns, .count = 1, .file_system = "ext4", .file_name = "data"};
}

static void test_the_rest_is_cpu(void **state)
{
    (void)state;
    struct request_record r = make_record(100);
    r.run_queue_ns = 30;
    struct request *request = diagnose(&r);
    assert_int_equal(request->part_count, 2);
    assert_int_equal(request->parts[0].kind, REQUEST_PART_CPU);
    assert_int_equal(request->parts[0].duration_ns, 70);
    assert_int_equal(request->parts[1].kind, REQUEST_PART_RUN_QUEUE);
    assert_string_equal(request->method, "GET");
    assert_string_equal(request->route, "/users/{id}");
    assert_string_equal(request->peer, "127.0.0.1:80");
    assert_string_equal(request->service, "server");
    assert_string_equal(request->cause, "70 ns of 100 ns: on a CPU, working for this request");
    request_free(request);
}

/* It is told apart, and never more than the run queue that it is part of. */
static void test_throttling_is_part_of_the_run_queue(void **state)
{
    (void)state;
    struct request_record r = make_record(100);
    r.run_queue_ns = 90;
    r.throttled_ns = 60;
    struct request *request = diagnose(&r);
    assert_int_equal(request->part_count, 3);
    assert_int_equal(request->parts[0].kind, REQUEST_PART_RUN_QUEUE);
    assert_int_equal(request->parts[0].duration_ns, 60);
    assert_string_equal(request->parts[0].detail, "its cgroup's CPU quota was used up");
    assert_int_equal(request->parts[1].kind, REQUEST_PART_RUN_QUEUE);
    assert_int_equal(request->parts[1].duration_ns, 30);
    assert_string_equal(request->cause, "90 ns of 100 ns: ready to run, waiting for a CPU (its cgroup's CPU quota was used up)");
    request_free(request);
    r.throttled_ns = 200;
    request = diagnose(&r);
    assert_int_equal(request->part_count, 2);
    assert_int_equal(request->parts[0].duration_ns, 90);
    request_free(request);
}

/* A switch that was missed leaves a wait out; the scheduler's accounts tell that it was no CPU time. */
static void test_the_rest_is_cpu_only_as_far_as_the_scheduler_says(void **state)
{
    (void)state;
    struct request_record r = make_record(54000000);
    r.flags = REQUEST_ACCOUNTED;
    r.runtime_ns = 1000000;
    struct request *request = diagnose(&r);
    assert_int_equal(request->part_count, 2);
    assert_int_equal(request->parts[0].kind, REQUEST_PART_UNATTRIBUTED);
    assert_int_equal(request->parts[0].duration_ns, 53000000);
    assert_int_equal(request->parts[1].kind, REQUEST_PART_CPU);
    request_free(request);
    r.runtime_ns = 46000000; /* behind by less than a tick */
    request = diagnose(&r);
    assert_int_equal(request->part_count, 1);
    assert_int_equal(request->parts[0].kind, REQUEST_PART_CPU);
    request_free(request);
}

static void test_kinds(void **state)
{
    (void)state;
    static const struct {
        int number, object, state;
        enum request_part_kind kind;
        const char *detail;
    } cases[] = {
        {SYS_futex, REQUEST_OBJECT_NONE, 0, REQUEST_PART_LOCK, "futex"},
        {SYS_nanosleep, REQUEST_OBJECT_NONE, 0, REQUEST_PART_SLEEP, "nanosleep"},
        {SYS_clock_nanosleep, REQUEST_OBJECT_NONE, 0, REQUEST_PART_SLEEP, "clock_nanosleep"},
        {SYS_read, REQUEST_OBJECT_FILE, REQUEST_WAIT_UNINTERRUPTIBLE | REQUEST_WAIT_IO, REQUEST_PART_DISK, "read of data (ext4)"},
        {SYS_flock, REQUEST_OBJECT_FILE, 0, REQUEST_PART_LOCK, "flock of data (ext4)"},
        {SYS_unlinkat, REQUEST_OBJECT_NONE, REQUEST_WAIT_UNINTERRUPTIBLE, REQUEST_PART_DISK, "unlinkat"},
        {-1, REQUEST_OBJECT_NONE, REQUEST_WAIT_UNINTERRUPTIBLE | REQUEST_WAIT_IO, REQUEST_PART_DISK, "page fault"},
        {-1, REQUEST_OBJECT_NONE, REQUEST_WAIT_UNINTERRUPTIBLE, REQUEST_PART_OTHER, "page fault"},
        {SYS_recvfrom, REQUEST_OBJECT_CLIENT, 0, REQUEST_PART_NETWORK, "recvfrom on the client's connection"},
        {SYS_sendfile, REQUEST_OBJECT_CLIENT, REQUEST_WAIT_IO, REQUEST_PART_DISK, "sendfile on the client's connection"},
        {SYS_recvfrom, REQUEST_OBJECT_SOCKET, 0, REQUEST_PART_DOWNSTREAM, "recvfrom on the connection to "},
        {SYS_read, REQUEST_OBJECT_UNIX, 0, REQUEST_PART_DOWNSTREAM, "read on a Unix socket"},
        {SYS_read, REQUEST_OBJECT_PIPE, 0, REQUEST_PART_OTHER, "read on a pipe"},
        {SYS_epoll_pwait, REQUEST_OBJECT_EVENT_LOOP, 0, REQUEST_PART_UNATTRIBUTED,
         "epoll_pwait in the event loop, for nothing that is seen"},
        {999, REQUEST_OBJECT_NONE, 0, REQUEST_PART_OTHER, "system call 999"},
    };
    for (size_t i = 0; i < array_size(cases); i++) {
        struct request_record r = make_record(100);
        add_wait(&r, cases[i].number, cases[i].object, cases[i].state, 100);
        struct request *request = diagnose(&r);
        assert_int_equal(request->part_count, 1);
        assert_int_equal(request->parts[0].kind, cases[i].kind);
        assert_string_equal(request->parts[0].detail, cases[i].detail);
        request_free(request);
    }
}

static size_t name(void *context, const __u64 *addresses, size_t count, struct frame *ret_frames, size_t max)
{
    const char *const *names = context;
    size_t n = 0;
    for (; n < count && n < max; n++)
        ret_frames[n] = (struct frame){.kind = FRAME_KERNEL, .function = names[addresses[n]]};
    return n;
}

static void test_stack_in_the_detail(void **state)
{
    (void)state;
    const char *names[] = {"__schedule", "schedule", "futex_wait_queue", "futex_wait", "do_futex", "__x64_sys_futex", "do_syscall_64"};
    struct request_record r = make_record(1000);
    add_wait(&r, SYS_futex, REQUEST_OBJECT_NONE, 0, 900);
    r.waits[0].count = 3;
    r.waits[0].kernel_frames = 7;
    for (__u64 i = 0; i < 7; i++)
        r.waits[0].kernel[i] = i;
    struct request *request;
    assert_int_equal(diagnose_request(&r, &(struct request_names){.context = (void *)names, .kernel_frames = name}, &request), 0);
    assert_string_equal(request->parts[0].detail, "futex, 3 times: futex_wait_queue < futex_wait < do_futex");
    request_free(request);
}

static void test_a_kernel_lock_is_a_lock(void **state)
{
    (void)state;
    const char *names[] = {"schedule", "rwsem_down_read_slowpath", "lock_mm_and_find_vma"};
    struct request_record r = make_record(1000);
    add_wait(&r, -1, REQUEST_OBJECT_NONE, REQUEST_WAIT_UNINTERRUPTIBLE, 900);
    r.waits[0].kernel_frames = 3;
    for (__u64 i = 0; i < 3; i++)
        r.waits[0].kernel[i] = i;
    struct request *request;
    assert_int_equal(diagnose_request(&r, &(struct request_names){.context = (void *)names, .kernel_frames = name}, &request), 0);
    assert_int_equal(request->parts[0].kind, REQUEST_PART_LOCK);
    request_free(request);
}

/* Equal waits are one part; many small ones of a kind outweigh one large one of another. */
static void test_cause_is_the_kind_with_the_most(void **state)
{
    (void)state;
    struct request_record r = make_record(100);
    add_wait(&r, SYS_nanosleep, REQUEST_OBJECT_NONE, 0, 40);
    add_wait(&r, SYS_futex, REQUEST_OBJECT_NONE, 0, 25);
    add_wait(&r, SYS_futex, REQUEST_OBJECT_NONE, 0, 25);
    struct request *request = diagnose(&r);
    assert_int_equal(request->part_count, 3);
    assert_int_equal(request->parts[0].kind, REQUEST_PART_LOCK);
    assert_int_equal(request->parts[0].duration_ns, 50);
    assert_non_null(strstr(request->cause, "50 ns of 100 ns: waiting for a lock or another thread"));
    request_free(request);
}

static void test_sums_that_pass_the_duration_are_cut(void **state)
{
    (void)state;
    struct request_record r = make_record(100);
    add_wait(&r, SYS_futex, REQUEST_OBJECT_NONE, 0, UINT64_MAX);
    r.run_queue_ns = UINT64_MAX;
    request_free(diagnose(&r));
    r = make_record(0);
    request_free(diagnose(&r));
}

static void test_no_reply_and_hand_over(void **state)
{
    (void)state;
    struct request_record r = make_record(100);
    r.status = 0;
    r.flags = REQUEST_NO_REPLY | REQUEST_HANDED_OVER;
    r.unattributed_ns = 90;
    struct request *request = diagnose(&r);
    assert_int_equal(strncmp(request->cause, "no reply was sent; ", 19), 0);
    assert_string_equal(request->parts[0].detail, "in the hands of another thread");
    request_free(request);
}

static void test_what_is_no_request(void **state)
{
    (void)state;
    struct request *request;
    struct request_record r = make_record(100);
    r.status = 0;
    memcpy(r.line, "SET /users/42?x HTTP/1.1\r\n", 26);
    assert_int_equal(diagnose_request(&r, &no_names, &request), -EBADMSG);
    r = make_record(100);
    r.wait_count = REQUEST_WAITS + 1;
    assert_int_equal(diagnose_request(&r, &no_names, &request), -EBADMSG);
}

static const struct resource *find(void *context, uint32_t pid, uint64_t cgroup_id)
{
    (void)cgroup_id;
    assert_int_equal(pid, 4711);
    return context;
}

static void test_service_comes_from_the_process(void **state)
{
    (void)state;
    struct request_record r = make_record(100);
    struct resource resource = {.service_name = "shop", .container_id = "abc"};
    struct request *request;
    assert_int_equal(diagnose_request(&r, &(struct request_names){.context = &resource, .resource = find}, &request), 0);
    assert_string_equal(request->service, "shop");
    assert_string_equal(request->container_id, "abc");
    request_free(request);
}

/* ---- user stacks ---- */

static struct frame native(const char *function, const char *mapping)
{
    return (struct frame){.kind = FRAME_NATIVE, .function = function, .file = "", .mapping = mapping, .build_id = "", .address = 0x42};
}

/* Names by the addresses 1, 2, 3, ...; why there are none. */
static size_t name_user(void *context, const struct request_record *record, const struct request_wait *w, const __u64 *addresses,
                        struct frame *ret_frames, size_t max)
{
    static const char *const names[] = {"", "clock_nanosleep", "nanosleep", "sleep_ms\x1b", "handle", "serve", "run", "main"};
    size_t n = 0;
    (void)context;
    (void)record;
    if (w->user_end >= REQUEST_STACK_APART) {
        ret_frames[n] = native("lost", "");
        ret_frames[n++].kind = FRAME_TRUNCATED;
        return n;
    }
    for (; n < w->user_frames && n < max; n++)
        ret_frames[n] = native(names[addresses[n]], addresses[n] <= 2 ? "/usr/lib/libc.so.6" : "/usr/bin/server");
    return n;
}

static struct request_record_stacks with_stack(const __u64 *addresses, size_t count)
{
    struct request_record_stacks r = {.r = make_record(100)};
    add_wait(&r.r, SYS_clock_nanosleep, REQUEST_OBJECT_NONE, 0, 80);
    struct request_wait *w = &r.r.waits[0];
    w->stack = REQUEST_STACK_NAME_START(0);
    for (size_t i = 0; i < count; i++) {
        r.frames[i] = addresses[i];
        w->stack = REQUEST_STACK_NAME_STEP(w->stack, addresses[i]);
    }
    w->stack = REQUEST_STACK_NAME_END(w->stack);
    w->user_frames = (__u8)count;
    r.r.h.size_bytes = (__u32)(sizeof(r.r) + count * 8);
    return r;
}

static struct request *diagnose_with_stack(const struct request_record_stacks *r)
{
    const struct request_names names = {.user_frames = name_user};
    struct request *request = NULL;
    assert_int_equal(diagnose_request(&r->r, &names, &request), 0);
    return request;
}

static void test_user_stack(void **state)
{
    (void)state;
    struct request_record_stacks r = with_stack((const __u64[]){1, 2, 3, 4, 5, 6, 7}, 7);
    struct request *request = diagnose_with_stack(&r);
    assert_string_equal(request->parts[0].detail, "clock_nanosleep in nanosleep < sleep_ms? < handle < serve");
    assert_string_equal(request->parts[0].stack, "clock_nanosleep\nnanosleep\nsleep_ms?\nhandle\nserve\nrun\nmain");
    assert_string_equal(request->parts[1].stack, "");
    request_free(request);
    r = with_stack((const __u64[]){1, 0, 4}, 3); /* the C library's own name would say nothing new; and one without a name */
    request = diagnose_with_stack(&r);
    assert_string_equal(request->parts[0].stack, "clock_nanosleep\nlibc.so.6+0x42\nhandle");
    assert_string_equal(request->parts[0].detail, "clock_nanosleep in handle");
    request_free(request);
}

/* Another stack took its place while the record was written: none is better than a wrong one. */
static void test_a_stack_that_is_not_the_one_meant(void **state)
{
    (void)state;
    struct request_record_stacks r = with_stack((const __u64[]){1, 2, 3}, 3);
    r.frames[2] = 4;
    struct request *request = diagnose_with_stack(&r);
    assert_string_equal(request->parts[0].stack, "[truncated: lost]");
    assert_string_equal(request->parts[0].detail, "clock_nanosleep");
    request_free(request);
}

static void test_frames_that_are_not_there(void **state)
{
    (void)state;
    struct request_record_stacks r = with_stack((const __u64[]){1, 2, 3}, 3);
    struct request *request = NULL;
    r.r.h.size_bytes -= 8;
    assert_int_equal(diagnose_request(&r.r, &no_names, &request), -EBADMSG);
    r.r.h.size_bytes = 16;
    assert_int_equal(diagnose_request(&r.r, &no_names, &request), -EBADMSG);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_rest_is_cpu),
        cmocka_unit_test(test_throttling_is_part_of_the_run_queue),
        cmocka_unit_test(test_the_rest_is_cpu_only_as_far_as_the_scheduler_says),
        cmocka_unit_test(test_kinds),
        cmocka_unit_test(test_stack_in_the_detail),
        cmocka_unit_test(test_a_kernel_lock_is_a_lock),
        cmocka_unit_test(test_cause_is_the_kind_with_the_most),
        cmocka_unit_test(test_sums_that_pass_the_duration_are_cut),
        cmocka_unit_test(test_no_reply_and_hand_over),
        cmocka_unit_test(test_what_is_no_request),
        cmocka_unit_test(test_service_comes_from_the_process),
        cmocka_unit_test(test_user_stack),
        cmocka_unit_test(test_a_stack_that_is_not_the_one_meant),
        cmocka_unit_test(test_frames_that_are_not_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
