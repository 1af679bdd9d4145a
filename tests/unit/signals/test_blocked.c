/* Records of blocked tasks become events, once for each task, and one for a load that they raise. Tasks are counted by
 * service. */
#include "model/metric.h"
#include "resolve/process/processes.h"
#include "resolve/sample/samples.h"
#include "signal_events_fixture.h"
#include "signals/blocked/blocked_groups.h"
#include "sources/blocked/blocked.h"
#include "sources/blocked/blocked_list.h"

#include "probes/blocked.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define SECOND_NS 1000000000ull

static char emitted[4096];
static const struct signal *blocked;
static void *self;

static void keep_event(void *pipeline, const struct node_event *event)
{
    size_t used = strlen(emitted);
    (void)pipeline;
    used += event_text(event, emitted + used, sizeof(emitted) - used);
    snprintf(emitted + used, sizeof(emitted) - used, "\n");
}

static struct signal_services services = {.emit_event = keep_event};

static int begin(void **state)
{
    (void)state;
    emitted[0] = '\0';
    blocked = signal_named("blocked");
    return blocked->create(&services, blocked->defaults, NULL, &self);
}

static int end(void **state)
{
    (void)state;
    blocked->destroy(self);
    return 0;
}

static struct blocked_record record(uint32_t tid, double blocked_s)
{
    struct blocked_record r = {.h = {.size_bytes = sizeof(r), .kind = RECORD_BLOCKED, .time_ns = 90 * SECOND_NS},
                               .blocked_ns = (uint64_t)(blocked_s * SECOND_NS),
                               .interval_ns = 5 * SECOND_NS,
                               .task = {.pid = 7, .tid = tid, .comm = "cat"}};
    r.h.pid = 7;
    r.h.tid = tid;
    return r;
}

static void take(const void *header)
{
    const struct record_header *h = header;
    assert_true(signals_check_record(h));
    for (const struct record_type *type = blocked->records; type->kind; type++)
        if (type->kind == h->kind)
            type->take(self, h);
}

static void take_walk(uint32_t cpus)
{
    const struct blocked_walk walk = {
        .h = {.size_bytes = sizeof(walk), .kind = RECORD_BLOCKED_WALK, .time_ns = 90 * SECOND_NS},
        .tasks = 400,
        .cpus = cpus,
        .load_hundredths = 305};
    take(&walk);
}

static void take_tasks(unsigned count, double blocked_s)
{
    for (unsigned i = 0; i < count; i++) {
        const struct blocked_record r = record(10 + i, blocked_s + i);
        take(&r);
    }
}

static void test_a_task_that_is_blocked_for_long_is_one_event(void **state)
{
    static const double ages_s[] = {5, 9.9, 14.9, 19.9};
    (void)state;
    for (size_t i = 0; i < 4; i++) {
        const struct blocked_record r = record(12, ages_s[i]);
        take(&r);
        take_walk(4);
    }
    assert_string_equal(emitted, "blocked.long: cat (thread 12) has been blocked for 14.9 s in an unknown function; "
                                 "process.pid=7; thread.id=12; thread.name=cat; stack=an unknown function\n");
}

static void test_the_event_names_the_holder_and_the_child(void **state)
{
    struct blocked_record lock = record(12, 10), child = record(13, 10);
    (void)state;
    lock.task.holder_pid = 8;
    lock.task.holder_tid = 9;
    snprintf(lock.task.holder_comm, sizeof(lock.task.holder_comm), "holder");
    child.task.holder_pid = child.task.holder_tid = 14;
    child.task.flags = BLOCKED_BY_CHILD;
    snprintf(child.task.holder_comm, sizeof(child.task.holder_comm), "sh");
    take(&lock);
    take(&child);
    assert_non_null(strstr(emitted, "in an unknown function; holder (thread 9) holds the lock; process.pid=7"));
    assert_non_null(strstr(emitted, "holder.pid=8; holder.thread.id=9; holder.thread.name=holder\n"));
    assert_non_null(strstr(emitted, "; its child sh (process 14) has not yet executed a program; process.pid=7"));
}

/* Addresses 1 to 9 are functions of the kernel, 11 to 19 of NVIDIA's module, all others unknown. */
void __wrap_sample_kernel_frame(struct sample_resolver *r, uint64_t address, struct frame *ret);
void __wrap_sample_kernel_frame(struct sample_resolver *r, uint64_t address, struct frame *ret)
{
    static char name[16];
    (void)r;
    *ret = frame_of_text(FRAME_KERNEL, "");
    if (address >= 20)
        return;
    snprintf(name, sizeof(name), "f%u", (unsigned)address);
    ret->function = name;
    ret->mapping = address > 10 ? "[nvidia_uvm]" : "[kernel.kallsyms]";
}

static void expect_event_of(const uint64_t *stack, uint32_t frames, const char *expected)
{
    struct blocked_record r = record(12, 10);
    services.resolver = (struct sample_resolver *)&services; /* only passed on, to the function above */
    memcpy(r.task.stack, stack, frames * sizeof(*stack));
    r.task.frames = frames;
    emitted[0] = '\0';
    take(&r);
    services.resolver = NULL;
    assert_memory_equal(emitted, expected, strlen(expected));
}

static void test_a_task_in_the_driver_of_a_gpu_is_an_event_of_the_gpu(void **state)
{
    (void)state;
    expect_event_of((const uint64_t[]){1, 2, 99, 3, 4, 5}, 6,
                    "blocked.long: cat (thread 12) has been blocked for 10.0 s in f1 < f2 < f3 < f4; process.pid=7");
    expect_event_of(
        (const uint64_t[]){1, 11, 2}, 3,
        "gpu.driver_hung: cat (thread 12) has been blocked for 10.0 s in NVIDIA's driver: f1 < f11 "
        "[nvidia_uvm] < f2; process.pid=7; thread.id=12; thread.name=cat; stack=f1 < f11 [nvidia_uvm] < f2");
    expect_event_of(
        (const uint64_t[]){1, 2, 3, 4, 5, 12}, 6,
        "gpu.driver_hung: cat (thread 12) has been blocked for 10.0 s in NVIDIA's driver: f1 < f2 < f3 < f4");
}

static void test_a_load_of_blocked_tasks_is_one_event_until_it_is_over(void **state)
{
    (void)state;
    take_tasks(3, 5);
    take_walk(4);
    assert_string_equal(emitted, "");
    take_tasks(4, 6);
    take_walk(4);
    assert_string_equal(emitted, "blocked.load: 4 blocked tasks raise the load average, which is 3.05: 4 in an unknown "
                                 "function, the oldest for 9.00 s (cat, thread 13); tasks=4; load=3.05\n");
    take_tasks(4, 1);
    take_walk(4);
    take_tasks(2, 1);
    take_walk(4);
    take_tasks(4, 1);
    take_walk(4);
    assert_string_equal(strchr(emitted, '\n') + 1, "");
    take_tasks(1, 1);
    take_walk(4);
    take_tasks(4, 1);
    take_walk(4);
    assert_string_not_equal(strchr(emitted, '\n') + 1, "");
}

static void test_a_node_without_blocked_tasks_has_no_event(void **state)
{
    (void)state;
    take_walk(0); /* an idle node, and one whose CPUs are not known */
    take_walk(1);
    assert_string_equal(emitted, "");
}

static void test_records_with_impossible_values_are_rejected(void **state)
{
    struct blocked_record r = record(12, 10);
    (void)state;
    r.task.frames = BLOCKED_FRAMES + 1;
    assert_false(signals_check_record(&r.h));
    r = record(12, 10);
    memset(r.task.comm, 'x', sizeof(r.task.comm));
    assert_false(signals_check_record(&r.h));
    r = record(12, 10);
    r.h.size_bytes -= 8;
    assert_false(signals_check_record(&r.h));
}

/* cat, which has called exec() when this returns. It ends with the write end of its standard input, `ret_gate`. */
static pid_t start_service(char *environment_name, int *ret_gate)
{
    int gate[2], ready[2];
    assert_int_equal(pipe(gate), 0);
    assert_int_equal(pipe(ready), 0);
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        close(gate[1]);
        dup2(gate[0], STDIN_FILENO);
        dup2(ready[1], STDOUT_FILENO);
        execve("/bin/cat", (char *[]){"cat", NULL}, (char *[]){environment_name, NULL});
        _exit(127);
    }
    close(gate[0]);
    close(ready[1]);
    assert_int_equal(write(gate[1], "x", 1), 1);
    assert_int_equal(read(ready[0], &(char){0}, 1), 1);
    close(ready[0]);
    *ret_gate = gate[1];
    return pid;
}

static void test_the_tasks_of_a_service_with_a_long_name_are_one_series(void **state)
{
    char name[101] = "OTEL_SERVICE_NAME=";
    struct metric_set *set;
    struct processes *processes;
    size_t series = 0;
    int gate;
    (void)state;
    memset(name + strlen(name), 'a', sizeof(name) - strlen(name) - 1);
    name[sizeof(name) - 1] = '\0';
    const pid_t pid = start_service(name, &gate);
    assert_int_equal(processes_new(8 << 20, &processes), 0);
    services.processes = processes;
    for (uint32_t tid = 12; tid < 14; tid++) {
        struct blocked_record r = record(tid, 10);
        r.h.pid = r.task.pid = (uint32_t)pid;
        take(&r);
    }
    take_walk(4);
    services.processes = NULL;
    processes_free(processes);
    close(gate);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    assert_int_equal(metric_set_new(&set), 0);
    blocked->metrics(self, set);
    for (size_t i = 0; i < metric_set_families(set); i++) {
        const struct metric_family f = metric_set_family(set, i);
        if (strcmp(f.name, "sonde_blocked_tasks") != 0)
            continue;
        series += f.point_count;
        assert_true(f.points[0].value == 2);
        assert_int_equal(strspn(f.points[0].labels[0].value, "a"), 63);
    }
    assert_int_equal(series, 1);
    metric_set_free(set);
}

static void test_the_group_of_the_oldest_task_comes_first(void **state)
{
    struct blocked_groups g = {0};
    char text[512], stack[8];
    (void)state;
    blocked_groups_add(&g, "a < b", "cat", 1, 6 * SECOND_NS);
    blocked_groups_add(&g, "c", "dd", 2, 31 * SECOND_NS);
    blocked_groups_add(&g, "a < b", "ls", 3, 7 * SECOND_NS);
    blocked_groups_text(&g, text, sizeof(text));
    assert_string_equal(text, "1 in c, the oldest for 31.0 s (dd, thread 2); 2 in a < b, the oldest for 7.00 s (ls, "
                              "thread 3)");
    for (unsigned i = 0; i < 2 * BLOCKED_GROUPS_MAX; i++) {
        snprintf(stack, sizeof(stack), "f%u", i);
        blocked_groups_add(&g, stack, "x", 4, SECOND_NS);
    }
    assert_int_equal(g.count, BLOCKED_GROUPS_MAX);
    assert_int_equal(g.tasks, 3 + 2 * BLOCKED_GROUPS_MAX);
    assert_int_equal(g.oldest_ns, 31 * SECOND_NS);
}

static void test_a_task_that_has_run_is_blocked_anew(void **state)
{
    static struct blocked_list list;
    const struct blocked_task first = {.tid = 9, .switches = 5}, second = {.tid = 3, .switches = 5},
                              other = {.tid = 9, .switches = 6}, missing = {.tid = 4, .switches = 5};
    (void)state;
    list.count = 0;
    blocked_list_add(&list, &first, 100);
    blocked_list_add(&list, &second, 200);
    blocked_list_sort(&list);
    assert_int_equal(blocked_list_since(&list, &first, 900), 100);
    assert_int_equal(blocked_list_since(&list, &second, 900), 200);
    assert_int_equal(blocked_list_since(&list, &other, 900), 900);
    assert_int_equal(blocked_list_since(&list, &missing, 900), 900);
    for (unsigned i = 0; i < BLOCKED_MAX_TASKS + 2; i++)
        blocked_list_add(&list, &missing, 1);
    assert_int_equal(list.count, BLOCKED_MAX_TASKS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_task_that_is_blocked_for_long_is_one_event, begin, end),
        cmocka_unit_test_setup_teardown(test_the_event_names_the_holder_and_the_child, begin, end),
        cmocka_unit_test_setup_teardown(test_a_task_in_the_driver_of_a_gpu_is_an_event_of_the_gpu, begin, end),
        cmocka_unit_test_setup_teardown(test_a_load_of_blocked_tasks_is_one_event_until_it_is_over, begin, end),
        cmocka_unit_test_setup_teardown(test_a_node_without_blocked_tasks_has_no_event, begin, end),
        cmocka_unit_test_setup_teardown(test_records_with_impossible_values_are_rejected, begin, end),
        cmocka_unit_test_setup_teardown(test_the_tasks_of_a_service_with_a_long_name_are_one_series, begin, end),
        cmocka_unit_test(test_the_group_of_the_oldest_task_comes_first),
        cmocka_unit_test(test_a_task_that_has_run_is_blocked_anew),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
