/* speedscope.c: its fields and sums; tests/e2e/test_formats.py validates the JSON against speedscope's schema. */
#include "export/export.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "../fixture.h"

static char *write_json(const struct profile *p, struct buf *out)
{
    assert_int_equal(exporter_speedscope.write(p, out), 0);
    return out->data;
}

static size_t occurrences(const char *text, const char *what)
{
    size_t n = 0;
    for (; (text = strstr(text, what)); text += strlen(what))
        n++;
    return n;
}

static void test_typical_profile(void **state)
{
    (void)state;
    _cleanup_(profile_freep) struct profile *p = NULL;
    assert_int_equal(profile_new(0, &p), 0);
    fixture_typical(p);
    _cleanup_buf_ struct buf out = {0};
    const char *json = write_json(p, &out);
    assert_non_null(strstr(json, "\"samples\":10,\"weight_ns\":100000000,\"dropped\":0}"));
    assert_non_null(strstr(
        json,
        "\"start_time_unix_ms\":1785585600000,\"duration_ns\":60000000000,\"not_observed_ns\":0,\"period_ns\":10000000"));
    assert_non_null(strstr(json, "\"name\":\"sonde 2026-08-01T12:00:00Z\""));
    /* Heaviest first; one profile per process. */
    const char *server = strstr(json, "\"name\":\"server (pid 4711)\""),
               *job = strstr(json, "\"name\":\"python3 (pid 99)\"");
    assert_true(server && job && server < job);
    assert_int_equal(occurrences(json, "\"type\":\"sampled\""), 2);
    /* The server's frames: two threads with equal stacks stay two samples, two addresses of one function are merged. */
    assert_non_null(strstr(server, "\"weights\":[40000000,10000000,10000000],\n\"sonde\":{\"counts\":[4,1,1],"));
    assert_non_null(
        strstr(server, "\"threads\":[{\"tid\":4711,\"name\":\"server\"},{\"tid\":4712,\"name\":\"worker; \\\"1\\\"\"}],"
                       "\"sample_threads\":[0,1,1]"));
    assert_non_null(strstr(server, "\"samples\":[[2,1,0],[2,1,0],[2,1,3]]"));
    assert_non_null(
        strstr(server, "\"resource\":{\"process.pid\":4711,\"process.parent_pid\":1,\"service.name\":\"shop\""));
    assert_non_null(strstr(server, "/server.service\",\"a \\\"key\\\"\":\"\\\\text\",\"port\":80}"));
    assert_non_null(strstr(job, "\"container.id\":\"0123456789abcdef"));
    assert_null(strstr(job, "[]")); /* the sample without frames gets one that says so */
    assert_non_null(strstr(json, "[truncated: no stack]"));
    assert_int_equal(occurrences(json, "push_back"), 1);
    assert_non_null(
        strstr(json, "{\"name\":\"main\",\"file\":\"server.c\",\"kind\":\"native\",\"mapping\":\"/usr/bin/server\","
                     "\"build_id\":\"0123456789abcdef0123456789abcdef01234567\"}"));
    assert_non_null(
        strstr(json, "{\"name\":\"libcuda.so.1+0x4711\",\"kind\":\"native\",\"mapping\":\"/usr/lib/libcuda.so.1\"}"));
    assert_non_null(
        strstr(json, "{\"name\":\"[truncated: no unwind table]\",\"kind\":\"truncated\",\"mapping\":\"\"}"));
    assert_non_null(strstr(json, "\"kind\":\"bpf\""));
}

static void test_empty_profile(void **state)
{
    (void)state;
    _cleanup_(profile_freep) struct profile *p = NULL;
    assert_int_equal(profile_new(0, &p), 0);
    _cleanup_buf_ struct buf out = {0};
    const char *json = write_json(p, &out);
    assert_non_null(strstr(json, "\"frames\":[]},\n\"profiles\":[]}"));
}

/* The output is safe inside <script>, and ASCII wherever a name was not valid text. */
static void test_hostile_names_are_escaped(void **state)
{
    (void)state;
    _cleanup_(profile_freep) struct profile *p = NULL;
    assert_int_equal(profile_new(0, &p), 0);
    fixture_hostile(p);
    _cleanup_buf_ struct buf out = {0};
    const char *json = write_json(p, &out);
    assert_null(strpbrk(json, "<>&\x7f\x01\t"));
    assert_null(strchr(json, '\xff'));
    assert_int_equal(occurrences(json, "\"type\":\"sampled\""), 6);
}

/* Two programs under one PID are two profiles. */
static void test_exec_starts_another_profile(void **state)
{
    (void)state;
    _cleanup_(profile_freep) struct profile *p = NULL;
    assert_int_equal(profile_new(0, &p), 0);
    struct resource before = fixture_resource(5, "sh"), after = fixture_resource(5, "ls");
    struct frame frame = fixture_native("main");
    fixture_add(p, &before, 5, "sh", 1, &frame, 1);
    fixture_add(p, &after, 5, "ls", 2, &frame, 1);
    _cleanup_buf_ struct buf out = {0};
    const char *json = write_json(p, &out), *ls = strstr(json, "\"ls (pid 5)\""), *sh = strstr(json, "\"sh (pid 5)\"");
    assert_true(ls && sh && ls < sh);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_typical_profile),
        cmocka_unit_test(test_empty_profile),
        cmocka_unit_test(test_hostile_names_are_escaped),
        cmocka_unit_test(test_exec_starts_another_profile),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
