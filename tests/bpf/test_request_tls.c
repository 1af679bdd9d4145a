/* The programs that read the plaintext of TLS load with each attach method of requests: kernels before 6.13, and those
 * that disable preemption in programs at uprobes, refuse more than this one may. */
#include "sources/request/request.h"
#include "sources/request/request_attach.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define METHODS 6 /* of request_attach.c */

static void test_programs_for_plaintext_load(void **state)
{
    (void)state;
    const struct task_filter filter = {0};
    const struct shared_tables_options options = {.filter = &filter};
    size_t opened = 0;
    for (int method = 0; method < METHODS; method++) {
        struct attach_report report = {0};
        struct shared_tables *tables;
        void *source = NULL;
        assert_int_equal(shared_tables_new(&options, &tables), 0);
        const struct source_services services = {.tables = tables, .filter = &filter, .ring_bytes = 64 * 1024};
        if (request_source_open_on(&services, &report, method, true, &source) == 0) {
            if (!request_source_tls(source))
                print_error("%s: %s\n", report.entries[0].method, report.entries[0].fallback_reason);
            assert_non_null(request_source_tls(source));
            source_request.free(source);
            opened++;
        }
        shared_tables_free(tables);
    }
    assert_true(opened > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_programs_for_plaintext_load)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
