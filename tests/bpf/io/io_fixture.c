/* Opens and closes the source around each test; see io_fixture.h. */
#include "io_fixture.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const struct io_options io = {.enabled = true};
static struct shared_tables *tables;
void *source;
struct io_mount m;
uint64_t lost;
char limitation[256];
char page[64 * PAGE];

int begin(void **state)
{
    struct watch_options options = watch_defaults;
    struct attach_report report = {0};
    (void)state;
    lost = 0;
    tables = watch_tables(&options, false);
    const struct source_services services = watch_services(&options, tables);
    if (source_io.open(&services, &io, &report, &source) < 0)
        return -1;
    snprintf(limitation, sizeof(limitation), "%s", report.entries[0].limitation);
    m = io_mount_begin(source);
    return source_io.start(source);
}

int end(void **state)
{
    struct losses losses = {0};
    (void)state;
    source_io.losses(source, &losses);
    io_mount_end(&m);
    source_io.free(source);
    shared_tables_free(tables);
    return losses.count[LOSS_MAP_FULL] + losses.count[LOSS_MISSED] == lost ? 0 : -1;
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
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
        skip();
    assert_int_equal(status, 0);
}
