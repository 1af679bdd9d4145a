/* From a record and its critical path to a diagnosis: components that sum to the duration, with a path and without; the
 * cause; the service that was waited for. */
#include "request_records.h"

#include "probes/recorder/client_call.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>

static struct request *diagnose(const struct request_record *record, const struct path_segment *items, size_t count,
                                const struct request_names *names)
{
    const struct path_segments path = {.items = (struct path_segment *)items, .count = count};
    struct request *request = NULL;
    uint64_t sum = 0;
    assert_int_equal(diagnose_request(record, &path, REQUEST_NO_RECORDS, names, &request), 0);
    for (size_t i = 0; i < request->part_count; i++)
        sum += request->parts[i].duration_ns;
    assert_int_equal(sum, record->duration_ns);
    return request;
}

static void test_components_are_those_of_the_path(void **state)
{
    (void)state;
    const struct request_record r = make_record(1300000);
    const struct path_segment items[] = {make_segment(1000, 301000, REQUEST_PART_UNREAD, r.h.pid, 3),
                                         make_segment(301000, 501000, REQUEST_PART_CPU, r.h.pid, r.h.tid),
                                         make_segment(501000, 1101000, REQUEST_PART_DISK, r.h.pid, 77),
                                         make_segment(1101000, 1301000, REQUEST_PART_CPU, r.h.pid, r.h.tid)};
    struct request *request = diagnose(&r, items, array_size(items), &no_names);
    assert_int_equal(request->part_count, 3);
    assert_part(request, 0, REQUEST_PART_DISK, 600000);
    assert_string_equal(request->parts[0].detail, "page fault in thread 77");
    assert_part(request, 1, REQUEST_PART_CPU, 400000);
    assert_part(request, 2, REQUEST_PART_UNREAD, 300000);
    assert_int_equal(request->segment_count, 4);
    assert_int_equal(request->segments[1].start_ns, 300000);
    assert_string_equal(request->method, "GET");
    assert_string_equal(request->route, "/users/{id}");
    assert_string_equal(request->peer, "127.0.0.1:80");
    assert_string_equal(request->service, "server");
    assert_string_equal(request->cause, "1.30 ms: 600 us waiting for disk, page fault in thread 77");
    request_free(request);
}

/* Only when it was read is known. */
static void test_request_without_a_path_is_unattributed(void **state)
{
    (void)state;
    static const struct {
        enum request_no_path why;
        const char *detail;
    } cases[] = {{REQUEST_NO_RECORDER, "the flight recorder was not running"},
                 {REQUEST_NO_RECORDS, "the flight recorder has no records of it"},
                 {REQUEST_NO_BUDGET, "its path was not computed, to keep to budget.one_cpu"}};
    struct request_record r = make_record(1300);
    r.unread_ns = 300;
    for (size_t i = 0; i < array_size(cases); i++) {
        struct request *request;
        assert_int_equal(diagnose_request(&r, NULL, cases[i].why, &no_names, &request), 0);
        assert_int_equal(request->part_count, 2);
        assert_part(request, 0, REQUEST_PART_UNATTRIBUTED, 1000);
        assert_string_equal(request->parts[0].detail, cases[i].detail);
        assert_part(request, 1, REQUEST_PART_UNREAD, 300);
        const char *colon = strstr(request->parts[1].detail, "the server's work meanwhile is not known: ");
        assert_non_null(colon);
        assert_string_equal(strchr(colon, ':') + 2, cases[i].detail);
        assert_int_equal(request->segment_count, 0);
        request_free(request);
    }
    r.unread_ns = UINT64_MAX; /* of a damaged record */
    request_free(diagnose(&r, NULL, 0, &no_names));
}

static void test_cause_is_the_largest_kind(void **state)
{
    (void)state;
    const struct request_record r = make_record(100);
    const struct path_segment items[] = {make_segment(1000, 1040, REQUEST_PART_CPU, r.h.pid, r.h.tid),
                                         make_segment(1040, 1070, REQUEST_PART_LOCK, r.h.pid, 5),
                                         make_segment(1070, 1100, REQUEST_PART_LOCK, r.h.pid, 6)};
    struct request *request = diagnose(&r, items, array_size(items), &no_names);
    assert_memory_equal(request->cause, "100 ns: 60 ns waiting for a lock", 32);
    request_free(request);
}

static void test_request_without_a_reply(void **state)
{
    (void)state;
    struct request_record r = make_record(100);
    r.status = 0;
    r.flags = REQUEST_NO_REPLY;
    struct request *request = diagnose(&r, NULL, 0, &no_names);
    assert_int_equal(strncmp(request->cause, "no reply was seen; ", 19), 0);
    request_free(request);
    r = make_record(0);
    request_free(diagnose(&r, NULL, 0, &no_names));
}

static void test_invalid_records_are_refused(void **state)
{
    (void)state;
    struct request *request;
    struct request_record r = make_record(100);
    r.status = 0;
    memcpy(r.line, "SET /users/42?x HTTP/1.1\r\n", 26);
    assert_int_equal(diagnose_request(&r, NULL, REQUEST_NO_RECORDS, &no_names, &request), -EBADMSG);
    r = make_record(100);
    r.h.size_bytes = sizeof(r) - 8;
    assert_int_equal(diagnose_request(&r, NULL, REQUEST_NO_RECORDS, &no_names, &request), -EBADMSG);
    r = make_record(100);
    r.line_bytes = REQUEST_LINE_BYTES + 1;
    assert_int_equal(diagnose_request(&r, NULL, REQUEST_NO_RECORDS, &no_names, &request), -EBADMSG);
}

/* ---- names ---- */

static const struct resource *find_resource(void *context, uint32_t pid, uint64_t cgroup_id)
{
    static const struct resource shop = {.service_name = "shop", .container_id = "abc", .systemd_unit = "shop.service"},
                                 database = {.service_name = "database"};
    (void)context;
    (void)cgroup_id;
    return pid == 4711 ? &shop : pid == 70 ? &database : NULL;
}

static void name_peer(void *context, uint64_t cookie, char out[PATH_PEER_BYTES])
{
    (void)context;
    snprintf(out, PATH_PEER_BYTES, "10.0.0.%d:5432", (int)cookie);
}

static const struct request_names names = {.resource = find_resource, .path = {.peer = name_peer}};

static void test_service_is_that_of_the_process(void **state)
{
    (void)state;
    const struct request_record r = make_record(100);
    struct request *request = diagnose(&r, NULL, 0, &names);
    assert_string_equal(request->service, "shop");
    assert_string_equal(request->unit, "shop.service");
    assert_int_equal(request->port, 8100);
    assert_string_equal(request->container_id, "abc");
    assert_string_equal(request->upstream, "");
    request_free(request);
}

/* In several waits, and longer than for another one. */
static void test_upstream_is_the_longest_service(void **state)
{
    (void)state;
    const struct request_record r = make_record(100);
    struct path_segment items[] = {make_segment(1000, 1030, REQUEST_PART_DOWNSTREAM, r.h.pid, r.h.tid),
                                   make_segment(1030, 1070, REQUEST_PART_DOWNSTREAM, r.h.pid, r.h.tid),
                                   make_segment(1070, 1090, REQUEST_PART_DOWNSTREAM, r.h.pid, r.h.tid),
                                   make_segment(1090, 1100, REQUEST_PART_CPU, r.h.pid, r.h.tid)};
    items[0].socket = items[2].socket = 7;
    items[1].socket = 8;
    items[0].asks = client_call(CLIENT_POSTGRESQL, CLIENT_UPDATE);
    items[1].asks = client_call(CLIENT_POSTGRESQL, CLIENT_SELECT);
    items[2].asks = client_call(CLIENT_POSTGRESQL, CLIENT_COMMIT);
    struct request *request = diagnose(&r, items, array_size(items), &names);
    assert_string_equal(request->upstream, "10.0.0.7:5432");
    assert_string_equal(request->upstream_call, "PostgreSQL UPDATE"); /* its longest wait */
    assert_int_equal(request->upstream_ns, 90);
    assert_int_equal(request->upstream_longest_ns, 50);
    request_free(request);
}

/* Into a process of this node the path was followed. */
static void test_upstream_on_this_node_is_named_by_its_service(void **state)
{
    (void)state;
    const struct request_record r = make_record(100);
    struct path_segment items[] = {make_segment(1000, 1030, REQUEST_PART_CPU, r.h.pid, r.h.tid),
                                   make_segment(1030, 1090, REQUEST_PART_DISK, 70, 71),
                                   make_segment(1090, 1100, REQUEST_PART_CPU, 70, 71)};
    struct request *request = diagnose(&r, items, array_size(items), &names);
    assert_string_equal(request->upstream, "database");
    assert_int_equal(request->upstream_ns, 70);
    request_free(request);
    items[1].call = items[2].call = 7; /* the socket of the answer is known */
    items[0].kind = REQUEST_PART_DOWNSTREAM;
    items[0].socket = 7;
    request = diagnose(&r, items, array_size(items), &names);
    assert_string_equal(request->upstream, "10.0.0.7:5432 (database)");
    assert_int_equal(request->upstream_longest_ns, 100);
    request_free(request);
    items[0].kind = REQUEST_PART_CPU;
    items[1].call = items[2].call = 0;
    items[1].owner = items[2].owner = REQUEST_OWNER_OTHER; /* its lock was held there */
    request = diagnose(&r, items, array_size(items), &names);
    assert_string_equal(request->upstream, "");
    assert_int_equal(request->upstream_ns, 0);
    request_free(request);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_components_are_those_of_the_path),
        cmocka_unit_test(test_request_without_a_path_is_unattributed),
        cmocka_unit_test(test_cause_is_the_largest_kind),
        cmocka_unit_test(test_request_without_a_reply),
        cmocka_unit_test(test_invalid_records_are_refused),
        cmocka_unit_test(test_service_is_that_of_the_process),
        cmocka_unit_test(test_upstream_is_the_longest_service),
        cmocka_unit_test(test_upstream_on_this_node_is_named_by_its_service),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
