/* Goroutines that wait without having been seen to run. The test process looks like a Go program to the recorder. */
#include "recording.h"

#include "base/cleanup.h"
#include "sources/tables/context_tables.h"
#include "sources/tables/unwind_tables.h"

#include "probes/go_labels.h"
#include "probes/unwind/unwind_maps.h"

#include <pthread.h>
#include <stddef.h>
#include <unistd.h>

#define RECORDS 65536

enum { RUNNABLE = 1, RUNNING = 2, WAITING = 4, DEAD = 6 };        /* Go's states */
enum { FOR_TIMER = 3, FOR_LOCK = 5 };                             /* its reasons to wait */
enum { FIRST = 1010, SECOND, THIRD, UNSEEN = 1005, CREATOR = 7 }; /* ids of goroutines */

struct fake_m;

struct fake_g {
    uint64_t reserved;
    struct fake_m *m;
    uint64_t scheduled_at;
    struct {
        volatile uint32_t status;
        uint32_t lock;
        volatile uint64_t id;
        struct fake_g *volatile next;
        uint64_t since;
        volatile uint8_t reason;
    } state;
    uint64_t creator, statement;
};

struct fake_m {
    struct fake_g *scheduler, *current;
};

static struct fake_g g, free_g, gone = {.state = {.status = RUNNABLE, .id = FIRST - 1}}, idle_scheduler;
static struct fake_m idle_m = {.scheduler = &idle_scheduler};
static struct fake_g *const idle_stack[] = {&gone}; /* the goroutine that left the thread last is on top */
static __thread struct fake_g *volatile thread_g;

static void become_go_program(const struct recording *r)
{
    const struct interpreter_layouts interpreters = {.go = {.g_m = offsetof(struct fake_g, m)}};
    struct go_labels_layout layout = {
        .thread_g = (const char *)&thread_g - (const char *)__builtin_thread_pointer(),
        .kind = GO_LABELS_LIST,
        .g_m = offsetof(struct fake_g, m),
        .m_curg = offsetof(struct fake_m, current),
        .g_status = offsetof(struct fake_g, state),
        .g_sched = offsetof(struct fake_g, scheduled_at),
        .g_creator = offsetof(struct fake_g, creator),
        .waits = {[FOR_TIMER] = RECORDER_TASK_WAITS_TIMER, [FOR_LOCK] = RECORDER_TASK_WAITS_LOCK},
    };
    struct context_tables tables;
    assert_true(shared_tables_contexts(r->tables, &tables));
    assert_int_equal(context_tables_set_go_labels(&tables, (uint32_t)getpid(), &layout), 0);
    assert_int_equal(
        unwind_tables_put_process(shared_tables_unwind(r->tables), (uint32_t)getpid(), NULL, 0, &interpreters), 0);
}

/* Runs `g` on a thread of its own, where the recorder sees it. */
static void *run_first_goroutine(void *context)
{
    struct fake_g scheduler = {0};
    struct fake_m m = {.scheduler = &scheduler, .current = &g};
    scheduler.m = g.m = &m;
    g.state.id = FIRST;
    g.state.status = RUNNING;
    thread_g = &g;
    usleep(1000);
    *(uint32_t *)context = (uint32_t)gettid();
    thread_g = NULL;
    return NULL;
}

/* The current thread runs goroutines, and has none now. */
static void become_idle(void)
{
    idle_scheduler.m = &idle_m;
    idle_scheduler.scheduled_at = (uint64_t)(uintptr_t)(idle_stack + 1);
    thread_g = &idle_scheduler;
}

/* The recorder examines goroutines when a thread that has run one goes to sleep. */
static void run_another_and_sleep(void)
{
    gone.state.id++;
    usleep(1000);
}

static void wait_as(struct fake_g *waiting, uint64_t id, uint8_t reason)
{
    waiting->state.status = RUNNABLE;
    waiting->state.id = id;
    waiting->state.reason = reason;
    waiting->state.status = WAITING;
    run_another_and_sleep();
}

/* The records of goroutine `id` that wait for this: how many, and the last one. */
static size_t find_waits(const struct flight_window *window, uint64_t id, unsigned state, struct recorder_record *ret)
{
    size_t count = 0;
    for (size_t i = 0; i < window->count; i++) {
        const struct recorder_record *r = &window->records[i];
        if (r->kind != RECORDER_TASK || r->object != id || r->flags != state ||
            recorder_high(r->value) != (uint32_t)getpid())
            continue;
        *ret = *r;
        count++;
    }
    return count;
}

static void expect_wait(const struct flight_window *window, uint64_t id, unsigned state, uint32_t tid)
{
    struct recorder_record wait = {0};
    assert_int_equal(find_waits(window, id, state, &wait), 1);
    assert_int_equal(wait.tid, tid);
    assert_int_equal(recorder_low(wait.value), recorder_creator(CREATOR));
}

void test_goroutines_that_no_thread_is_seen_to_run(void **state)
{
    struct recording r;
    struct recorder_record unexpected;
    pthread_t thread;
    uint32_t tid = 0;
    (void)state;
    g = free_g = (struct fake_g){.creator = CREATOR};
    recording_begin_with_tasks(&r, RECORDS);
    become_go_program(&r);
    pthread_create(&thread, NULL, run_first_goroutine, &tid);
    pthread_join(thread, NULL);
    become_idle();
    wait_as(&g, FIRST, FOR_TIMER);
    wait_as(&g, FIRST, FOR_LOCK); /* having run somewhere */
    run_another_and_sleep();
    wait_as(&g, SECOND, FOR_TIMER); /* which uses the same memory */
    free_g.state.id = UNSEEN;
    free_g.state.status = DEAD;
    g.state.next = &free_g; /* the next one in the list of free ones */
    g.state.status = DEAD;
    run_another_and_sleep();
    wait_as(&free_g, THIRD, FOR_LOCK);
    thread_g = NULL;
    struct flight_window w = recording_window(&r);
    expect_wait(&w, FIRST, RECORDER_TASK_WAITS_TIMER, tid);
    expect_wait(&w, FIRST, RECORDER_TASK_WAITS_LOCK, 0);
    expect_wait(&w, SECOND, RECORDER_TASK_WAITS_TIMER, 0);
    expect_wait(&w, THIRD, RECORDER_TASK_WAITS_LOCK, 0);
    assert_int_equal(find_waits(&w, UNSEEN, RECORDER_TASK_WAITS, &unexpected), 0);
    flight_recorder_window_free(&w);
    recording_end(&r);
}
