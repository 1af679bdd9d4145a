/* Cases of test_request.c about counters, the sample of ordinary requests, and the data that remains when details are
 * shed. */
#pragma once

void test_every_request_is_counted(void **state);
void test_sample_stands_for_all_requests(void **state);
void test_reused_pid_is_another_process(void **state);
