/* The rings of the flight recorder (recorder.h) and how a program appends to them: tables.bpf.c creates the maps,
 * recorder.bpf.c and request.bpf.c write, src/sources/tables/flight_recorder.c reads.
 *
 * A reader may copy a record while it is written. So time_ns is 0 from before the first other field changes until
 * after the last one has: a record whose time was the same and not 0 before and after copying is a whole one. x86-64
 * keeps the order of stores; another machine would need barriers. */
#pragma once

#include "probes/common/vmlinux.h"

#include <bpf/bpf_helpers.h>

#include "probes/recorder/recorder.h"

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(map_flags, BPF_F_MMAPABLE);
    __uint(max_entries, 1); /* set at load */
    __type(key, __u32);
    __type(value, struct recorder_record);
} recorder_records SEC(".maps");

/* By CPU. */
struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(map_flags, BPF_F_MMAPABLE);
    __uint(max_entries, 1); /* set at load */
    __type(key, __u32);
    __type(value, struct recorder_cpu);
} recorder_cpus SEC(".maps");

/* The files of RECORDER_FILE, by their key; the one that was not used for longest gives way. */
struct {
    __uint(type, BPF_MAP_TYPE_LRU_HASH);
    __uint(max_entries, 1024);
    __type(key, __u64);
    __type(value, struct recorder_file);
} recorder_files SEC(".maps");

#define RECORDER_BARRIER() asm volatile("" ::: "memory")

/* Where this CPU's rings are, read once: user space changes both masks by one store. */
struct recorder_place {
    struct recorder_cpu *cpu; /* NULL: nothing is recorded */
    __u32 first;              /* of the CPU's records */
    __u32 scheduler_mask, object_mask;
};

static __always_inline struct recorder_place recorder_place(void)
{
    __u32 number = bpf_get_smp_processor_id();
    struct recorder_place place = {.cpu = bpf_map_lookup_elem(&recorder_cpus, &number)};
    if (!place.cpu)
        return place;
    __u64 masks = *(volatile __u64 *)&place.cpu->scheduler_mask;
    place.scheduler_mask = masks;
    place.object_mask = masks >> 32;
    place.first = number * (place.scheduler_mask + 1 + place.object_mask + 1);
    if (!masks)
        place.cpu = NULL;
    return place;
}

static __always_inline void recorder_write(__u32 index, const struct recorder_record *record)
{
    struct recorder_record *r = bpf_map_lookup_elem(&recorder_records, &index);
    if (!r)
        return;
    *(volatile __u64 *)&r->time_ns = 0;
    RECORDER_BARRIER();
    r->kind = record->kind;
    r->flags = record->flags;
    r->syscall = record->syscall;
    r->tid = record->tid;
    r->object = record->object;
    r->value = record->value;
    RECORDER_BARRIER();
    *(volatile __u64 *)&r->time_ns = record->time_ns;
}

/* With interrupts disabled, as the scheduler's hooks run, except where a thread wakes itself. */
static __always_inline void recorder_put_scheduler(const struct recorder_place *place,
                                                   const struct recorder_record *record)
{
    __u64 number = place->cpu->scheduler_count;
    *(volatile __u64 *)&place->cpu->scheduler_count = number + 1;
    recorder_write(place->first + (number & place->scheduler_mask), record);
}

/* From the context of a thread or an interrupt. An interrupt between the two instructions that take the place makes
 * both writers take the interrupt's: the latter's record is lost, and a place keeps its record of one round before,
 * which the reader recognizes by its time. (Linux before 5.12 has no atomic addition that returns the sum.) */
static __always_inline void recorder_put_object(const struct recorder_place *place,
                                                const struct recorder_record *record)
{
    __sync_fetch_and_add(&place->cpu->object_count, 1);
    __u64 number = *(volatile __u64 *)&place->cpu->object_count - 1;
    recorder_write(place->first + place->scheduler_mask + 1 + (number & place->object_mask), record);
}
