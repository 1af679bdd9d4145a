/* Words for critical paths, and the shown parts of long paths. */
#include "diagnose/path/path_text.h"

#include "base/cleanup.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>

#include <cmocka.h>

#define PID         4700
#define TID         4701
#define SAMPLED_TID 4702
#define BASE        1000000000ull

static struct path_segment items[4096];
static struct path_segments path;
static unsigned names_read;
static uint64_t waited; /* this part of 100 of any interval */

/* ---- paths ---- */

static struct path_segment segment(enum request_part_kind kind, uint32_t tid)
{
    return (struct path_segment){
        .kind = kind, .tid = tid, .pid = tid / 100 * 100, .owner = REQUEST_OWNER_THIS, .syscall = -1, .reason = ""};
}

static void put(uint64_t duration_ns, struct path_segment s)
{
    assert_true(path.count < array_size(items));
    s.start_ns = path.next_end_ns;
    s.end_ns = path.next_end_ns += duration_ns;
    items[path.count++] = s;
}

static void put_wait(uint64_t duration_ns, enum request_part_kind kind, int syscall, uint64_t object)
{
    struct path_segment s = segment(kind, TID);
    s.syscall = syscall;
    s.object = object;
    put(duration_ns, s);
}

static int start_path(void **state)
{
    (void)state;
    path = (struct path_segments){.items = items, .begin_ns = BASE, .next_end_ns = BASE};
    names_read = 0;
    waited = 0;
    return 0;
}

static void name_thread(void *context, uint32_t tid, char out[PATH_THREAD_BYTES])
{
    (void)context;
    names_read++;
    snprintf(out, PATH_THREAD_BYTES, "%s", tid == 4711 ? "pool-1" : tid == 5801 ? "backend" : "");
}

static void name_descriptor(void *context, uint32_t tid, uint64_t fd, char out[PATH_DESCRIPTOR_BYTES])
{
    (void)context;
    snprintf(out, PATH_DESCRIPTOR_BYTES, "%s", tid != 5801 && fd == 7 ? "weights.bin" : "");
}

static void name_peer(void *context, uint64_t cookie, char out[PATH_PEER_BYTES])
{
    (void)context;
    snprintf(out, PATH_PEER_BYTES, "%s", cookie == 77 ? "10.0.0.3:5432" : "");
}

static bool find_wait(void *context, uint32_t tid, uint64_t from_ns, uint64_t to_ns, struct path_wait *ret)
{
    static char where[32], stack[64];
    (void)context;
    snprintf(where, sizeof(where), " in %s < f%u", tid == TID ? "pread64" : "recv", (unsigned)(to_ns - from_ns));
    snprintf(stack, sizeof(stack), "schedule_[k]\nf%u", (unsigned)(to_ns - from_ns));
    *ret = (struct path_wait){(to_ns - from_ns) * waited / 100, where, ": io_wait", stack};
    return waited > 0;
}

static void find_samples(void *context, uint32_t tid, uint64_t from_ns, uint64_t to_ns, struct code_tally *tally)
{
    (void)context;
    if (tid == SAMPLED_TID && from_ns < to_ns)
        code_tally_add(tally, &(struct code_place){.function = "work()", .file = "app.py", .line = 7});
}

static void name_process(void *context, uint32_t pid, char out[PATH_PROCESS_BYTES])
{
    (void)context;
    snprintf(out, PATH_PROCESS_BYTES, "%s", pid == 5900 ? "uvicorn :8100" : "");
}

static struct path_text *make_text(void)
{
    const struct path_names names = {.thread = name_thread,
                                     .process = name_process,
                                     .descriptor = name_descriptor,
                                     .peer = name_peer,
                                     .samples = find_samples,
                                     .wait = find_wait};
    struct path_text *text = NULL;
    assert_int_equal(path_text_new(&path, PID, TID, &names, &text), 0);
    return text;
}

static void expect_detail(struct path_segment s, const char *expected)
{
    size_t count;
    start_path(NULL);
    put(1000, s);
    _cleanup_(path_text_freep) struct path_text *text = make_text();
    const struct request_segment *segments = path_text_segments(text, &count);
    assert_int_equal(count, 1);
    assert_string_equal(segments[0].detail, expected);
}

/* ---- words ---- */

static void test_own_thread_needs_no_words(void **state)
{
    (void)state;
    expect_detail(segment(REQUEST_PART_CPU, TID), "");
    expect_detail(segment(REQUEST_PART_RUN_QUEUE, TID), "");
    expect_detail(segment(REQUEST_PART_UNATTRIBUTED, 0), "");
}

static void test_other_threads_are_named(void **state)
{
    (void)state;
    expect_detail(segment(REQUEST_PART_CPU, 4711), "in thread 4711 pool-1");
    expect_detail(segment(REQUEST_PART_CPU, 4712), "in thread 4712");
    expect_detail(segment(REQUEST_PART_CPU, 5801), "in thread 5801 backend of process 5800");
    expect_detail(segment(REQUEST_PART_CPU, 5901), "in thread 5901 of process 5900 (uvicorn :8100)");
}

static void test_holder_of_a_lock(void **state)
{
    struct path_segment s = segment(REQUEST_PART_LOCK, 4711);
    (void)state;
    s.for_tid = TID;
    s.syscall = SYS_futex; /* of the holder's wait */
    s.reason = "the holder slept";
    expect_detail(s, "held by thread 4711 pool-1: the holder slept");
    s.tid = TID; /* the event loop, for one of its pool */
    s.for_tid = 4711;
    expect_detail(s, "held by thread 4701: the holder slept");
    s.tid = 4711;
    s.for_tid = 0;
    s.reason = "the holder is not known";
    expect_detail(s, "in thread 4711 pool-1: the holder is not known");
}

static void test_system_calls_and_descriptors(void **state)
{
    struct path_segment s = segment(REQUEST_PART_DISK, TID);
    (void)state;
    expect_detail(s, "page fault");
    s.syscall = SYS_pread64;
    s.object = 7;
    expect_detail(s, "pread64 of weights.bin");
    s.object = 8;
    expect_detail(s, "pread64");
    s.tid = 5801;
    s.pid = 5800;
    expect_detail(s, "pread64 in thread 5801 backend of process 5800");
    s = segment(REQUEST_PART_SLEEP, TID);
    s.syscall = SYS_clock_nanosleep;
    s.object = 7; /* no descriptor */
    expect_detail(s, "clock_nanosleep");
}

/* The file is the waiting thread's file, not the holder's. */
static void test_lock_on_a_file(void **state)
{
    struct path_segment s = segment(REQUEST_PART_LOCK, 5801);
    (void)state;
    s.pid = 5800;
    s.for_tid = TID;
    s.for_syscall = SYS_flock;
    s.for_object = 7;
    expect_detail(s, "flock of weights.bin held by thread 5801 backend of process 5800");
    s.for_object = 8;
    expect_detail(s, "flock held by thread 5801 backend of process 5800");
    s.for_syscall = SYS_futex;
    expect_detail(s, "held by thread 5801 backend of process 5800");
}

/* Where it was asked for, and where its holder waited. */
static void test_notes_of_a_lock(void **state)
{
    struct path_segment s = segment(REQUEST_PART_LOCK, 5801);
    size_t count;
    (void)state;
    s.for_tid = TID;
    put(5000, s);
    waited = 80;
    _cleanup_(path_text_freep) struct path_text *text = make_text();
    const struct request_segment *segments = path_text_segments(text, &count);
    assert_string_equal(segments[0].notes, "thread 4701 waited 4.00 us in pread64 < f5000\n"
                                           "thread 5801 waited 4.00 us in recv < f5000");
}

static void name_file(void *context, uint64_t key, struct path_file_name *out)
{
    (void)context;
    *out = key == 33 ? (struct path_file_name){"cart.db", "ext4"} : (struct path_file_name){"other", "xfs"};
}

/* The holder of the lock did two things; the file is recorded where the wait for it began. The thread's last
 * read file, and another thread's file, are not the call's file. */
static void test_recorded_files(void **state)
{
    struct path_file_wait files[] = {
        {.time_ns = BASE, .file = 34, .tid = TID, .is_of_call = false},
        {.time_ns = BASE, .file = 33, .tid = TID, .is_of_call = true},
        {.time_ns = BASE + 1000, .file = 34, .tid = 5801, .is_of_call = true},
        {.time_ns = BASE + 1000, .file = 33, .tid = TID, .is_of_call = true},
    };
    const struct path_names names = {.file = name_file, .descriptor = name_descriptor};
    struct path_segment s = segment(REQUEST_PART_LOCK, 5801);
    size_t count;
    (void)state;
    put_wait(1000, REQUEST_PART_DISK, SYS_pread64, 7);
    s.for_tid = TID;
    s.for_syscall = SYS_flock;
    s.reason = "the holder was running";
    put(1000, s);
    s.reason = "the holder slept";
    put(1000, s);
    put_wait(1000, REQUEST_PART_DISK, SYS_pread64, 7);
    path.evidence.files = files;
    path.evidence.file_count = array_size(files);
    _cleanup_(path_text_freep) struct path_text *text = NULL;
    assert_int_equal(path_text_new(&path, PID, TID, &names, &text), 0);
    const struct request_segment *segments = path_text_segments(text, &count);
    assert_int_equal(count, 4);
    assert_string_equal(segments[0].detail, "pread64 of cart.db (ext4)");
    assert_string_equal(segments[2].detail, "flock of cart.db held by thread 5801 of process 5800: the holder slept");
    assert_string_equal(segments[3].detail, "pread64 of weights.bin"); /* not recorded */
}

static void test_peers_and_retransmissions(void **state)
{
    struct path_segment s = segment(REQUEST_PART_DOWNSTREAM, TID);
    (void)state;
    s.socket = 77;
    expect_detail(s, "10.0.0.3:5432");
    s.retransmissions = 2;
    s.retransmitted_ns = 204000000;
    expect_detail(s, "10.0.0.3:5432, 2 retransmissions, 204 ms of it");
    s.retransmissions = 1;
    s.syscall = SYS_recvfrom;
    expect_detail(s, "recvfrom to 10.0.0.3:5432, 1 retransmission, 204 ms of it");
    s.kind = REQUEST_PART_NETWORK;
    expect_detail(s, "recvfrom with 10.0.0.3:5432, 1 retransmission, 204 ms of it");
    s.socket = 78;
    expect_detail(s, "recvfrom, 1 retransmission, 204 ms of it");
}

static void test_reasons(void **state)
{
    struct path_segment s = segment(REQUEST_PART_UNATTRIBUTED, TID);
    (void)state;
    s.reason = "its wake-up was not recorded";
    expect_detail(s, "its wake-up was not recorded");
    s.tid = 4711;
    expect_detail(s, "in thread 4711 pool-1: its wake-up was not recorded");
    s = segment(REQUEST_PART_SLEEP, TID);
    s.syscall = SYS_epoll_pwait;
    s.reason = "until a timer expired";
    expect_detail(s, "epoll_pwait: until a timer expired");
}

static void test_without_names(void **state)
{
    const struct path_names none = {0};
    size_t count;
    (void)state;
    put_wait(1000, REQUEST_PART_DISK, SYS_pread64, 7);
    put(1000, segment(REQUEST_PART_CPU, 5801));
    _cleanup_(path_text_freep) struct path_text *text = NULL;
    assert_int_equal(path_text_new(&path, PID, TID, &none, &text), 0);
    const struct request_segment *segments = path_text_segments(text, &count);
    assert_int_equal(count, 2);
    assert_string_equal(segments[0].detail, "pread64");
    assert_string_equal(segments[1].detail, "in thread 5801 of process 5800");
    assert_string_equal(segments[1].thread, "");
}

static void test_thread_names_are_read_once(void **state)
{
    (void)state;
    for (int i = 0; i < 1000; i++)
        put(1000, segment(i % 3 ? REQUEST_PART_CPU : REQUEST_PART_RUN_QUEUE, i % 2 ? 4711 : TID));
    _cleanup_(path_text_freep) struct path_text *text = make_text();
    assert_int_equal(names_read, 2);
}

/* ---- stretches ---- */

/* The segments have as much time of each kind as the components. */
static void check_kinds(struct path_text *text, const struct request_segment *segments, size_t count)
{
    uint64_t of_segments[REQUEST_PART_COUNT] = {0}, of_parts[REQUEST_PART_COUNT] = {0};
    struct request_part parts[REQUEST_PARTS_MAX];
    size_t part_count;
    for (size_t i = 0; i < count; i++)
        request_segment_sum(&segments[i], of_segments);
    assert_int_equal(path_text_parts(text, REQUEST_PARTS_MAX, parts, &part_count), 0);
    for (size_t i = 0; i < part_count; i++)
        of_parts[parts[i].kind] += parts[i].duration_ns;
    assert_memory_equal(of_segments, of_parts, sizeof(of_parts));
}

/* Checks that at most REQUEST_SEGMENTS_MAX segments, each where the last one ended, sum to the whole path. */
static const struct request_segment *check_segments(struct path_text *text, size_t *ret_count)
{
    const struct request_segment *segments = path_text_segments(text, ret_count);
    uint64_t t_ns = 0;
    check_kinds(text, segments, *ret_count);
    assert_in_range(*ret_count, 1, REQUEST_SEGMENTS_MAX);
    for (size_t i = 0; i < *ret_count; i++) {
        assert_int_equal(segments[i].start_ns, t_ns);
        assert_true(segments[i].duration_ns > 0);
        t_ns += segments[i].duration_ns;
    }
    assert_int_equal(t_ns, path.next_end_ns - path.begin_ns);
    return segments;
}

static void test_few_segments_stay_as_they_are(void **state)
{
    size_t count;
    (void)state;
    put(10000, segment(REQUEST_PART_CPU, TID));
    put_wait(50000, REQUEST_PART_DISK, SYS_pread64, 7);
    put(10000, segment(REQUEST_PART_CPU, TID));
    _cleanup_(path_text_freep) struct path_text *text = make_text();
    const struct request_segment *segments = check_segments(text, &count);
    assert_int_equal(count, 3);
    assert_int_equal(segments[0].time_count, 0); /* of one kind */
    assert_int_equal(segments[1].kind, REQUEST_PART_DISK);
    assert_int_equal(segments[1].start_ns, 10000);
    assert_int_equal(segments[1].duration_ns, 50000);
    assert_int_equal(segments[1].tid, TID);
}

static void test_many_segments_become_stretches(void **state)
{
    size_t count;
    (void)state;
    for (int i = 0; i < 1000; i++) {
        put(1000, segment(REQUEST_PART_CPU, TID));
        put_wait(3000, REQUEST_PART_DISK, SYS_pread64, 7);
    }
    put_wait(5000000, REQUEST_PART_SLEEP, SYS_clock_nanosleep, 0);
    _cleanup_(path_text_freep) struct path_text *text = make_text();
    const struct request_segment *segments = check_segments(text, &count);
    const struct request_segment *last = &segments[count - 1];
    assert_int_equal(last->kind, REQUEST_PART_SLEEP);
    assert_int_equal(segments[0].kind, REQUEST_PART_DISK);
    assert_string_equal(segments[0].detail, "pread64 of weights.bin (3.00 ms in 1000 steps)");
    assert_true(segments[0].times[0].kind == REQUEST_PART_DISK && segments[0].times[0].ns == 3000000);
}

/* Several steps of one kind: how long they are together. One step that is nearly all of it: its detail says all. */
static void test_sum_of_a_stretch_is_shown_where_it_says_more(void **state)
{
    size_t count;
    (void)state;
    put(1000000, segment(REQUEST_PART_RUN_QUEUE, TID));
    put(1100, segment(REQUEST_PART_CPU, TID));
    put(500000, segment(REQUEST_PART_RUN_QUEUE, TID));
    put_wait(9000000, REQUEST_PART_SLEEP, SYS_clock_nanosleep, 0);
    put(1100, segment(REQUEST_PART_CPU, TID));
    _cleanup_(path_text_freep) struct path_text *text = make_text();
    const struct request_segment *segments = check_segments(text, &count);
    assert_int_equal(count, 2);
    assert_string_equal(segments[0].detail, "1.50 ms in 2 steps");
    assert_string_equal(segments[1].detail, "clock_nanosleep");
}

/* A request of 10 us with 320 ns in short steps. */
static void test_steps_of_nanoseconds_are_not_shown_alone(void **state)
{
    size_t count;
    (void)state;
    put(9000, segment(REQUEST_PART_CPU, TID));
    for (int i = 0; i < 8; i++)
        put(40, segment(i % 2 ? REQUEST_PART_CPU : REQUEST_PART_UNREAD, TID));
    put(500, segment(REQUEST_PART_CPU, TID));
    _cleanup_(path_text_freep) struct path_text *text = make_text();
    const struct request_segment *segments = check_segments(text, &count);
    assert_int_equal(count, 1);
    assert_int_equal(segments[0].kind, REQUEST_PART_CPU);
}

static void test_equal_segments_of_any_number(void **state)
{
    (void)state;
    for (int n = REQUEST_SEGMENTS_MAX - 1; n < 4000; n = n * 5 / 4) {
        size_t count;
        start_path(NULL);
        for (int i = 0; i < n; i++)
            put(1000, segment(i % 2 ? REQUEST_PART_CPU : REQUEST_PART_RUN_QUEUE, TID));
        _cleanup_(path_text_freep) struct path_text *text = make_text();
        check_segments(text, &count);
        if (n <= REQUEST_SEGMENTS_MAX)
            assert_int_equal(count, n);
    }
}

static void test_one_inferred_step_makes_the_stretch_inferred(void **state)
{
    size_t count, inferred = 0;
    (void)state;
    for (int i = 0; i < 1000; i++) {
        struct path_segment s = segment(i % 2 ? REQUEST_PART_CPU : REQUEST_PART_RUN_QUEUE, TID);
        s.is_inferred = i == 500;
        put(1000, s);
    }
    _cleanup_(path_text_freep) struct path_text *text = make_text();
    const struct request_segment *segments = check_segments(text, &count);
    for (size_t i = 0; i < count; i++)
        inferred += segments[i].is_inferred;
    assert_int_equal(inferred, 1);
}

/* ---- components ---- */

static uint64_t sum_of(const struct request_part *parts, size_t count)
{
    uint64_t sum_ns = 0;
    for (size_t i = 0; i < count; i++)
        sum_ns += parts[i].duration_ns;
    return sum_ns;
}

static void test_parts_add_up_alike_segments(void **state)
{
    struct request_part parts[REQUEST_PARTS_MAX];
    size_t count;
    (void)state;
    put(1000, segment(REQUEST_PART_CPU, TID));
    put_wait(3000, REQUEST_PART_DISK, SYS_pread64, 7);
    put(1000, segment(REQUEST_PART_CPU, TID));
    put_wait(4000, REQUEST_PART_DISK, SYS_pread64, 8);
    put_wait(3000, REQUEST_PART_DISK, SYS_pread64, 7);
    _cleanup_(path_text_freep) struct path_text *text = make_text();
    assert_int_equal(path_text_parts(text, REQUEST_PARTS_MAX, parts, &count), 0);
    assert_int_equal(count, 3);
    assert_string_equal(parts[0].detail, "pread64 of weights.bin, 2 times");
    assert_int_equal(parts[0].duration_ns, 6000);
    assert_string_equal(parts[1].detail, "pread64");
    assert_int_equal(parts[2].kind, REQUEST_PART_CPU);
    assert_int_equal(parts[2].duration_ns, 2000);
}

/* The code that ran while the request was ready, or that it is not known. A wait, and a short time, ran none. */
static void test_unsampled_work_says_so(void **state)
{
    static const struct {
        uint64_t ns;
        bool is_other_work;
        uint32_t tid;
        const char *detail;
    } cases[] = {
        {2000000, true, TID, "the bytes waited in the socket; no sample was taken of the code that ran"},
        {2000000, true, SAMPLED_TID, "in thread 4702: the bytes waited in the socket; its thread ran work() app.py:7"},
        {2000000, false, TID, "the bytes waited in the socket"},
        {500000, true, TID, "the bytes waited in the socket"},
    };
    size_t count;
    (void)state;
    for (size_t i = 0; i < array_size(cases); i++) {
        struct path_segment s = segment(REQUEST_PART_UNREAD, cases[i].tid);
        struct request_part parts[REQUEST_PARTS_MAX];
        start_path(NULL);
        s.is_other_work = cases[i].is_other_work;
        s.reason = "the bytes waited in the socket";
        put(cases[i].ns, s);
        _cleanup_(path_text_freep) struct path_text *text = make_text();
        assert_int_equal(path_text_parts(text, REQUEST_PARTS_MAX, parts, &count), 0);
        assert_string_equal(parts[0].detail, cases[i].detail);
    }
}

/* The system call is not repeated; the stack does not distinguish components. */
static void test_parts_have_the_stack_of_their_longest_wait(void **state)
{
    struct request_part parts[REQUEST_PARTS_MAX];
    size_t count;
    (void)state;
    put_wait(3000, REQUEST_PART_DISK, SYS_pread64, 7);
    put(2000, segment(REQUEST_PART_CPU, TID));
    put_wait(4000, REQUEST_PART_DISK, SYS_pread64, 7);
    put(1000, segment(REQUEST_PART_OTHER, 4711));
    waited = 50;
    _cleanup_(path_text_freep) struct path_text *text = make_text();
    assert_int_equal(path_text_parts(text, REQUEST_PARTS_MAX, parts, &count), 0);
    assert_int_equal(count, 3);
    assert_int_equal(parts[0].duration_ns, 7000);
    assert_string_equal(parts[0].detail, "pread64 of weights.bin, 2 times in f4000: io_wait");
    assert_string_equal(parts[0].stack, "schedule_[k]\nf4000");
    assert_string_equal(parts[1].detail, "");
    assert_string_equal(parts[1].stack, "");
    assert_string_equal(parts[2].detail, "in thread 4711 pool-1, in recv < f1000: io_wait");
}

/* After a reason, the place is a sentence of its own, with its subject. */
static void test_place_after_a_reason(void **state)
{
    struct request_part parts[REQUEST_PARTS_MAX];
    struct path_segment s = segment(REQUEST_PART_LOCK, 4711);
    size_t count;
    (void)state;
    s.reason = "the holder is not known";
    put(4000, s);
    s = segment(REQUEST_PART_UNREAD, TID);
    s.reason = "its thread slept";
    put(3000, s);
    waited = 80;
    _cleanup_(path_text_freep) struct path_text *text = make_text();
    assert_int_equal(path_text_parts(text, REQUEST_PARTS_MAX, parts, &count), 0);
    assert_int_equal(count, 2);
    assert_string_equal(parts[0].detail, "in thread 4711 pool-1: the holder is not known; its thread waited in recv < "
                                         "f4000: io_wait");
    assert_string_equal(parts[1].detail, "its thread slept; its thread waited in pread64 < f3000: io_wait");
}

static void test_short_wait_says_nothing_of_a_part(void **state)
{
    struct request_part parts[REQUEST_PARTS_MAX];
    size_t count;
    (void)state;
    put_wait(4000, REQUEST_PART_DISK, SYS_pread64, 7);
    waited = 49;
    _cleanup_(path_text_freep) struct path_text *text = make_text();
    assert_int_equal(path_text_parts(text, REQUEST_PARTS_MAX, parts, &count), 0);
    assert_string_equal(parts[0].detail, "pread64 of weights.bin");
    assert_string_equal(parts[0].stack, "");
}

/* Beyond the maximum, the shortest become one of their kind. */
static void test_more_parts_than_the_maximum(void **state)
{
    struct request_part parts[REQUEST_PARTS_MAX];
    (void)state;
    for (uint32_t i = 0; i < 200; i++) {
        put(1000 + i, segment(REQUEST_PART_CPU, 10000 + i));
        put(2000 + i, segment(REQUEST_PART_LOCK, 10000 + i));
    }
    const uint64_t total_ns = path.next_end_ns - BASE;
    _cleanup_(path_text_freep) struct path_text *text = make_text();
    for (size_t max = REQUEST_PART_COUNT; max <= REQUEST_PARTS_MAX; max++) {
        size_t count;
        assert_int_equal(path_text_parts(text, max, parts, &count), 0);
        assert_true(count <= max);
        assert_int_equal(count, max - REQUEST_PART_COUNT + 2);
        assert_int_equal(sum_of(parts, count), total_ns);
        assert_string_equal(parts[0].detail, "");
        assert_string_equal(parts[1].detail, "");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_own_thread_needs_no_words, start_path),
        cmocka_unit_test_setup(test_other_threads_are_named, start_path),
        cmocka_unit_test_setup(test_holder_of_a_lock, start_path),
        cmocka_unit_test_setup(test_system_calls_and_descriptors, start_path),
        cmocka_unit_test_setup(test_lock_on_a_file, start_path),
        cmocka_unit_test_setup(test_notes_of_a_lock, start_path),
        cmocka_unit_test_setup(test_recorded_files, start_path),
        cmocka_unit_test_setup(test_reasons, start_path),
        cmocka_unit_test_setup(test_peers_and_retransmissions, start_path),
        cmocka_unit_test_setup(test_without_names, start_path),
        cmocka_unit_test_setup(test_thread_names_are_read_once, start_path),
        cmocka_unit_test_setup(test_few_segments_stay_as_they_are, start_path),
        cmocka_unit_test_setup(test_many_segments_become_stretches, start_path),
        cmocka_unit_test_setup(test_sum_of_a_stretch_is_shown_where_it_says_more, start_path),
        cmocka_unit_test_setup(test_steps_of_nanoseconds_are_not_shown_alone, start_path),
        cmocka_unit_test_setup(test_equal_segments_of_any_number, start_path),
        cmocka_unit_test_setup(test_one_inferred_step_makes_the_stretch_inferred, start_path),
        cmocka_unit_test_setup(test_unsampled_work_says_so, start_path),
        cmocka_unit_test_setup(test_parts_add_up_alike_segments, start_path),
        cmocka_unit_test_setup(test_parts_have_the_stack_of_their_longest_wait, start_path),
        cmocka_unit_test_setup(test_place_after_a_reason, start_path),
        cmocka_unit_test_setup(test_short_wait_says_nothing_of_a_part, start_path),
        cmocka_unit_test_setup(test_more_parts_than_the_maximum, start_path),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
