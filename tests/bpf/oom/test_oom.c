/* Kills for memory against the kernel's own counters: children of a cgroup with a limit use more memory than that. */
#include "../cgroups.h"
#include "../watch.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "sources/oom/oom.h"

#include "probes/oom.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define LIMIT_BYTES     (16u << 20)
#define NEIGHBOUR_BYTES (3u << 20)
#define SLACK_BYTES     (2u << 20) /* of slabs and page tables */
#define KILLS           3

static const struct oom_options settings = {.enabled = true};
static char cgroup_path[256], label[64];
static uint64_t test_cgroup;
static bool is_v2;

static int make_cgroup(void **state)
{
    (void)state;
    snprintf(label, sizeof(label), "/sonde-oom-%d", getpid());
    test_cgroup = cgroup_make_limited(label, LIMIT_BYTES, cgroup_path, &is_v2);
    return 0;
}

static int remove_cgroup(void **state)
{
    (void)state;
    if (test_cgroup)
        cgroup_remove(cgroup_path);
    return 0;
}

static uint64_t read_kills(void)
{
    static const char key[] = "oom_kill ";
    _cleanup_buf_ struct buf text = {0};
    char path[320];
    snprintf(path, sizeof(path), "%s/%s", cgroup_path, is_v2 ? "memory.events" : "memory.oom_control");
    assert_int_equal(buf_read_file(&text, path, 4096), 0);
    const char *line = strstr(text.data, key);
    assert_non_null(line);
    return strtoull(line + strlen(key), NULL, 10);
}

static void fill_memory(size_t bytes)
{
    char *memory = malloc(bytes);
    if (!memory)
        _exit(1);
    memset(memory, 1, bytes);
    __asm__ volatile("" : : "r"(memory) : "memory");
}

static void grow(void)
{
    if (!cgroup_enter(cgroup_path, 0))
        _exit(1);
    prctl(PR_SET_NAME, "grows");
    for (;;)
        fill_memory(1 << 16);
}

static pid_t run_to_its_kill(void)
{
    int status = 0;
    const pid_t child = fork();
    if (child == 0)
        grow();
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    return child;
}

static void be_neighbour(int ready)
{
    if (!cgroup_enter(cgroup_path, 0))
        _exit(1);
    prctl(PR_SET_NAME, "neighbour");
    fill_memory(NEIGHBOUR_BYTES);
    (void)!write(ready, "", 1);
    for (;;)
        pause();
}

static void wait_for_signal(int ready)
{
    (void)!write(ready, "", 1);
    for (;;)
        pause();
}

struct search {
    pid_t killed[KILLS], otherwise;
    size_t found;
};

static bool check_record(const struct record_header *header, void *context)
{
    struct search *s = context;
    const struct oom_kill *r = (const struct oom_kill *)header;
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    assert_int_equal(header->kind, RECORD_OOM_KILL);
    assert_int_not_equal(header->pid, s->otherwise);
    if (s->found == KILLS || (pid_t)header->pid != s->killed[s->found])
        return false; /* of another test */
    s->found++;
    assert_int_equal(r->limit_cgroup_id, test_cgroup);
    assert_int_equal(r->limit_pages, LIMIT_BYTES / page);
    assert_in_range(r->memory.anonymous * page, LIMIT_BYTES - NEIGHBOUR_BYTES - 2 * SLACK_BYTES, LIMIT_BYTES);
    assert_int_equal(r->by_pid, header->pid);
    assert_string_equal(r->comm, "grows");
    assert_string_equal(r->by_comm, "grows");
    assert_int_equal(r->is_group, 0);
    return true;
}

static void test_each_kill_is_a_record_with_its_limit(void **state)
{
    struct watch_options options = watch_defaults;
    struct search s = {0};
    struct oom_process largest[2];
    (void)state;
    if (!test_cgroup) {
        print_message("skipped: no memory controller here\n");
        return;
    }
    options.settings = &settings;
    struct watch w = watch_begin(&source_oom, &options);
    const pid_t neighbour = watch_child(be_neighbour);
    s.otherwise = watch_child(wait_for_signal);
    assert_int_equal(kill(s.otherwise, SIGKILL), 0);
    for (size_t i = 0; i < KILLS; i++)
        s.killed[i] = run_to_its_kill();
    assert_int_equal(read_kills(), KILLS);
    watch_until(&w, KILLS, check_record, &s);

    assert_int_equal(oom_largest(w.self, test_cgroup, 0, largest, 2), 1);
    assert_int_equal(largest[0].pid, neighbour);
    assert_string_equal(largest[0].comm, "neighbour");
    assert_true(largest[0].memory.anonymous * (uint64_t)sysconf(_SC_PAGESIZE) >= NEIGHBOUR_BYTES / 2);
    assert_int_equal(oom_largest(w.self, test_cgroup, (uint32_t)neighbour, largest, 2), 0);
    assert_int_equal(oom_largest(w.self, 0, 0, largest, 2), 2);
    assert_true(oom_grown_pages(&largest[0].memory) >= oom_grown_pages(&largest[1].memory));
    assert_string_equal(oom_limit_name(w.self), is_v2 ? "memory.max" : "memory.limit_in_bytes");
    assert_string_equal(oom_cgroup_path(w.self, test_cgroup), label);
    kill(neighbour, SIGKILL);
    watch_end(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_each_kill_is_a_record_with_its_limit, make_cgroup, remove_cgroup)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
