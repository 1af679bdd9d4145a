/* Reclaim and compaction against the kernel's own counters. A child reads a block device that is larger than the limit
 * of its cgroup, so that it frees a page for nearly each that it reads. */
#include "../cgroups.h"
#include "../io/loop_device.h"
#include "../watch.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "sources/reclaim/reclaim.h"
#include "sources/recorder/recorder.h"
#include "sources/sampling/cgroup_memory.h"
#include "sources/tables/flight_recorder.h"

#include "probes/reclaim.h"
#include "probes/recorder/recorder.h"

#include <bpf/libbpf.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define LIMIT_BYTES (6u << 20)
#define SLACK_PAGES 256 /* of slabs, and of the program itself */

static const struct reclaim_options options = {.enabled = true, .threshold_ns = 200000};

static char cgroup_path[256], label[64];
static struct loop_device loop;
static uint64_t test_cgroup;
static bool is_v2;

/* ---- the cgroup and its file ---- */

static bool write_text(const char *directory, const char *name, const char *text)
{
    char path[320];
    snprintf(path, sizeof(path), "%s%s%s", directory, name[0] ? "/" : "", name);
    const int fd = open(path, O_WRONLY | O_CLOEXEC);
    const bool is_written = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
    if (fd >= 0)
        close(fd);
    return is_written;
}

/* -1: there is no such key. */
static double find_number(const char *directory, const char *name, const char *key)
{
    _cleanup_buf_ struct buf text = {0};
    char path[320];
    snprintf(path, sizeof(path), "%s/%s", directory, name);
    assert_int_equal(buf_read_file(&text, path, 1u << 20), 0);
    const size_t bytes = strlen(key);
    for (const char *line = text.data; line && *line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL)
        if (strncmp(line, key, bytes) == 0 && (!bytes || line[bytes] == ' '))
            return (double)strtoull(line + bytes, NULL, 10);
    return -1;
}

static double read_number(const char *directory, const char *name, const char *key)
{
    const double found = find_number(directory, name, key);
    if (found < 0)
        fail_msg("%s/%s has no %s", directory, name, key);
    return found;
}

static int make_cgroup(void **state)
{
    (void)state;
    snprintf(label, sizeof(label), "/sonde-reclaim-%d", getpid());
    test_cgroup = cgroup_make_limited(label, LIMIT_BYTES, cgroup_path, &is_v2);
    if (!test_cgroup)
        cgroup_path[0] = '\0';
    return 0;
}

static int remove_all(void **state)
{
    (void)state;
    if (loop.folder[0])
        loop_end(&loop);
    loop.folder[0] = '\0';
    if (cgroup_path[0])
        cgroup_remove(cgroup_path);
    return 0;
}

static bool is_possible(void)
{
    if (!cgroup_path[0])
        print_message("skipped: no memory controller here\n");
    else
        loop = loop_begin(2 * LOOP_IMAGE_BYTES);
    return cgroup_path[0];
}

static void read_whole_device(void)
{
    static char buffer[65536];
    for (off_t at = 0; at < LOOP_IMAGE_BYTES; at += (off_t)sizeof(buffer))
        if (pread(loop.buffered, buffer, sizeof(buffer), at) != (ssize_t)sizeof(buffer))
            _exit(2);
}

/* ---- metrics ---- */

/* The value of the point with these labels; -1: no point has them. */
static double value_of(const struct watch *w, const char *name, const char *cgroup, const char *kind)
{
    _cleanup_(metric_set_freep) struct metric_set *set = NULL;
    double found = -1;
    assert_int_equal(metric_set_new(&set), 0);
    w->source->metrics(w->self, set);
    for (size_t i = 0; i < metric_set_families(set); i++) {
        const struct metric_family f = metric_set_family(set, i);
        for (size_t p = 0; strcmp(f.name, name) == 0 && p < f.point_count; p++) {
            const struct metric_point *point = &f.points[p];
            size_t same = 0;
            for (size_t l = 0; l < point->label_count; l++)
                same += strcmp(point->labels[l].value, cgroup) == 0 || strcmp(point->labels[l].value, kind) == 0;
            if (same == point->label_count)
                found = point->value;
        }
    }
    return found;
}

/* Of all cgroups. */
static double sum_of(const struct watch *w, const char *name, const char *kind)
{
    _cleanup_(metric_set_freep) struct metric_set *set = NULL;
    double sum = 0;
    assert_int_equal(metric_set_new(&set), 0);
    w->source->metrics(w->self, set);
    for (size_t i = 0; i < metric_set_families(set); i++) {
        const struct metric_family f = metric_set_family(set, i);
        for (size_t p = 0; strcmp(f.name, name) == 0 && p < f.point_count; p++)
            sum += strcmp(f.points[p].labels[1].value, kind) == 0 ? f.points[p].value : 0;
    }
    return sum;
}

/* ---- tests ---- */

struct seen {
    uint64_t longest_ns, ns;
};

static bool is_of_cgroup(const struct record_header *header, void *context)
{
    const struct reclaim_record *r = (const struct reclaim_record *)header;
    struct seen *seen = context;
    if (header->kind != RECORD_RECLAIM || r->cgroup_id != test_cgroup)
        return false;
    assert_int_equal(r->kind, RECLAIM_LIMIT);
    assert_true(r->ns >= options.threshold_ns);
    assert_true(r->interval_ns >= r->ns);
    assert_true(r->interval_ns <= seen->longest_ns);
    seen->ns += r->ns;
    return true;
}

/* The caller frees them. */
static struct shared_tables *tables_with_recorder(void)
{
    static const struct task_filter everything;
    const uint64_t bytes = (uint64_t)libbpf_num_possible_cpus() * 2 * 16384 * sizeof(struct recorder_record);
    const struct shared_tables_options wanted = {.filter = &everything, .recorder_bytes = bytes};
    struct shared_tables *tables = NULL;
    assert_int_equal(shared_tables_new(&wanted, &tables), 0);
    flight_recorder_enable(shared_tables_recorder(tables), true);
    return tables;
}

/* The sum of the flight recorder's, of one kind. */
static uint64_t recorded_ns(struct flight_recorder *fr, uint64_t since_ns, enum reclaim_kind kind)
{
    struct flight_window window;
    uint64_t sum = 0;
    assert_int_equal(flight_recorder_window(fr, since_ns, UINT64_MAX, SIZE_MAX, &window), 0);
    for (size_t i = 0; i < window.count; i++) {
        const struct recorder_record *r = &window.records[i];
        if (r->kind != RECORDER_RECLAIM || r->object != test_cgroup || r->flags != kind)
            continue;
        assert_true(r->value >= RECLAIM_RECORDER_NS);
        sum += r->value;
    }
    flight_recorder_window_free(&window);
    return sum;
}

/* Pages that are read again after they were freed are freed twice. */
static double refaults(void)
{
    return read_number(cgroup_path, "memory.stat", is_v2 ? "workingset_refault_file" : "total_workingset_refault_file");
}

static void test_reclaim_at_a_limit_is_that_of_the_kernel(void **state)
{
    struct watch_options watched = watch_defaults;
    (void)state;
    if (!is_possible())
        return;
    watched.settings = &options;
    struct watch w = watch_begin(&source_reclaim, &watched);
    const uint64_t start_ns = clock_monotonic_ns();
    cgroup_run(cgroup_path, read_whole_device);
    const double elapsed = (double)(clock_monotonic_ns() - start_ns) / 1e9,
                 freed = value_of(&w, "sonde_reclaim_freed_bytes", label, "limit") / getpagesize(),
                 runs = value_of(&w, "sonde_reclaim_runs", label, "limit"),
                 seconds = value_of(&w, "sonde_reclaim_seconds", label, "limit"), again = refaults(),
                 pages = (double)LOOP_IMAGE_BYTES / getpagesize();
    const double cached = read_number(cgroup_path, "memory.stat", is_v2 ? "file" : "total_cache") / getpagesize();
    print_message("%.0f runs freed %.0f pages in %.4f s of %.4f s; %.0f read again, %.0f stay\n", runs, freed, seconds,
                  elapsed, again, cached);
    assert_true(freed >= pages + again - cached - SLACK_PAGES);
    assert_true(freed <= pages + again - cached + SLACK_PAGES);
    assert_true(seconds > 0);
    assert_true(seconds <= elapsed);
    if (is_v2) {
        const double direct = find_number(cgroup_path, "memory.stat", "pgsteal_direct"); /* since 5.18 */
        if (direct >= 0)
            assert_true(freed == direct);
        else /* kswapd's are among them, if the node is short of memory, too */
            assert_true(freed <= read_number(cgroup_path, "memory.stat", "pgsteal"));
        assert_true(runs == read_number(cgroup_path, "memory.events", "max"));
    } else {
        assert_true(runs > 0);
        assert_true(runs <= read_number(cgroup_path, "memory.failcnt", ""));
    }

    /* What the kernel counts itself. */
    assert_true(value_of(&w, "sonde_reclaim_page_faults", label, "") ==
                read_number(cgroup_path, "memory.stat", is_v2 ? "pgfault" : "total_pgfault"));
    assert_true(value_of(&w, "sonde_reclaim_refaults", label, "file") == again);
    watch_end(&w);
}

static void fill_and_empty_cgroup(void)
{
    read_whole_device();
    (void)write_text(cgroup_path, is_v2 ? "memory.high" : "memory.force_empty", is_v2 ? "1M" : "0");
}

static void test_a_long_reclaim_has_a_record(void **state)
{
    struct watch_options watched = watch_defaults;
    (void)state;
    if (!is_possible())
        return;
    watched.tables = tables_with_recorder();
    watched.settings = &options;
    struct watch w = watch_begin(&source_reclaim, &watched);
    const uint64_t start_ns = clock_monotonic_ns();
    cgroup_run(cgroup_path, fill_and_empty_cgroup);
    struct seen seen = {.longest_ns = clock_monotonic_ns() - start_ns};
    watch_until(&w, 1, is_of_cgroup, &seen);
    const double seconds = value_of(&w, "sonde_reclaim_seconds", label, "limit"),
                 recorded = (double)recorded_ns(shared_tables_recorder(watched.tables), start_ns, RECLAIM_LIMIT) / 1e9;
    assert_true(recorded > 0);
    assert_true(recorded <= seconds);
    assert_true((double)seen.ns / 1e9 <= seconds);
    watch_end(&w);
    shared_tables_free(watched.tables);
}

/* A write to compact_memory compacts each zone, in the writer. */
static void test_compaction_is_counted_for_its_thread(void **state)
{
    struct watch_options watched = watch_defaults;
    (void)state;
    if (access("/proc/sys/vm/compact_memory", W_OK) < 0) {
        print_message("skipped: this kernel does not compact memory on demand\n");
        return;
    }
    watched.settings = &options;
    struct watch w = watch_begin(&source_reclaim, &watched);
    const double before = sum_of(&w, "sonde_reclaim_runs", "compaction");
    assert_true(write_text("/proc/sys/vm/compact_memory", "", "1"));
    assert_true(sum_of(&w, "sonde_reclaim_runs", "compaction") > before);
    assert_true(sum_of(&w, "sonde_reclaim_seconds", "compaction") > 0);
    watch_end(&w);
}

static void reclaim_and_compact_by_turns(void)
{
    static char buffer[65536];
    for (off_t at = 0; at < LOOP_IMAGE_BYTES; at += (off_t)sizeof(buffer)) {
        if (pread(loop.buffered, buffer, sizeof(buffer), at) != (ssize_t)sizeof(buffer))
            _exit(2);
        if (at % (LOOP_IMAGE_BYTES / 16) == 0)
            (void)write_text("/proc/sys/vm/compact_memory", "", "1");
    }
}

static void test_each_kind_is_added_up_by_itself(void **state)
{
    struct watch_options watched = watch_defaults;
    (void)state;
    if (!is_possible() || access("/proc/sys/vm/compact_memory", W_OK) < 0) {
        print_message("skipped: this kernel does not compact memory on demand\n");
        return;
    }
    watched.tables = tables_with_recorder();
    watched.settings = &options;
    struct watch w = watch_begin(&source_reclaim, &watched);
    const uint64_t start_ns = clock_monotonic_ns();
    cgroup_run(cgroup_path, reclaim_and_compact_by_turns);
    struct flight_recorder *fr = shared_tables_recorder(watched.tables);
    const double reclaim = value_of(&w, "sonde_reclaim_seconds", label, "limit"),
                 compaction = value_of(&w, "sonde_reclaim_seconds", label, "compaction"),
                 recorded_reclaim = (double)recorded_ns(fr, start_ns, RECLAIM_LIMIT) / 1e9,
                 recorded_compaction = (double)recorded_ns(fr, start_ns, RECLAIM_COMPACTION) / 1e9;
    print_message("reclaim: %.6f s of %.6f s recorded, compaction: %.6f s of %.6f s\n", recorded_reclaim, reclaim,
                  recorded_compaction, compaction);
    assert_true(compaction > 0);
    assert_true(recorded_reclaim <= reclaim);
    assert_true(recorded_compaction <= compaction);
    watch_end(&w);
    shared_tables_free(watched.tables);
}

/* Since Linux 6.17, a write reclaims from a node of NUMA, in the writer. */
static void test_reclaim_of_a_node_is_that_of_the_kernel(void **state)
{
    static const char node[] = "/sys/devices/system/node/node0";
    struct watch_options watched = watch_defaults;
    char path[96];
    (void)state;
    snprintf(path, sizeof(path), "%s/reclaim", node);
    if (!is_possible() || access(path, W_OK) < 0) {
        print_message("skipped: this kernel does not reclaim from a node on demand\n");
        return;
    }
    read_whole_device();
    watched.settings = &options;
    struct watch w = watch_begin(&source_reclaim, &watched);
    const double before = read_number("/proc", "vmstat", "pgsteal_proactive");
    (void)write_text(node, "reclaim", "4M"); /* -EAGAIN: it frees less */
    const double freed = sum_of(&w, "sonde_reclaim_freed_bytes", "node") / getpagesize();
    const double stolen = read_number("/proc", "vmstat", "pgsteal_proactive") - before;
    print_message("freed %.0f pages, the kernel counts %.0f\n", freed, stolen);
    assert_true(freed > 0);
    assert_true(freed >= stolen); /* it counts pages of slabs, too */
    watch_end(&w);
}

/* The text names the lowest limit, also if a parent of the cgroup has it. */
static void test_a_cgroup_is_named_with_its_limit(void **state)
{
    char limit[CGROUP_MEMORY_LIMIT_BYTES], below[320], path[128];
    _cleanup_close_ int fd = cgroup_memory_open();
    (void)state;
    if (!is_possible())
        return;
    assert_true(fd >= 0);
    snprintf(below, sizeof(below), "%s/below", cgroup_path);
    snprintf(path, sizeof(path), "%s/below", label);
    assert_true(cgroup_make(below));
    const char *expected = is_v2 ? "memory.max 6.00 MiB" : "memory.limit_in_bytes 6.00 MiB";
    assert_string_equal(cgroup_memory_limit(fd, label, limit), expected);
    assert_string_equal(cgroup_memory_limit(fd, path, limit), expected);
    assert_string_equal(cgroup_memory_limit(fd, "/", limit), "");
    assert_string_equal(cgroup_memory_limit(fd, "/sonde-no-such-cgroup", limit), "");
    cgroup_remove(below);
}

/* Without swap, memory.high cannot be met: the kernel throttles the threads of the cgroup. */
static void exceed_memory_high(void)
{
    static volatile char memory[8u << 20];
    (void)write_text(cgroup_path, "memory.high", "1M");
    for (size_t i = 0; i < sizeof(memory); i += 4096)
        memory[i] = 1;
}

static void test_a_throttled_thread_is_stalled_for_memory(void **state)
{
    struct watch_options watched = watch_defaults;
    struct flight_window window;
    size_t stalls = 0;
    (void)state;
    if (!is_possible() || !is_v2 || access("/proc/pressure/memory", R_OK) < 0) {
        print_message("skipped: no memory.high, or no PSI here\n");
        return;
    }
    assert_true(write_text(cgroup_path, "memory.max", "32M"));
    watched.tables = tables_with_recorder();
    struct watch w = watch_begin(&source_recorder, &watched);
    const uint64_t start_ns = clock_monotonic_ns();
    cgroup_run(cgroup_path, exceed_memory_high);
    assert_int_equal(
        flight_recorder_window(shared_tables_recorder(watched.tables), start_ns, UINT64_MAX, SIZE_MAX, &window), 0);
    for (size_t i = 0; i < window.count; i++) {
        const struct recorder_record *r = &window.records[i];
        stalls += r->kind == RECORDER_SWITCH && r->flags == (RECORDER_MEMSTALL | RECORDER_UNINTERRUPTIBLE);
    }
    print_message("%zu stalls\n", stalls);
    assert_true(stalls > 0);
    flight_recorder_window_free(&window);
    watch_end(&w);
    shared_tables_free(watched.tables);
}

static void test_nothing_is_counted_before_the_start(void **state)
{
    struct watch_options watched = watch_defaults;
    (void)state;
    if (!is_possible())
        return;
    watched.settings = &options;
    struct watch w = watch_begin(&source_reclaim, &watched);
    assert_int_equal(w.source->stop(w.self), 0);
    cgroup_run(cgroup_path, read_whole_device);
    assert_true(value_of(&w, "sonde_reclaim_runs", label, "limit") == -1);
    watch_end(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_nothing_is_counted_before_the_start, make_cgroup, remove_all),
        cmocka_unit_test_setup_teardown(test_reclaim_at_a_limit_is_that_of_the_kernel, make_cgroup, remove_all),
        cmocka_unit_test_setup_teardown(test_a_long_reclaim_has_a_record, make_cgroup, remove_all),
        cmocka_unit_test_setup_teardown(test_compaction_is_counted_for_its_thread, make_cgroup, remove_all),
        cmocka_unit_test_setup_teardown(test_each_kind_is_added_up_by_itself, make_cgroup, remove_all),
        cmocka_unit_test_setup_teardown(test_reclaim_of_a_node_is_that_of_the_kernel, make_cgroup, remove_all),
        cmocka_unit_test_setup_teardown(test_a_throttled_thread_is_stalled_for_memory, make_cgroup, remove_all),
        cmocka_unit_test_setup_teardown(test_a_cgroup_is_named_with_its_limit, make_cgroup, remove_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
