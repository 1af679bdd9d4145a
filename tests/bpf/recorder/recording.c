/* See recording.h. */
#include "recording.h"

#include "sources/recorder/recorder.h"
#include "sources/request/request.h"
#include "sources/request/request_attach.h"

#include "probes/request.h"

#include <bpf/libbpf.h>
#include <string.h>
#include <sys/socket.h>

/* The recorder must not be why an attach method is refused. */
static void expect_refused_without_recorder(int method, const struct task_filter *filter, const char *reason)
{
    const struct shared_tables_options wanted = {.filter = filter};
    struct attach_report report = {0};
    struct shared_tables *tables;
    void *request;
    assert_int_equal(shared_tables_new(&wanted, &tables), 0);
    const struct source_services services = {.tables = tables, .filter = filter};
    if (request_source_open_on(&services, &report, method, false, &request) == 0)
        fail_msg("refused with the recorder only: %s", reason);
    shared_tables_free(tables);
}

static bool begin(struct recording *r, uint32_t records, int method, size_t unwind_bytes)
{
    static const struct task_filter filter;
    const uint64_t bytes = (uint64_t)libbpf_num_possible_cpus() * 2 * records * sizeof(struct recorder_record);
    const struct shared_tables_options wanted = {
        .filter = &filter, .unwind_bytes = unwind_bytes, .recorder_bytes = bytes};
    struct attach_report report = {0};
    *r = (struct recording){0};
    assert_int_equal(shared_tables_new(&wanted, &r->tables), 0);
    r->fr = shared_tables_recorder(r->tables);
    assert_non_null(r->fr);
    const struct source_services services = {.tables = r->tables, .filter = &filter};
    if (source_recorder.open(&services, NULL, &report, &r->recorder) < 0)
        fail_msg("%s", report.entries[0].fallback_reason);
    if (request_source_open_on(&services, &report, method, false, &r->request) < 0) {
        print_message("%s\n", report.entries[1].fallback_reason);
        expect_refused_without_recorder(method, &filter, report.entries[1].fallback_reason);
        source_recorder.free(r->recorder);
        shared_tables_free(r->tables);
        return false;
    }
    r->has_cookies = strncmp(report.entries[1].method, "socket tracepoints", 18) == 0;
    assert_int_equal(source_recorder.start(r->recorder), 0);
    r->start_ns = clock_monotonic_ns();
    return true;
}

bool recording_begin_by(struct recording *r, uint32_t records, int method)
{
    return begin(r, records, method, 0);
}

void recording_begin_with_tasks(struct recording *r, uint32_t records)
{
    assert_true(begin(r, records, REQUEST_METHOD_BEST, 1 << 20));
    assert_true(shared_tables_has_tasks(r->tables));
}

void recording_begin(struct recording *r, uint32_t records)
{
    assert_true(recording_begin_by(r, records, REQUEST_METHOD_BEST));
}

void recording_begin_or_skip(struct recording *r, uint32_t records)
{
    recording_begin(r, records);
    if (r->has_cookies)
        return;
    recording_end(r);
    print_message("no socket tracepoints here\n");
    skip();
}

uint64_t recording_cookie(int fd)
{
    uint64_t cookie;
    socklen_t size = sizeof(cookie);
    assert_int_equal(getsockopt(fd, SOL_SOCKET, SO_COOKIE, &cookie, &size), 0);
    return cookie;
}

void recording_end(struct recording *r)
{
    source_request.free(r->request);
    source_recorder.free(r->recorder);
    shared_tables_free(r->tables);
}

struct flight_window recording_window(const struct recording *r)
{
    struct flight_window window;
    assert_int_equal(flight_recorder_window(r->fr, r->start_ns, UINT64_MAX, SIZE_MAX, &window), 0);
    return window;
}

const struct recorder_record *recording_next(const struct flight_window *window, size_t *at, int kind, uint32_t tid)
{
    while (*at < window->count) {
        const struct recorder_record *record = &window->records[(*at)++];
        if (record->kind == kind && record->tid == tid)
            return record;
    }
    return NULL;
}
