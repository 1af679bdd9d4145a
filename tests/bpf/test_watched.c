/* Where processes are selected by PID, lifecycle events of all others cost nothing: their files are not opened, and no
 * state is kept. Children of the selected processes are tracked: those that existed before, and a new one that calls
 * exec(). */
#include "base/clock.h"
#include "pipeline/pipeline.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define UNSELECTED  40
#define PATIENCE_NS 60000000000ULL

static char folder[] = "/tmp/sonde-watched-XXXXXX";

/* One file under many names: each is a file that was not seen before. The first, 0, is the child's. */
static void path_of(char path[64], int number)
{
    snprintf(path, 64, "%s/%d", folder, number);
}

static int make_folder(void **state)
{
    char path[64], other[64];
    struct stat st;
    int from = open("/proc/self/exe", O_RDONLY | O_CLOEXEC), to;

    (void)state;
    if (!mkdtemp(folder) || from < 0 || fstat(from, &st) < 0)
        return -1;
    path_of(path, 0);
    to = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0755);
    for (off_t left = st.st_size, n; left > 0; left -= n)
        if ((n = sendfile(to, from, NULL, (size_t)left)) <= 0)
            return -1;
    close(to);
    close(from);
    for (int i = 1; i <= UNSELECTED; i++) {
        path_of(other, i);
        if (link(path, other) < 0)
            return -1;
    }
    return 0;
}

static int remove_folder(void **state)
{
    char path[64];

    (void)state;
    for (int i = 0; i <= UNSELECTED; i++) {
        path_of(path, i);
        unlink(path);
    }
    return rmdir(folder);
}

static _Noreturn void burn(void)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (volatile unsigned n = 0;; n++)
        ;
}

struct seen {
    bool parent, elder, child;
    uint32_t parent_pid;
    char program[64]; /* of the new child */
};

static int take_sample(void *context, const struct sample *sample)
{
    struct seen *seen = context;
    const struct resource *r = sample->resource;

    seen->parent |= r->pid == seen->parent_pid;
    seen->child |= r->parent_pid == seen->parent_pid && strcmp(r->executable_path, seen->program) == 0;
    seen->elder |= r->parent_pid == seen->parent_pid && strcmp(r->executable_path, seen->program) != 0;
    return 0;
}

/* Burns CPU, forks a child that does too, and reports that. On a byte it forks another one, which calls exec(). */
static _Noreturn void run_parent(int go, int ready, const char *program)
{
    char byte;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (fork() == 0) {
        (void)!write(ready, "", 1);
        burn();
    }
    for (;;)
        if (read(go, &byte, 1) == 1 && fork() == 0) {
            execl(program, "child", "--burn", NULL);
            _exit(1);
        }
}

static void run_unselected_processes(void)
{
    char path[64];
    int status;

    for (int i = 1; i <= UNSELECTED; i++) {
        pid_t pid = fork();

        if (pid == 0) {
            path_of(path, i);
            execl(path, "stranger", "--live", NULL);
            _exit(1);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_int_equal(status, 0);
    }
}

static double metric_value(struct pipeline *p, const char *name)
{
    _cleanup_(metric_set_freep) struct metric_set *set = NULL;
    struct losses losses;

    assert_int_equal(metric_set_new(&set), 0);
    pipeline_losses(p, &losses);
    pipeline_metrics(p, &losses, set);
    for (size_t i = 0; i < metric_set_families(set); i++) {
        struct metric_family family = metric_set_family(set, i);

        if (strcmp(family.name, name) == 0)
            return family.points[0].value;
    }
    fail_msg("there is no %s", name);
    return 0;
}

static void run_until(struct pipeline *p, const bool *seen, const char *what)
{
    uint64_t until_ns = clock_monotonic_ns() + PATIENCE_NS;

    while (!*seen && clock_monotonic_ns() < until_ns) {
        assert_true(pipeline_turn(p) >= 0);
        usleep(20000);
    }
    if (!*seen)
        fail_msg("%s", what);
}

static void test_unselected_processes_cost_nothing(void **state)
{
    struct seen seen = {0};
    struct pipeline_sink sink = {.context = &seen, .sample = take_sample};
    struct config config;
    struct pipeline_options options = {
        .config = &config,
        .filter.skip_self = true,
        .sample_hz = 199,
        .memory_bytes = 64U << 20,
    };
    struct attach_report report = {0};
    struct pipeline *p;
    int go[2], ready[2];
    char byte;

    (void)state;
    config_defaults(&config);
    config_enable_signals(&config, false);
    config_put_bool(&config, "profile.enabled", true);
    path_of(seen.program, 0);
    assert_int_equal(pipe2(go, O_CLOEXEC | O_NONBLOCK), 0);
    assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
    pid_t parent = fork();
    if (parent == 0)
        run_parent(go[0], ready[1], seen.program);
    seen.parent_pid = (uint32_t)parent;
    options.filter.pids[0] = (uint32_t)parent;
    options.filter.pid_count = 1;
    assert_int_equal(read(ready[0], &byte, 1), 1); /* the elder child exists before */

    assert_int_equal(pipeline_new(&options, &sink, &report, &p), 0);
    assert_int_equal(pipeline_start(p), 0);
    assert_true(metric_value(p, "sonde_self_mappings_read") >=
                1); /* not when a sample arrives: by then it may have mapped others */
    run_until(p, &seen.parent, "the process chosen is not sampled");
    run_until(p, &seen.elder, "its child is not sampled");
    double before = metric_value(p, "sonde_self_files_requested");
    run_unselected_processes();
    assert_true(pipeline_turn(p) >= 0);
    assert_true(metric_value(p, "sonde_self_files_requested") - before < UNSELECTED / 2);
    assert_true(metric_value(p, "sonde_self_processes") <
                UNSELECTED / 2); /* the parent, the elder child, and their parent */
    assert_int_equal(write(go[1], "", 1), 1);
    run_until(p, &seen.child, "its child that came later is not sampled, or not known by its program");

    kill(parent, SIGKILL);
    waitpid(parent, NULL, 0);
    close(go[0]);
    close(go[1]);
    pipeline_free(p);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_unselected_processes_cost_nothing, make_folder, remove_folder),
    };

    if (argc > 1 && strcmp(argv[1], "--live") == 0)
        return 0;
    if (argc > 1 && strcmp(argv[1], "--burn") == 0)
        burn();
    if (geteuid() != 0) {
        printf("skipped: perf events of all CPUs need root\n");
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
