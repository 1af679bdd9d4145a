/* One source for all tests of a program; see io_fixture.h. */
#include "io_fixture.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static struct shared_tables *tables;
void *source;
struct io_mount m;
uint64_t lost;
static uint64_t lost_before;

/* Of tests that ended. They stay mounted until all have: before Linux 6.8 the next one would have the same ID. */
#define MOUNTED_MAX 64
static struct io_mount mounted[MOUNTED_MAX];
static size_t mounted_count;
char limitation[256];
char page[64 * PAGE];

static bool open_source(struct io_options *io, const char *name)
{
    struct watch_options options = watch_defaults;
    struct attach_report report = {0};
    if (io->by_access)
        options.filter = (struct task_filter){.pids = {(uint32_t)getpid()}, .pid_count = 1};
    tables = watch_tables(&options, false);
    const struct source_services services = watch_services(&options, tables);
    const bool is_open = source_io.open(&services, io, &report, &source) == 0;
    snprintf(limitation, sizeof(limitation), "%s", report.entries[0].limitation);
    print_message("%s: %s\n", name, is_open ? limitation : report.entries[0].fallback_reason);
    if (!is_open)
        shared_tables_free(tables);
    return is_open;
}

int run_by_each_method(const struct CMUnitTest *tests, size_t count, const struct io_options *options)
{
    static const struct {
        enum io_method method;
        const char *name;
    } methods[] = {{IO_METHOD_FUNCTIONS, "functions"}, {IO_METHOD_TRACEPOINTS, "tracepoints"}};
    struct io_options io = *options;
    int failed = 0;
    for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++) {
        io.method = methods[i].method;
        if (!open_source(&io, methods[i].name)) {
            failed += io.method == IO_METHOD_TRACEPOINTS;
            continue;
        }
        failed += source_io.start(source) < 0 || _cmocka_run_group_tests(methods[i].name, tests, count, NULL, NULL);
        while (mounted_count > 0)
            io_mount_end(&mounted[--mounted_count]);
        source_io.free(source);
        shared_tables_free(tables);
    }
    return failed;
}

uint64_t count_lost(void)
{
    struct losses losses = {0};
    source_io.losses(source, &losses);
    return losses.count[LOSS_MAP_FULL] + losses.count[LOSS_MISSED];
}

int begin(void **state)
{
    (void)state;
    lost = 0;
    lost_before = count_lost();
    m = io_mount_begin(source);
    return 0;
}

int end(void **state)
{
    (void)state;
    if (mounted_count < MOUNTED_MAX)
        mounted[mounted_count++] = m;
    else
        io_mount_end(&m);
    return count_lost() - lost_before == lost ? 0 : -1;
}

void need(const char *unseen)
{
    if (!strstr(limitation, unseen))
        return;
    print_message("%s\n", unseen);
    skip();
}

int open_file(const char *name, int flags)
{
    const int fd = open(io_mount_file(&m, name), flags | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    return fd;
}

void in_child(int (*work)(void))
{
    int status = -1;
    const pid_t child = fork();
    if (child == 0)
        _exit(work());
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
        print_message("not possible here\n");
        skip();
    }
    assert_int_equal(status, 0);
}
