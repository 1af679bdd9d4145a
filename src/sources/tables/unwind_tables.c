/* The kernel defers every change of a map of maps until no program can be reading it. That takes milliseconds, which
 * must not block the pipeline. So the pipeline thread fills an object's map, and a publisher thread inserts it into the
 * map of maps, many at once. Until then a lookup of the object's number fails, and a walk that needs it copies the
 * stack, as for any object without an unwind table.
 *
 * Mappings need no thread: the chunks of a new generation are written before the process's entry refers to it, and the
 * chunks of the old generation are deleted only after GRACE_NS, when no walk can use them any more. */
#include "sources/tables/unwind_tables_private.h"

#include "base/cleanup.h"
#include "base/clock.h"

#include "probes/interpreter/interpreter.h"
#include "probes/recorder/recorder_program.h"

#include <assert.h>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <pthread.h>
#include <string.h>

#define GRACE_NS      50000000ULL /* a walk takes microseconds, with preemption disabled */
#define RETIRED_MAX   4096
#define PUBLISH_BATCH 64
#define CHUNK_BYTES   1024 /* kernel memory of a chunk and of a process's entry */
#define PROCESS_BYTES 512

enum slot_state { SLOT_FREE, SLOT_TO_PUT, SLOT_PUTTING, SLOT_PRESENT, SLOT_TO_REMOVE, SLOT_REMOVING };

struct slot {
    enum slot_state state;
    int fd;          /* of the object's map; closed once the kernel holds it */
    uint32_t serial; /* never 0, which marks empty entries of the BPF programs' cache */
    size_t bytes;
};

struct retired_generation {
    uint64_t time_ns;
    uint32_t pid, generation, chunks;
};

struct unwind_tables {
    struct { /* borrowed from the skeleton */
        int processes_fd, chunks_fd, objects_fd;
        int programs_fd; /* of the flight recorder; -1: it reads no programs */
    } maps;
    size_t max_bytes;
    uint32_t generation;
    struct retired_generation *retired; /* ring buffer */
    size_t retired_first, retired_count;
    size_t mapping_bytes;

    pthread_t thread;
    bool thread_runs;
    pthread_mutex_t lock; /* protects all fields below */
    pthread_cond_t work;
    bool stop;
    size_t pending;
    size_t object_bytes;
    uint32_t next_slot, serial;
    struct slot slots[UNWIND_MAX_OBJECTS];
};

/* Moves up to `max` slots from state `from` to state `to`. The caller holds the lock. */
static size_t take_slots(struct unwind_tables *t, enum slot_state from, enum slot_state to, uint32_t *ret, size_t max)
{
    size_t n = 0;

    for (uint32_t i = 0; i < UNWIND_MAX_OBJECTS && n < max; i++) {
        if (t->slots[i].state != from)
            continue;
        t->slots[i].state = to;
        ret[n++] = i;
    }
    return n;
}

static void publish_objects(struct unwind_tables *t, uint32_t *slots, uint32_t count)
{
    uint32_t fds[PUBLISH_BATCH], done = count;
    LIBBPF_OPTS(bpf_map_batch_opts, options);

    for (uint32_t i = 0; i < count; i++)
        fds[i] = (uint32_t)t->slots[slots[i]].fd;
    if (bpf_map_update_batch(t->maps.objects_fd, slots, fds, &done, &options) == 0)
        return;
    for (uint32_t i = 0; i < count; i++) /* before 5.14: one by one. An object that fails stays without a table. */
        (void)bpf_map_update_elem(t->maps.objects_fd, &slots[i], &fds[i], BPF_ANY);
}

static void *publish_thread(void *arg)
{
    struct unwind_tables *t = arg;
    uint32_t slots[PUBLISH_BATCH];

    pthread_mutex_lock(&t->lock);
    while (!t->stop) {
        size_t puts, removals;

        if (t->pending == 0) {
            pthread_cond_wait(&t->work, &t->lock);
            continue;
        }
        puts = take_slots(t, SLOT_TO_PUT, SLOT_PUTTING, slots, PUBLISH_BATCH);
        if (puts) {
            pthread_mutex_unlock(&t->lock);
            publish_objects(t, slots, (uint32_t)puts);
            pthread_mutex_lock(&t->lock);
            for (size_t i = 0; i < puts; i++) {
                struct slot *slot = &t->slots[slots[i]];

                close(take_fd(&slot->fd));
                if (slot->state == SLOT_PUTTING)
                    slot->state = SLOT_PRESENT;
            }
            t->pending -= puts;
        }
        removals = take_slots(t, SLOT_TO_REMOVE, SLOT_REMOVING, slots, PUBLISH_BATCH);
        if (removals) {
            pthread_mutex_unlock(&t->lock);
            for (size_t i = 0; i < removals; i++)
                (void)bpf_map_delete_elem(t->maps.objects_fd, &slots[i]);
            pthread_mutex_lock(&t->lock);
            for (size_t i = 0; i < removals; i++) {
                t->object_bytes -= t->slots[slots[i]].bytes;
                t->slots[slots[i]] = (struct slot){.fd = -1};
            }
            t->pending -= removals;
        }
    }
    pthread_mutex_unlock(&t->lock);
    return NULL;
}

int unwind_tables_size_interpreters(struct bpf_object *of, uint32_t cpu_count)
{
    static const char *const names[] = {"interpreter_scratch", "v8_scratch", "hotspot_scratch"};
    int r = 0;

    for (size_t i = 0; i < array_size(names) && r == 0; i++)
        r = bpf_map__set_max_entries(bpf_object__find_map_by_name(of, names[i]), cpu_count);
    return r;
}

int unwind_tables_new(const struct bpf_object *of, size_t max_bytes, struct unwind_tables **ret)
{
    _cleanup_(unwind_tables_freep) struct unwind_tables *t = calloc(1, sizeof(*t));
    int r;

    if (!t)
        return -ENOMEM;
    t->maps.processes_fd = bpf_object__find_map_fd_by_name(of, "unwind_processes");
    t->maps.chunks_fd = bpf_object__find_map_fd_by_name(of, "unwind_chunks");
    t->maps.objects_fd = bpf_object__find_map_fd_by_name(of, "unwind_objects");
    t->maps.programs_fd = bpf_object__find_map_fd_by_name(of, "recorder_programs");
    t->max_bytes = max_bytes;
    for (size_t i = 0; i < UNWIND_MAX_OBJECTS; i++)
        t->slots[i].fd = -1;
    pthread_mutex_init(&t->lock, NULL);
    pthread_cond_init(&t->work, NULL);
    t->retired = calloc(RETIRED_MAX, sizeof(*t->retired));
    if (!t->retired)
        return -ENOMEM;
    r = pthread_create(&t->thread, NULL, publish_thread, t);
    if (r)
        return -r;
    t->thread_runs = true;
    (void)pthread_setname_np(t->thread, "unwind-tables");
    *ret = take_ptr(t);
    return 0;
}

void unwind_tables_free(struct unwind_tables *t)
{
    if (!t)
        return;
    if (t->thread_runs) {
        pthread_mutex_lock(&t->lock);
        t->stop = true;
        pthread_cond_signal(&t->work);
        pthread_mutex_unlock(&t->lock);
        pthread_join(t->thread, NULL);
    }
    for (size_t i = 0; i < UNWIND_MAX_OBJECTS; i++)
        closep(&t->slots[i].fd);
    pthread_cond_destroy(&t->work);
    pthread_mutex_destroy(&t->lock);
    free(t->retired);
    free(t);
}

static int object_map_fill(int fd, const void *values, uint32_t count)
{
    _cleanup_free_ uint32_t *keys = malloc(count * sizeof(*keys));
    LIBBPF_OPTS(bpf_map_batch_opts, options);
    uint32_t done = count;

    if (!keys)
        return -ENOMEM;
    for (uint32_t i = 0; i < count; i++)
        keys[i] = i;
    return bpf_map_update_batch(fd, keys, values, &done, &options);
}

/* Reserves a free slot with its bytes, or returns -ENOSPC. Slot numbers rotate, so that one is not reused soon. */
static int slot_reserve(struct unwind_tables *t, size_t bytes)
{
    int r = -ENOSPC;

    pthread_mutex_lock(&t->lock);
    for (uint32_t n = 0; n < UNWIND_MAX_OBJECTS && t->object_bytes + t->mapping_bytes + bytes <= t->max_bytes; n++) {
        uint32_t i = (t->next_slot + n) % UNWIND_MAX_OBJECTS;

        if (t->slots[i].state != SLOT_FREE)
            continue;
        t->slots[i] = (struct slot){.state = SLOT_PUTTING, .fd = -1, .serial = ++t->serial, .bytes = bytes};
        t->object_bytes += bytes;
        t->next_slot = i + 1;
        r = (int)i;
        break;
    }
    pthread_mutex_unlock(&t->lock);
    return r;
}

int unwind_tables_put_object(struct unwind_tables *t, const void *values, size_t value_count, uint32_t *ret_object)
{
    LIBBPF_OPTS(bpf_map_create_opts, options, .map_flags = BPF_F_INNER_MAP);
    size_t bytes = (value_count * UNWIND_VALUE_BYTES + 4095 + 512) & ~(size_t)4095;
    int fd, r, slot;

    if (value_count == 0 || value_count > UNWIND_MAX_PAGES * 2)
        return -EINVAL;
    slot = slot_reserve(t, bytes);
    if (slot < 0)
        return slot;
    fd = bpf_map_create(BPF_MAP_TYPE_ARRAY, "unwind_object", 4, UNWIND_VALUE_BYTES, (uint32_t)value_count, &options);
    r = fd < 0 ? fd : object_map_fill(fd, values, (uint32_t)value_count);

    pthread_mutex_lock(&t->lock);
    if (r < 0) {
        closep(&fd);
        t->object_bytes -= bytes;
        t->slots[slot] = (struct slot){.fd = -1};
    } else {
        t->slots[slot].fd = fd;
        t->slots[slot].state = SLOT_TO_PUT;
        t->pending++;
        pthread_cond_signal(&t->work);
        *ret_object = (uint32_t)slot;
    }
    pthread_mutex_unlock(&t->lock);
    return r;
}

void unwind_tables_remove_object(struct unwind_tables *t, uint32_t object)
{
    struct slot *slot;

    if (object >= UNWIND_MAX_OBJECTS)
        return;
    slot = &t->slots[object];
    pthread_mutex_lock(&t->lock);
    if (slot->state == SLOT_TO_PUT) { /* the kernel never saw it */
        closep(&slot->fd);
        t->object_bytes -= slot->bytes;
        *slot = (struct slot){.fd = -1};
        t->pending--;
    } else if (slot->state == SLOT_PUTTING || slot->state == SLOT_PRESENT) {
        slot->state = SLOT_TO_REMOVE;
        t->pending++;
        pthread_cond_signal(&t->work);
    }
    pthread_mutex_unlock(&t->lock);
}

bool unwind_tables_is_settled(struct unwind_tables *t)
{
    size_t pending;

    pthread_mutex_lock(&t->lock);
    pending = t->pending;
    pthread_mutex_unlock(&t->lock);
    return pending == 0;
}

int unwind_tables_settle(struct unwind_tables *t)
{
    for (int i = 0; i < 10000; i++) {
        if (unwind_tables_is_settled(t))
            return 0;
        usleep(1000);
    }
    return -ETIMEDOUT;
}

static void delete_chunks(struct unwind_tables *t, uint32_t pid, uint32_t generation, uint32_t chunks)
{
    for (uint32_t i = 0; i < chunks; i++) {
        struct unwind_chunk_key key = {.pid = pid, .generation = generation, .chunk = i};

        if (bpf_map_delete_elem(t->maps.chunks_fd, &key) == 0)
            t->mapping_bytes -= CHUNK_BYTES;
    }
}

static void delete_retired(struct unwind_tables *t, uint64_t now_ns)
{
    while (t->retired_count > 0) {
        struct retired_generation *g = &t->retired[t->retired_first];

        if (now_ns - g->time_ns < GRACE_NS && t->retired_count < RETIRED_MAX)
            return;
        delete_chunks(t, g->pid, g->generation, g->chunks);
        t->retired_first = (t->retired_first + 1) % RETIRED_MAX;
        t->retired_count--;
    }
}

static void retire_generation(struct unwind_tables *t, uint32_t pid, const struct unwind_process *process)
{
    uint64_t now_ns = clock_monotonic_ns();

    delete_retired(t, now_ns);
    t->retired[(t->retired_first + t->retired_count) % RETIRED_MAX] = (struct retired_generation){
        .time_ns = now_ns, .pid = pid, .generation = process->generation, .chunks = process->chunks};
    t->retired_count++;
}

static uint32_t mapping_object(const struct unwind_mapping *m)
{
    if (m->object == UNWIND_OBJECT_UNKNOWN)
        return UNWIND_MAPPING_NO_TABLE_YET;
    /* Rows have 32-bit file offsets. */
    if (m->object == UNWIND_OBJECT_NO_CODE || m->file_offset + (m->end - m->start) > UINT32_MAX)
        return UNWIND_MAPPING_NO_CODE;
    return m->object;
}

/* Reads without the lock: only this thread assigns slots and serials. */
static uint32_t mapping_serial(const struct unwind_tables *t, const struct unwind_mapping *m)
{
    return m->object < UNWIND_MAX_OBJECTS ? t->slots[m->object].serial : 0;
}

static int put_chunk(struct unwind_tables *t, const struct unwind_chunk_key *key, const struct unwind_mapping *mappings,
                     size_t count)
{
    struct unwind_chunk chunk = {.count = (uint32_t)count};
    int r;

    for (size_t i = 0; i < count; i++) {
        chunk.starts[i] = mappings[i].start;
        chunk.mappings[i] = (struct unwind_chunk_mapping){
            .pages = (uint32_t)((mappings[i].end - mappings[i].start) >> UNWIND_PAGE_SHIFT),
            .file_page = (uint32_t)(mappings[i].file_offset >> UNWIND_PAGE_SHIFT),
            .object = mapping_object(&mappings[i]),
            .serial = mapping_serial(t, &mappings[i]),
        };
    }
    r = bpf_map_update_elem(t->maps.chunks_fd, key, &chunk, BPF_ANY);
    if (r == 0)
        t->mapping_bytes += CHUNK_BYTES;
    return r == -E2BIG ? -ENOSPC : r;
}

/* Excludes mappings at kernel addresses ([vsyscall], which has no code): the search in BPF compares addresses as
 * signed numbers (UNWIND_SEARCH). */
static size_t count_user_mappings(const struct unwind_mapping *mappings, size_t count)
{
    while (count > 0 && mappings[count - 1].end > INT64_MAX)
        count--;
    return count;
}

static bool are_in_order(const struct unwind_mapping *mappings, size_t count)
{
    for (size_t i = 1; i < count; i++)
        if (mappings[i].start < mappings[i - 1].end)
            return false;
    return true;
}

/* What the flight recorder reads of the process. Without room, it reads nothing. */
static void put_program(struct unwind_tables *t, uint32_t pid, const struct interpreter_layouts *interpreters)
{
    const struct recorder_program program = {.is_go = interpreters->go.g_m != 0, .python = interpreters->python};
    if (program.is_go || program.python.thread_context)
        (void)bpf_map_update_elem(t->maps.programs_fd, &pid, &program, BPF_ANY);
    else
        (void)bpf_map_delete_elem(t->maps.programs_fd, &pid);
}

int unwind_tables_put_process(struct unwind_tables *t, uint32_t pid, const struct unwind_mapping *mappings,
                              size_t count, const struct interpreter_layouts *interpreters)
{
    struct unwind_process process = {.generation = ++t->generation, .put_ns = clock_monotonic_ns()}, old;
    struct unwind_chunk_key key = {.pid = pid, .generation = process.generation};
    bool had = bpf_map_lookup_elem(t->maps.processes_fd, &pid, &old) == 0;
    size_t chunks;
    int r = 0;

    assert(are_in_order(mappings, count));
    if (interpreters)
        process.interpreters = *interpreters;
    count = count_user_mappings(mappings, count);
    chunks = count ? (count + UNWIND_CHUNK_MAPPINGS - 1) / UNWIND_CHUNK_MAPPINGS : 1;
    delete_retired(t, clock_monotonic_ns());
    if (chunks > UNWIND_PROCESS_CHUNKS)
        return -ENOSPC;
    for (; process.chunks < chunks && r == 0; process.chunks++) {
        size_t first = (size_t)process.chunks * UNWIND_CHUNK_MAPPINGS, left = count - first;

        key.chunk = process.chunks;
        process.starts[process.chunks] = left ? mappings[first].start : 0;
        r = put_chunk(t, &key, mappings + first, left < UNWIND_CHUNK_MAPPINGS ? left : UNWIND_CHUNK_MAPPINGS);
    }
    if (r == 0)
        r = bpf_map_update_elem(t->maps.processes_fd, &pid, &process, BPF_ANY);
    if (r < 0) {
        delete_chunks(t, pid, process.generation, process.chunks);
        return r == -E2BIG ? -ENOSPC : r;
    }
    if (had)
        retire_generation(t, pid, &old);
    else
        t->mapping_bytes += PROCESS_BYTES;
    put_program(t, pid, &process.interpreters);
    return 0;
}

void unwind_tables_remove_process(struct unwind_tables *t, uint32_t pid)
{
    struct unwind_process old;

    if (bpf_map_lookup_elem(t->maps.processes_fd, &pid, &old) < 0)
        return;
    if (bpf_map_delete_elem(t->maps.processes_fd, &pid) < 0)
        return;
    t->mapping_bytes -= PROCESS_BYTES;
    (void)bpf_map_delete_elem(t->maps.programs_fd, &pid);
    retire_generation(t, pid, &old);
}

size_t unwind_tables_bytes(const struct unwind_tables *t)
{
    size_t bytes;

    pthread_mutex_lock((pthread_mutex_t *)&t->lock);
    bytes = t->object_bytes;
    pthread_mutex_unlock((pthread_mutex_t *)&t->lock);
    return bytes + t->mapping_bytes;
}

size_t unwind_tables_max_bytes(const struct unwind_tables *t)
{
    return t->max_bytes;
}
