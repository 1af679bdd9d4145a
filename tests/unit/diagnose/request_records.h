/* Records of requests to diagnose: what tests of diagnose_request build and compare. */
#pragma once

#include "diagnose/request.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>

#include <cmocka.h>

static const struct request_names no_names;

static inline struct request_record make_record(uint64_t duration_ns)
{
    struct request_record r = {
        .h = {.size_bytes = sizeof(r), .kind = RECORD_REQUEST, .pid = 4711, .tid = 4712},
        .id = 7,
        .start_ns = 1000,
        .duration_ns = duration_ns,
        .status = 200,
        .peer_family = AF_INET,
        .peer_port = 80,
        .peer_address = {127, 0, 0, 1},
        .local_port = 8100,
        .comm = "server",
    };
    memcpy(r.line, "GET /users/42?x HTTP/1.1\r\n", 26);
    r.line_bytes = 26;
    return r;
}

static inline struct path_segment make_segment(uint64_t start_ns, uint64_t end_ns, enum request_part_kind kind,
                                               uint32_t pid, uint32_t tid)
{
    return (struct path_segment){
        .start_ns = start_ns, .end_ns = end_ns, .kind = kind, .pid = pid, .tid = tid, .syscall = -1, .reason = ""};
}

static inline void assert_part(const struct request *request, size_t at, enum request_part_kind kind, uint64_t ns)
{
    assert_int_equal(request->parts[at].kind, kind);
    assert_int_equal(request->parts[at].duration_ns, ns);
}
