/* The JSON API: its table, its parameters, values in SQL, and the sentences of empty answers. */
#include "server/api_document.h"
#include "server/api_empty.h"
#include "server/api_parameters.h"
#include "server/sql_text.h"

#include <errno.h>
#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define SECOND_NS UINT64_C(1000000000)
#define HOUR_NS   (3600 * SECOND_NS)
#define DAY_NS    (24 * HOUR_NS)
#define NOW_NS    UINT64_C(1796063298000000000) /* 2026-11-30T18:28:18Z */

static const struct api_endpoint *endpoint(const char *name)
{
    const char *id;
    char path[64];
    snprintf(path, sizeof(path), API_PATH "%s", name);
    const struct api_endpoint *e = api_endpoint_find(path, &id);
    assert_non_null(e);
    return e;
}

/* Reads "a=1&b=2", and completes it. The reason of a refusal is in `why`. */
static int read_all(struct api_values *v, const char *name, const char *query, char why[API_WHY_BYTES])
{
    char text[1024], *rest = text, *pair;
    int r = 0;
    api_values_init(v, endpoint(name));
    why[0] = '\0';
    snprintf(text, sizeof(text), "%s", query);
    while (r == 0 && (pair = strsep(&rest, "&")) && *pair) {
        char *value = strchr(pair, '=');
        const size_t name_size = value ? (size_t)(value - pair) : strlen(pair);
        r = api_values_set(v, pair, name_size, value ? value + 1 : NULL, value ? strlen(value + 1) : 0, why);
    }
    return r < 0 ? r : api_values_complete(v, NOW_NS, why);
}

static uint64_t number_of(const struct api_values *v, const char *name)
{
    return api_values_find(v, name)->number;
}

/* ---- the table ---- */

static const char *type_of(enum api_parameter_type type)
{
    return type == API_TIME ? "DateTime64(9)" : type == API_LIMIT || type == API_DURATION ? "UInt64" : "String";
}

static bool is_used(const struct api_endpoint *e, const char *name)
{
    char text[64];
    bool is_used = false;
    snprintf(text, sizeof(text), "{%s:", name);
    for (size_t i = 0; i < API_RESULTS_MAX && e->results[i].name; i++)
        is_used |= strstr(e->results[i].sql, text) != NULL;
    return is_used;
}

static void check_values(const struct api_endpoint *e, const char *sql)
{
    for (const char *at = sql; (at = strchr(at, '{')) != NULL; at++) {
        const size_t size = strcspn(at + 1, ":");
        const int i = api_parameter_find(e, at + 1, size);
        assert_true(i >= 0);
        const char *type = type_of(e->parameters[i].type);
        assert_memory_equal(at + 2 + size, type, strlen(type));
        assert_int_equal(at[2 + size + strlen(type)], '}');
    }
}

static void test_queries_use_all_parameters_by_their_types(void **state)
{
    (void)state;
    for (size_t n = 0; n < api_endpoints_count(); n++) {
        const struct api_endpoint *e = api_endpoint(n);
        size_t count = 0;
        for (const struct api_parameter *p = e->parameters; p->name; p++, count++) {
            char why[API_WHY_BYTES];
            struct api_values v;
            assert_true(is_used(e, p->name) || strcmp(p->name, "last") == 0 || strcmp(p->name, "baseline_ago") == 0);
            api_values_init(&v, e);
            if (p->initial) /* is a value that could be given */
                assert_int_equal(api_values_set(&v, p->name, strlen(p->name), p->initial, strlen(p->initial), why), 0);
        }
        assert_in_range(count, 1, API_PARAMETERS_MAX);
        for (size_t i = 0; i < API_RESULTS_MAX && e->results[i].name; i++)
            check_values(e, e->results[i].sql);
        if (e->subjects_sql)
            check_values(e, e->subjects_sql);
    }
}

static void test_paths(void **state)
{
    (void)state;
    const char *id = "";
    assert_string_equal(api_endpoint_find(API_PATH "requests", &id)->path, "requests");
    assert_null(id);
    assert_string_equal(api_endpoint_find(API_PATH "requests/abc", &id)->path, "requests/{trace_id}");
    assert_string_equal(id, "abc");
    assert_string_equal(api_endpoint_find(API_PATH "profile/compare", &id)->path, "profile/compare");
    assert_null(api_endpoint_find(API_PATH "requests/abc/d", &id));
    assert_null(api_endpoint_find(API_PATH "", &id));
    assert_null(api_endpoint_find(API_PATH "requestsx", &id));
    assert_null(id);
}

static void test_document_is_json(void **state)
{
    (void)state;
    _cleanup_buf_ struct buf out = {0};
    assert_int_equal(api_document_put(&out), 0);
    json_t *document = json_loadb(out.data, out.size, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(document);
    assert_int_equal(json_object_size(json_object_get(document, "paths")), api_endpoints_count());
    json_decref(document);
}

/* ---- parameters ---- */

static void test_refusals_name_the_parameter_and_what_is_allowed(void **state)
{
    (void)state;
    static const struct {
        const char *endpoint, *query, *why;
    } cases[] = {
        {"services", "x=1", "x: unknown; the parameters are from, to, last, service, host, limit"},
        {"requests/0", "trace_id=1", "trace_id: 32 hexadecimal digits in lower case are needed"},
        {"requests/0", "x=1", "x: this address takes no parameters"},
        {"services", "service=a&service=b", "service: given twice"},
        {"services", "service=", "service: a value of 1 to 512 bytes without a NUL is needed"},
        {"services", "service", "service: a value of 1 to 512 bytes without a NUL is needed"},
        {"services", "limit=0", "limit: a whole number from 1 to 10000 is needed"},
        {"services", "limit=10001", "limit: a whole number from 1 to 10000 is needed"},
        {"services", "limit=+1", "limit: a whole number from 1 to 10000 is needed"},
        {"services", "limit=1 OR 1", "limit: a whole number from 1 to 10000 is needed"},
        {"services", "limit=99999999999999999999", "limit: a whole number from 1 to 10000 is needed"},
        {"services", "last=7d", "last: a duration such as 250ms, 15m or 24h is needed"},
        {"services", "last=-1h", "last: a duration such as 250ms, 15m or 24h is needed"},
        {"services", "last=0s", "last: has to be longer than 0"},
        {"services", "from=2026-11-30T18:28:18Z&last=1h", "last: not together with from"},
        {"services", "from=2026-11-30T18:28:19Z", "from: has to be earlier than now"},
        {"services", "from=2026-11-30T18:00:00Z&to=2026-11-30T18:00:00Z", "from: has to be earlier than to"},
        {"profile", "kind=gpu", "kind: one of cpu|off_cpu is needed"},
        {"profile", "kind=cpu|off_cpu", "kind: one of cpu|off_cpu is needed"},
        {"profile", "kind=|", "kind: one of cpu|off_cpu is needed"},
        {"profile/compare", "",
         "baseline_ago, baseline_from and baseline_to, baseline_service or baseline_host is "
         "needed: what to compare with"},
        {"profile/compare", "baseline_from=2026-11-30T18:00:00Z", "baseline_from and baseline_to: one needs the other"},
        {"profile/compare", "baseline_from=2026-11-30T18:00:00Z&baseline_to=2026-11-30T18:00:01Z&baseline_ago=1h",
         "baseline_ago: not together with baseline_from"},
        {"profile/compare", "baseline_from=2026-11-30T18:00:01Z&baseline_to=2026-11-30T18:00:00Z",
         "baseline_from: has to be earlier than baseline_to"},
        {"profile/compare", "baseline_ago=900000h", "baseline_ago: the baseline would begin before 1970"},
    };
    struct api_values v;
    char why[API_WHY_BYTES], nul[3] = {'a', '\0', 'b'}, big[API_TEXT_BYTES] = {0};
    for (size_t i = 0; i < array_size(cases); i++) {
        assert_int_equal(read_all(&v, cases[i].endpoint, cases[i].query, why), -EINVAL);
        assert_string_equal(why, cases[i].why);
    }
    assert_int_equal(read_all(&v, "services", "to=yesterday", why), -EINVAL);
    assert_non_null(strstr(why, "to: a time from 1970 to 2099 such as 2026-11-30T18:28:18Z is needed"));
    api_values_init(&v, endpoint("services"));
    assert_int_equal(api_values_set(&v, "host", 4, nul, sizeof(nul), why), -EINVAL);
    memset(big, 'x', sizeof(big));
    assert_int_equal(api_values_set(&v, "host", 4, big, sizeof(big), why), -EINVAL);
    assert_int_equal(api_values_set(&v, "host", 4, big, sizeof(big) - 1, why), 0);
    assert_int_equal(api_values_set(&v, big, sizeof(big), "1", 1, why), -EINVAL);
    assert_int_equal(strlen(why) < API_WHY_BYTES, 1);
}

static void test_times(void **state)
{
    (void)state;
    struct api_values v;
    char why[API_WHY_BYTES];
    assert_int_equal(read_all(&v, "services", "", why), 0);
    assert_int_equal(number_of(&v, "from"), NOW_NS - HOUR_NS);
    assert_int_equal(number_of(&v, "to"), NOW_NS);
    assert_int_equal(read_all(&v, "services", "last=15m&to=2026-11-30T17:28:18Z", why), 0);
    assert_int_equal(number_of(&v, "from"), NOW_NS - HOUR_NS - 900 * SECOND_NS);
    assert_int_equal(read_all(&v, "services", "from=2026-11-30T17:28:18Z", why), 0);
    assert_int_equal(number_of(&v, "from"), NOW_NS - HOUR_NS);
    assert_int_equal(number_of(&v, "to"), NOW_NS);
    assert_int_equal(read_all(&v, "services", "last=1000000h", why), 0);
    assert_int_equal(number_of(&v, "from"), 0);
}

static void test_baselines(void **state)
{
    (void)state;
    struct api_values v;
    char why[API_WHY_BYTES];
    assert_int_equal(read_all(&v, "profile/compare", "service=shop&host=a&baseline_ago=24h", why), 0);
    assert_int_equal(number_of(&v, "baseline_from"), NOW_NS - HOUR_NS - DAY_NS);
    assert_int_equal(number_of(&v, "baseline_to"), NOW_NS - DAY_NS);
    assert_string_equal(api_values_find(&v, "baseline_service")->text, "shop");
    assert_int_equal(read_all(&v, "profile/compare", "service=shop&host=a&baseline_host=b", why), 0);
    assert_int_equal(number_of(&v, "baseline_from"), NOW_NS - HOUR_NS);
    assert_string_equal(api_values_find(&v, "baseline_host")->text, "b");
    assert_string_equal(api_values_find(&v, "host")->text, "a");
}

/* ---- SQL ---- */

static void test_values_in_sql(void **state)
{
    (void)state;
    _cleanup_buf_ struct buf out = {0};
    struct api_values v;
    char why[API_WHY_BYTES];
    assert_int_equal(read_all(&v, "requests", "service=it's{}&min_duration=1.5ms&from=2026-11-30T17:28:18Z", why), 0);
    api_values_put_sql(
        &v, "a {service:String} {min_duration:UInt64} {from:DateTime64(9)} {other:String} {limit:UInt64}", &out);
    assert_string_equal(out.data, "a unhex('697427737b7d') 1500000 "
                                  "fromUnixTimestamp64Nano(toInt64(1796059698000000000)) unhex('') 100");
}

static void test_queries_are_one_reading_statement(void **state)
{
    (void)state;
    for (size_t n = 0; n < api_endpoints_count(); n++)
        for (size_t i = 0; i < API_RESULTS_MAX && api_endpoint(n)->results[i].name; i++) {
            _cleanup_buf_ struct buf sql = {0};
            struct api_values v;
            struct sql_text text;
            const char *why;
            api_values_init(&v, api_endpoint(n));
            api_values_put_sql(&v, api_endpoint(n)->results[i].sql, &sql);
            assert_null(strchr(sql.data, '{'));
            assert_int_equal(sql_text_check(sql.data, sql.size, &text, &why), 0);
        }
}

/* ---- empty answers ---- */

static void explain(const char *name, const char *query, bool is_baseline, struct api_subjects s, const char *expected)
{
    _cleanup_buf_ struct buf out = {0};
    struct api_values v;
    char why[API_WHY_BYTES];
    assert_int_equal(read_all(&v, name, query, why), 0);
    api_subjects_explain(&v, is_baseline, &s, NOW_NS, 30, &out);
    assert_string_equal(out.data, expected);
}

static void test_reasons_of_empty_answers(void **state)
{
    (void)state;
    explain("requests", "service=a", false, (struct api_subjects){0},
            "the server has no requests in the 30 days that it keeps");
    explain(
        "requests", "service=a&host=b", false, (struct api_subjects){.all = 7},
        "the server has no requests of the service a of the host b in the 30 days that it keeps; it has 7 of others");
    explain("requests", "", false,
            (struct api_subjects){.all = 7, .chosen = 2, .from_ns = NOW_NS - DAY_NS, .to_ns = NOW_NS - 2 * HOUR_NS},
            "the server has no requests of this time: it has 2, from 2026-11-29T18:28:18.000000000Z to "
            "2026-11-30T16:28:18.000000000Z");
    explain("requests", "to=2026-10-01T00:00:00Z", false, (struct api_subjects){.all = 7, .chosen = 7},
            "the server has no requests of this time: it keeps 30 days");
    explain("requests", "route=x", false, (struct api_subjects){.all = 7, .chosen = 3, .within = 2},
            "there are 2 requests in this time, but none that the other parameters choose");
    explain("profile/compare", "kind=off_cpu&baseline_host=b", true, (struct api_subjects){.all = 7},
            "the baseline: the server has no off_cpu samples of the host b in the 30 days that it keeps; it has 7 of "
            "others");
    explain("profile/compare", "baseline_host=b", false, (struct api_subjects){7, 7, 7, 0, 0},
            "there are 7 cpu samples in this time");
    struct api_subjects s;
    assert_int_equal(api_subjects_read("5\t4\t3\t2\t1\n", &s), 0);
    assert_int_equal(s.to_ns, 1);
    assert_int_equal(api_subjects_read("", &s), -EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_queries_use_all_parameters_by_their_types),
        cmocka_unit_test(test_paths),
        cmocka_unit_test(test_document_is_json),
        cmocka_unit_test(test_refusals_name_the_parameter_and_what_is_allowed),
        cmocka_unit_test(test_times),
        cmocka_unit_test(test_baselines),
        cmocka_unit_test(test_values_in_sql),
        cmocka_unit_test(test_queries_are_one_reading_statement),
        cmocka_unit_test(test_reasons_of_empty_answers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
