/* wait_seconds.c: waiting time is counted once, by service and reason, however many services there are. */
#include "aggregate/wait_seconds.h"

#include "base/buf.h"
#include "export/openmetrics.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "../fixture.h"

static void add_wait(struct wait_seconds *w, uint32_t parent_pid, const char *service, const char *reason, uint64_t ns)
{
    struct resource resource = fixture_resource(7, "c");
    resource.parent_pid = parent_pid;
    resource.service_name = service;
    wait_seconds_add(w, &(struct sample){.type = &sample_type_off_cpu,
                                         .value = ns,
                                         .wait_reason = reason,
                                         .resource = &resource,
                                         .thread_name = "t"});
}

static void write_all(struct wait_seconds *w, struct buf *out)
{
    _cleanup_(metric_set_freep) struct metric_set *set = NULL;
    assert_int_equal(metric_set_new(&set), 0);
    wait_seconds_metrics(w, set);
    assert_int_equal(openmetrics_write(set, true, out), 0);
}

static void test_counters_by_service_and_reason(void **state)
{
    (void)state;
    _cleanup_(wait_seconds_freep) struct wait_seconds *w = NULL;
    _cleanup_buf_ struct buf out = {0};
    assert_int_equal(wait_seconds_new(&w), 0);
    add_wait(w, 1, "shop", "lock", 1500000000);
    add_wait(w, 1, "shop", "disk", 250000000);
    add_wait(w, 1, "shop", "lock", 1000000000);
    add_wait(w, 1, "bank", "lock", 1);
    add_wait(w, 2, "kworker/0:1", "other", 1000000000);
    add_wait(w, 2, "kworker/1:1", "other", 2000000000);
    write_all(w, &out);
    assert_non_null(strstr(out.data, "sonde_off_cpu_seconds_total{service_name=\"shop\",reason=\"lock\"} 2.5\n"));
    assert_non_null(strstr(out.data, "sonde_off_cpu_seconds_total{service_name=\"shop\",reason=\"disk\"} 0.25\n"));
    assert_non_null(strstr(out.data, "sonde_off_cpu_seconds_total{service_name=\"kernel\",reason=\"other\"} 3\n"));
    assert_null(strstr(out.data, "service_name=\"bank\",reason=\"disk\""));
}

static void test_excess_services_share_one_counter(void **state)
{
    (void)state;
    _cleanup_(wait_seconds_freep) struct wait_seconds *w = NULL;
    _cleanup_buf_ struct buf out = {0};
    assert_int_equal(wait_seconds_new(&w), 0);
    for (unsigned i = 0; i < 1000; i++) {
        char name[100], reason[32];
        snprintf(name, sizeof(name), "service-%u-%060u", i, i); /* longer than the part that is kept */
        snprintf(reason, sizeof(reason), "reason-%u", i % 40);  /* a reason that Sonde does not produce */
        add_wait(w, 1, name, reason, 1000000000);
    }
    write_all(w, &out);
    double sum = 0;
    size_t rows = 0;
    for (char *line = out.data; (line = strstr(line, "} ")); line += 2, rows++)
        sum += strtod(line + 2, NULL);
    assert_true(sum == 1000);
    assert_true(rows <= 128 * 16);
    assert_non_null(strstr(out.data, "service_name=\"other\""));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_counters_by_service_and_reason),
        cmocka_unit_test(test_excess_services_share_one_counter),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
