/* A hang's event waits for what NCCL's RAS service reports twice, and not for longer than it may. The service is a
 * fake. */
#include "signal_events_fixture.h"
#include "signals/gpu/gpu_events.h"
#include "signals/gpu/gpu_pending.h"
#include "sources/gpu/gpu.h"
#include "sources/gpu/nvml_client.h"

#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#define SECOND_NS 1000000000ull
#define FIRST_PID 4194301 /* larger than any; the rank's number is added */
#define RANKS     3

static struct gpu_pending pending;
static struct gpu_state gpus;
static struct signal_services services;
static struct gpu_events events;
static int listening;
static char emitted[8192];
static unsigned emitted_count;

static void keep_event(void *pipeline, const struct node_event *event)
{
    const size_t used = strlen(emitted);
    (void)pipeline;
    emitted_count++;
    event_text(event, emitted + used, sizeof(emitted) - used);
}

static void emit(void *context, const struct gpu_hang *hang, const struct gpu_hang_evidence *evidence)
{
    gpu_events_hang(context, hang, evidence);
}

static int begin(void **state)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(at);
    (void)state;
    listening = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    assert_int_equal(bind(listening, (struct sockaddr *)&at, size), 0);
    assert_int_equal(listen(listening, 4), 0);
    assert_int_equal(getsockname(listening, (struct sockaddr *)&at, &size), 0);
    services = (struct signal_services){.emit_event = keep_event};
    events = (struct gpu_events){.services = &services, .state = &gpus};
    pending = (struct gpu_pending){.ras_port = ntohs(at.sin_port)};
    emitted[0] = '\0';
    emitted_count = 0;
    return 0;
}

static int end(void **state)
{
    (void)state;
    gpu_pending_clear(&pending);
    close(listening);
    return 0;
}

static void add_hang(unsigned rank, uint64_t now_ns)
{
    const struct gpu_device device = {.index = rank, .instance = GPU_NO_INSTANCE};
    const struct gpu_hang hang = {.device = &device,
                                  .pid = FIRST_PID + rank,
                                  .time_ns = now_ns,
                                  .waited_ns = 31 * SECOND_NS,
                                  .idle_ns = 30 * SECOND_NS,
                                  .calls = {.pid = FIRST_PID + rank, .waiting_tid = FIRST_PID + rank}};
    assert_true(gpu_pending_add(&pending, &hang, now_ns));
}

static void turn(uint64_t now_ns)
{
    gpu_pending_turn(&pending, now_ns, emit, &events);
}

/* Turns until the service is asked; answers with the operations that each rank has begun, and turns until that is read.
 */
static void answer(uint64_t now_ns, const unsigned *operations)
{
    char text[4096], question[256];
    int used = snprintf(text, sizeof(text),
                        "SERVER PROTOCOL 2\nOK\nOK\n{\"communicators\": [{\"hash\": \"0xabc\", "
                        "\"secondary_hash\": \"0x1:0x2\", \"size\": %u, \"ranks\": [",
                        RANKS);
    int connection = -1;
    for (int i = 0; i < 10000 && connection < 0; i++) {
        turn(now_ns);
        connection = accept(listening, NULL, NULL);
        usleep(connection < 0 ? 1000 : 0);
    }
    assert_true(connection >= 0);
    turn(now_ns);
    assert_true(recv(connection, question, sizeof(question), 0) > 0);
    for (unsigned i = 0; i < RANKS; i++)
        used += snprintf(
            text + used, sizeof(text) - (size_t)used,
            "%s{\"rank\": %u, \"host\": \"10.0.0.7\", \"pid\": %u, \"collective_counts\": {\"AllReduce\": %u}}",
            i ? "," : "", i, FIRST_PID + i, operations[i]);
    used += snprintf(text + used, sizeof(text) - (size_t)used, "], \"missing_ranks\": []}]}\n");
    assert_int_equal(send(connection, text, (size_t)used, MSG_NOSIGNAL), used);
    close(connection);
    for (int i = 0; i < 10000 && pending.ras.state == NCCL_RAS_ASKING; i++) {
        turn(now_ns);
        usleep(1000);
    }
}

static void test_the_event_names_the_communicator_and_the_rank_that_is_behind(void **state)
{
    static const unsigned operations[] = {100, 99, 100};
    (void)state;
    add_hang(0, 0);
    add_hang(2, 0);
    answer(SECOND_NS, operations);
    turn(SECOND_NS + NCCL_APART_NS - 1);
    assert_int_equal(emitted_count, 0);
    assert_int_equal(pending.ras.state, NCCL_RAS_ANSWERED); /* not asked again so soon */
    answer(SECOND_NS + NCCL_APART_NS, operations);
    assert_int_equal(emitted_count, 2);
    assert_non_null(strstr(emitted,
                           "(pid 4194301): thread 4194301 has waited for it for 31.0 s in one call, no kernel was "
                           "launched for 30.0 s, and it is busy all the time; in NCCL's communicator 0xabc of 3 "
                           "ranks, rank 1 (pid 4194302 on 10.0.0.7) has begun 99 collective operations, and others "
                           "100; "));
    assert_non_null(
        strstr(emitted, "; nccl.communicator=0xabc; nccl.rank=1; nccl.rank.host=10.0.0.7; nccl.rank.pid=4194302"));
    assert_non_null(strstr(emitted, "GPU 2 does not finish the work of a process (pid 4194303)"));
    assert_int_equal(pending.count, 0);
}

static void test_ranks_that_go_on_or_are_all_at_the_same_operation(void **state)
{
    static const unsigned before[] = {100, 99, 100}, later[] = {101, 101, 101};
    (void)state;
    add_hang(0, 0);
    answer(0, before);
    answer(NCCL_APART_NS, later);
    assert_int_equal(emitted_count, 1);
    assert_null(strstr(emitted, "NCCL"));
    emitted[0] = '\0';
    add_hang(0, 0);
    answer(0, later);
    answer(NCCL_APART_NS, later);
    assert_int_equal(emitted_count, 2);
    assert_non_null(
        strstr(emitted, "; in NCCL's communicator 0xabc of 3 ranks, all have begun 101 collective operations; "));
    assert_null(strstr(emitted, "nccl.rank"));
}

/* A hang that is found later is asked for, too, and nothing waits beyond its time. */
static void test_no_event_waits_for_too_long(void **state)
{
    static const unsigned operations[] = {100, 99, 100};
    (void)state;
    add_hang(0, 0);
    answer(0, operations);
    add_hang(2, 5 * SECOND_NS);
    answer(5 * SECOND_NS, operations);
    answer(5 * SECOND_NS + NCCL_APART_NS, operations);
    assert_int_equal(emitted_count, 2);
    emitted[0] = '\0';
    add_hang(0, 0);
    turn(0); /* the service accepts, and does not answer */
    turn(NCCL_RAS_MAX_NS);
    assert_int_equal(emitted_count, 3);
    assert_null(strstr(emitted, "NCCL"));
    add_hang(0, 0);
    answer(0, operations);
    turn(GPU_PENDING_NS); /* the second answer is missing */
    assert_int_equal(emitted_count, 4);
}

static void test_a_node_without_nccl_does_not_wait(void **state)
{
    (void)state;
    close(listening);
    listening = socket(AF_INET, SOCK_STREAM, 0);
    add_hang(0, 0);
    for (int i = 0; i < 10000 && !emitted_count; i++) {
        turn(0);
        usleep(1000);
    }
    assert_int_equal(emitted_count, 1);
}

static void test_more_hangs_than_places_are_refused(void **state)
{
    const struct gpu_device device = {.index = 0};
    const struct gpu_hang hang = {.device = &device, .pid = FIRST_PID};
    (void)state;
    for (unsigned i = 0; i < GPU_PENDING_MAX; i++)
        assert_true(gpu_pending_add(&pending, &hang, 0));
    assert_false(gpu_pending_add(&pending, &hang, 0));
    turn(GPU_PENDING_NS);
    assert_int_equal(emitted_count, GPU_PENDING_MAX);
}

/* With the default settings, and the longest time that each step takes. */
static void test_a_hang_is_an_event_within_a_minute(void **state)
{
    const struct gpu_options *defaults = signal_named("gpu")->defaults;
    const uint64_t calls_ns = SECOND_NS; /* they are read once a second */
    (void)state;
    assert_true(defaults->hang_after_ns + calls_ns + NVML_POLL_NS + GPU_PENDING_NS < 60 * SECOND_NS);
    assert_true(NCCL_APART_NS + 2 * NCCL_RAS_MAX_NS <= GPU_PENDING_NS);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_the_event_names_the_communicator_and_the_rank_that_is_behind),
        TEST(test_ranks_that_go_on_or_are_all_at_the_same_operation),
        TEST(test_no_event_waits_for_too_long),
        TEST(test_a_node_without_nccl_does_not_wait),
        TEST(test_more_hangs_than_places_are_refused),
        TEST(test_a_hang_is_an_event_within_a_minute),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
