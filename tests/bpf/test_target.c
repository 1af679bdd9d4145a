/* Targets of the clock, from the kernel half on: who is whose, that samples are taken as often as was asked for, and that they stand for the time
 * that passed; and whose waits are left alone. Waits for enough samples and not for a time. */
#include "subjects.h"
#include "watch.h"

#include "sources/cpu.h"
#include "sources/cgroup_search.h"
#include "sources/offcpu.h"
#include "sources/target_table.h"

#include "../../probes/offcpu.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include <cmocka.h>

#include <limits.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#define NS_PER_SECOND 1000000000ULL

/* What was sampled of some processes. */
struct tally {
    struct {
        pid_t pid;
        uint64_t samples, weight_ns, hz, other_hz;
    } process[3];
    size_t count;
};

static bool add(const struct wire_header *header, void *context)
{
    const struct cpu_sample *s = (const struct cpu_sample *)header;
    struct tally *tally = context;

    for (size_t i = 0; i < tally->count; i++)
        if (header->pid == (uint32_t)tally->process[i].pid) {
            if (tally->process[i].other_hz && s->weight_ns >= NS_PER_SECOND / tally->process[i].other_hz - 1)
                return false;
            assert_int_equal(s->weight_ns, NS_PER_SECOND / tally->process[i].hz);
            tally->process[i].samples++;
            tally->process[i].weight_ns += s->weight_ns;
            return true;
        }
    return false;
}

static struct watch watch_targets(const char *text, uint32_t others_hz)
{
    struct source_options options = watch_defaults;
    struct targets targets;
    const char *bad;
    size_t bad_bytes;

    assert_int_equal(targets_parse(text, &targets, &bad, &bad_bytes), 0);
    options.targets = &targets;
    options.sample_hz = others_hz;
    return watch_begin(&source_cpu, &options);
}

static struct target_figures figures(const struct watch *w, uint32_t number)
{
    return target_table_figures(cpu_source_targets(w->self), number);
}

static bool is_near(double value, double expected, double sigma)
{
    return fabs(value - expected) <= 6 * sigma + 1;
}

/* Until then its name is ours. */
static void wait_for_name(pid_t pid, const char *name)
{
    char path[64], is[32] = "", wanted[32];

    snprintf(path, sizeof(path), "/proc/%d/comm", pid);
    snprintf(wanted, sizeof(wanted), "%s\n", name);
    for (int i = 0; i < 3000 && strcmp(is, wanted) != 0; i++) {
        FILE *file = fopen(path, "re");

        if (!file || !fgets(is, sizeof(is), file))
            is[0] = '\0';
        if (file)
            fclose(file);
        usleep(2000);
    }
    assert_string_equal(is, wanted);
}

/* By name, by number and by chance: one at the clock's rate, one at a fifth of it, one never. */
static void test_rates(void **state)
{
    pid_t often = subject_named("often"), seldom = subject_named("seldom"), never = subject_named("never");
    struct tally tally = {.count = 3, .process = {{.pid = often, .hz = 500}, {.pid = seldom, .hz = 100}, {.pid = never, .hz = 1}}};
    char text[128];
    struct watch w;

    (void)state;
    wait_for_name(often, "often");
    wait_for_name(seldom, "seldom");
    wait_for_name(never, "never");
    snprintf(text, sizeof(text), "command=never:0, pid=%d:100, command=often:500, command=seldom:1", seldom);
    w = watch_targets(text, 1);
    watch_until(&w, 300, add, &tally);
    subject_kill(often);
    subject_kill(seldom);
    subject_kill(never);
    usleep(20000);
    assert_int_equal(w.source->drain(w.self, w.batch), 0);
    for (size_t i = 0; i < batch_count(w.batch); i++)
        add(batch_get(w.batch, i), &tally);

    const struct target_figures of_never = figures(&w, 0), of_seldom = figures(&w, 1), of_often = figures(&w, 2), dead = figures(&w, 3);
    assert_int_equal(tally.process[2].samples, 0);
    assert_int_equal(of_never.samples, 0);
    assert_true(of_never.ticks > 0);
    /* Exactly as many as were decided for. */
    assert_int_equal(tally.process[0].samples, of_often.samples);
    assert_int_equal(tally.process[1].samples, of_seldom.samples);
    assert_int_equal(of_often.samples, of_often.ticks);
    assert_int_equal(dead.ticks, 0); /* an earlier one has it */
    /* As often as was asked for, and so the time that the ticks stand for. */
    assert_true(is_near((double)of_seldom.samples, (double)of_seldom.ticks / 5, sqrt((double)of_seldom.ticks * 0.2 * 0.8)));
    assert_int_equal(tally.process[0].weight_ns, of_often.ticks * (NS_PER_SECOND / 500));
    watch_end(&w);
}

/* A process takes another name, and with it another rate. */
static void test_a_name_is_the_present_one(void **state)
{
    pid_t pid = subject_renamed("before", "after");
    struct tally tally = {.count = 1, .process = {{.pid = pid, .hz = 250}}};
    struct watch w;

    (void)state;
    wait_for_name(pid, "before");
    w = watch_targets("command=before:250, command=after:0", 1);
    watch_until(&w, ENOUGH, add, &tally);
    assert_int_equal(figures(&w, 1).ticks, 0);
    kill(pid, SIGUSR1);
    for (int i = 0; i < 3000 && figures(&w, 1).ticks == 0; i++)
        usleep(20000);
    const uint64_t samples = figures(&w, 0).samples, ticks = figures(&w, 1).ticks;
    assert_true(ticks > 0);
    for (int i = 0; i < 3000 && figures(&w, 1).ticks < ticks + ENOUGH; i++)
        usleep(20000);
    assert_true(figures(&w, 1).ticks >= ticks + ENOUGH);
    assert_int_equal(figures(&w, 0).samples, samples);
    assert_int_equal(figures(&w, 1).samples, 0);
    subject_kill(pid);
    watch_end(&w);
}

/* In the hierarchy that names jobs here; NULL: none can be made. */
static const char *make_cgroup(const char *name, char *path, size_t size)
{
    static const char *const roots[] = {"/sys/fs/cgroup/memory", "/sys/fs/cgroup/unified", "/sys/fs/cgroup"};
    uint64_t id;

    for (size_t i = 0; i < array_size(roots); i++) {
        snprintf(path, size, "%s/%s", roots[i], name);
        if (mkdir(path, 0755) < 0)
            continue;
        if (cgroup_search_path(name, &id) == 0)
            return path;
        rmdir(path);
    }
    return NULL;
}

static bool put_into(pid_t pid, const char *cgroup)
{
    char path[PATH_MAX];
    FILE *file;

    snprintf(path, sizeof(path), "%s/cgroup.procs", cgroup);
    file = fopen(path, "we");
    return file && fprintf(file, "%d\n", pid) > 0 && fclose(file) == 0;
}

/* A process ends, and its cgroup may be had. */
static void end_with(pid_t pid, const char *cgroup)
{
    subject_kill(pid);
    for (int i = 0; i < 500 && rmdir(cgroup) < 0; i++)
        usleep(20000);
}

/* Of a name that goes and comes again, as another one; and of what is below it. */
static void test_cgroups_come_and_go(void **state)
{
    char name[64], path[256], below[sizeof(path) + 8], text[128];
    struct tally tally = {.count = 1, .process = {{.hz = 250}}};
    struct watch w;

    (void)state;
    snprintf(name, sizeof(name), "sonde-target-%d", getpid());
    snprintf(text, sizeof(text), "cgroup=/%s:250", name);
    if (!make_cgroup(name, path, sizeof(path))) {
        print_message("skipped: no cgroup can be made here\n");
        skip();
    }
    snprintf(below, sizeof(below), "%s/below", path);
    assert_int_equal(mkdir(below, 0755), 0);
    const pid_t first = subject_named("first");
    assert_true(put_into(first, below));
    w = watch_targets(text, 1);
    assert_true(figures(&w, 0).found);
    tally.process[0].pid = first;
    watch_until(&w, ENOUGH, add, &tally);
    end_with(first, below);
    assert_int_equal(rmdir(path), 0);
    assert_int_equal(mkdir(path, 0755), 0);
    const pid_t second = subject_named("second");
    assert_true(put_into(second, path));
    tally.process[0].pid = second; /* until it is found it is one of the others, of whom there are some samples */
    tally.process[0].other_hz = 1;
    watch_until(&w, ENOUGH, add, &tally);
    end_with(second, path);
    watch_end(&w);
}

/* Half the rate of all, and each of theirs stands for twice as much. */
static void test_shedding_goes_with_it(void **state)
{
    const pid_t pid = subject_named("fifth");
    char text[64];
    struct watch w;
    uint64_t weight = 0;

    (void)state;
    snprintf(text, sizeof(text), "pid=%d:100", pid);
    w = watch_targets(text, 500);
    assert_int_equal(w.source->shed(w.self, SOURCE_DETAIL_HALF), 0);
    for (int i = 0; i < 3000 && weight != 2 * NS_PER_SECOND / 100; i++) {
        usleep(20000);
        assert_int_equal(w.source->drain(w.self, w.batch), 0);
        for (size_t k = 0; k < batch_count(w.batch); k++)
            if (batch_get(w.batch, k)->pid == (uint32_t)pid)
                weight = ((const struct cpu_sample *)batch_get(w.batch, k))->weight_ns;
        batch_clear(w.batch);
    }
    assert_int_equal(weight, 2 * NS_PER_SECOND / 100);
    subject_kill(pid);
    w.source->free(w.self);
    batch_free(w.batch);
}

/* ---- waits ---- */

#define NAP_US      2000
#define LONG_NAP_US 1000000

/* Who is left out from the beginning, who is not, and who is so since it waits. */
enum waiting { LEFT_OUT, NOT_LEFT_OUT, LEFT_OUT_SINCE, WAITING_COUNT };

struct waits {
    pid_t pids[WAITING_COUNT];
    size_t told[WAITING_COUNT];
};

static void *nap_long(void *unused)
{
    for (;;)
        usleep(LONG_NAP_US);
    return unused;
}

static pid_t waiting(enum waiting kind)
{
    pthread_t sleeper;
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (kind == LEFT_OUT_SINCE) { /* its thread waits by its old name; both go by that of the process */
        (void)!pthread_create(&sleeper, NULL, nap_long, NULL);
        usleep(LONG_NAP_US / 2);
        prctl(PR_SET_NAME, "left-out");
    }
    for (;;)
        usleep(kind == LEFT_OUT_SINCE ? LONG_NAP_US : NAP_US);
}

/* The main thread of LEFT_OUT_SINCE waits by its old name, too, and wakes to take the new one: that wait is told. */
static bool count_wait(const struct wire_header *header, void *context)
{
    struct waits *waits = context;

    for (size_t i = 0; i < WAITING_COUNT && header->kind == WIRE_OFF_CPU; i++)
        waits->told[i] += header->pid == (uint32_t)waits->pids[i] && (i != LEFT_OUT_SINCE || header->tid != header->pid);
    return header->kind == WIRE_OFF_CPU && header->pid == (uint32_t)waits->pids[NOT_LEFT_OUT];
}

/* Of whoever is never to be sampled no wait is told: with keys of all kinds, which the kernel half looks through at each switch. Whether who they are
 * is another source's matter, or its own. */
static void leave_waits_out(bool with_cpu)
{
    struct source_options options = watch_defaults;
    struct waits waits = {0};
    struct targets targets;
    char text[200];
    const char *bad;
    size_t bad_bytes;

    for (unsigned i = 0; i < WAITING_COUNT; i++)
        options.pids[i] = (uint32_t)(waits.pids[i] = waiting(i));
    options.pid_count = WAITING_COUNT;
    snprintf(text, sizeof(text), "pid=%d:0, user=4000000001:1, cgroup=/nobody-has-it:1, command=left-out:0", waits.pids[LEFT_OUT]);
    assert_int_equal(targets_parse(text, &targets, &bad, &bad_bytes), 0);
    options.targets = &targets;
    struct watch cpu = {0};
    if (with_cpu) {
        cpu = watch_begin(&source_cpu, &options);
        cpu_source_share(cpu.self, &options);
    }
    struct watch w = watch_begin(&source_off_cpu, &options);
    assert_true((off_cpu_source_targets(w.self) == NULL) == with_cpu);
    watch_until(&w, 3 * LONG_NAP_US / NAP_US / 2, count_wait, &waits);
    assert_int_equal(waits.told[LEFT_OUT], 0);
    assert_int_equal(waits.told[LEFT_OUT_SINCE], 0);
    assert_true(waits.told[NOT_LEFT_OUT] > ENOUGH);
    for (size_t i = 0; i < WAITING_COUNT; i++)
        subject_kill(waits.pids[i]);
    watch_end(&w);
    if (with_cpu)
        watch_end(&cpu);
}

static void test_waits_of_whom_it_leaves_out(void **state)
{
    (void)state;
    leave_waits_out(true);
}

static void test_waits_of_whom_it_leaves_out_without_samples(void **state)
{
    (void)state;
    leave_waits_out(false);
}

#define SAMPLE_NS 1000000

struct told {
    pid_t pid;
    uint64_t of_ns; /* shorter ones are told by chance, and stand for so much */
    size_t records;
    uint64_t weight_ns, by_chance;
};

static bool take_wait(const struct wire_header *header, void *context)
{
    const struct off_cpu_wait *wait = (const struct off_cpu_wait *)header;
    struct told *told = context;

    if (header->kind != WIRE_OFF_CPU || header->pid != (uint32_t)told->pid)
        return false;
    const uint64_t length_ns = header->time_ns - wait->start_ns;
    assert_int_equal(wait->weight_ns, length_ns < told->of_ns ? told->of_ns : length_ns);
    assert_in_range(wait->count, wait->weight_ns / length_ns, wait->weight_ns / length_ns + 1);
    told->by_chance += length_ns < told->of_ns;
    told->weight_ns += wait->weight_ns;
    told->records++;
    return true;
}

static struct off_cpu_figures watch_waits(const char *entry, struct told *told, size_t enough)
{
    struct source_options options = watch_defaults;
    struct targets targets;
    char text[64];
    const char *bad;
    size_t bad_bytes;

    told->pid = waiting(NOT_LEFT_OUT);
    options.pids[0] = (uint32_t)told->pid;
    options.pid_count = 1;
    options.sample_hz = 100;
    options.sample_wait_ns = SAMPLE_NS;
    snprintf(text, sizeof(text), entry, told->pid);
    assert_int_equal(targets_parse(text, &targets, &bad, &bad_bytes), 0);
    options.targets = &targets;
    struct watch w = watch_begin(&source_off_cpu, &options);
    watch_until(&w, enough, take_wait, told);
    assert_int_equal(w.source->stop(w.self), 0);
    assert_int_equal(w.source->drain(w.self, w.batch), 0);
    for (size_t i = 0; i < batch_count(w.batch); i++)
        take_wait(batch_get(w.batch, i), told);
    batch_clear(w.batch);
    const struct off_cpu_figures figures = off_cpu_source_figures(w.self);
    subject_kill(told->pid);
    watch_end(&w);
    return figures;
}

/* Of whom less is asked for, fewer waits are told, which stand for as much more: the sum is that of all within what chance does. Each of length L was
 * told with L / of_ns, for of_ns: all of them together vary by no more than of_ns times their sum. */
static void test_waits_at_a_lower_rate(void **state)
{
    struct told told = {.of_ns = 5 * SAMPLE_NS};
    const struct off_cpu_figures figures = watch_waits("pid=%d:20", &told, 200);
    const double true_ns = (double)(figures.told_ns + figures.left_out_ns);

    (void)state;
    assert_int_equal(figures.told, told.records);
    assert_true(told.by_chance > 0 && figures.left_out > 0);
    assert_true(is_near((double)told.weight_ns, true_ns, sqrt((double)told.of_ns * true_ns)));
}

/* Of whom more is asked for, nothing is left to chance that is longer than a fraction of what it is for others. */
static void test_waits_at_a_higher_rate(void **state)
{
    struct told told = {.of_ns = SAMPLE_NS / 10};
    const struct off_cpu_figures figures = watch_waits("pid=%d:1000", &told, 100);

    (void)state;
    assert_int_equal(figures.told, told.records);
    assert_true(figures.left_out_ns <= figures.left_out * told.of_ns);
}

/* Whoever is no target, beside one. */
static void test_waits_of_others(void **state)
{
    struct told told = {.of_ns = SAMPLE_NS};

    (void)state;
    watch_waits("command=nobody:1", &told, 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rates),
        cmocka_unit_test(test_a_name_is_the_present_one),
        cmocka_unit_test(test_cgroups_come_and_go),
        cmocka_unit_test(test_shedding_goes_with_it),
        cmocka_unit_test(test_waits_of_whom_it_leaves_out),
        cmocka_unit_test(test_waits_of_whom_it_leaves_out_without_samples),
        cmocka_unit_test(test_waits_at_a_lower_rate),
        cmocka_unit_test(test_waits_at_a_higher_rate),
        cmocka_unit_test(test_waits_of_others),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
