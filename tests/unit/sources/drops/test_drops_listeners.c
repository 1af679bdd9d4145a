/* Connections that listening sockets refuse, from the iterator's output (-Wl,--wrap=bpf_iter_create). */
#include "sources/drops/drops_private.h"

#include "base/cleanup.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#define CGROUP 7

static struct drops_listener written[DROPS_MAX_LISTENERS];
static size_t written_count;
static uint64_t refused_count;
static struct drops_listeners l;

int __wrap_bpf_iter_create(int link_fd);
int __wrap_bpf_iter_create(int link_fd)
{
    const ssize_t bytes = (ssize_t)(written_count * sizeof(*written));
    const int fd = memfd_create("listeners", MFD_CLOEXEC);
    (void)link_fd;
    assert_true(fd >= 0);
    assert_int_equal(write(fd, written, (size_t)bytes), bytes);
    assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
    return fd;
}

static int begin(void **state)
{
    (void)state;
    l = (struct drops_listeners){0};
    written_count = 0;
    refused_count = 0;
    return drops_listeners_init(&l, 0);
}

static int end(void **state)
{
    (void)state;
    drops_listeners_clear(&l);
    return 0;
}

static void write_listener(uint64_t socket, uint64_t cgroup_id, uint32_t port, uint32_t drops)
{
    written[written_count++] =
        (struct drops_listener){.socket = socket, .cgroup_id = cgroup_id, .port = port, .drops = drops};
}

static void add_refused(void *context, const struct drops_listener *listener, uint32_t count)
{
    (void)context, (void)listener;
    refused_count += count;
}

static void walk_listeners(void)
{
    assert_int_equal(drops_listeners_walk(&l, add_refused, NULL), 0);
    written_count = 0;
}

static void test_refusals_before_the_first_walk_do_not_count(void **state)
{
    (void)state;
    write_listener(1, CGROUP, 80, 100);
    walk_listeners();
    write_listener(1, CGROUP, 80, 103);
    write_listener(1, CGROUP, 80, 103); /* a second file descriptor */
    walk_listeners();
    assert_int_equal(refused_count, 3);
    assert_int_equal(l.port_count, 1);
    assert_int_equal(l.ports[0].refused, 3);
}

static void test_socket_at_the_address_of_another_counts_from_zero(void **state)
{
    (void)state;
    write_listener(1, CGROUP, 80, 100);
    walk_listeners();
    write_listener(1, CGROUP, 81, 101);
    walk_listeners();
    assert_int_equal(refused_count, 101);
}

static void test_ports_that_refuse_nothing_make_room(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < DROPS_MAX_PORTS; i++)
        write_listener(i, CGROUP, i, 0);
    walk_listeners();
    assert_int_equal(l.port_count, DROPS_MAX_PORTS);
    write_listener(1000, CGROUP, 1000, 5);
    walk_listeners();
    assert_int_equal(l.port_count, 1);
    assert_int_equal(l.ports[0].port, 1000);
    assert_int_equal(l.ports[0].refused, 5);
    assert_int_equal(l.ports[DROPS_MAX_PORTS].refused, 0);
}

static void test_ports_of_a_cgroup_that_is_gone_are_forgotten(void **state)
{
    char path[] = "/there";
    struct cgroup_name named = {.id = CGROUP, .path = path};
    const struct cgroup_names names = {.list = &named, .count = 1};
    (void)state;
    walk_listeners();
    write_listener(1, CGROUP + 1, 81, 2);
    write_listener(2, CGROUP, 80, 3);
    write_listener(3, DROPS_NO_SOCKET, 82, 4);
    walk_listeners();
    assert_int_equal(l.port_count, 3);
    drops_listeners_forget(&l, &names);
    assert_int_equal(l.port_count, 2);
    assert_int_equal(l.ports[0].port, 80);
    assert_int_equal(l.ports[0].refused, 3);
    assert_int_equal(l.ports[1].port, 82);
}

static void test_cgroups_are_labels(void **state)
{
    char path[] = "/there";
    struct cgroup_name named = {.id = CGROUP, .path = path};
    const struct cgroup_names names = {.list = &named, .count = 1};
    (void)state;
    assert_string_equal(drops_cgroup_text(&names, CGROUP), "/there");
    assert_string_equal(drops_cgroup_text(&names, DROPS_OTHER), "other");
    assert_string_equal(drops_cgroup_text(&names, DROPS_NO_SOCKET), "none");
    assert_null(drops_cgroup_text(&names, CGROUP + 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_refusals_before_the_first_walk_do_not_count, begin, end),
        cmocka_unit_test_setup_teardown(test_socket_at_the_address_of_another_counts_from_zero, begin, end),
        cmocka_unit_test_setup_teardown(test_ports_that_refuse_nothing_make_room, begin, end),
        cmocka_unit_test_setup_teardown(test_ports_of_a_cgroup_that_is_gone_are_forgotten, begin, end),
        cmocka_unit_test(test_cgroups_are_labels),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
