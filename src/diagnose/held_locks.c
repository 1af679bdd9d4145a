/* The window's RECORDER_HELD, by time, and which locks they are about. See held_locks.h. */
#include "diagnose/held_locks.h"

#include <errno.h>
#include <stdlib.h>

#define LOCKS_MAX 16 /* of all processes; there are no words of further ones */

struct held_locks {
    const struct recorder_record **waits;
    size_t count;
    struct {
        uint32_t pid;
        uint64_t address;
    } locks[LOCKS_MAX];
    size_t lock_count;
};

void held_locks_free(struct held_locks *locks)
{
    if (!locks)
        return;
    free(locks->waits);
    free(locks);
}

static void note_lock(struct held_locks *locks, uint32_t pid, uint64_t address)
{
    for (size_t i = 0; i < locks->lock_count; i++)
        if (locks->locks[i].pid == pid && locks->locks[i].address == address)
            return;
    if (locks->lock_count == LOCKS_MAX)
        return;
    locks->locks[locks->lock_count].pid = pid;
    locks->locks[locks->lock_count++].address = address;
}

int held_locks_new(const struct flight_window *window, struct held_locks **ret)
{
    _cleanup_(held_locks_freep) struct held_locks *locks = calloc(1, sizeof(*locks));
    size_t count = 0;
    for (size_t i = 0; i < window->count; i++)
        count += window->records[i].kind == RECORDER_HELD;
    if (!locks)
        return -ENOMEM;
    locks->waits = calloc(count + 1, sizeof(*locks->waits));
    if (!locks->waits)
        return -ENOMEM;
    for (size_t i = 0; i < window->count; i++) {
        const struct recorder_record *r = &window->records[i];
        if (r->kind != RECORDER_HELD)
            continue;
        locks->waits[locks->count++] = r;
        note_lock(locks, recorder_high(r->value), r->object);
    }
    *ret = take_ptr(locks);
    return 0;
}

bool held_locks_have_word(const struct held_locks *locks, uint32_t pid, uint64_t word)
{
    for (size_t i = 0; i < locks->lock_count; i++)
        if (locks->locks[i].pid == pid && word - locks->locks[i].address < RECORDER_LOCK_BYTES)
            return true;
    return false;
}

/* How many there are before `t`. */
static size_t count_before(const struct held_locks *locks, uint64_t t_ns)
{
    size_t low = 0, high = locks->count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (locks->waits[middle]->time_ns < t_ns)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

const struct recorder_record *held_locks_wait_of(const struct held_locks *locks, uint32_t tid, uint64_t from_ns,
                                                 uint64_t t_ns)
{
    for (size_t i = count_before(locks, t_ns); i-- > 0 && locks->waits[i]->time_ns >= from_ns;)
        if (locks->waits[i]->tid == tid)
            return locks->waits[i];
    return NULL;
}

const struct recorder_record *held_locks_before(const struct held_locks *locks, const struct recorder_record *wait,
                                                uint64_t t_ns)
{
    for (size_t i = count_before(locks, t_ns); i-- > 0;)
        if (locks->waits[i]->object == wait->object &&
            recorder_high(locks->waits[i]->value) == recorder_high(wait->value))
            return locks->waits[i];
    return NULL;
}
