/* A flight recorder of one CPU in memory, for the tests of signals that read one. */
#pragma once

#include "base/clock.h"
#include "sources/tables/flight_recorder.h"

#include <linux/types.h>

#include "probes/recorder/recorder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#define RINGS_RECORDS 1024

/* A recorder whose rings are in memory files, as the kernel would have filled them. */
struct rings {
    struct flight_recorder *recorder;
    struct recorder_record *records;
    struct recorder_cpu *cpu;
    uint64_t begin_ns; /* of the requests: its records are complete from before then */
};

static inline void *map_file(size_t bytes, int *ret_fd)
{
    *ret_fd = memfd_create("ring", 0);
    assert_true(*ret_fd >= 0);
    assert_int_equal(ftruncate(*ret_fd, (off_t)bytes), 0);
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, *ret_fd, 0);
    assert_true(at != MAP_FAILED);
    return at;
}

static inline void open_rings(struct rings *r)
{
    const struct flight_recorder_size size = {
        .cpus = 1, .scheduler_records = RINGS_RECORDS, .object_records = RINGS_RECORDS};
    int records_fd, cpus_fd;
    r->records = map_file(2 * RINGS_RECORDS * sizeof(*r->records), &records_fd);
    r->cpu = map_file(sizeof(*r->cpu), &cpus_fd);
    assert_int_equal(flight_recorder_new(records_fd, cpus_fd, -1, &size, &r->recorder), 0);
    close(records_fd);
    close(cpus_fd);
    flight_recorder_enable(r->recorder, true);
    r->begin_ns = clock_monotonic_ns() + 1000000000;
}

static inline void close_rings(struct rings *r)
{
    flight_recorder_free(r->recorder);
    munmap(r->records, 2 * RINGS_RECORDS * sizeof(*r->records));
    munmap(r->cpu, sizeof(*r->cpu));
}
