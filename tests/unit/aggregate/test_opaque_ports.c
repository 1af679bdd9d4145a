/* Ports whose traffic cannot be read: rates over an interval, order, bounds. */
#include "aggregate/opaque_ports.h"
#include "export/openmetrics.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define S     1000000000ull
#define START (1000 * S)

static struct opaque_ports *new_ports(void)
{
    struct opaque_ports *o;
    assert_int_equal(opaque_ports_new(&o), 0);
    return o;
}

static void add(struct opaque_ports *o, uint64_t time_ns, uint16_t port, const char *process, uint64_t bytes)
{
    opaque_ports_add(o, &(struct opaque_traffic){
                            .time_ns = time_ns, .port = port, .process = process, .bytes = bytes, .connections = 1});
}

static void assert_rate(const struct opaque_port *port, double expected)
{
    if (fabs(port->bytes_per_second - expected) > expected / 1000)
        fail_msg("%s: %f bytes a second, not %f", port->process, port->bytes_per_second, expected);
}

static void test_busiest_port_comes_first(void **state)
{
    (void)state;
    _cleanup_(opaque_ports_freep) struct opaque_ports *o = new_ports();
    struct opaque_port ports[2];
    size_t omitted;
    for (uint64_t t = 0; t < 10; t++) {
        add(o, START + t * S, 5432, "postgres", 100);
        add(o, START + t * S, 443, "nginx", 3000);
        add(o, START + t * S, 22, "sshd", 1);
    }
    assert_int_equal(opaque_ports_list(o, START, START + 10 * S, ports, 2, &omitted), 2);
    assert_int_equal(omitted, 1);
    assert_int_equal(ports[0].port, 443);
    assert_string_equal(ports[0].process, "nginx");
    assert_int_equal(ports[0].connections, 10);
    assert_rate(&ports[0], 3000);
    assert_rate(&ports[1], 100);
}

static void test_protocols_of_a_port_are_distinct(void **state)
{
    (void)state;
    _cleanup_(opaque_ports_freep) struct opaque_ports *o = new_ports();
    struct opaque_port ports[3];
    size_t omitted;
    struct opaque_traffic traffic = {.time_ns = START, .port = 443, .process = "nginx", .bytes = 2000};
    opaque_ports_add(o, &traffic);
    traffic.protocol = OPAQUE_TLS;
    traffic.bytes = 1000;
    opaque_ports_add(o, &traffic);
    assert_int_equal(opaque_ports_list(o, START, START + S, ports, 3, &omitted), 2);
    assert_int_equal(ports[0].protocol, OPAQUE_UNKNOWN);
    assert_int_equal(ports[1].protocol, OPAQUE_TLS);
}

/* What lies before the interval does not count; a port without traffic in it is not listed. */
static void test_interval_bounds_the_rate(void **state)
{
    (void)state;
    _cleanup_(opaque_ports_freep) struct opaque_ports *o = new_ports();
    struct opaque_port ports[2];
    size_t omitted;
    add(o, START, 6379, "redis", 1 << 30);
    add(o, START, 22, "sshd", 1000);
    add(o, START + 100 * S, 22, "sshd", 500);
    assert_int_equal(opaque_ports_list(o, START + 90 * S, START + 110 * S, ports, 2, &omitted), 1);
    assert_string_equal(ports[0].process, "sshd");
    assert_rate(&ports[0], 500 / 20.0);
    /* All of it is older than five minutes. */
    assert_int_equal(opaque_ports_list(o, START, START + 1000 * S, ports, 2, &omitted), 0);
}

/* More ports than rows are counted as port 0, until rows have been idle for as long as is listed. */
static void test_ports_are_bounded(void **state)
{
    (void)state;
    _cleanup_(opaque_ports_freep) struct opaque_ports *o = new_ports();
    struct opaque_port ports[OPAQUE_PORTS_MAX + 2];
    size_t omitted;
    for (uint16_t i = 0; i < OPAQUE_PORTS_MAX + 5; i++)
        add(o, START, (uint16_t)(1000 + i), "many", 10);
    const size_t count = opaque_ports_list(o, START, START + S, ports, OPAQUE_PORTS_MAX + 2, &omitted);
    assert_int_equal(count, OPAQUE_PORTS_MAX + 1);
    assert_int_equal(ports[0].port, 0);
    assert_rate(&ports[0], 50);
    add(o, START + 400 * S, 9999, "late", 10);
    assert_int_equal(opaque_ports_list(o, START + 390 * S, START + 401 * S, ports, 2, &omitted), 1);
    assert_int_equal(ports[0].port, 9999);
}

static void test_metrics_have_port_service_and_protocol(void **state)
{
    (void)state;
    _cleanup_(opaque_ports_freep) struct opaque_ports *o = new_ports();
    _cleanup_(metric_set_freep) struct metric_set *set = NULL;
    assert_int_equal(metric_set_new(&set), 0);
    add(o, START, 443, "nginx", 700);
    opaque_ports_metrics(o, set);
    _cleanup_buf_ struct buf text = {0};
    assert_int_equal(openmetrics_write(set, true, &text), 0);
    assert_non_null(
        strstr(text.data,
               "sonde_opaque_bytes_total{port=\"443\",service_name=\"nginx\",protocol=\"unknown protocol\"} 700\n"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_busiest_port_comes_first),
        cmocka_unit_test(test_protocols_of_a_port_are_distinct),
        cmocka_unit_test(test_interval_bounds_the_rate),
        cmocka_unit_test(test_ports_are_bounded),
        cmocka_unit_test(test_metrics_have_port_service_and_protocol),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
