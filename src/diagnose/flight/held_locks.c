/* The window's RECORDER_HELD, by time, and which locks they are about. See held_locks.h. */
#include "diagnose/flight/held_locks.h"

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

static bool is_about(const struct recorder_record *r, uint32_t pid, uint64_t word)
{
    return recorder_high(r->value) == pid && word - r->object < RECORDER_LOCK_BYTES;
}

const struct recorder_record *held_locks_before(const struct held_locks *locks, uint32_t pid, uint64_t word,
                                                uint64_t t_ns)
{
    size_t low = 0, high = locks->count; /* those before t are below `low` */
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (locks->waits[middle]->time_ns < t_ns)
            low = middle + 1;
        else
            high = middle;
    }
    while (low-- > 0)
        if (is_about(locks->waits[low], pid, word))
            return locks->waits[low];
    return NULL;
}
