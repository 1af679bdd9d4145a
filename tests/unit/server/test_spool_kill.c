/* kill -9 of the process with the spool, a hundred times at different moments. Its threads send batches, and send again
 * those that were not acknowledged before the kill and some that were. This process is the engine: it outlives the
 * kills, and takes each segment once by its number. At the end every batch that was acknowledged is there, once. */
#include "server/spool.h"

#include "base/clock.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <cmocka.h>

#define KILLS       100
#define SENDERS     4
#define BATCHES_MAX (1u << 18)
#define MESSAGE_MAX 4096 /* numbers of batches in one segment */

enum state { UNSENT, SENT, ACKNOWLEDGED };

/* Shared with the process that is killed. */
static struct {
    uint8_t state[BATCHES_MAX];
    uint32_t next[SENDERS]; /* number of the next new batch of a sender, divided by SENDERS */
    atomic_uint answers;    /* of the spool to senders */
} *shared;

static uint8_t stored[BATCHES_MAX];
static char directory[64];

struct message {
    uint64_t segment;
    uint32_t count, numbers[MESSAGE_MAX];
};

/* ---- the process that is killed ---- */

static struct spool *spool;

static void send_batch(uint32_t number)
{
    struct spool_batch batch = {.rows = 1, .data = &number, .size = sizeof(number)};
    memcpy(batch.key.bytes, &number, sizeof(number));
    if (shared->state[number] == UNSENT)
        shared->state[number] = SENT;
    if (spool_append(spool, &batch) < 0)
        abort();
    shared->state[number] = ACKNOWLEDGED;
    atomic_fetch_add(&shared->answers, 1);
}

static void send_again(uint32_t sender)
{
    for (uint32_t i = 0; i < shared->next[sender]; i++) {
        const uint32_t number = i * SENDERS + sender;
        if (shared->state[number] == SENT || i + 3 > shared->next[sender])
            send_batch(number);
    }
}

static void *send_batches(void *argument)
{
    const uint32_t sender = (uint32_t)(uintptr_t)argument;
    send_again(sender);
    for (;;) {
        const uint32_t i = shared->next[sender];
        if (i * SENDERS + sender >= BATCHES_MAX)
            return NULL;
        shared->next[sender] = i + 1;
        send_batch(i * SENDERS + sender);
    }
}

/* 0, or -EAGAIN: there is no closed segment. */
static int pass_oldest(int engine)
{
    static struct message message;
    _cleanup_buf_ struct buf contents = {0};
    struct spool_segment segment;
    struct spool_batch batch;
    char answer;
    if (spool_oldest(spool, &segment) < 0)
        return -EAGAIN;
    if (spool_read(spool, &segment, &contents) < 0)
        abort();
    message.segment = segment.number;
    message.count = 0;
    for (struct cursor c = cursor_make(contents.data, contents.size); spool_next_batch(&c, &batch);)
        memcpy(&message.numbers[message.count++], batch.data, sizeof(uint32_t));
    if (send(engine, &message, sizeof(message), 0) < 0 || recv(engine, &answer, 1, 0) != 1 ||
        spool_remove(spool, &segment) < 0)
        abort();
    return 0;
}

static void run_spool(int engine, bool to_the_end)
{
    const struct spool_options options = {.directory = directory,
                                          .max_bytes = 1 << 30,
                                          .segment_max_bytes = 1 << 20,
                                          .segment_max_rows = 16,
                                          .segment_max_ns = 2000000,
                                          .remember_ns = 3600000000000ull,
                                          .remember_max = BATCHES_MAX,
                                          .unix_ns = clock_unix_ns,
                                          .monotonic_ns = clock_monotonic_ns};
    pthread_t thread;
    if (spool_open(&options, &spool) < 0)
        abort();
    for (uintptr_t sender = 0; sender < SENDERS; sender++)
        if (to_the_end)
            send_again((uint32_t)sender);
        else if (pthread_create(&thread, NULL, send_batches, (void *)sender) != 0)
            abort();
    for (; !to_the_end; usleep(200)) {
        spool_tick(spool);
        pass_oldest(engine);
    }
    spool_flush(spool);
    while (pass_oldest(engine) == 0)
        ;
    _exit(0);
}

/* ---- the engine ---- */

static uint64_t *taken;
static size_t taken_count;

static void take_segment(const struct message *message)
{
    for (size_t i = 0; i < taken_count; i++)
        if (taken[i] == message->segment)
            return;
    taken = realloc(taken, (taken_count + 1) * sizeof(*taken));
    taken[taken_count++] = message->segment;
    for (uint32_t i = 0; i < message->count; i++)
        stored[message->numbers[i]]++;
}

/* Takes segments until the other process ends, or has answered `answers` batches. */
static void run_engine(int socket, unsigned answers)
{
    static struct message message;
    while (atomic_load(&shared->answers) < answers) {
        struct pollfd ready = {.fd = socket, .events = POLLIN};
        if (poll(&ready, 1, 1) <= 0)
            continue;
        if (recv(socket, &message, sizeof(message), 0) != sizeof(message))
            return;
        take_segment(&message);
        send(socket, "", 1, MSG_NOSIGNAL);
    }
}

/* Kills the process some microseconds after so many further answers; 0: lets it end. */
static int run_once(unsigned answers, unsigned microseconds)
{
    int pair[2], status;
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        close(pair[0]);
        run_spool(pair[1], !answers);
    }
    close(pair[1]);
    run_engine(pair[0], answers ? atomic_load(&shared->answers) + answers : UINT_MAX);
    usleep(microseconds);
    if (answers)
        kill(pid, SIGKILL);
    close(pair[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

static void test_kills_lose_and_repeat_nothing(void **state)
{
    (void)state;
    uint32_t acknowledged = 0;
    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(shared, MAP_FAILED);
    snprintf(directory, sizeof(directory), "/tmp/sonde-test-kill-XXXXXX");
    assert_non_null(mkdtemp(directory));
    srandom(1);
    for (int i = 0; i < KILLS; i++) {
        const int status = run_once(1 + (unsigned)random() % 12, (unsigned)random() % 3000);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    }
    assert_int_equal(run_once(0, 0), 0);
    for (uint32_t number = 0; number < BATCHES_MAX; number++) {
        assert_int_equal(stored[number], shared->state[number] != UNSENT);
        acknowledged += shared->state[number] == ACKNOWLEDGED;
    }
    print_message("%u batches, %zu segments\n", acknowledged, taken_count);
    assert_true(acknowledged > SENDERS);
    free(taken);
    char command[100];
    snprintf(command, sizeof(command), "rm -r %s", directory);
    FILE *f = popen(command, "r");
    assert_int_equal(pclose(f), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_kills_lose_and_repeat_nothing)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
