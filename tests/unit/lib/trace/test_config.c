/* --trace-config, the deprecated flags and the environment. Error texts equal the texts of tritonserver 2.51; settings
 * that it accepts and Sonde refuses are under `stricter`. */
#include "fixture.h"

#include <errno.h>

static struct sonde_trace_config *config(void)
{
    struct sonde_trace_config *c;
    assert_int_equal(sonde_trace_config_new(&c), 0);
    return c;
}

static void expect_error(const char *value, const char *expected)
{
    char why[SONDE_TRACE_WHY_SIZE] = "";
    struct sonde_trace_config *c = config();
    assert_int_equal(sonde_trace_config_set(c, "--trace-config", value, why, sizeof(why)), -EINVAL);
    assert_string_equal(why, expected);
    sonde_trace_config_free(c);
}

static void set(struct sonde_trace_config *c, const char *value)
{
    char why[SONDE_TRACE_WHY_SIZE] = "";
    if (sonde_trace_config_set(c, "--trace-config", value, why, sizeof(why)) != 0)
        fail_msg("%s: %s", value, why);
}

static void test_defaults(void **state)
{
    (void)state;
    struct sonde_trace_config *c = config();
    assert_int_equal(c->mode, TRACE_MODE_TRITON);
    assert_int_equal(c->values.rate, 1000);
    assert_int_equal(c->values.level, 0);
    assert_int_equal(c->values.count, -1);
    assert_int_equal(c->values.log_frequency, 0);
    assert_string_equal(c->file, "");
    assert_int_equal(c->bsp_max_queue_size, 2048);
    assert_int_equal(c->bsp_schedule_delay_ms, 5000);
    assert_int_equal(c->bsp_max_export_batch_size, 512);
    sonde_trace_config_free(c);
    sonde_trace_config_free(NULL);
}

static void test_all_settings(void **state)
{
    (void)state;
    struct sonde_trace_config *c = config();
    set(c, "rate=0");
    set(c, "rate=4294967295");
    set(c, "count=2147483647");
    set(c, "count=-1");
    set(c, "level=off");
    set(c, "level=Tensors");
    set(c, "triton,file=/a,b=c/t.json");
    set(c, "triton,log-frequency=50");
    assert_int_equal(c->values.rate, UINT32_MAX);
    assert_int_equal(c->values.count, -1);
    assert_int_equal(c->values.level, SONDE_TRACE_TENSORS);
    set(c, "level=TRUE"); /* accumulates */
    assert_int_equal(c->values.level, SONDE_TRACE_TENSORS | SONDE_TRACE_TIMESTAMPS);
    assert_string_equal(c->file, "/a,b=c/t.json");
    assert_int_equal(c->values.log_frequency, 50);
    assert_int_equal(trace_config_check(c, NULL, 0), 0);
    sonde_trace_config_free(c);

    static const char *const words[] = {"timestamps", "true", "on", "min", "max", "MAX"};
    for (size_t i = 0; i < 6; i++) {
        char value[32];
        snprintf(value, sizeof(value), "level=%s", words[i]);
        c = config();
        set(c, value);
        assert_int_equal(c->values.level, SONDE_TRACE_TIMESTAMPS);
        sonde_trace_config_free(c);
    }
    c = config();
    set(c, "opentelemetry,url=http://collector:4318/v1/traces");
    set(c, "opentelemetry,resource=service.name=a=b");
    set(c, "opentelemetry,resource=x=1");
    set(c, "opentelemetry,resource=x=2"); /* the last one wins */
    set(c, "opentelemetry,bsp_max_queue_size=10");
    set(c, "opentelemetry,bsp_max_export_batch_size=10");
    set(c, "opentelemetry,bsp_schedule_delay=100");
    set(c, "mode=opentelemetry"); /* also at the end */
    assert_int_equal(trace_config_check(c, NULL, 0), 0);
    assert_int_equal(c->resource_count, 2);
    assert_string_equal(c->resources[0], "service.name=a=b");
    assert_string_equal(c->resources[1], "x=2");
    sonde_trace_config_free(c);
}

static void test_errors_match_triton(void **state)
{
    (void)state;
#define FORMAT "Bad option: \"--trace-config\".\n--trace-config option format is '<trace mode>,<setting>=<value>'. Got "
#define MODES  ". Available options are \"triton\" and \"opentelemetry\""
    expect_error("rate=x", "Bad option: \"--trace-config rate\".\nInvalid option value. Got x");
    expect_error("rate=99999999999",
                 "Bad option: \"--trace-config rate\".\nProvided option value is out of bound. Got 99999999999");
    expect_error("count=x", "Bad option: \"--trace-config count\".\nInvalid option value. Got x");
    expect_error("count=99999999999",
                 "Bad option: \"--trace-config count\".\nProvided option value is out of bound. Got 99999999999");
    expect_error("level=nope", "Bad option: \"--trace-config level\".\ninvalid value for trace level option: nope. "
                               "Available levels are OFF, TIMESTAMPS and TENSORS");
    expect_error("mode=nope", "Bad option: \"--trace-config mode\".\ninvalid value for trace mode option: nope" MODES);
    expect_error(",rate=1", "Bad option: \"--trace-config\".\nNo trace mode specified. --trace-config option format is "
                            "<trace mode>,<setting>=<value> or <setting>=<value>. Got ,rate=1");
    expect_error("nope,rate=1", "Bad option: \"--trace-config\".\ninvalid value for trace mode option: nope" MODES);
    expect_error("rate", FORMAT "rate");
    expect_error("rate=", FORMAT "rate=");
    expect_error("triton", FORMAT "triton");
    expect_error("", FORMAT);
    expect_error("=5", FORMAT "=5");
    expect_error("level=", FORMAT "level=");
    expect_error("opentelemetry,resource=", FORMAT "opentelemetry,resource=");
    expect_error("triton,log-frequency=x",
                 "Bad option: \"--trace-config triton,log-frequency\".\nInvalid option value. Got x");
    expect_error("opentelemetry,bsp_max_queue_size=x",
                 "Bad option: \"--trace-config opentelemetry,bsp_max_queue_size\".\nInvalid option value. Got x");
    expect_error("opentelemetry,bsp_schedule_delay=x",
                 "Bad option: \"--trace-config opentelemetry,bsp_schedule_delay\".\nInvalid option value. Got x");
}

static void test_errors_stricter_than_triton(void **state)
{
    (void)state;
    expect_error("rate=5x", "Bad option: \"--trace-config rate\".\nInvalid option value. Got 5x");
    expect_error("rate=1.4", "Bad option: \"--trace-config rate\".\nInvalid option value. Got 1.4");
    expect_error("rate=-1", "Bad option: \"--trace-config rate\".\nProvided option value is out of bound. Got -1");
    expect_error("rate= 1", "Bad option: \"--trace-config rate\".\nInvalid option value. Got  1");
    expect_error("count=-2", "Bad option: \"--trace-config count\".\nProvided option value is out of bound. Got -2");
    expect_error("triton,log-frequency=-1",
                 "Bad option: \"--trace-config triton,log-frequency\".\nProvided option value is out of bound. Got -1");
    expect_error(
        "nope=1",
        "Bad option: \"--trace-config nope\".\nunknown trace setting. Available settings are rate, level, count and mode; "
        "settings of a mode are given as <trace mode>,<setting>=<value>");
    expect_error(
        "file=x",
        "Bad option: \"--trace-config file\".\nunknown trace setting. Available settings are rate, level, count and mode; "
        "settings of a mode are given as <trace mode>,<setting>=<value>");
    expect_error(
        "triton,rate=1",
        "Bad option: \"--trace-config triton,rate\".\nunknown trace setting. Available settings of mode triton are file and log-frequency");
    expect_error(
        "triton,a,b=1",
        "Bad option: \"--trace-config triton,a,b\".\nunknown trace setting. Available settings of mode triton are file and log-frequency");
    expect_error(
        "opentelemetry,file=x",
        "Bad option: \"--trace-config opentelemetry,file\".\nunknown trace setting. Available settings of mode opentelemetry "
        "are url, resource, bsp_max_queue_size, bsp_schedule_delay and bsp_max_export_batch_size");
    expect_error("opentelemetry,resource=x",
                 "Bad option: \"--trace-config opentelemetry,resource\".\nresource is '<key>=<value>'. Got x");
    expect_error(
        "opentelemetry,bsp_max_queue_size=-1",
        "Bad option: \"--trace-config opentelemetry,bsp_max_queue_size\".\nProvided option value is out of bound. Got -1");
}

static void expect_refused(const char *const *settings, const char *expected)
{
    char why[SONDE_TRACE_WHY_SIZE] = "";
    struct sonde_trace_config *c = config();
    for (; *settings; settings++)
        set(c, *settings);
    assert_int_equal(trace_config_check(c, why, sizeof(why)), -EINVAL);
    assert_string_equal(why, expected);
    sonde_trace_config_free(c);
}

#define LIST(...) ((const char *const[]){__VA_ARGS__, NULL})

static void test_contradicting_settings_are_refused(void **state)
{
    (void)state;
    expect_refused(
        LIST("triton,file=x", "mode=opentelemetry"),
        "Bad option: \"--trace-config triton,file\".\na setting of mode triton, but the trace mode is opentelemetry");
    expect_refused(
        LIST("opentelemetry,url=x"),
        "Bad option: \"--trace-config opentelemetry,url\".\na setting of mode opentelemetry, but the trace mode is triton");
    expect_refused(
        LIST("mode=opentelemetry", "opentelemetry,bsp_max_queue_size=10"),
        "Bad option: \"--trace-config opentelemetry,bsp_max_export_batch_size\".\nmust be less than or equal to bsp_max_queue_size (10). Got 512");
    expect_refused(
        LIST("mode=opentelemetry", "opentelemetry,bsp_max_queue_size=0"),
        "Bad option: \"--trace-config opentelemetry,bsp_max_queue_size\".\nProvided option value is out of bound. Got 0");
    /* And the manager reports the same. */
    char why[SONDE_TRACE_WHY_SIZE] = "";
    struct sonde_trace_manager *m = NULL;
    struct sonde_trace_config *c = config();
    set(c, "opentelemetry,url=x");
    assert_int_equal(sonde_trace_manager_new(c, NULL, &m, why, sizeof(why)), -EINVAL);
    assert_non_null(strstr(why, "opentelemetry,url"));
    set(c, "mode=opentelemetry");
    assert_int_equal(sonde_trace_manager_new(c, NULL, &m, why, sizeof(why)), -EOPNOTSUPP);
    assert_null(m);
    sonde_trace_config_free(c);
}

static void test_deprecated_flags(void **state)
{
    (void)state;
    char why[SONDE_TRACE_WHY_SIZE] = "";
    struct sonde_trace_config *c = config();
    assert_int_equal(sonde_trace_config_set(c, "--trace-file", "f", why, sizeof(why)), 0);
    assert_int_equal(sonde_trace_config_set(c, "--trace-rate", "5", why, sizeof(why)), 0);
    assert_int_equal(sonde_trace_config_set(c, "--trace-level", "MAX", why, sizeof(why)), 0);
    assert_int_equal(sonde_trace_config_set(c, "--trace-count", "6", why, sizeof(why)), 0);
    assert_int_equal(sonde_trace_config_set(c, "--trace-log-frequency", "7", why, sizeof(why)), 0);
    assert_string_equal(c->file, "f");
    assert_int_equal(c->values.rate, 5);
    assert_int_equal(c->values.level, SONDE_TRACE_TIMESTAMPS);
    assert_int_equal(c->values.count, 6);
    assert_int_equal(c->values.log_frequency, 7);
    assert_int_equal(sonde_trace_config_set(c, "--trace-rate", "x", why, sizeof(why)), -EINVAL);
    assert_string_equal(why, "Bad option: \"--trace-rate\".\nInvalid option value. Got x");
    assert_int_equal(sonde_trace_config_set(c, "--trace-level", "nope", why, sizeof(why)), -EINVAL);
    assert_string_equal(why, "Bad option: \"--trace-level\".\ninvalid value for trace level option: nope. "
                             "Available levels are OFF, TIMESTAMPS and TENSORS");
    assert_int_equal(sonde_trace_config_set(c, "--trace", "x", why, sizeof(why)), -ENOENT);
    assert_int_equal(sonde_trace_config_set(c, "--trace-mode", "x", why, sizeof(why)), -ENOENT);
    assert_int_equal(c->values.rate, 5);
    sonde_trace_config_free(c);
}

static void test_command_line(void **state)
{
    (void)state;
    char why[SONDE_TRACE_WHY_SIZE] = "";
    char *argv[] = {
        "server",         "--trace-config",    "rate=3", "--port",       "80", "--trace-config=triton,file=a=b",
        "--trace-rate=4", "--trace-configs=x", "--",     "--trace-rate", "9",  NULL};
    int argc = 11;
    struct sonde_trace_config *c = config();
    assert_int_equal(sonde_trace_config_take(c, &argc, argv, why, sizeof(why)), 0);
    assert_int_equal(argc, 7);
    static const char *const left[] = {"server", "--port", "80", "--trace-configs=x", "--", "--trace-rate", "9"};
    for (int i = 0; i < 7; i++)
        assert_string_equal(argv[i], left[i]);
    assert_null(argv[7]);
    assert_int_equal(c->values.rate, 4);
    assert_string_equal(c->file, "a=b");

    char *bad[] = {"server", "--a", "--trace-config", NULL};
    argc = 3;
    assert_int_equal(sonde_trace_config_take(c, &argc, bad, why, sizeof(why)), -EINVAL);
    assert_string_equal(why, "Bad option: \"--trace-config\".\nthe option requires an argument");
    assert_int_equal(argc, 3);
    assert_string_equal(bad[2], "--trace-config");
    char *none[] = {NULL};
    argc = 0;
    assert_int_equal(sonde_trace_config_take(c, &argc, none, why, sizeof(why)), 0);
    sonde_trace_config_free(c);
}

static void test_environment(void **state)
{
    (void)state;
    char why[SONDE_TRACE_WHY_SIZE] = "";
    setenv("OTEL_RESOURCE_ATTRIBUTES", "service.name=env,k=v", 1);
    setenv("OTEL_BSP_MAX_QUEUE_SIZE", "100", 1);
    setenv("OTEL_BSP_SCHEDULE_DELAY", "77", 1);
    setenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "10", 1);
    struct sonde_trace_config *c = config();
    set(c, "mode=opentelemetry");
    set(c, "opentelemetry,bsp_schedule_delay=88"); /* the flag wins */
    set(c, "opentelemetry,resource=service.name=flag");
    assert_int_equal(trace_config_check(c, NULL, 0), 0);
    assert_int_equal(c->bsp_max_queue_size, 100);
    assert_int_equal(c->bsp_schedule_delay_ms, 88);
    assert_int_equal(c->bsp_max_export_batch_size, 10);
    assert_int_equal(c->resource_count, 2);
    assert_string_equal(c->resources[0], "service.name=flag");
    assert_string_equal(c->resources[1], "k=v");
    sonde_trace_config_free(c);

    setenv("OTEL_BSP_MAX_QUEUE_SIZE", "many", 1);
    c = config();
    assert_int_equal(trace_config_check(c, why, sizeof(why)), 0); /* not of this mode */
    set(c, "mode=opentelemetry");
    assert_int_equal(trace_config_check(c, why, sizeof(why)), -EINVAL);
    assert_string_equal(why, "Bad option: \"OTEL_BSP_MAX_QUEUE_SIZE\".\nInvalid option value. Got many");
    set(c, "opentelemetry,bsp_max_queue_size=5000");
    assert_int_equal(trace_config_check(c, why, sizeof(why)), 0);
    sonde_trace_config_free(c);
    unsetenv("OTEL_RESOURCE_ATTRIBUTES");
    unsetenv("OTEL_BSP_MAX_QUEUE_SIZE");
    unsetenv("OTEL_BSP_SCHEDULE_DELAY");
    unsetenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_all_settings),
        cmocka_unit_test(test_errors_match_triton),
        cmocka_unit_test(test_errors_stricter_than_triton),
        cmocka_unit_test(test_contradicting_settings_are_refused),
        cmocka_unit_test(test_deprecated_flags),
        cmocka_unit_test(test_command_line),
        cmocka_unit_test(test_environment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
