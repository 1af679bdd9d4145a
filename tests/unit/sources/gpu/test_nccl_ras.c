/* NCCL's RAS service is asked without waiting for it; what it reports of a job's ranks is compared with what it
 * reported before; and a service that refuses, hangs, lies or writes garbage is no answer. The service is a fake. */
#include "sources/gpu/nccl_ras_client.h"

#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#define SECOND_NS  1000000000ull
#define TEXT_BYTES 262144

static char text[TEXT_BYTES];
static size_t used;

__attribute__((format(printf, 1, 2))) static void put(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    used += (size_t)vsnprintf(text + used, sizeof(text) - used, format, arguments);
    va_end(arguments);
    assert_true(used < sizeof(text));
}

/* A rank of a communicator; PID 1000 + rank. In the form of NCCL 2.28 (src/ras/client_support.cc). */
static void put_rank(unsigned rank, unsigned long operations, bool is_first)
{
    put("%s        {\n          \"rank\": %u,\n          \"host\": \"10.0.0.%u\",\n          \"pid\": %u,\n"
        "          \"cuda_dev\": 0,\n          \"nvml_dev\": 0,\n          \"status\": {\n            \"init_state\": 0,\n"
        "            \"async_error\": 0,\n            \"finalize_called\": false,\n            \"destroy_flag\": false,\n"
        "            \"abort_flag\": false\n          },\n          \"collective_counts\": {\n"
        "            \"Broadcast\": 2,\n            \"AllReduce\": %lu\n          }\n        }",
        is_first ? "" : ",\n", rank, rank / 2, 1000 + rank, operations - 2);
}

static void put_begin(void)
{
    used = 0;
    put("{\n  \"nccl_version\": \"2.28.7\",\n  \"communicators_count\": 2,\n  \"communicators\": [\n");
}

static void put_communicator(const char *hash, unsigned size, const unsigned long *operations, unsigned missing,
                             bool is_first)
{
    bool is_first_rank = true;
    put("%s    {\n      \"hash\": \"%s\",\n      \"secondary_hash\": \"0x1:0x2\",\n      \"size\": %u,\n"
        "      \"ranks_count\": %u,\n      \"missing_ranks_count\": %u,\n      \"ranks\": [\n",
        is_first ? "" : ",\n", hash, size, size, missing);
    for (unsigned i = 0; i < size; i++) {
        if (!operations[i])
            continue;
        put_rank(i, operations[i], is_first_rank);
        is_first_rank = false;
    }
    put("\n      ],\n      \"missing_ranks\": [\n");
    if (missing)
        put("        {\n          \"rank\": %u,\n          \"host\": \"unknown\",\n          \"pid\": -1,\n"
            "          \"cuda_dev\": 0,\n          \"nvml_dev\": 0,\n          \"status\": {\n"
            "            \"unresponsive\": true,\n            \"considered_dead\": true\n          }\n        }",
            size - 1);
    put("\n      ]\n    }");
}

static void put_end(void)
{
    put("\n  ],\n  \"ras\": {\n    \"collection_time_sec\": 0.012,\n    \"timeouts_count\": 0\n  }\n}\n");
}

static struct nccl_status parse(uint32_t pid)
{
    struct nccl_parser p = {.pids = {pid}, .pid_count = 1};
    assert_int_equal(nccl_parse(&p, text, used), 0);
    assert_true(nccl_parser_is_done(&p));
    return p.status;
}

static struct nccl_status status_of(uint32_t pid, const unsigned long *operations, unsigned missing)
{
    static const unsigned long others[] = {7, 7};
    put_begin();
    put_communicator("0xa1", 2, others, 0, true);
    put_communicator("0xb2", 4, operations, missing, false);
    put_end();
    return parse(pid);
}

/* ---- the report ---- */

static void test_the_rank_that_is_behind_is_named(void **state)
{
    static const unsigned long operations[] = {1234, 1234, 1233, 1234}, later[] = {1234, 1235, 1233, 1234};
    const struct nccl_status before = status_of(1000, operations, 0), now = status_of(1000, operations, 0),
                             moved = status_of(1000, later, 0);
    const struct nccl_communicator *c = nccl_status_stuck(&before, &now, 0);
    (void)state;
    assert_int_equal(now.count, 2);
    assert_non_null(c);
    assert_string_equal(c->hash, "0xb2");
    assert_int_equal(c->size, 4);
    assert_int_equal(c->behind_count, 1);
    assert_int_equal(c->behind.rank, 2);
    assert_int_equal(c->behind.pid, 1002);
    assert_string_equal(c->behind.host, "10.0.0.1");
    assert_int_equal(c->least, 1233);
    assert_int_equal(c->most, 1234);
    /* It goes on; the other communicator, of the same process, does not. */
    c = nccl_status_stuck(&before, &moved, 0);
    assert_non_null(c);
    assert_string_equal(c->hash, "0xa1");
    assert_int_equal(c->behind_count, 0);
}

static void assert_text(const struct nccl_communicator *c, const char *expected)
{
    _cleanup_buf_ struct buf out = {0};
    nccl_communicator_put(c, &out);
    assert_string_equal(out.data, expected);
}

static void test_the_text_has_the_rank_and_its_place(void **state)
{
    static const unsigned long two_behind[] = {5, 4, 4, 5}, same[] = {5, 5, 5, 5}, gone[] = {5, 5, 5, 0};
    struct nccl_status s = status_of(1000, two_behind, 0);
    (void)state;
    assert_text(&s.communicators[1],
                "in NCCL's communicator 0xb2 of 4 ranks, rank 1 (pid 1001 on 10.0.0.0) and 1 more have "
                "begun 4 collective operations, and others 5");
    s = status_of(1000, same, 0);
    assert_text(&s.communicators[1], "in NCCL's communicator 0xb2 of 4 ranks, all have begun 5 collective operations");
    s = status_of(1000, gone, 1);
    assert_text(&s.communicators[1], "in NCCL's communicator 0xb2 of 4 ranks, rank 3: dead");
}

static void test_other_processes_have_no_part_in_it(void **state)
{
    static const unsigned long operations[] = {5, 5, 4, 5};
    const struct nccl_status of_3 = status_of(1003, operations, 0), of_none = status_of(4711, operations, 0);
    (void)state;
    assert_int_equal(of_3.count, 1); /* not in the communicator of two */
    assert_non_null(nccl_status_stuck(&of_3, &of_3, 0));
    assert_null(nccl_status_stuck(&of_3, &of_3, 1));
    assert_int_equal(of_none.count, 0);
    assert_null(nccl_status_stuck(&of_none, &of_none, 0));
}

static void test_a_missing_rank_is_named(void **state)
{
    static const unsigned long operations[] = {5, 5, 5, 0};
    const struct nccl_status s = status_of(1000, operations, 1);
    const struct nccl_communicator *c = nccl_status_stuck(&s, &s, 0);
    (void)state;
    assert_non_null(c);
    assert_int_equal(c->missing_count, 1);
    assert_int_equal(c->missing.rank, 3);
    assert_int_equal(c->missing.pid, -1);
    assert_true(c->is_missing_dead);
    assert_int_equal(c->behind_count, 0);
}

static void test_what_is_no_status_is_refused(void **state)
{
    static const char *const wrong[] = {"x",          "{]",
                                        "{\"a\":1}}", "{}{",
                                        "[[[[[[[[[1", "{\"a\" \"b\"}",
                                        "{\"a\"{}}",  ",",
                                        "}",          "NCCL version 2.24.3 compiled with CUDA 12.8\n"};
    static const char *const unfinished[] = {"", "{", "{\"communicators\": [", "{\"a\": \"", "{\"a\": \"\\"};
    (void)state;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct nccl_parser p = {.pid_count = 1};
        assert_true(nccl_parse(&p, wrong[i], strlen(wrong[i])) < 0);
    }
    for (size_t i = 0; i < sizeof(unfinished) / sizeof(unfinished[0]); i++) {
        struct nccl_parser p = {.pid_count = 1};
        assert_int_equal(nccl_parse(&p, unfinished[i], strlen(unfinished[i])), 0);
        assert_false(nccl_parser_is_done(&p));
    }
}

/* ---- the service ---- */

struct service {
    int listening, connection;
    uint16_t port;
};

static struct service start_service(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct service s = {.listening = socket(AF_INET, SOCK_STREAM, 0), .connection = -1};
    socklen_t size = sizeof(at);
    assert_int_equal(bind(s.listening, (struct sockaddr *)&at, size), 0);
    assert_int_equal(listen(s.listening, 4), 0);
    assert_int_equal(getsockname(s.listening, (struct sockaddr *)&at, &size), 0);
    s.port = ntohs(at.sin_port);
    return s;
}

static void end_service(struct service *s)
{
    if (s->connection >= 0)
        close(s->connection);
    close(s->listening);
}

/* Accepts the question and reads it. */
static void take_question(struct service *s, struct nccl_ras_client *c)
{
    char question[256] = "";
    s->connection = accept(s->listening, NULL, NULL);
    assert_true(s->connection >= 0);
    assert_int_equal(nccl_ras_turn(c, 0), NCCL_RAS_ASKING);
    assert_true(recv(s->connection, question, sizeof(question) - 1, 0) > 0);
    assert_string_equal(question, "CLIENT PROTOCOL 2\nTIMEOUT 3\nSET FORMAT json\nVERBOSE STATUS\n");
}

/* Turns until the question has ended, however slowly its bytes arrive. */
static enum nccl_ras_state turn_to_end(struct nccl_ras_client *c, uint64_t now_ns)
{
    for (int i = 0; i < 10000 && nccl_ras_turn(c, now_ns) == NCCL_RAS_ASKING; i++)
        usleep(1000);
    return c->state;
}

static enum nccl_ras_state ask(const char *answer, size_t size, struct nccl_ras_client *c)
{
    static const uint32_t pids[] = {1000};
    struct service s = start_service();
    nccl_ras_ask(c, s.port, pids, 1, 0);
    take_question(&s, c);
    assert_int_equal(send(s.connection, answer, size, MSG_NOSIGNAL), (ssize_t)size);
    shutdown(s.connection, SHUT_WR);
    const enum nccl_ras_state state = turn_to_end(c, SECOND_NS);
    end_service(&s);
    return state;
}

static void test_an_answer_is_read(void **state)
{
    static const unsigned long operations[] = {5, 5, 4, 5};
    static char answer[TEXT_BYTES];
    struct nccl_ras_client c = {0};
    (void)state;
    (void)status_of(1000, operations, 0);
    const int size = snprintf(answer, sizeof(answer), "SERVER PROTOCOL 2\nOK\nOK\n%s", text);
    assert_int_equal(ask(answer, (size_t)size, &c), NCCL_RAS_ANSWERED);
    assert_int_equal(c.parser.status.count, 2);
    assert_int_equal(ask(answer, (size_t)size / 2, &c), NCCL_RAS_FAILED); /* it ended early */
}

static void test_a_service_that_refuses_or_writes_garbage_is_no_answer(void **state)
{
    static const char *const answers[] = {
        "",
        "SERVER PROTOCOL 2\nOK\nERROR: Unknown command SET FORMAT json\nNCCL version 2.24.3\n",
        "SERVER PROTOCOL 2\nOK\nERROR: Unknown command\n{}",
        "HTTP/1.1 400 Bad Request\r\n\r\n",
        "OK\n{\"a\": {]",
        "{{{{"};
    struct nccl_ras_client c = {0};
    (void)state;
    for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++)
        assert_int_equal(ask(answers[i], strlen(answers[i]), &c), NCCL_RAS_FAILED);
}

static void test_a_service_that_hangs_or_is_not_there_is_no_answer(void **state)
{
    static const uint32_t pids[] = {1000};
    struct service s = start_service();
    struct nccl_ras_client c = {0};
    (void)state;
    nccl_ras_ask(&c, s.port, pids, 1, 0);
    take_question(&s, &c);
    assert_int_equal(nccl_ras_turn(&c, NCCL_RAS_MAX_NS - 1), NCCL_RAS_ASKING);
    assert_int_equal(nccl_ras_turn(&c, NCCL_RAS_MAX_NS), NCCL_RAS_FAILED);
    end_service(&s);
    nccl_ras_ask(&c, s.port, pids, 1, 0); /* nothing listens any more */
    assert_int_equal(turn_to_end(&c, SECOND_NS), NCCL_RAS_FAILED);
    s = start_service();
    nccl_ras_ask(&c, s.port, pids, 1, 0);
    nccl_ras_end(&c);
    assert_int_equal(nccl_ras_turn(&c, 0), NCCL_RAS_IDLE);
    end_service(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_rank_that_is_behind_is_named),
        cmocka_unit_test(test_the_text_has_the_rank_and_its_place),
        cmocka_unit_test(test_other_processes_have_no_part_in_it),
        cmocka_unit_test(test_a_missing_rank_is_named),
        cmocka_unit_test(test_what_is_no_status_is_refused),
        cmocka_unit_test(test_an_answer_is_read),
        cmocka_unit_test(test_a_service_that_refuses_or_writes_garbage_is_no_answer),
        cmocka_unit_test(test_a_service_that_hangs_or_is_not_there_is_no_answer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
