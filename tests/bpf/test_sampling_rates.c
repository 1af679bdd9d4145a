/* Whether random sampling, with the kernel's own random numbers, meets the requested rates of CPU samples and of
 * waits. Bounds are six standard deviations. bpf/sampling_rule and bpf/offcpu assert exactly, under a seed, which rule
 * samples what. */
#include "subjects.h"
#include "watch.h"

#include "sources/cpu/cpu.h"
#include "sources/offcpu/offcpu.h"
#include "sources/sampling/sampling_rule_table.h"

#include "probes/offcpu.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include <cmocka.h>

#include <math.h>
#include <string.h>

#define NS_PER_SECOND 1000000000ULL

/* ---- CPU samples ---- */

struct tally {
    struct {
        pid_t pid;
        uint64_t samples, weight_ns, hz;
    } process[3];
    size_t count;
};

static bool add_sample(const struct record_header *header, void *context)
{
    const struct stack_record *s = (const struct stack_record *)header;
    struct tally *tally = context;

    for (size_t i = 0; i < tally->count; i++)
        if (header->pid == (uint32_t)tally->process[i].pid) {
            assert_int_equal(s->sample.value, NS_PER_SECOND / tally->process[i].hz);
            tally->process[i].samples++;
            tally->process[i].weight_ns += s->sample.value;
            return true;
        }
    return false;
}

static struct watch watch_sampling_rules(const char *text, uint32_t others_hz)
{
    struct watch_options options = watch_defaults;
    struct sampling_rules rules;
    const char *bad;
    size_t bad_bytes;

    assert_int_equal(sampling_rules_parse(text, &rules, &bad, &bad_bytes), 0);
    options.rules = &rules;
    options.sample_hz = others_hz;
    return watch_begin(&source_cpu, &options);
}

static struct sampling_rule_stats rule_stats(const struct watch *w, uint32_t number)
{
    return sampling_rule_table_stats(shared_tables_sampling_rules(w->tables), number);
}

static bool is_near(double value, double expected, double sigma)
{
    return fabs(value - expected) <= 6 * sigma + 1;
}

/* Until then it has our name. */
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

/* By name and by PID: one at the clock's rate, one at a fifth of it, one never. */
static void test_samples_match_the_rule_rates(void **state)
{
    pid_t often = burner_start("often"), seldom = burner_start("seldom"), never = burner_start("never");
    struct tally tally = {.count = 3,
                          .process = {{.pid = often, .hz = 500}, {.pid = seldom, .hz = 100}, {.pid = never, .hz = 1}}};
    char text[128];
    struct watch w;

    (void)state;
    wait_for_name(often, "often");
    wait_for_name(seldom, "seldom");
    wait_for_name(never, "never");
    snprintf(text, sizeof(text), "command=never:0, pid=%d:100, command=often:500, command=seldom:1", seldom);
    w = watch_sampling_rules(text, 1);
    watch_until(&w, 300, add_sample, &tally);
    burner_kill(often);
    burner_kill(seldom);
    burner_kill(never);
    usleep(20000);
    assert_int_equal(w.source->drain(w.self, w.batch), 0);
    for (size_t i = 0; i < batch_count(w.batch); i++)
        add_sample(batch_get(w.batch, i), &tally);

    const struct sampling_rule_stats of_never = rule_stats(&w, 0), of_seldom = rule_stats(&w, 1),
                                     of_often = rule_stats(&w, 2), dead = rule_stats(&w, 3);
    assert_int_equal(tally.process[2].samples, 0);
    assert_int_equal(of_never.samples, 0);
    assert_true(of_never.ticks > 0);
    /* Exactly as many as were selected. */
    assert_int_equal(tally.process[0].samples, of_often.samples);
    assert_int_equal(tally.process[1].samples, of_seldom.samples);
    assert_int_equal(of_often.samples, of_often.ticks);
    assert_int_equal(dead.ticks, 0); /* an earlier rule matches it */
    /* As often as requested, and so the time that the ticks represent. */
    assert_true(
        is_near((double)of_seldom.samples, (double)of_seldom.ticks / 5, sqrt((double)of_seldom.ticks * 0.2 * 0.8)));
    assert_int_equal(tally.process[0].weight_ns, of_often.ticks * (NS_PER_SECOND / 500));
    watch_end(&w);
}

/* ---- waits ---- */

#define NAP_US    2000
#define SAMPLE_NS 1000000

struct recorded_waits {
    pid_t pid;
    uint64_t of_ns; /* shorter waits are sampled at random, each with this value */
    size_t records;
    uint64_t weight_ns, sampled;
};

static bool take_wait(const struct record_header *header, void *context)
{
    const struct off_cpu_wait *wait = (const struct off_cpu_wait *)header;
    struct recorded_waits *waits = context;

    if (header->kind != RECORD_OFF_CPU || header->pid != (uint32_t)waits->pid)
        return false;
    const uint64_t length_ns = header->time_ns - wait->start_ns;
    assert_int_equal(wait->weight_ns, length_ns < waits->of_ns ? waits->of_ns : length_ns);
    assert_in_range(wait->count, wait->weight_ns / length_ns, wait->weight_ns / length_ns + 1);
    waits->sampled += length_ns < waits->of_ns;
    waits->weight_ns += wait->weight_ns;
    waits->records++;
    return true;
}

static void nap_forever(int ready)
{
    if (write(ready, "", 1) == 1)
        for (;;)
            usleep(NAP_US);
}

static struct off_cpu_totals watch_waits(const char *entry, struct recorded_waits *waits, size_t enough)
{
    struct watch_options options = watch_defaults;
    struct sampling_rules rules;
    char text[64];
    const char *bad;
    size_t bad_bytes;

    waits->pid = watch_child(nap_forever);
    options.filter.pids[0] = (uint32_t)waits->pid;
    options.filter.pid_count = 1;
    options.sample_hz = 100;
    options.off_cpu.sample_wait_ns = SAMPLE_NS;
    snprintf(text, sizeof(text), entry, waits->pid);
    assert_int_equal(sampling_rules_parse(text, &rules, &bad, &bad_bytes), 0);
    options.rules = &rules;
    struct watch w = watch_begin(&source_off_cpu, &options);
    watch_until(&w, enough, take_wait, waits);
    assert_int_equal(w.source->stop(w.self), 0);
    assert_int_equal(w.source->drain(w.self, w.batch), 0);
    for (size_t i = 0; i < batch_count(w.batch); i++)
        take_wait(batch_get(w.batch, i), waits);
    batch_clear(w.batch);
    const struct off_cpu_totals stats = off_cpu_source_stats(w.self);
    burner_kill(waits->pid);
    watch_end(&w);
    return stats;
}

/* At a fifth of the rate fewer waits are recorded, each with five times the value: the sum equals that of all waits. A
 * wait of length L is recorded with probability L / of_ns and the value of_ns: the variance of the total is at most
 * of_ns times the sum. */
static void test_waits_match_a_lower_rate(void **state)
{
    struct recorded_waits waits = {.of_ns = 5 * SAMPLE_NS};
    const struct off_cpu_totals stats = watch_waits("pid=%d:20", &waits, 200);
    const double true_ns = (double)(stats.recorded_ns + stats.left_out_ns);

    (void)state;
    assert_int_equal(stats.recorded, waits.records);
    assert_true(waits.sampled > 0 && stats.left_out > 0);
    assert_true(is_near((double)waits.weight_ns, true_ns, sqrt((double)waits.of_ns * true_ns)));
}

/* ---- the number of waits ---- */

#define STANDS_FOR_NS (8ULL * 1000 * NAP_US)

struct sums {
    uint64_t waits, waits_ns;
};

static bool add_wait(const struct record_header *header, void *context)
{
    const struct off_cpu_wait *wait = (const struct off_cpu_wait *)header;
    struct sums *sums = context;

    if (header->kind != RECORD_OFF_CPU)
        return false;
    sums->waits_ns += wait->weight_ns;
    if (!(wait->flags & OFF_CPU_PREEMPTED)) /* a few, so short that one of them represents thousands */
        sums->waits += wait->count;
    return true;
}

/* Recorded waits represent those left out, in time and in number: of 200, within seven standard deviations. */
static void test_sampled_waits_estimate_time_and_count(void **state)
{
    struct watch_options options = watch_defaults;
    struct sums sums = {0};
    const pid_t pid = watch_child(nap_forever);

    (void)state;
    options.filter.pids[0] = (uint32_t)pid;
    options.filter.pid_count = 1;
    options.off_cpu.sample_wait_ns = STANDS_FOR_NS;
    struct watch w = watch_begin(&source_off_cpu, &options);
    watch_until(&w, 200, add_wait, &sums);
    assert_int_equal(w.source->stop(w.self), 0);
    assert_int_equal(w.source->drain(w.self, w.batch), 0);
    for (size_t i = 0; i < batch_count(w.batch); i++)
        add_wait(batch_get(w.batch, i), &sums);
    batch_clear(w.batch);
    const struct off_cpu_totals stats = off_cpu_source_stats(w.self);
    const double true_ns = (double)(stats.recorded_ns + stats.left_out_ns),
                 true_count = (double)(stats.recorded + stats.left_out);
    print_message("%.3f of the time, %.3f of the waits\n", (double)sums.waits_ns / true_ns,
                  (double)sums.waits / true_count);
    assert_true(stats.left_out > 0);
    assert_in_range((double)sums.waits_ns / true_ns * 1000, 500, 1500);
    assert_in_range((double)sums.waits / true_count * 1000, 500, 1500);
    burner_kill(pid);
    watch_end(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_samples_match_the_rule_rates),
        cmocka_unit_test(test_waits_match_a_lower_rate),
        cmocka_unit_test(test_sampled_waits_estimate_time_and_count),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
