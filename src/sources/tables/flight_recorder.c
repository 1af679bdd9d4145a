/* The flight recorder's two maps in memory: `recorder_records` to read, `recorder_cpus` also to set the masks that
 * limit the programs' records. See flight_recorder.h. */
#include "sources/tables/flight_recorder.h"

#include "base/clock.h"
#include "sources/tables/recorder_rings.h"

#include "probes/recorder/recorder.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

/* How much later than its place in the object ring says a record may be: as long as an interrupt lasts, or a thread
 * that was preempted while it wrote. */
#define OBJECT_SLACK_NS 10000000

#define RINGS_PER_CPU   2

/* How much later than it was disabled a window may end: a window is a little longer than its request. */
#define DISABLED_SLACK_NS 1000000

struct flight_recorder {
    struct flight_recorder_size size;
    const struct recorder_record *records;
    struct recorder_cpu *cpus;
    struct recorder_ring *rings;
    int files_fd;
    bool is_enabled;
    uint64_t since_ns; /* when it was enabled; 0: never */
    uint64_t until_ns; /* when it was disabled, if it is */
    uint64_t windows, windows_overwritten;
};

static uint32_t power_of_two_below(uint64_t limit)
{
    uint32_t power = 2;
    while (power * 2ull <= limit && power < 1u << 30)
        power *= 2;
    return power;
}

struct flight_recorder_size flight_recorder_size(uint64_t bytes, uint32_t cpus)
{
    const uint64_t records = bytes / sizeof(struct recorder_record) / (cpus ? cpus : 1);
    const uint32_t object_records = power_of_two_below(records / 2);
    return (struct flight_recorder_size){
        .cpus = cpus,
        .scheduler_records = power_of_two_below(records > object_records ? records - object_records : 0),
        .object_records = object_records,
    };
}

static size_t records_bytes(const struct flight_recorder_size *size)
{
    return (size_t)size->cpus * (size->scheduler_records + (size_t)size->object_records) *
           sizeof(struct recorder_record);
}

static size_t cpus_bytes(const struct flight_recorder_size *size)
{
    return size->cpus * sizeof(struct recorder_cpu);
}

void flight_recorder_free(struct flight_recorder *fr)
{
    if (!fr)
        return;
    if (fr->records)
        munmap((void *)fr->records, records_bytes(&fr->size));
    if (fr->cpus)
        munmap(fr->cpus, cpus_bytes(&fr->size));
    free(fr->rings);
    free(fr);
}

static int map_memory(int fd, size_t bytes, int protection, void **ret)
{
    void *at = mmap(NULL, bytes, protection, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED)
        return -errno;
    *ret = at;
    return 0;
}

static int make_rings(struct flight_recorder *fr)
{
    const struct flight_recorder_size *size = &fr->size;
    fr->rings = calloc((size_t)size->cpus * RINGS_PER_CPU, sizeof(*fr->rings));
    if (!fr->rings)
        return -ENOMEM;
    for (size_t i = 0; i < size->cpus; i++) {
        const struct recorder_record *first =
            fr->records + i * (size->scheduler_records + (size_t)size->object_records);
        fr->rings[i * RINGS_PER_CPU] = (struct recorder_ring){
            .records = first, .count = &fr->cpus[i].scheduler_count, .size = size->scheduler_records};
        fr->rings[i * RINGS_PER_CPU + 1] = (struct recorder_ring){.records = first + size->scheduler_records,
                                                                  .count = &fr->cpus[i].object_count,
                                                                  .size = size->object_records,
                                                                  .slack_ns = OBJECT_SLACK_NS};
    }
    return 0;
}

int flight_recorder_new(int records_fd, int cpus_fd, int files_fd, const struct flight_recorder_size *size,
                        struct flight_recorder **ret)
{
    _cleanup_(flight_recorder_freep) struct flight_recorder *fr = calloc(1, sizeof(*fr));
    void *records = NULL, *cpus = NULL;
    if (!fr)
        return -ENOMEM;
    fr->size = *size;
    fr->files_fd = files_fd;
    int r = map_memory(records_fd, records_bytes(size), PROT_READ, &records);
    if (r < 0)
        return r;
    fr->records = records;
    r = map_memory(cpus_fd, cpus_bytes(size), PROT_READ | PROT_WRITE, &cpus);
    if (r < 0)
        return r;
    fr->cpus = cpus;
    r = make_rings(fr);
    if (r == 0)
        *ret = take_ptr(fr);
    return r;
}

void flight_recorder_enable(struct flight_recorder *fr, bool is_enabled)
{
    const __u64 scheduler_mask = fr->size.scheduler_records - 1, object_mask = fr->size.object_records - 1;
    const __u64 masks = is_enabled ? object_mask << 32 | scheduler_mask : 0;
    if (is_enabled == fr->is_enabled)
        return;
    fr->is_enabled = is_enabled;
    for (size_t i = 0; i < fr->size.cpus; i++) /* by one store: a program never sees one of the two alone */
        __atomic_store_n((__u64 *)(void *)&fr->cpus[i].scheduler_mask, masks, __ATOMIC_SEQ_CST);
    *(is_enabled ? &fr->since_ns : &fr->until_ns) = clock_monotonic_ns();
}

bool flight_recorder_is_enabled(const struct flight_recorder *fr)
{
    return fr->is_enabled;
}

int flight_recorder_window(struct flight_recorder *fr, uint64_t from_ns, uint64_t to_ns, size_t max_records,
                           struct flight_window *ret)
{
    uint64_t horizon_ns = UINT64_MAX;
    if (!fr->since_ns || (!fr->is_enabled && to_ns > fr->until_ns + DISABLED_SLACK_NS)) {
        *ret = (struct flight_window){.complete_from_ns = horizon_ns};
        return 0;
    }
    int r = recorder_rings_window(fr->rings, (size_t)fr->size.cpus * RINGS_PER_CPU, fr->since_ns, from_ns, to_ns,
                                  max_records, ret, &horizon_ns);
    if (r < 0)
        return r;
    fr->windows++;
    fr->windows_overwritten += horizon_ns > fr->since_ns && horizon_ns > from_ns;
    return 0;
}

void flight_recorder_window_free(struct flight_window *window)
{
    free((void *)window->records);
    *window = (struct flight_window){0};
}

bool flight_recorder_file(const struct flight_recorder *fr, uint64_t key, struct recorder_file *ret)
{
    const __u64 of = key;
    struct recorder_file file;
    if (bpf_map_lookup_elem(fr->files_fd, &of, &file) < 0)
        return false;
    file.name[sizeof(file.name) - 1] = file.file_system[sizeof(file.file_system) - 1] = '\0';
    *ret = file;
    return true;
}

struct flight_recorder_stats flight_recorder_stats(const struct flight_recorder *fr, uint64_t now_ns)
{
    struct flight_recorder_stats stats = {.windows = fr->windows, .windows_overwritten = fr->windows_overwritten};
    uint64_t horizon_ns = fr->since_ns;
    for (size_t i = 0; i < fr->size.cpus; i++) {
        stats.scheduler_records += __atomic_load_n(&fr->cpus[i].scheduler_count, __ATOMIC_RELAXED);
        stats.object_records += __atomic_load_n(&fr->cpus[i].object_count, __ATOMIC_RELAXED);
    }
    for (size_t i = 0; i < (size_t)fr->size.cpus * RINGS_PER_CPU; i++) {
        const uint64_t complete_ns = recorder_ring_complete_from(&fr->rings[i], fr->since_ns);
        horizon_ns = complete_ns > horizon_ns ? complete_ns : horizon_ns;
    }
    stats.history_ns = fr->is_enabled && now_ns > horizon_ns ? now_ns - horizon_ns : 0;
    return stats;
}
