/* The walk over any records: it ends, its segments cover the request exactly and in order, and what is made of them
 * sums to the duration. Each 6 bytes of input are a record: step of time, kind, flags, two threads, object. */
#include "diagnose/critical_path.h"
#include "diagnose/path_text.h"

#include <linux/types.h>

#include "probes/recorder/recorder.h"

#include <stdlib.h>
#include <sys/syscall.h>

#define RECORD_BYTES 6
#define RECORDS_MAX  4096
#define BASE_NS      1000000000ull

static const int syscalls[] = {RECORDER_NO_SYSCALL, SYS_futex,   SYS_epoll_pwait, SYS_nanosleep, SYS_recvfrom,
                               SYS_sendto,          SYS_pread64, SYS_clone,       SYS_accept4};

static struct recorder_record record_of(const uint8_t *in, uint64_t time_ns)
{
    const uint32_t tid = 10 + in[3] % 6, other = 10 + in[4] % 6;
    struct recorder_record r = {.time_ns = time_ns,
                                .kind = (uint8_t)(in[1] % (RECORDER_EXIT + 2)),
                                .flags = in[2],
                                .syscall = (int16_t)syscalls[in[1] / 8 % array_size(syscalls)],
                                .tid = tid,
                                .object = in[5] % 6,
                                .value = (uint64_t)(in[5] / 8) << 32 | other};
    if (r.kind >= RECORDER_SEND)
        r.object = 1000 + in[5] % 6;
    return r;
}

static void check(bool holds)
{
    if (!holds)
        abort();
}

static void check_segments(const struct path_segments *path, const struct critical_path_request *request)
{
    check(path->count > 0 && path->items[0].start_ns <= request->start_ns);
    check(path->items[path->count - 1].end_ns == request->end_ns);
    for (size_t i = 0; i < path->count; i++) {
        check(path->items[i].start_ns < path->items[i].end_ns);
        check(i == 0 || path->items[i].start_ns == path->items[i - 1].end_ns);
    }
}

static void check_text(const struct path_segments *path)
{
    const struct path_names no_names = {0};
    const uint64_t start_ns = path->items[0].start_ns, duration_ns = path->items[path->count - 1].end_ns - start_ns;
    struct path_text *text;
    struct request_part parts[REQUEST_PARTS_MAX];
    size_t count;
    uint64_t sum_ns = 0;
    if (path_text_new(path, 1, 10, &no_names, &text) < 0)
        return;
    const struct request_segment *segments = path_text_segments(text, &count);
    check(count <= REQUEST_SEGMENTS_MAX);
    for (size_t i = 0; i < count; i++) {
        check(segments[i].start_ns == sum_ns);
        sum_ns += segments[i].duration_ns;
    }
    check(sum_ns == duration_ns);
    if (path_text_parts(text, 0, UINT64_MAX, REQUEST_PARTS_MAX, parts, &count) == 0) {
        check(count <= REQUEST_PARTS_MAX);
        for (size_t i = 0; i < count; i++)
            sum_ns -= parts[i].duration_ns;
        check(sum_ns == 0);
    }
    path_text_free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct recorder_record records[RECORDS_MAX];
    size_t count = 0;
    uint64_t time_ns = BASE_NS;
    if (size < 4)
        return 0;
    for (size_t at = 4; at + RECORD_BYTES <= size && count < RECORDS_MAX; at += RECORD_BYTES) {
        time_ns += (uint64_t)data[at] * data[at];
        records[count++] = record_of(&data[at], time_ns);
    }
    const uint64_t all_ns = time_ns - BASE_NS;
    const struct flight_window window = {
        .records = records, .count = count, .complete_from_ns = data[0] ? BASE_NS + all_ns * data[0] / 256 : 0};
    const struct critical_path_request request = {.socket = 1000 + data[3] % 6,
                                                  .start_ns = BASE_NS + all_ns * data[1] / 256,
                                                  .end_ns = time_ns + 1 + data[2],
                                                  .tid = 10 + data[3] / 8 % 6,
                                                  .schedules_itself = data[3] & 128};
    struct path_segments path;
    if (critical_path_find(&window, &request, &path) == 0) {
        check_segments(&path, &request);
        check_text(&path);
    }
    path_segments_clear(&path);
    return 0;
}
