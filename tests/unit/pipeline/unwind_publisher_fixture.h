/* A publisher with fake tables that record every call, processes and objects. Header only: each test is a program of
 * its own. */
#pragma once

#include "base/clock.h"
#include "pipeline/unwind_publisher.h"
#include "resolve/elf/elf.h"
#include "resolve/interpreter/interpreters.h"
#include "resolve/process/processes.h"
#include "resolve/unwind/unwind_cache.h"
#include "sources/tables/unwind_tables.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define SECOND_NS     1000000000ull
#define OBJECTS_MAX   64
#define PROCESSES_MAX 16

/* ---- fake tables ---- */

struct unwind_tables {
    bool present[OBJECTS_MAX];
    unsigned puts, removals;
    unsigned max_objects;
    size_t max_bytes;
    struct {
        uint32_t pid;
        size_t count;
        struct unwind_mapping mappings[4];
        uint64_t runtime;
    } processes[PROCESSES_MAX];
    unsigned process_puts;
};

int unwind_tables_put_object(struct unwind_tables *t, const void *values, size_t value_count, uint32_t *ret_object)
{
    assert_non_null(values);
    assert_true(value_count > 2);
    unsigned held = 0;
    for (uint32_t i = 0; i < OBJECTS_MAX; i++)
        held += t->present[i];
    if (held >= t->max_objects)
        return -ENOSPC;
    uint32_t number = t->puts++ % OBJECTS_MAX;
    assert_false(t->present[number]);
    t->present[number] = true;
    *ret_object = number;
    return 0;
}

void unwind_tables_remove_object(struct unwind_tables *t, uint32_t object)
{
    assert_true(object < OBJECTS_MAX && t->present[object]);
    for (size_t i = 0; i < PROCESSES_MAX; i++)
        for (size_t j = 0; t->processes[i].pid && j < t->processes[i].count; j++)
            assert_int_not_equal(t->processes[i].mappings[j].object, object); /* no process references it any more */
    t->present[object] = false;
    t->removals++;
}

int unwind_tables_put_process(struct unwind_tables *t, uint32_t pid, const struct unwind_mapping *mappings,
                              size_t count, const struct interpreter_layouts *interpreters)
{
    unwind_tables_remove_process(t, pid);
    for (size_t i = 0; i < PROCESSES_MAX; i++) {
        if (t->processes[i].pid)
            continue;
        t->processes[i].pid = pid;
        t->processes[i].count = count;
        t->processes[i].runtime = interpreters->runtime;
        memcpy(t->processes[i].mappings, mappings, count * sizeof(*mappings));
        t->process_puts++;
        return 0;
    }
    return -ENOSPC;
}

void unwind_tables_remove_process(struct unwind_tables *t, uint32_t pid)
{
    for (size_t i = 0; i < PROCESSES_MAX; i++)
        if (t->processes[i].pid == pid)
            t->processes[i].pid = 0;
}

bool unwind_tables_is_settled(struct unwind_tables *t)
{
    (void)t;
    return true;
}

size_t unwind_tables_bytes(const struct unwind_tables *t)
{
    (void)t;
    return 0;
}

size_t unwind_tables_max_bytes(const struct unwind_tables *t)
{
    return t->max_bytes;
}

static inline uint64_t kernel_runtime(const struct unwind_tables *t, uint32_t pid)
{
    for (size_t i = 0; i < PROCESSES_MAX; i++)
        if (t->processes[i].pid == pid)
            return t->processes[i].runtime;
    return UINT64_MAX;
}

/* What the BPF side would find for a process's mapping; UINT32_MAX - 2: no such process. */
#define NO_PROCESS (UINT32_MAX - 2)
static inline uint32_t kernel_object(const struct unwind_tables *t, uint32_t pid, size_t mapping)
{
    for (size_t i = 0; i < PROCESSES_MAX; i++)
        if (t->processes[i].pid == pid)
            return t->processes[i].mappings[mapping].object;
    return NO_PROCESS;
}

/* ---- objects: all of them are this program ---- */

static unsigned references;

struct object *object_ref(struct object *o)
{
    references++;
    o->references++;
    return o;
}

struct object *object_unref(struct object *o)
{
    assert_true(o->references > 0);
    references--;
    o->references--;
    return NULL;
}

int object_open(const struct object *o)
{
    (void)o;
    int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

void object_unreadable(const struct object *o)
{
    (void)o;
}

/* ---- fixture, one per test ---- */

struct fixture {
    struct unwind_tables tables;
    struct unwind_cache *cache;
    struct unwind_publisher *publisher;
    struct interpreters *interpreters; /* NULL: none */
    struct object objects[8];
    struct process_mapping mappings[4][2];
    struct process processes[4];
    uint64_t now_ns;
};

static inline int make_fixture(void **state)
{
    struct fixture *w = calloc(1, sizeof(*w));
    assert_non_null(w);
    w->tables.max_objects = OBJECTS_MAX;
    w->tables.max_bytes = SIZE_MAX;
    w->now_ns = clock_monotonic_ns();
    assert_int_equal(unwind_cache_new(1 << 20, &w->cache), 0);
    assert_int_equal(unwind_publisher_new(&w->tables, w->cache, NULL, 0, &w->publisher), 0);
    for (size_t i = 0; i < 8; i++)
        w->objects[i] = (struct object){.id = i + 1, .path = "/x", .build_id = ""};
    for (size_t i = 0; i < 4; i++) { /* each maps its own program and library 7 */
        w->mappings[i][0] = (struct process_mapping){0x1000, 0x2000, 0, &w->objects[i]};
        w->mappings[i][1] = (struct process_mapping){0x5000, 0x6000, 0, &w->objects[7]};
        w->processes[i] = (struct process){.pid = (uint32_t)(100 + i),
                                           .start_time_ns = 1,
                                           .mapping_version = i + 1,
                                           .mappings = w->mappings[i],
                                           .mapping_count = 2};
    }
    *state = w;
    return 0;
}

static inline int free_fixture(void **state)
{
    struct fixture *w = *state;
    unwind_publisher_free(w->publisher);
    interpreters_free(w->interpreters);
    assert_int_equal(references, 0);
    for (size_t i = 0; i < OBJECTS_MAX; i++)
        assert_false(w->tables.present[i]);
    for (size_t i = 0; i < PROCESSES_MAX; i++)
        assert_int_equal(w->tables.processes[i].pid, 0);
    unwind_cache_free(w->cache);
    free(w);
    return 0;
}

/* As the resolver does when it walks a copied stack through the object. */
static inline void walk_by(struct fixture *w, size_t object)
{
    const struct unwind_table *table;
    assert_int_equal(unwind_cache_get(w->cache, &w->objects[object], &table), 0);
}

static inline void pass_time(struct fixture *w, uint64_t ns)
{
    w->now_ns += ns;
    unwind_publisher_run_at(w->publisher, w->now_ns);
}

/* A file offset in this program's code. */
static inline uint32_t code_offset(void)
{
    _cleanup_(elf_file_freep) struct elf_file *f = NULL;
    const struct elf_segment *segments;
    assert_int_equal(elf_open(open("/proc/self/exe", O_RDONLY | O_CLOEXEC), &f), 0);
    const size_t count = elf_segments(f, &segments);
    for (size_t i = 0; i < count; i++)
        if (segments[i].executable)
            return (uint32_t)segments[i].offset + 64;
    fail();
    return 0;
}
