/* Which files the link source is attached to: as long as they are wanted, with a share for each file owner, and
 * whatever happens to the process that attaches. */
#include "links.h"

#include "base/clock.h"
#include "sources/source.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

/* Under the CPU budget nothing is attached, and entries of threads whose leave events were not seen are not used. */
static void test_shedding_detaches(void **state)
{
    (void)state;
    struct links l = links_begin();
    links_enter(&links_outer);
    assert_true(links_know(&l, links_thread()));
    assert_int_equal(source_link.shed(l.source, SOURCE_DETAIL_NO_WAIT_STACKS), 0);
    links_turn_until(&l, false);
    assert_false(links_know(&l, links_thread()));
    assert_int_equal(source_link.shed(l.source, SOURCE_DETAIL_FULL), 0);
    links_turn_until(&l, true);
    links_leave(&links_outer);
    assert_false(links_know(&l, links_thread())); /* a thread becomes known only when it enters */
    links_enter(&links_outer);
    assert_true(links_know(&l, links_thread()));
    assert_true(source_link.run_time_ns(l.source) > 0);
    links_end_with(&l, &(struct losses){.count[LOSS_LINK_FORGOTTEN] = 1});
}

/* ---- the process that attaches ---- */

static pid_t helper_of_ours(void)
{
    char path[64], name[32];
    int parent;
    for (pid_t pid = 1; pid < 1 << 22; pid++) {
        snprintf(path, sizeof(path), "/proc/%d/stat", pid);
        FILE *f = fopen(path, "re");
        const bool found = f && fscanf(f, "%*d (%31[^)]) %*c %d", name, &parent) == 2 && parent == getpid() &&
                           strcmp(name, "sonde-links") == 0;
        if (f)
            fclose(f);
        if (found)
            return pid;
    }
    fail_msg("there is no process that attaches");
    return 0;
}

/* The kernel may block the attaching process for any time: the agent does not wait, and attaching finishes afterwards.
 */
static void test_hanging_attach_process_does_not_block(void **state)
{
    (void)state;
    struct links l = links_begin();
    const pid_t helper = helper_of_ours();
    assert_int_equal(kill(helper, SIGSTOP), 0);
    assert_int_equal(source_link.shed(l.source, SOURCE_DETAIL_NO_WAIT_STACKS), 0);
    for (int i = 0; i < 30000 && link_source_waits_ns(l.source) < LINK_LATE_NS; i++)
        links_turn(&l);
    assert_true(link_source_waits_ns(l.source) >= LINK_LATE_NS);
    assert_true(sonde_probe_enabled(links_enter_probe) && sonde_probe_enabled(links_leave_probe));
    assert_int_equal(kill(helper, SIGCONT), 0);
    links_turn_until(&l, false);
    assert_int_equal(source_link.shed(l.source, SOURCE_DETAIL_FULL), 0);
    links_turn_until(&l, true);
    links_end(&l);
}

static void test_shutdown_does_not_wait_for_a_hanging_attach_process(void **state)
{
    (void)state;
    struct links l = links_begin();
    const pid_t helper = helper_of_ours();
    assert_int_equal(kill(helper, SIGSTOP), 0);
    link_source_detach(l.source, l.attachment);
    source_link.free(l.source);
    shared_tables_free(l.tables);
    for (int i = 0; i < 6000 && (sonde_probe_enabled(links_enter_probe) || sonde_probe_enabled(links_leave_probe)); i++)
        usleep(10000);
    assert_false(sonde_probe_enabled(links_enter_probe) || sonde_probe_enabled(links_leave_probe));
    assert_true(kill(helper, 0) < 0);
    sonde_provider_free(links_provider);
}

/* Another file with the same content that no process maps. */
static int open_copy(uid_t owner)
{
    static char content[1 << 16];
    _cleanup_close_ int fd = links_open_file();
    const ssize_t size = pread(fd, content, sizeof(content), 0);
    const int copy = memfd_create("sonde_trace_copy", MFD_CLOEXEC);
    assert_in_range(size, 1, sizeof(content) - 1);
    assert_int_equal(write(copy, content, (size_t)size), size);
    assert_int_equal(fchown(copy, owner, owner), 0);
    return copy;
}

static int attach_copy(const struct links *l, uid_t owner, struct link_attachment **ret)
{
    struct link_site sites[2];
    _cleanup_close_ int fd = open_copy(owner);
    links_read_sites(fd, sites);
    return link_source_attach(l->source, fd, sites, 2, ret);
}

static void drain_until(const struct links *l, const char *name, double at_least)
{
    for (int i = 0; i < 30000 && links_metric(l, name) < at_least; i++)
        links_turn(l);
    assert_true(links_metric(l, name) >= at_least);
}

/* The agent uses an eighth of its own descriptors, one for each file; the attaching process has its own limit and
 * reports when it is reached. */
static void test_descriptors_are_bounded(void **state)
{
    (void)state;
    struct rlimit before, narrow;
    struct link_attachment *more[8];
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    narrow = (struct rlimit){64, before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &narrow), 0);
    struct links l = links_begin();
    for (size_t i = 0; i < 8; i++)
        assert_int_equal(attach_copy(&l, 1000 + (uid_t)i, &more[i]), i < 7 ? 0 : -ENOSPC);
    assert_true(links_metric(&l, "sonde_usdt_attachments_without_room") == 1);
    links_turn_until(&l, true);
    assert_true(links_metric(&l, "sonde_usdt_attachments") == 8);

    link_source_detach(l.source, more[6]);
    links_turn_until(&l, true);
    assert_true(links_metric(&l, "sonde_usdt_attachments") == 7);
    assert_int_equal(prlimit(helper_of_ours(), RLIMIT_NOFILE, &(struct rlimit){3, before.rlim_max}, NULL), 0);
    assert_int_equal(attach_copy(&l, 1006, &more[6]), 0);
    drain_until(&l, "sonde_usdt_attachments_refused", 1);
    /* The back-off is ours: the file system is not blocked. */
    assert_true(links_metric(&l, "sonde_usdt_attachments_waiting") == 1);
    assert_int_equal(link_source_waits_ns(l.source), 0);
    drain_until(&l, "sonde_usdt_attachments_refused", 2);
    assert_int_equal(prlimit(helper_of_ours(), RLIMIT_NOFILE, &(struct rlimit){before.rlim_max, before.rlim_max}, NULL),
                     0);
    links_turn_until(&l, true); /* it is retried */
    assert_true(links_metric(&l, "sonde_usdt_attachments") == 8);
    for (size_t i = 0; i < 7; i++)
        link_source_detach(l.source, more[i]);
    links_end(&l);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
}

/* Each owner gets half of the places that the others leave. An owner with too many files is refused while others are
 * accepted, until one is released. */
static void test_file_owners_share_the_attachments(void **state)
{
    (void)state;
    static const struct {
        uid_t owner;
        int expected;
    } files[] = {{1000, 0}, {1000, 0}, {1000, 0},       {1000, 0}, {1000, -ENOSPC},
                 {1001, 0}, {1001, 0}, {1001, -ENOSPC}, {1002, 0}, {1003, -ENOSPC}};
    struct link_attachment *attached[array_size(files)] = {0}, *again;
    struct rlimit before;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &(struct rlimit){64, before.rlim_max}), 0); /* 8 attachments */
    struct links l = links_begin(); /* uses one, for our own file */
    for (size_t i = 0; i < array_size(files); i++)
        assert_int_equal(attach_copy(&l, files[i].owner, &attached[i]), files[i].expected);
    assert_true(links_metric(&l, "sonde_usdt_attachments_without_room") == 3);
    assert_false(link_source_has_new_room(l.source));
    link_source_detach(l.source, attached[0]);
    attached[0] = NULL;
    links_turn_until(&l, true);
    assert_true(link_source_has_new_room(l.source));
    assert_false(link_source_has_new_room(l.source));
    assert_int_equal(attach_copy(&l, 1001, &again), -ENOSPC);
    assert_int_equal(attach_copy(&l, 1003, &again), 0);
    link_source_detach(l.source, again);
    for (size_t i = 0; i < array_size(files); i++)
        if (attached[i])
            link_source_detach(l.source, attached[i]);
    links_end(&l);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
}

/* Any user can create a file that cannot be attached to. */
static void test_refused_file_keeps_known_threads(void **state)
{
    (void)state;
    struct links l = links_begin();
    struct link_site sites[3];
    struct link_attachment *bad;
    _cleanup_close_ int fd = open_copy(1000);
    links_read_sites(fd, sites);
    sites[2] = (struct link_site){.file_offset = 1 << 20, .is_leave = false};    /* beyond its end */
    assert_int_equal(link_source_attach(l.source, fd, sites, 3, &bad), -EINVAL); /* two enter sites */
    for (size_t i = 0; i < 2; i++)
        if (!sites[i].is_leave)
            sites[i] = sites[2];
    links_enter(&links_outer);
    assert_int_equal(link_source_attach(l.source, fd, sites, 2, &bad), 0);
    drain_until(&l, "sonde_usdt_attachments_refused", 1);
    assert_true(links_know(&l, links_thread()));
    link_source_detach(l.source, bad);
    links_end(&l);
}

/* Leave events are then not seen, so entries are not used until another process has attached. */
static void test_killed_attach_process_is_replaced(void **state)
{
    (void)state;
    struct links l = links_begin();
    links_enter(&links_outer);
    assert_true(links_know(&l, links_thread()));
    const pid_t killed = helper_of_ours();
    assert_int_equal(kill(killed, SIGKILL), 0);
    for (int i = 0; i < 30000 && links_know(&l, links_thread()); i++)
        links_turn(&l);
    assert_false(links_know(&l, links_thread()));
    links_turn_until(&l, true);
    for (int i = 0; i < 30000 && kill(killed, 0) == 0; i++) /* the agent did not wait for it, and it leaves no child
                                                             * behind */
        links_turn(&l);
    assert_true(kill(killed, 0) < 0);
    links_enter(&links_outer);
    assert_true(links_know(&l, links_thread()));
    links_end_with(&l, &(struct losses){.count[LOSS_LINK_FORGOTTEN] = 1});
}

/* The source's clock runs ahead while a test waits for it: pauses before the next attempt take seconds (-Wl,--wrap). */
uint64_t __real_clock_monotonic_ns(void);
uint64_t __wrap_clock_monotonic_ns(void);
static uint64_t ahead_ns;

uint64_t __wrap_clock_monotonic_ns(void)
{
    return __real_clock_monotonic_ns() + ahead_ns;
}

static void run_ahead(void)
{
    ahead_ns += 100000000;
}

int main(void)
{
    links_pass_time = run_ahead;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shedding_detaches),
        cmocka_unit_test(test_descriptors_are_bounded),
        cmocka_unit_test(test_file_owners_share_the_attachments),
        cmocka_unit_test(test_refused_file_keeps_known_threads),
        cmocka_unit_test(test_hanging_attach_process_does_not_block),
        cmocka_unit_test(test_shutdown_does_not_wait_for_a_hanging_attach_process),
        cmocka_unit_test(test_killed_attach_process_is_replaced),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
