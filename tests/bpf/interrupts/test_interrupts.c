/* Interrupts and softirqs against the kernel's own counters in /proc; and one that a socket filter makes long. */
#include "../watch.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "sources/interrupts/interrupts.h"
#include "sources/tables/flight_recorder.h"

#include "probes/interrupts.h"
#include "probes/recorder/recorder.h"
#include "slow_softirq.skel.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <netinet/in.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#define PROC_BYTES (4u << 20)
#define PACKETS    200
#define SPIN_NS    3000000ull
#define NET_RX     3

static const struct interrupts_options options = {.enabled = true, .threshold_ns = 1000000};

/* ---- counters ---- */

struct counted {
    double count, seconds, long_ones; /* long_ones: of a softirq, of more than a millisecond */
};

static void add_point(const struct metric_family *f, const struct metric_point *p, struct counted *sum)
{
    if (f->type == METRIC_HISTOGRAM) {
        sum->seconds += p->value;
        for (size_t i = 0; i <= p->bound_count; i++) {
            sum->count += (double)p->counts[i];
            sum->long_ones += i > 0 && p->bounds[i - 1] >= 0.001 ? (double)p->counts[i] : 0;
        }
    } else if (strcmp(f->name, "sonde_interrupts_handled") == 0) {
        sum->count += p->value;
    } else {
        sum->seconds += p->value;
    }
}

/* Of the points with this label. */
static struct counted counted(const struct watch *w, const char *label, const char *value)
{
    _cleanup_(metric_set_freep) struct metric_set *set = NULL;
    struct counted sum = {0};
    assert_int_equal(metric_set_new(&set), 0);
    w->source->metrics(w->self, set);
    for (size_t i = 0; i < metric_set_families(set); i++) {
        const struct metric_family f = metric_set_family(set, i);
        for (size_t p = 0; p < f.point_count; p++)
            for (size_t l = 0; l < f.points[p].label_count; l++)
                if (strcmp(f.points[p].labels[l].name, label) == 0 && strcmp(f.points[p].labels[l].value, value) == 0)
                    add_point(&f, &f.points[p], &sum);
    }
    return sum;
}

/* The sum over CPUs in the line of /proc/softirqs or /proc/interrupts that begins with `name`; -1: no line does. */
static double kernel_count(const char *path, const char *name)
{
    _cleanup_buf_ struct buf text = {0};
    const size_t length = strlen(name);
    double sum = -1;
    assert_int_equal(buf_read_file(&text, path, PROC_BYTES), 0);
    for (char *line = text.data; line && *line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
        const char *at = line + strspn(line, " ");
        char *end;
        if (strncmp(at, name, length) != 0 || at[length] != ':')
            continue;
        sum = 0;
        for (at += length + 1;; at = end) {
            const double count = strtod(at, &end);
            if (end == at || (*end != ' ' && *end != '\n'))
                break;
            sum += count;
        }
    }
    return sum;
}

static void expect_equal_counts(const struct watch *w, const char *path, const char *label, const char *name,
                                void (*work)(void))
{
    const double cpus = libbpf_num_possible_cpus(); /* each may be in one, which only the kernel has counted yet */
    const double early = kernel_count(path, name), before = counted(w, label, name).count,
                 late = kernel_count(path, name);
    work();
    const double early_after = kernel_count(path, name), after = counted(w, label, name).count,
                 late_after = kernel_count(path, name);
    if (early < 0) {
        print_message("skipped: this machine has no %s\n", name);
        return;
    }
    if (after - before < early_after - late - cpus || after - before > late_after - early + cpus)
        fail_msg("%s: %.0f, the kernel counts %.0f to %.0f", name, after - before, early_after - late,
                 late_after - early);
    assert_true(after > before);
}

/* ---- packets ---- */

static int receiver_of_packets(int filter_fd)
{
    const struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (const struct sockaddr *)&any, sizeof(any)), 0);
    if (filter_fd >= 0)
        assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_ATTACH_BPF, &filter_fd, sizeof(filter_fd)), 0);
    return fd;
}

static void send_packets(int to, size_t count)
{
    struct sockaddr_in address;
    socklen_t size = sizeof(address);
    const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    assert_int_equal(getsockname(to, (struct sockaddr *)&address, &size), 0);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(sendto(fd, "x", 1, 0, (const struct sockaddr *)&address, size), 1);
    close(fd);
}

static void exchange_packets(void)
{
    const int receiver = receiver_of_packets(-1);
    send_packets(receiver, PACKETS);
    close(receiver);
}

static void sleep_often(void)
{
    for (int i = 0; i < 100; i++)
        usleep(1000);
}

/* ---- tests ---- */

static void test_counts_are_those_of_the_kernel(void **state)
{
    struct watch_options watched = watch_defaults;
    (void)state;
    watched.settings = &options;
    struct watch w = watch_begin(&source_interrupts, &watched);
    expect_equal_counts(&w, "/proc/softirqs", "softirq", "NET_RX", exchange_packets);
    expect_equal_counts(&w, "/proc/softirqs", "softirq", "TIMER", sleep_often);
    expect_equal_counts(&w, "/proc/interrupts", "irq", "LOC", sleep_often);
    watch_end(&w);
}

static void read_lines(double counts[INTERRUPTS_LINES])
{
    char name[16];
    for (int i = 0; i < INTERRUPTS_LINES; i++) {
        snprintf(name, sizeof(name), "%d", i);
        counts[i] = kernel_count("/proc/interrupts", name);
    }
}

/* Every interrupt line that counts. Handlers that share a line count each. */
static void test_lines_are_those_of_the_kernel(void **state)
{
    static double before[INTERRUPTS_LINES], since[INTERRUPTS_LINES], until[INTERRUPTS_LINES], after[INTERRUPTS_LINES];
    static struct counted own[INTERRUPTS_LINES];
    struct watch_options watched = watch_defaults;
    const double cpus = libbpf_num_possible_cpus();
    double lines = 0;
    char name[16];
    (void)state;
    watched.settings = &options;
    read_lines(before);
    struct watch w = watch_begin(&source_interrupts, &watched);
    read_lines(since);
    sleep_often();
    sync();
    read_lines(until);
    for (int i = 0; i < INTERRUPTS_LINES; i++) {
        snprintf(name, sizeof(name), "%d", i);
        own[i] = counted(&w, "irq", name);
    }
    read_lines(after);
    for (int i = 0; i < INTERRUPTS_LINES; i++) {
        if (own[i].count == 0)
            continue;
        lines++;
        assert_true(own[i].count >= until[i] - since[i] - cpus);
        assert_true(own[i].count <= after[i] - before[i] + cpus);
        assert_true(own[i].seconds > 0);
    }
    print_message("%.0f lines\n", lines);
    watch_end(&w);
}

struct seen {
    unsigned cpu;
    uint64_t longest_send_ns; /* a softirq that interrupts it took less */
};

static bool is_long_receive(const struct record_header *header, void *context)
{
    const struct interrupt_record *r = (const struct interrupt_record *)header;
    struct seen *seen = context;
    if (header->kind != RECORD_INTERRUPT || r->number != NET_RX || r->cpu != seen->cpu || r->duration_ns < SPIN_NS)
        return false;
    if (header->tid == (uint32_t)gettid())
        assert_true(r->duration_ns < seen->longest_send_ns);
    else
        assert_true(strncmp(r->comm, "ksoftirqd", 9) == 0);
    return true;
}

static struct slow_softirq_bpf *load_slow_filter(void)
{
    struct slow_softirq_bpf *bpf = slow_softirq_bpf__open();
    const uint32_t zero = 0;
    assert_non_null(bpf);
    bpf->rodata->spin_ns = SPIN_NS;
    assert_int_equal(slow_softirq_bpf__load(bpf), 0);
    const int fd = bpf_program__fd(bpf->progs.slow);
    assert_int_equal(bpf_map_update_elem(bpf_map__fd(bpf->maps.itself), &zero, &fd, BPF_ANY), 0);
    return bpf;
}

/* The flight recorder has those that interrupted this thread. */
static size_t count_recorded(struct flight_recorder *fr, uint64_t since_ns, const struct seen *seen)
{
    struct flight_window window;
    size_t found = 0;
    assert_int_equal(flight_recorder_window(fr, since_ns, UINT64_MAX, SIZE_MAX, &window), 0);
    for (size_t i = 0; i < window.count; i++) {
        const struct recorder_record *r = &window.records[i];
        found +=
            r->kind == RECORDER_INTERRUPT && r->object == ((uint64_t)seen->cpu << 32 | NET_RX) && r->value >= SPIN_NS;
    }
    flight_recorder_window_free(&window);
    return found;
}

static void test_a_long_softirq_has_a_record(void **state)
{
    static const struct task_filter everything;
    const uint64_t bytes = (uint64_t)libbpf_num_possible_cpus() * 2 * 1024 * sizeof(struct recorder_record);
    const struct shared_tables_options wanted = {.filter = &everything, .recorder_bytes = bytes};
    struct watch_options watched = watch_defaults;
    struct seen seen = {.cpu = (unsigned)sched_getcpu()};
    cpu_set_t set;
    (void)state;
    CPU_ZERO(&set);
    CPU_SET(seen.cpu, &set);
    assert_int_equal(sched_setaffinity(0, sizeof(set), &set), 0);
    assert_int_equal(shared_tables_new(&wanted, &watched.tables), 0);
    flight_recorder_enable(shared_tables_recorder(watched.tables), true);
    watched.settings = &options;
    struct slow_softirq_bpf *slow = load_slow_filter();
    const int receiver = receiver_of_packets(bpf_program__fd(slow->progs.slow));
    struct watch w = watch_begin(&source_interrupts, &watched);
    const struct counted before = counted(&w, "softirq", "NET_RX");
    const uint64_t since_ns = clock_monotonic_ns();
    for (int i = 0; i < 3; i++) {
        const uint64_t start_ns = clock_monotonic_ns();
        send_packets(receiver, 1);
        const uint64_t ns = clock_monotonic_ns() - start_ns;
        seen.longest_send_ns = ns > seen.longest_send_ns ? ns : seen.longest_send_ns;
    }
    watch_until(&w, 3, is_long_receive, &seen);
    const struct counted after = counted(&w, "softirq", "NET_RX");
    assert_true(after.long_ones - before.long_ones >= 3);
    assert_true(after.seconds - before.seconds >= 3 * SPIN_NS / 1e9);
    assert_int_equal(count_recorded(shared_tables_recorder(watched.tables), since_ns, &seen), 3);
    close(receiver);
    slow_softirq_bpf__destroy(slow);
    watch_end(&w);
    shared_tables_free(watched.tables);
}

/* What begins while nothing is counted is not counted when it ends. */
static void test_nothing_is_counted_before_the_start(void **state)
{
    struct watch_options watched = watch_defaults;
    (void)state;
    watched.settings = &options;
    struct watch w = watch_begin(&source_interrupts, &watched);
    assert_int_equal(w.source->stop(w.self), 0);
    usleep(10000);
    const double before = counted(&w, "softirq", "NET_RX").count;
    exchange_packets();
    assert_true(counted(&w, "softirq", "NET_RX").count == before);
    assert_int_equal(w.source->start(w.self), 0);
    exchange_packets();
    assert_true(counted(&w, "softirq", "NET_RX").count >= before + 1);
    watch_end(&w);
}

/* The budget detaches the programs. */
static void test_shed_detaches(void **state)
{
    struct watch_options watched = watch_defaults;
    (void)state;
    watched.settings = &options;
    struct watch w = watch_begin(&source_interrupts, &watched);
    assert_true(w.source->is_enabled(w.self));
    assert_int_equal(w.source->shed(w.self, SOURCE_DETAIL_NO_OFF_CPU), 0);
    assert_false(w.source->is_enabled(w.self));
    const struct counted packets = counted(&w, "softirq", "NET_RX"), timers = counted(&w, "irq", "LOC");
    exchange_packets();
    sleep_often();
    assert_true(counted(&w, "softirq", "NET_RX").count == packets.count);
    assert_true(counted(&w, "irq", "LOC").count == timers.count);
    assert_int_equal(w.source->shed(w.self, SOURCE_DETAIL_FULL), 0);
    exchange_packets();
    assert_true(counted(&w, "softirq", "NET_RX").count > packets.count);
    watch_end(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_counts_are_those_of_the_kernel),
        cmocka_unit_test(test_lines_are_those_of_the_kernel),
        cmocka_unit_test(test_a_long_softirq_has_a_record),
        cmocka_unit_test(test_nothing_is_counted_before_the_start),
        cmocka_unit_test(test_shed_detaches),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
