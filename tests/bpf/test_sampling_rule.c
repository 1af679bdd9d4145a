/* Sampling rules on the BPF side: the rule that applies to a process, the events that random sampling selects under a
 * seed, and excluded waits. Processes fault and wait a counted number of times: sampled, left out and recorded events
 * add up exactly. bpf-statistical/sampling asserts how well random sampling meets the rates. */
#include "cgroups.h"
#include "subjects.h"
#include "watch.h"
#include "workload.h"

#include "base/cleanup.h"
#include "sources/cpu/cpu.h"
#include "sources/offcpu/offcpu.h"
#include "sources/sampling/cgroup_search.h"
#include "sources/sampling/sampling_rule_table.h"

#include "probes/common/sampling.h"
#include "probes/offcpu.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include <cmocka.h>

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#define NS_PER_SECOND 1000000000ULL
#define FAULTS        1000
#define FEW_FAULTS    20
#define NAPS          20
#define SEED          0x5eed

/* ---- which rule applies to a process ---- */

struct tally {
    struct {
        pid_t pid;
        uint64_t samples, weight; /* of each sample */
    } process[3];
    size_t count;
};

static bool add_sample(const struct record_header *header, void *context)
{
    const struct stack_record *s = (const struct stack_record *)header;
    struct tally *tally = context;

    for (size_t i = 0; i < tally->count; i++)
        if (header->pid == (uint32_t)tally->process[i].pid) {
            assert_int_equal(s->sample.value, tally->process[i].weight);
            tally->process[i].samples++;
        }
    return true;
}

static void parse_rules(const char *text, struct sampling_rules *ret)
{
    const char *bad;
    size_t bad_bytes;

    assert_int_equal(sampling_rules_parse(text, ret, &bad, &bad_bytes), 0);
}

/* Records page faults of the workloads by sampling rules. Rates are relative to the highest rate, which samples every
 * event. */
static struct watch watch_faults(const struct sampling_rules *rules, uint32_t others_hz,
                                 const struct workload *processes, size_t count)
{
    struct watch_options options = watch_defaults;

    options.rules = rules;
    options.sample_hz = others_hz;
    options.sampling_seed = SEED;
    for (size_t i = 0; i < count; i++)
        options.filter.pids[options.filter.pid_count++] = (uint32_t)processes[i].pid;
    return workload_watch(options, "page-faults");
}

static struct sampling_rule_stats rule_stats(const struct watch *w, uint32_t number)
{
    return sampling_rule_table_stats(shared_tables_sampling_rules(w->tables), number);
}

static void take_name(void *name)
{
    prctl(PR_SET_NAME, name);
}

static void take_other_name(unsigned unused)
{
    (void)unused;
    prctl(PR_SET_NAME, "after");
}

/* On one CPU, because the BPF side numbers ticks per CPU. */
static struct workload start_named(const char *name)
{
    struct workload w = workload_start(take_name, (void *)(uintptr_t)name);
    cpu_set_t first;

    CPU_ZERO(&first);
    CPU_SET(0, &first);
    assert_int_equal(sched_setaffinity(w.pid, sizeof(first), &first), 0);
    return w;
}

/* Number of sampled ticks out of `ticks`. */
static uint64_t samples_of(uint64_t ticks, uint64_t share)
{
    uint64_t samples = 0;

    for (uint64_t tick = 1; tick <= ticks; tick++)
        samples += sampling_hash(SEED, tick) < share;
    return samples;
}

/* By name and by PID: one is always sampled, one at a fifth of that rate, one never. */
static void test_rules_by_name_and_pid_set_the_rate(void **state)
{
    struct workload processes[] = {start_named("often"), start_named("seldom"), start_named("never")};
    struct tally tally = {
        .count = 3, .process = {{processes[0].pid, .weight = 1}, {processes[1].pid, .weight = 5}, {processes[2].pid}}};
    uint64_t shares[SAMPLING_RULES_MAX + 1];
    struct sampling_rules rules;
    char text[128];
    struct watch w;

    (void)state;
    snprintf(text, sizeof(text), "command=never:0, pid=%d:100, command=often:500, command=seldom:1", processes[1].pid);
    parse_rules(text, &rules);
    sampling_rules_shares(&rules, 1, sampling_rules_clock_hz(&rules, 1), shares);
    w = watch_faults(&rules, 1, processes, 3);
    for (size_t i = 0; i < 3; i++)
        workload_run(&processes[i], workload_fault, FAULTS);
    const struct sampling_rule_stats of_never = rule_stats(&w, 0), of_seldom = rule_stats(&w, 1),
                                     of_often = rule_stats(&w, 2), unused = rule_stats(&w, 3);
    workload_expect(&w, of_seldom.samples + of_often.samples, add_sample, &tally);
    print_message("%llu of %llu ticks at a fifth\n", (unsigned long long)of_seldom.samples,
                  (unsigned long long)of_seldom.ticks);
    assert_int_equal(tally.process[2].samples, 0);
    assert_int_equal(of_never.samples, 0);
    assert_true(of_never.ticks > 0);
    assert_int_equal(tally.process[0].samples, of_often.samples);
    assert_int_equal(of_often.samples, of_often.ticks);
    assert_int_equal(tally.process[1].samples, of_seldom.samples);
    assert_int_equal(of_seldom.samples, samples_of(of_seldom.ticks, shares[1]));
    assert_true(of_seldom.samples > 0 && of_seldom.samples < of_seldom.ticks);
    assert_int_equal(unused.ticks, 0); /* an earlier rule matches it */
    for (size_t i = 0; i < 3; i++)
        workload_end(&processes[i]);
    workload_unwatch(&w);
}

/* A process changes its name, and with it its rate. */
static void test_renamed_process_falls_under_its_new_rule(void **state)
{
    struct workload process = start_named("before");
    struct tally tally = {.count = 1, .process = {{process.pid, .weight = 1}}};
    struct sampling_rules rules;

    (void)state;
    parse_rules("command=before:250, command=after:0", &rules);
    struct watch w = watch_faults(&rules, 1, &process, 1);
    workload_run(&process, workload_fault, FEW_FAULTS);
    workload_run(&process, take_other_name, 0);
    const struct sampling_rule_stats before = rule_stats(&w, 0), none = rule_stats(&w, 1);
    assert_true(before.ticks > 0);
    assert_int_equal(before.samples, before.ticks);
    assert_int_equal(none.ticks, 0);
    workload_run(&process, workload_fault, FEW_FAULTS);
    assert_true(rule_stats(&w, 1).ticks > 0);
    assert_int_equal(rule_stats(&w, 1).samples, 0);
    assert_int_equal(rule_stats(&w, 0).ticks, before.ticks);
    workload_expect(&w, before.samples, add_sample, &tally);
    assert_int_equal(tally.process[0].samples, before.samples);
    workload_end(&process);
    workload_unwatch(&w);
}

static void replace_rules(struct watch *w, const char *text)
{
    struct sampling_rules rules;

    parse_rules(text, &rules);
    sampling_rule_table_replace(shared_tables_sampling_rules(w->tables), &rules);
    w->source->set_rules(w->self, &rules);
}

/* As on SIGHUP: other rates, other numbers, and counts that begin anew. */
static void test_replaced_rules_apply_from_then_on(void **state)
{
    struct workload process = start_named("often");
    struct tally tally = {.count = 1, .process = {{process.pid, .weight = 1}}};
    struct sampling_rules rules;

    (void)state;
    parse_rules("command=often:250, command=other:1", &rules);
    struct watch w = watch_faults(&rules, 1, &process, 1);
    workload_run(&process, workload_fault, FEW_FAULTS);
    const uint64_t first = rule_stats(&w, 0).samples;
    assert_true(first > 0);
    replace_rules(&w, "command=unused:250, command=often:0");
    assert_int_equal(rule_stats(&w, 0).ticks, 0);
    workload_run(&process, workload_fault, FEW_FAULTS);
    assert_int_equal(rule_stats(&w, 0).ticks, 0);
    assert_true(rule_stats(&w, 1).ticks > 0);
    assert_int_equal(rule_stats(&w, 1).samples, 0);
    replace_rules(&w, "command=often:250");
    workload_run(&process, workload_fault, FEW_FAULTS);
    const struct sampling_rule_stats last = rule_stats(&w, 0);
    assert_true(last.ticks > 0);
    assert_int_equal(last.samples, last.ticks);
    workload_expect(&w, first + last.samples, add_sample, &tally);
    assert_int_equal(tally.process[0].samples, first + last.samples);
    workload_end(&process);
    workload_unwatch(&w);
}

/* In the cgroup hierarchy that names jobs here; NULL: none can be created. */
static const char *make_job_cgroup(const char *name, char *path, size_t size)
{
    static const char *const roots[] = {"/sys/fs/cgroup/memory", "/sys/fs/cgroup/unified", "/sys/fs/cgroup"};
    uint64_t id;

    for (size_t i = 0; i < array_size(roots); i++) {
        snprintf(path, size, "%s/%s", roots[i], name);
        if (!cgroup_make(path))
            continue;
        if (cgroup_search_path(name, &id) == 0)
            return path;
        rmdir(path);
    }
    return NULL;
}

/* New and removed cgroups are found at the next scan, every few seconds. */
static void find_cgroups(const struct watch *w)
{
    static uint64_t ahead_ns;

    ahead_ns += 60 * NS_PER_SECOND;
    sampling_rule_table_follow(shared_tables_sampling_rules(w->tables), clock_monotonic_ns() + ahead_ns);
}

/* A cgroup that is removed and created again under its name, and the cgroups below it. */
static void test_cgroup_rules_follow_recreated_cgroups(void **state)
{
    char name[64], path[256], below[sizeof(path) + 8], text[128];
    struct tally tally = {.count = 1, .process = {{.weight = 1}}};
    struct sampling_rules rules;

    (void)state;
    snprintf(name, sizeof(name), "sonde-target-%d", getpid());
    snprintf(text, sizeof(text), "cgroup=/%s:250", name);
    if (!make_job_cgroup(name, path, sizeof(path))) {
        print_message("skipped: no cgroup can be made here\n");
        skip();
    }
    snprintf(below, sizeof(below), "%s/below", path);
    assert_true(cgroup_make(below));
    struct workload processes[] = {start_named("first"), start_named("second")};
    assert_true(cgroup_enter(below, processes[0].pid));
    parse_rules(text, &rules);
    struct watch w = watch_faults(&rules, 0, processes, 2);
    assert_true(rule_stats(&w, 0).found);
    workload_run(&processes[0], workload_fault, FEW_FAULTS);
    const uint64_t of_first = rule_stats(&w, 0).ticks;
    assert_true(of_first > 0);
    workload_end(&processes[0]);
    cgroup_remove(below);
    cgroup_remove(path);
    find_cgroups(&w);
    assert_false(rule_stats(&w, 0).found);
    assert_true(cgroup_make(path));
    assert_true(cgroup_enter(path, processes[1].pid));
    workload_run(&processes[1], workload_fault, FEW_FAULTS);
    assert_int_equal(rule_stats(&w, 0).ticks, of_first);
    find_cgroups(&w);
    assert_true(rule_stats(&w, 0).found);
    workload_run(&processes[1], workload_fault, FEW_FAULTS);
    assert_true(rule_stats(&w, 0).ticks > of_first);
    tally.process[0].pid = processes[1].pid;
    workload_expect(&w, rule_stats(&w, 0).samples, add_sample, &tally);
    assert_int_equal(tally.process[0].samples, rule_stats(&w, 0).samples - of_first);
    workload_end(&processes[1]);
    cgroup_remove(path);
    workload_unwatch(&w);
}

/* Half the clock rate, and twice the weight per sample. */
static void test_shedding_halves_the_rule_rates(void **state)
{
    struct watch_options options = watch_defaults;
    const pid_t pid = burner_start("fifth");
    struct sampling_rules rules;
    char text[64];
    uint64_t weight = 0;

    (void)state;
    snprintf(text, sizeof(text), "pid=%d:100", pid);
    parse_rules(text, &rules);
    options.rules = &rules;
    options.sample_hz = 500;
    struct watch w = watch_begin(&source_cpu, &options);
    assert_int_equal(w.source->shed(w.self, SOURCE_DETAIL_HALF_RATE), 0);
    for (int i = 0; i < 3000 && weight != 2 * NS_PER_SECOND / 100; i++) {
        usleep(20000);
        assert_int_equal(w.source->drain(w.self, w.batch), 0);
        for (size_t k = 0; k < batch_count(w.batch); k++)
            if (batch_get(w.batch, k)->pid == (uint32_t)pid)
                weight = ((const struct stack_record *)batch_get(w.batch, k))->sample.value;
        batch_clear(w.batch);
    }
    assert_int_equal(weight, 2 * NS_PER_SECOND / 100);
    burner_kill(pid);
    workload_unwatch(&w);
}

/* ---- waits ---- */

/* Excluded from the beginning, not excluded, and excluded since its thread began to wait. */
enum waiting { LEFT_OUT, NOT_LEFT_OUT, LEFT_OUT_SINCE, WAITING_COUNT };

struct waits {
    pid_t pids[WAITING_COUNT];
    size_t recorded[WAITING_COUNT]; /* LEFT_OUT_SINCE only: of its thread */
};

static _Atomic pid_t thread_of_it;

static void *wait_in_thread(void *unused)
{
    thread_of_it = (pid_t)syscall(SYS_gettid);
    for (;;)
        syscall(SYS_ppoll, NULL, 0, NULL, NULL, 0);
    return unused;
}

/* The thread keeps its name; sampling rules match the process's name. */
static void start_thread(void *thread_ids)
{
    pthread_t thread;

    if (pthread_create(&thread, NULL, wait_in_thread, NULL) != 0)
        _exit(1);
    while (!thread_of_it)
        usleep(1000);
    if (write(((const int *)thread_ids)[1], (const void *)&thread_of_it, sizeof(thread_of_it)) != sizeof(thread_of_it))
        _exit(1);
}

static void exclude_self(unsigned unused)
{
    (void)unused;
    prctl(PR_SET_NAME, "left-out");
}

static bool count_wait(const struct record_header *header, void *context)
{
    struct waits *waits = context;

    for (size_t i = 0; i < WAITING_COUNT && header->kind == RECORD_OFF_CPU; i++)
        waits->recorded[i] +=
            header->pid == (uint32_t)waits->pids[i] && (i != LEFT_OUT_SINCE || header->tid != header->pid);
    return header->kind == RECORD_OFF_CPU;
}

/* Ends waits in progress; the threads start others. */
static void interrupt_thread(pid_t pid, pid_t thread)
{
    threads_await_blocked(thread, SYS_ppoll);
    const uint64_t switches = threads_switches(thread);
    assert_int_equal(syscall(SYS_tgkill, pid, thread, SIGUSR1), 0);
    while (threads_switches(thread) == switches)
        usleep(1000);
    threads_await_blocked(thread, SYS_ppoll);
}

static void nap_often(struct workload *w)
{
    workload_begin(w, workload_nap, NAPS);
    workload_interrupt(w, NAPS, 0);
    workload_await(w);
}

/* No wait of an excluded process is recorded, with keys of all kinds, which the BPF side checks at each switch. Tested
 * with the CPU source's rules and with its own. */
static void assert_excluded_waits(bool with_cpu)
{
    struct watch_options options = watch_defaults;
    struct workload processes[WAITING_COUNT];
    struct waits waits = {0};
    struct sampling_rules rules;
    char text[200];
    int thread_ids[2];
    pid_t thread;

    assert_int_equal(pipe(thread_ids), 0);
    for (unsigned i = 0; i < WAITING_COUNT; i++) {
        processes[i] = workload_start(i == LEFT_OUT_SINCE ? start_thread : NULL, thread_ids);
        options.filter.pids[i] = (uint32_t)(waits.pids[i] = processes[i].pid);
    }
    assert_int_equal(read(thread_ids[0], &thread, sizeof(thread)), sizeof(thread));
    threads_await_blocked(thread, SYS_ppoll);
    options.filter.pid_count = WAITING_COUNT;
    snprintf(text, sizeof(text), "pid=%d:0, user=4000000001:1, cgroup=/missing:1, command=left-out:0",
             waits.pids[LEFT_OUT]);
    parse_rules(text, &rules);
    options.rules = &rules;
    struct watch cpu = {0};
    if (with_cpu) {
        cpu = watch_begin(&source_cpu, &options);
        options.tables = cpu.tables;
    }
    struct watch w = watch_begin(&source_off_cpu, &options);
    const uint64_t switches = threads_switches(waits.pids[NOT_LEFT_OUT]);
    nap_often(&processes[LEFT_OUT]);
    nap_often(&processes[NOT_LEFT_OUT]);
    workload_run(&processes[LEFT_OUT_SINCE], exclude_self, 0);
    interrupt_thread(waits.pids[LEFT_OUT_SINCE], thread); /* which has been waiting since before */
    interrupt_thread(waits.pids[LEFT_OUT_SINCE], thread);
    const uint64_t expected = 1 + threads_switches(waits.pids[NOT_LEFT_OUT]) - switches;
    assert_int_equal(w.source->stop(w.self), 0);
    workload_expect(&w, off_cpu_source_stats(w.self).recorded, count_wait, &waits);
    assert_int_equal(waits.recorded[LEFT_OUT], 0);
    assert_int_equal(waits.recorded[LEFT_OUT_SINCE], 0);
    assert_int_equal(waits.recorded[NOT_LEFT_OUT], expected);
    for (size_t i = 0; i < WAITING_COUNT; i++)
        workload_end(&processes[i]);
    close(thread_ids[0]);
    close(thread_ids[1]);
    watch_end(&w);
    if (with_cpu)
        watch_end(&cpu);
}

static void test_waits_of_excluded_processes_are_not_recorded(void **state)
{
    (void)state;
    assert_excluded_waits(true);
}

static void test_waits_of_excluded_processes_are_not_recorded_without_cpu_source(void **state)
{
    (void)state;
    assert_excluded_waits(false);
}

#define SAMPLE_NS 1000000

struct recorded {
    uint64_t of_ns; /* shorter waits are sampled at random, each with this value */
    uint64_t told_ns;
};

static bool take_wait(const struct record_header *header, void *context)
{
    const struct off_cpu_wait *wait = (const struct off_cpu_wait *)header;
    struct recorded *r = context;

    if (header->kind != RECORD_OFF_CPU)
        return false;
    const uint64_t length_ns = header->time_ns - wait->start_ns;
    const bool is_short = length_ns < r->of_ns;
    assert_true(sampling_takes_wait(sampling_hash(SEED, wait->start_ns), length_ns, r->of_ns));
    assert_int_equal(wait->weight_ns, is_short ? r->of_ns : length_ns);
    assert_int_equal(wait->count,
                     is_short ? sampling_wait_count(sampling_hash(SEED, ~wait->start_ns), length_ns, r->of_ns) : 1);
    r->told_ns += length_ns;
    return true;
}

/* All waits are recorded or left out, and which are recorded follows from the seed. */
static struct off_cpu_totals sample_waits(const char *rule, uint64_t of_ns)
{
    struct watch_options options = watch_defaults;
    struct workload process = workload_start(NULL, NULL);
    struct recorded recorded = {.of_ns = of_ns};
    struct sampling_rules rules;
    char text[64];

    options.filter.pids[0] = (uint32_t)process.pid;
    options.filter.pid_count = 1;
    options.sample_hz = 100;
    options.off_cpu.sample_wait_ns = SAMPLE_NS;
    options.sampling_seed = SEED;
    snprintf(text, sizeof(text), rule, process.pid);
    parse_rules(text, &rules);
    options.rules = &rules;
    struct watch w = watch_begin(&source_off_cpu, &options);
    const uint64_t switches = threads_switches(process.pid);
    nap_often(&process);
    const uint64_t waits = 1 + threads_switches(process.pid) - switches;
    assert_int_equal(w.source->stop(w.self), 0);
    const struct off_cpu_totals stats = off_cpu_source_stats(w.self);
    assert_int_equal(stats.recorded + stats.left_out, waits);
    workload_expect(&w, stats.recorded, take_wait, &recorded);
    assert_int_equal(stats.recorded_ns, recorded.told_ns);
    assert_true(stats.left_out_ns <= stats.left_out * of_ns); /* no longer wait is left out */
    workload_end(&process);
    watch_end(&w);
    return stats;
}

static void test_waits_at_a_lower_rate(void **state)
{
    (void)state;
    sample_waits("pid=%d:20", 5 * SAMPLE_NS);
}

static void test_waits_at_a_higher_rate(void **state)
{
    (void)state;
    sample_waits("pid=%d:1000", SAMPLE_NS / 10);
}

/* Waits of a process without a rule. */
static void test_waits_under_no_rule_use_the_default_rate(void **state)
{
    (void)state;
    sample_waits("command=missing:1", SAMPLE_NS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rules_by_name_and_pid_set_the_rate),
        cmocka_unit_test(test_renamed_process_falls_under_its_new_rule),
        cmocka_unit_test(test_replaced_rules_apply_from_then_on),
        cmocka_unit_test(test_cgroup_rules_follow_recreated_cgroups),
        cmocka_unit_test(test_shedding_halves_the_rule_rates),
        cmocka_unit_test(test_waits_of_excluded_processes_are_not_recorded),
        cmocka_unit_test(test_waits_of_excluded_processes_are_not_recorded_without_cpu_source),
        cmocka_unit_test(test_waits_at_a_lower_rate),
        cmocka_unit_test(test_waits_at_a_higher_rate),
        cmocka_unit_test(test_waits_under_no_rule_use_the_default_rate),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
