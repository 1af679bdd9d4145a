/* From records to diagnosis: components that sum to the duration for any record; kinds by system call, object and
 * state; the cause. */
#include "diagnose/request.h"

#include "captured_requests.h"
#include "diagnose/waits.h"
#include "request_records.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include <cmocka.h>

static struct request *diagnose(const struct request_record *record)
{
    struct request *request = NULL;
    uint64_t sum = 0;
    assert_int_equal(diagnose_request(record, NULL, &no_names, &request), 0);
    for (size_t i = 0; i < request->part_count; i++)
        sum += request->parts[i].duration_ns;
    assert_int_equal(sum, record->duration_ns);
    return request;
}

static void test_remainder_is_cpu(void **state)
{
    (void)state;
    struct request_record r = make_record(100);
    r.run_queue_ns = 30;
    struct request *request = diagnose(&r);
    assert_int_equal(request->part_count, 2);
    assert_part(request, 0, REQUEST_PART_CPU, 70);
    assert_int_equal(request->parts[1].kind, REQUEST_PART_RUN_QUEUE);
    assert_string_equal(request->method, "GET");
    assert_string_equal(request->route, "/users/{id}");
    assert_string_equal(request->peer, "127.0.0.1:80");
    assert_string_equal(request->service, "server");
    assert_string_equal(request->cause, "100 ns: 70 ns on a CPU");
    request_free(request);
}

/* Throttling is a separate component, and never more than the run queue time that contains it. */
static void test_throttling_is_part_of_the_run_queue(void **state)
{
    (void)state;
    struct request_record r = make_record(100);
    r.run_queue_ns = 90;
    r.throttled_ns = 60;
    struct request *request = diagnose(&r);
    assert_int_equal(request->part_count, 3);
    assert_part(request, 0, REQUEST_PART_RUN_QUEUE, 60);
    assert_string_equal(request->parts[0].detail, "its cgroup's CPU quota was used up");
    assert_part(request, 1, REQUEST_PART_RUN_QUEUE, 30);
    assert_string_equal(request->cause, "100 ns: 90 ns waiting for a CPU, its cgroup's CPU quota was used up");
    request_free(request);
    r.throttled_ns = 200;
    request = diagnose(&r);
    assert_int_equal(request->part_count, 2);
    assert_int_equal(request->parts[0].duration_ns, 90);
    request_free(request);
}

/* A missed switch loses a wait; the scheduler's run time shows that it was not CPU time. */
static void test_remainder_beyond_the_scheduler_runtime_is_unattributed(void **state)
{
    (void)state;
    struct request_record r = make_record(54000000);
    r.flags = REQUEST_ACCOUNTED;
    r.runtime_ns = 1000000;
    struct request *request = diagnose(&r);
    assert_int_equal(request->part_count, 2);
    assert_part(request, 0, REQUEST_PART_UNATTRIBUTED, 53000000);
    assert_int_equal(request->parts[1].kind, REQUEST_PART_CPU);
    request_free(request);
    r.runtime_ns = 46000000; /* behind by less than a tick */
    request = diagnose(&r);
    assert_int_equal(request->part_count, 1);
    assert_int_equal(request->parts[0].kind, REQUEST_PART_CPU);
    request_free(request);
}

/* By the kernel's count, and never more than the thread's own run time lacks: time stolen during a sleep is part of
 * the sleep. */
static void test_stolen_time_is_a_component(void **state)
{
    (void)state;
    struct request_record r = make_record(54000000);
    r.flags = REQUEST_ACCOUNTED;
    r.runtime_ns = 40000000;
    r.stolen_ns = 13000000;
    struct request *request = diagnose(&r);
    assert_int_equal(request->part_count, 2);
    assert_part(request, 0, REQUEST_PART_CPU, 41000000);
    assert_part(request, 1, REQUEST_PART_STEAL, 13000000);
    request_free(request);
    r.stolen_ns = UINT64_MAX;
    request = diagnose(&r);
    assert_int_equal(request->parts[1].duration_ns, 14000000);
    request_free(request);
    r.stolen_ns = 3000000; /* the remaining 11 ms are more than a tick */
    request = diagnose(&r);
    assert_int_equal(request->part_count, 3);
    assert_part(request, 1, REQUEST_PART_UNATTRIBUTED, 11000000);
    request_free(request);
    r.runtime_ns = 54000000;
    request = diagnose(&r);
    assert_int_equal(request->part_count, 1);
    request_free(request);
    r.flags = 0; /* neither is known */
    r.runtime_ns = 0;
    request = diagnose(&r);
    assert_int_equal(request->part_count, 1);
    assert_int_equal(request->parts[0].kind, REQUEST_PART_CPU);
    request_free(request);
}

static void test_component_kinds(void **state)
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
        {SYS_read, REQUEST_OBJECT_FILE, REQUEST_WAIT_UNINTERRUPTIBLE | REQUEST_WAIT_IO, REQUEST_PART_DISK,
         "read of data (ext4)"},
        {SYS_flock, REQUEST_OBJECT_FILE, 0, REQUEST_PART_LOCK, "flock of data (ext4)"},
        {SYS_unlinkat, REQUEST_OBJECT_NONE, REQUEST_WAIT_UNINTERRUPTIBLE, REQUEST_PART_DISK, "unlinkat"},
        {-1, REQUEST_OBJECT_NONE, REQUEST_WAIT_UNINTERRUPTIBLE | REQUEST_WAIT_IO, REQUEST_PART_DISK, "page fault"},
        {-1, REQUEST_OBJECT_NONE, REQUEST_WAIT_UNINTERRUPTIBLE, REQUEST_PART_OTHER, "page fault"},
        {SYS_recvfrom, REQUEST_OBJECT_CLIENT, 0, REQUEST_PART_NETWORK, "recvfrom on the client's connection"},
        {SYS_sendfile, REQUEST_OBJECT_CLIENT, REQUEST_WAIT_IO, REQUEST_PART_DISK,
         "sendfile on the client's connection"},
        {SYS_recvfrom, REQUEST_OBJECT_SOCKET, 0, REQUEST_PART_DOWNSTREAM, "recvfrom on a connection"},
        {SYS_read, REQUEST_OBJECT_UNIX, 0, REQUEST_PART_DOWNSTREAM, "read on a Unix socket"},
        {SYS_read, REQUEST_OBJECT_PIPE, 0, REQUEST_PART_OTHER, "read on a pipe"},
        {SYS_epoll_pwait, REQUEST_OBJECT_EVENT_LOOP, 0, REQUEST_PART_UNATTRIBUTED,
         "epoll_pwait in the event loop, cause unknown"},
        {SYS_nanosleep, REQUEST_OBJECT_NONE, REQUEST_WAIT_STOPPED, REQUEST_PART_OTHER,
         "stopped by a signal, a debugger or a freezer"},
        {SYS_clock_gettime, REQUEST_OBJECT_NONE, 0, REQUEST_PART_OTHER, "clock_gettime"},
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

static void test_detail_contains_the_stack(void **state)
{
    (void)state;
    const char *names[] = {"__schedule", "schedule",        "futex_wait_queue", "futex_wait",
                           "do_futex",   "__x64_sys_futex", "do_syscall_64"};
    struct request_record r = make_record(1000);
    add_wait(&r, SYS_futex, REQUEST_OBJECT_NONE, 0, 900);
    r.waits[0].count = 3;
    r.waits[0].kernel_frames = 7;
    for (__u64 i = 0; i < 7; i++)
        r.waits[0].kernel[i] = i;
    struct request *request;
    assert_int_equal(
        diagnose_request(&r, NULL, &(struct request_names){.context = (void *)names, .kernel_frames = name}, &request),
        0);
    assert_string_equal(request->parts[0].detail, "futex, 3 times: futex_wait_queue < futex_wait < do_futex");
    request_free(request);
}

/* Captured records have names in place of addresses. */
static size_t name_captured(void *context, const __u64 *addresses, size_t count, struct frame *ret_frames, size_t max)
{
    (void)context;
    size_t n = 0;
    for (; n < count && n < max; n++)
        ret_frames[n] = (struct frame){.kind = FRAME_KERNEL, .function = (const char *)(uintptr_t)addresses[n]};
    return n;
}

static struct request_record record_of(const struct captured_request *c)
{
    struct request_record r = c->record;
    r.h = (struct record_header){.size_bytes = sizeof(r), .kind = RECORD_REQUEST, .pid = 4711, .tid = 4712};
    r.status = 200;
    r.line_bytes = (__u8)strlen(c->line);
    memcpy(r.line, c->line, r.line_bytes);
    for (size_t i = 0; i < r.wait_count; i++) {
        r.waits[i].user_end = REQUEST_STACK_NONE;
        for (; r.waits[i].kernel_frames < REQUEST_KERNEL_FRAMES && c->kernel[i][r.waits[i].kernel_frames];
             r.waits[i].kernel_frames++)
            r.waits[i].kernel[r.waits[i].kernel_frames] = (uintptr_t)c->kernel[i][r.waits[i].kernel_frames];
    }
    return r;
}

/* These kinds come from a critical path, never from a record. */
static bool is_of_path_only(size_t kind)
{
    return kind == REQUEST_PART_UNREAD || kind == REQUEST_PART_LOOP_BUSY || kind == REQUEST_PART_QUEUE_BEHIND;
}

static void test_captured_records_are_diagnosed(void **state)
{
    (void)state;
    bool seen[REQUEST_PART_COUNT] = {false};
    for (size_t i = 0; i < array_size(captured_requests); i++) {
        const struct captured_request *c = &captured_requests[i];
        const struct request_record r = record_of(c);
        struct request *request;
        uint64_t sum = 0;
        assert_int_equal(diagnose_request(&r, NULL, &(struct request_names){.kernel_frames = name_captured}, &request),
                         0);
        assert_true(request->part_count <= CAPTURED_PARTS);
        for (size_t part = 0; part < request->part_count; part++) {
            assert_part(request, part, c->parts[part].kind, c->parts[part].duration_ns);
            assert_string_equal(request->parts[part].detail, c->parts[part].detail);
            sum += request->parts[part].duration_ns;
            seen[request->parts[part].kind] = true;
        }
        assert_true(request->part_count == CAPTURED_PARTS || c->parts[request->part_count].duration_ns == 0);
        assert_int_equal(sum, c->record.duration_ns);
        assert_string_equal(request->cause, c->cause);
        request_free(request);
    }
    for (size_t kind = 0; kind < REQUEST_PART_COUNT; kind++)
        assert_true(seen[kind] != is_of_path_only(kind));
}

static void test_kernel_lock_is_a_lock(void **state)
{
    (void)state;
    const char *names[] = {"schedule", "rwsem_down_read_slowpath", "lock_mm_and_find_vma"};
    struct request_record r = make_record(1000);
    add_wait(&r, -1, REQUEST_OBJECT_NONE, REQUEST_WAIT_UNINTERRUPTIBLE, 900);
    r.waits[0].kernel_frames = 3;
    for (__u64 i = 0; i < 3; i++)
        r.waits[0].kernel[i] = i;
    struct request *request;
    assert_int_equal(
        diagnose_request(&r, NULL, &(struct request_names){.context = (void *)names, .kernel_frames = name}, &request),
        0);
    assert_int_equal(request->parts[0].kind, REQUEST_PART_LOCK);
    request_free(request);
}

/* Equal waits are one component; many small ones of a kind outweigh one large one of another. */
static void test_cause_is_the_largest_kind(void **state)
{
    (void)state;
    struct request_record r = make_record(100);
    add_wait(&r, SYS_nanosleep, REQUEST_OBJECT_NONE, 0, 40);
    add_wait(&r, SYS_futex, REQUEST_OBJECT_NONE, 0, 25);
    add_wait(&r, SYS_futex, REQUEST_OBJECT_NONE, 0, 25);
    struct request *request = diagnose(&r);
    assert_int_equal(request->part_count, 3);
    assert_part(request, 0, REQUEST_PART_LOCK, 50);
    assert_non_null(strstr(request->cause, "100 ns: 50 ns waiting for a lock or another thread"));
    request_free(request);
}

static void test_sums_above_the_duration_are_cut(void **state)
{
    (void)state;
    struct request_record r = make_record(100);
    add_wait(&r, SYS_futex, REQUEST_OBJECT_NONE, 0, UINT64_MAX);
    r.run_queue_ns = UINT64_MAX;
    request_free(diagnose(&r));
    r = make_record(0);
    request_free(diagnose(&r));
}

static void test_requests_without_reply_or_handed_over(void **state)
{
    (void)state;
    struct request_record r = make_record(100);
    r.status = 0;
    r.flags = REQUEST_NO_REPLY | REQUEST_HANDED_OVER;
    r.unattributed_ns = 90;
    struct request *request = diagnose(&r);
    assert_int_equal(strncmp(request->cause, "no reply was seen; ", 19), 0);
    assert_string_equal(request->parts[0].detail, "in the hands of another thread");
    request_free(request);
}

static void test_invalid_records_are_refused(void **state)
{
    (void)state;
    struct request *request;
    struct request_record r = make_record(100);
    r.status = 0;
    memcpy(r.line, "SET /users/42?x HTTP/1.1\r\n", 26);
    assert_int_equal(diagnose_request(&r, NULL, &no_names, &request), -EBADMSG);
}

static const struct resource *find_resource(void *context, uint32_t pid, uint64_t cgroup_id)
{
    (void)cgroup_id;
    assert_int_equal(pid, 4711);
    return context;
}

static void test_service_is_that_of_the_process(void **state)
{
    (void)state;
    struct request_record r = make_record(100);
    struct resource resource = {.service_name = "shop", .container_id = "abc"};
    struct request *request;
    assert_int_equal(
        diagnose_request(&r, NULL, &(struct request_names){.context = &resource, .resource = find_resource}, &request),
        0);
    assert_string_equal(request->service, "shop");
    assert_string_equal(request->container_id, "abc");
    request_free(request);
}

/* ---- user stacks ---- */

static struct frame native(const char *function, const char *mapping)
{
    return (struct frame){
        .kind = FRAME_NATIVE, .function = function, .file = "", .mapping = mapping, .build_id = "", .address = 0x42};
}

/* Names by the addresses 1, 2, 3, ...; or the reason why there are none. */
static size_t name_user(void *context, const struct request_record *record, const struct request_wait *w,
                        const __u64 *addresses, struct frame *ret_frames, size_t max)
{
    static const char *const names[] = {"",       "clock_nanosleep", "nanosleep", "sleep_ms\x1b",
                                        "handle", "serve",           "run",       "main"};
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

static void test_detail_has_the_user_function(void **state)
{
    (void)state;
    static const struct {
        __u64 addresses[8];
        size_t count;
        bool replaced; /* overwritten by another stack while the record was written: no stack is better than a wrong
                        * one */
        const char *stack, *detail;
    } cases[] = {
        {{1, 2, 3, 4, 5, 6, 7},
         7,
         false,
         "clock_nanosleep\nnanosleep\nsleep_ms?\nhandle\nserve\nrun\nmain",
         "clock_nanosleep in nanosleep < sleep_ms? < handle < serve"},
        {{1, 0, 4},
         3,
         false,
         "clock_nanosleep\nlibc.so.6+0x42\nhandle",
         "clock_nanosleep in handle"}, /* the C library's own name adds nothing; one has no name */
        {{1, 2, 3}, 3, true, "[truncated: lost]", "clock_nanosleep"},
    };
    for (size_t i = 0; i < array_size(cases); i++) {
        struct request_record_stacks r = with_stack(cases[i].addresses, cases[i].count);
        struct request *request = NULL;
        r.frames[2] += cases[i].replaced;
        assert_int_equal(diagnose_request(&r.r, NULL, &(struct request_names){.user_frames = name_user}, &request), 0);
        assert_string_equal(request->parts[0].stack, cases[i].stack);
        assert_string_equal(request->parts[0].detail, cases[i].detail);
        assert_string_equal(request->parts[1].stack, "");
        request_free(request);
    }
}

/* Sizes in a record that exceed what it can hold. */
static void test_inconsistent_sizes_are_refused(void **state)
{
    (void)state;
    const int fixed = offsetof(struct request_record, waits), whole = sizeof(struct request_record),
              one = sizeof(struct request_wait);
    const struct {
        int size, waits, line, user_frames, kernel_frames;
        bool sound;
    } cases[] = {
        {fixed, 0, 26, 0, 0, true},
        {fixed + one, 1, 26, 0, REQUEST_KERNEL_FRAMES, true},
        {whole, 1, 26, 0, 0, true},
        {whole + 24, 1, 26, 3, 0, true},
        {whole + 8 * REQUEST_USER_FRAMES, 1, 26, REQUEST_USER_FRAMES, 0, true},
        {whole + 16, 1, 26, 3, 0, false},
        {whole + 32, 1, 26, 3, 0, false},
        {whole + 8, 1, 26, 0, 0, false},
        {fixed + one, 1, 26, 3, 0, false},
        {fixed, 1, 26, 0, 0, false},
        {fixed + 8, 0, 26, 0, 0, false},
        {16, 0, 26, 0, 0, false},
        {whole, REQUEST_WAITS + 1, 26, 0, 0, false},
        {fixed, 0, REQUEST_LINE_BYTES + 1, 0, 0, false},
        {whole + 8 * (REQUEST_USER_FRAMES + 1), 1, 26, REQUEST_USER_FRAMES + 1, 0, false},
        {fixed + one, 1, 26, 0, REQUEST_KERNEL_FRAMES + 1, false},
    };
    for (size_t i = 0; i < array_size(cases); i++) {
        struct request_record_stacks r = {.r = make_record(100)};
        struct request *request = NULL;
        r.r.h.size_bytes = (__u32)cases[i].size;
        r.r.wait_count = (__u8)cases[i].waits;
        r.r.line_bytes = (__u8)cases[i].line;
        r.r.waits[0].user_frames = (__u8)cases[i].user_frames;
        r.r.waits[0].kernel_frames = (__u8)cases[i].kernel_frames;
        if (diagnose_request(&r.r, NULL, &no_names, &request) != (cases[i].sound ? 0 : -EBADMSG))
            fail_msg("case %zu was %s", i, cases[i].sound ? "refused" : "accepted");
        request_free(request);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_remainder_is_cpu),
        cmocka_unit_test(test_throttling_is_part_of_the_run_queue),
        cmocka_unit_test(test_remainder_beyond_the_scheduler_runtime_is_unattributed),
        cmocka_unit_test(test_stolen_time_is_a_component),
        cmocka_unit_test(test_component_kinds),
        cmocka_unit_test(test_detail_contains_the_stack),
        cmocka_unit_test(test_captured_records_are_diagnosed),
        cmocka_unit_test(test_kernel_lock_is_a_lock),
        cmocka_unit_test(test_cause_is_the_largest_kind),
        cmocka_unit_test(test_sums_above_the_duration_are_cut),
        cmocka_unit_test(test_requests_without_reply_or_handed_over),
        cmocka_unit_test(test_invalid_records_are_refused),
        cmocka_unit_test(test_service_is_that_of_the_process),
        cmocka_unit_test(test_detail_has_the_user_function),
        cmocka_unit_test(test_inconsistent_sizes_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
