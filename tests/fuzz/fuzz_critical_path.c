/* Any window of the flight recorder and any request: the walk ends, its segments cover the request exactly, and so do
 * the segments and components shown of it, within their limits. */
#include "diagnose/flight/flight_index.h"
#include "diagnose/path/critical_path.h"
#include "diagnose/path/path_text.h"

#include <linux/types.h>

#include "probes/recorder/recorder.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

#define BASE_NS      1000000000ull
#define RECORDS_MAX  4096
#define HEADER_BYTES 8
#define RECORD_BYTES 8

static const int syscalls[] = {
    RECORDER_NO_SYSCALL, SYS_futex,           SYS_epoll_pwait, SYS_recvfrom, SYS_sendto,  SYS_clone,
    SYS_pread64,         SYS_clock_nanosleep, SYS_read,        SYS_fsync,    SYS_connect, SYS_ppoll,
    SYS_write,           SYS_wait4,           SYS_accept4,     9999};

#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "line %d: %s\n", __LINE__, #condition);                                                    \
            abort();                                                                                                   \
        }                                                                                                              \
    } while (0)

static uint32_t tid_of(unsigned bits)
{
    return bits % 8 ? 10 + bits % 8 : 0; /* 0: the idle thread */
}

/* A socket, a descriptor, or a futex word near or far from others. */
static uint64_t object_of(unsigned bits)
{
    return bits < 128 ? bits % 8 : 0x4000 + (bits % 8) * 4 + (bits & 64) * 16;
}

static uint64_t take_time(const uint8_t *data)
{
    return (uint64_t)data[0] << data[1] % 20;
}

static uint8_t kind_of(uint8_t byte)
{
    return byte & 16 ? (byte & 1    ? RECORDER_TASK
                        : byte & 2  ? RECORDER_HELD
                        : byte & 4  ? RECORDER_DISK
                        : byte & 8  ? RECORDER_INTERRUPT
                        : byte & 32 ? RECORDER_RECLAIM
                                    : RECORDER_FILE)
                     : byte % 8;
}

static size_t take_records(const uint8_t *data, size_t size, struct recorder_record *out)
{
    size_t count = 0;
    uint64_t t_ns = BASE_NS;
    for (; size >= RECORD_BYTES && count < RECORDS_MAX; size -= RECORD_BYTES, data += RECORD_BYTES) {
        t_ns += take_time(data + 6);
        const uint64_t high = data[0] & 8 ? data[5] : tid_of(data[3] >> 3) / 4;
        out[count++] = (struct recorder_record){.time_ns = t_ns,
                                                .kind = kind_of(data[0]),
                                                .flags = data[1],
                                                .syscall = (int16_t)syscalls[data[2] % 16],
                                                .tid = tid_of(data[3]),
                                                .object = object_of(data[4]),
                                                .value = high << 32 | tid_of(data[3] >> 3)};
    }
    return count;
}

static void name_thread(void *context, uint32_t tid, char out[PATH_THREAD_BYTES])
{
    (void)context;
    snprintf(out, PATH_THREAD_BYTES, "%s", tid % 2 ? "pool-thread-name" : "");
}

static void name_descriptor(void *context, uint32_t pid, uint64_t fd, char out[PATH_DESCRIPTOR_BYTES])
{
    (void)context;
    (void)pid;
    memset(out, fd % 2 ? 'x' : 0, PATH_DESCRIPTOR_BYTES - 1);
    out[PATH_DESCRIPTOR_BYTES - 1] = '\0';
}

static void check_segments(const struct path_segments *path, const struct critical_path_request *request)
{
    CHECK(path->begin_ns == request->start_ns);
    uint64_t t_ns = path->begin_ns;
    for (size_t i = 0; i < path->count; i++) {
        const struct path_segment *s = &path->items[i];
        CHECK(s->start_ns == t_ns && s->end_ns > s->start_ns);
        CHECK(s->kind < REQUEST_PART_COUNT && s->owner < REQUEST_OWNER_COUNT && s->reason);
        CHECK(s->kind != REQUEST_PART_UNATTRIBUTED || s->reason[0]);
        t_ns = s->end_ns;
    }
    CHECK(t_ns == request->end_ns);
}

static void check_parts(struct path_text *text, uint64_t duration_ns, size_t max)
{
    struct request_part parts[REQUEST_PARTS_MAX];
    size_t count = 0;
    if (path_text_parts(text, max, parts, &count) < 0)
        return;
    CHECK(count <= max);
    uint64_t sum_ns = 0;
    for (size_t i = 0; i < count; i++) {
        CHECK(parts[i].duration_ns > 0 && parts[i].detail && parts[i].stack);
        CHECK(i == 0 || parts[i].duration_ns <= parts[i - 1].duration_ns);
        sum_ns += parts[i].duration_ns;
    }
    CHECK(sum_ns == duration_ns);
}

static void check_text(const struct path_segments *path, const struct critical_path_request *request)
{
    const struct path_names names = {.thread = name_thread, .descriptor = name_descriptor};
    struct path_text *text = NULL;
    if (path_text_new(path, 3, request->tid, &names, &text) < 0)
        return;
    size_t count;
    const struct request_segment *segments = path_text_segments(text, &count);
    CHECK(count <= REQUEST_SEGMENTS_MAX);
    uint64_t t_ns = 0;
    for (size_t i = 0; i < count; i++) {
        CHECK(segments[i].start_ns == t_ns && segments[i].duration_ns > 0 && segments[i].detail && segments[i].thread);
        t_ns += segments[i].duration_ns;
    }
    CHECK(t_ns == request->end_ns - path->begin_ns);
    check_parts(text, t_ns, REQUEST_PARTS_MAX);
    check_parts(text, t_ns, REQUEST_PART_COUNT);
    path_text_free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct recorder_record records[RECORDS_MAX];
    if (size < HEADER_BYTES)
        return 0;
    const size_t count = take_records(data + HEADER_BYTES, size - HEADER_BYTES, records);
    const struct recorder_record *start = count ? &records[(data[0] | data[1] << 8) % count] : NULL,
                                 *end = count ? &records[count - 1 - data[2] % count] : NULL;
    const struct flight_window window = {
        .records = records,
        .count = count,
        .complete_from_ns = data[3] & 1 ? BASE_NS + take_time(data + 4) : 0,
    };
    struct critical_path_request request = {
        .socket = object_of(data[6]),
        .start_ns = start ? start->time_ns : BASE_NS,
        .read_ns = start ? start->time_ns : BASE_NS,
        .end_ns = end ? end->time_ns : BASE_NS + 1000,
        .tid = tid_of(data[7]),
        .schedules_itself = (data[3] & 6) == 6,
    };
    if (request.end_ns < request.start_ns) /* the BPF side never reports that */
        request.end_ns = request.start_ns;
    struct path_segments path;
    _cleanup_(flight_index_freep) struct flight_index *index = NULL;
    CHECK(flight_index_new(&window, &index) == 0);
    const int r = critical_path_find(index, &request, &path);
    CHECK(r == 0 || r == -ENODATA || r == -ENOMEM);
    CHECK(r != -ENOMEM);
    if (r == 0) {
        check_segments(&path, &request);
        check_text(&path, &request);
    }
    path_segments_clear(&path);
    return 0;
}
