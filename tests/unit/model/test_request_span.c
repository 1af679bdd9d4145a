/* request_span.c: the header traceparent by W3C's rules, and which trace and parent a request's span has. */
#include "model/request_span.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define VALID "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

static bool parses(const char *text, struct traceparent *ret)
{
    return traceparent_parse(text, strlen(text), ret);
}

static void test_valid_header(void **state)
{
    struct traceparent p;
    (void)state;
    assert_true(parses(VALID, &p));
    assert_true(p.caller.trace_id_high == 0x0af7651916cd43dd && p.caller.trace_id_low == 0x8448eb211c80319c);
    assert_true(p.caller.span_id == 0xb7ad6b7169203331 && p.is_sampled);
    assert_true(parses("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00", &p));
    assert_false(p.is_sampled);
    assert_true(parses("cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-03-later", &p)); /* a later version */
    assert_true(p.is_sampled);
}

static void test_invalid_headers(void **state)
{
    static const char *const headers[] = {
        "",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0",
        "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
        "00-00000000000000000000000000000000-b7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
        "00_0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319c_b7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331_01",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b716920333g-01",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-x1",
        "zz-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    };
    struct traceparent p;
    (void)state;
    for (size_t i = 0; i < sizeof(headers) / sizeof(headers[0]); i++)
        if (parses(headers[i], &p))
            fail_msg("%s is accepted", headers[i]);
    char text[] = VALID;
    for (size_t i = 0; i < sizeof(text) - 1; i++) { /* '~' belongs nowhere */
        const char was = text[i];
        text[i] = '~';
        assert_false(parses(text, &p));
        text[i] = was;
    }
}

static void test_span_is_in_the_trace_of_its_caller(void **state)
{
    const struct span_seed seed = {1, 2};
    const struct trace_link none = {0}, own = {7, 8, 9};
    struct traceparent caller;
    (void)state;
    assert_true(parses(VALID, &caller));
    const struct request_span span = request_span_make(&seed, 5, &caller, &own);
    assert_true(span.id.trace_id_high == caller.caller.trace_id_high);
    assert_true(span.id.trace_id_low == caller.caller.trace_id_low);
    assert_true(span.parent_id == caller.caller.span_id && span.is_remote && !span.is_unsampled);
    assert_true(span.id.span_id && span.id.span_id != span.parent_id);
    caller.is_sampled = false;
    assert_true(request_span_make(&seed, 5, &caller, &none).is_unsampled);
}

static void test_span_without_a_caller(void **state)
{
    const struct span_seed seed = {1, 2}, another = {1, 3}, none = {0};
    const struct trace_link no_link = {0}, own = {7, 8, 9};
    (void)state;
    const struct request_span a = request_span_make(&seed, 5, NULL, &no_link),
                              b = request_span_make(&seed, 6, NULL, &no_link),
                              c = request_span_make(&another, 5, NULL, &no_link),
                              again = request_span_make(&seed, 5, NULL, &no_link);
    assert_true(a.id.span_id == again.id.span_id && a.id.trace_id_high == again.id.trace_id_high);
    assert_true(trace_link_is_set(&a.id) && a.id.span_id && !a.parent_id && !a.is_remote);
    assert_true(a.id.span_id != b.id.span_id && a.id.trace_id_high != b.id.trace_id_high);
    assert_true(a.id.span_id != c.id.span_id && a.id.trace_id_low != c.id.trace_id_low);
    const struct request_span traced = request_span_make(&seed, 5, NULL, &own);
    assert_true(traced.id.trace_id_high == 7 && traced.id.trace_id_low == 8 && traced.parent_id == 9);
    assert_false(traced.is_remote);
    assert_false(
        trace_link_is_set(&(struct trace_link){request_span_make(&none, 5, NULL, &own).id.trace_id_high, 0, 0}));
}

static void test_exports_are_recognized(void **state)
{
    const struct span_seed seed = {1, 2};
    const struct trace_link none = {0};
    struct traceparent caller;
    (void)state;
    assert_true(parses(SPAN_EXPORTS_TRACEPARENT, &caller));
    const struct request_span export = request_span_make(&seed, 5, &caller, &none);
    assert_true(request_span_is_of_export(&export) && export.is_unsampled);
    const struct request_span other = request_span_make(&seed, 5, NULL, &none);
    assert_false(request_span_is_of_export(&other));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_valid_header),
        cmocka_unit_test(test_invalid_headers),
        cmocka_unit_test(test_span_is_in_the_trace_of_its_caller),
        cmocka_unit_test(test_span_without_a_caller),
        cmocka_unit_test(test_exports_are_recognized),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
