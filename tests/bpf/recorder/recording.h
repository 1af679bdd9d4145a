/* The flight recorder with all programs that write to it, for tests. */
#pragma once

#include "model/flight_window.h"
#include "sources/tables/flight_recorder.h"
#include "sources/tables/shared_tables.h"

#include "base/clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include <linux/types.h>

#include "probes/recorder/recorder.h"

struct recording {
    struct shared_tables *tables;
    void *recorder, *request; /* sources */
    struct flight_recorder *fr;
    bool has_cookies; /* the kernel has the socket tracepoints: records of sockets name them by their cookies */
    uint64_t start_ns;
};

/* `records`: of each ring of each CPU, a power of two. */
void recording_begin(struct recording *r, uint32_t records);
/* The same with this attach method of requests only (request_attach.h). False: this kernel does not have it. */
bool recording_begin_by(struct recording *r, uint32_t records, int method);
/* recording_begin for tests of tasks that programs schedule themselves. */
void recording_begin_with_tasks(struct recording *r, uint32_t records);
/* recording_begin for tests of sockets: skips the test where records do not name sockets by their cookies. */
void recording_begin_or_skip(struct recording *r, uint32_t records);
void recording_end(struct recording *r);

/* The cookie of this socket in records. */
uint64_t recording_cookie(int fd);

/* All since its begin; to be freed. */
struct flight_window recording_window(const struct recording *r);
/* The next record after `*at` (0 at first) of this kind with this thread; NULL: none. */
const struct recorder_record *recording_next(const struct flight_window *window, size_t *at, int kind, uint32_t tid);

/* The calling process, which is not the one of the recording, becomes a server. In test_recorder_calls.c. */
void serve_a_request(void);

/* Has one process call another, and asserts that the calls are counted. In test_service_calls.c, as the next one. */
void expect_service_calls(const struct recording *r);
void test_service_calls_on_unix_sockets(void **state);

/* In test_recorder_sockets.c. */
void test_sockets_of_one_thread(void **state);
void test_datagrams(void **state);
void test_peeking_is_no_receive(void **state);
void test_tcp_sequence_numbers(void **state);
void test_calls_of_a_server(void **state);
void test_other_sends_are_no_calls(void **state);
void test_answer_of_one_letter_is_no_request(void **state);
void test_connect_and_close(void **state);
void test_retransmissions(void **state);
void test_peers(void **state);
void test_control_frames(void **state);
void test_every_attach_method(void **state);

/* In test_recorder_files.c. */
void test_files_that_are_waited_for(void **state);

/* In test_recorder_goroutines.c. */
void test_goroutines_that_no_thread_is_seen_to_run(void **state);
