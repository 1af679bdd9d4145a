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
char limitation[256];
char page[64 * PAGE];

static int open_with(const struct io_options *io, const struct watch_options *options)
{
    struct attach_report report = {0};
    tables = watch_tables(options, false);
    const struct source_services services = watch_services(options, tables);
    if (source_io.open(&services, io, &report, &source) < 0)
        return -1;
    snprintf(limitation, sizeof(limitation), "%s", report.entries[0].limitation);
    return source_io.start(source);
}

int open_source(void **state)
{
    (void)state;
    return open_with(&(struct io_options){.enabled = true}, &watch_defaults);
}

int open_access_source(void **state)
{
    struct watch_options options = watch_defaults;
    (void)state;
    options.filter = (struct task_filter){.pids = {(uint32_t)getpid()}, .pid_count = 1};
    return open_with(&(struct io_options){.enabled = true, .by_access = true}, &options);
}

int close_source(void **state)
{
    (void)state;
    source_io.free(source);
    shared_tables_free(tables);
    return 0;
}

static uint64_t count_lost(void)
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
