/* A hash table from thread and word to the thread's operations on the word; see futex_words.h. */
#include "diagnose/flight/futex_words.h"

#include "base/cleanup.h"

#include <linux/types.h>

#include "probes/recorder/recorder.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/syscall.h>

#define WAITED 1
#define WOKE   2
/* glibc's condition variables have pairs of words. Waiters sleep at one word; the signaller sleeps at the other one, at
 * this distance, until the signalled threads have left. */
#define SIGNALLED_DISTANCE 24

struct entry {
    uint64_t word;
    uint32_t tid;
    uint32_t did; /* WAITED, WOKE; 0: a free slot */
};

struct futex_words {
    struct entry *entries;
    size_t mask;
};

static struct entry *find_entry(const struct futex_words *words, uint32_t tid, uint64_t word)
{
    size_t slot = ((word + tid * 0xff51afd7ed558ccdull) * 0x9e3779b97f4a7c15ull >> 32) & words->mask;
    while (words->entries[slot].did && (words->entries[slot].tid != tid || words->entries[slot].word != word))
        slot = (slot + 1) & words->mask;
    return &words->entries[slot];
}

/* Returns the thread that the record shows at a futex, and sets its operation there; 0 if the record shows no such
 * thread. */
static uint32_t thread_at_futex(const struct recorder_record *r, uint32_t *ret_did)
{
    if (r->syscall != SYS_futex || (r->kind != RECORDER_SWITCH && r->kind != RECORDER_WAKING))
        return 0;
    *ret_did = r->kind == RECORDER_SWITCH ? WAITED : WOKE;
    if (r->kind == RECORDER_SWITCH)
        return r->flags & RECORDER_PREEMPTED ? 0 : r->tid;
    return r->flags & (RECORDER_IN_SOFTIRQ | RECORDER_IN_HARDIRQ) ? 0 : recorder_low(r->value);
}

void futex_words_free(struct futex_words *words)
{
    if (!words)
        return;
    free(words->entries);
    free(words);
}

int futex_words_new(const struct flight_window *window, struct futex_words **ret)
{
    size_t count = 0, slots = 16;
    uint32_t did;
    for (size_t i = 0; i < window->count; i++)
        count += thread_at_futex(&window->records[i], &did) != 0;
    while (slots < 2 * count)
        slots *= 2;
    struct futex_words *words = calloc(1, sizeof(*words));
    if (!words)
        return -ENOMEM;
    words->mask = slots - 1;
    words->entries = calloc(slots, sizeof(*words->entries));
    if (!words->entries) {
        free(words);
        return -ENOMEM;
    }
    for (size_t i = 0; i < window->count; i++) {
        const struct recorder_record *r = &window->records[i];
        const uint32_t tid = thread_at_futex(r, &did);
        if (!tid)
            continue;
        struct entry *e = find_entry(words, tid, r->object);
        *e = (struct entry){.word = r->object, .tid = tid, .did = e->did | did};
    }
    *ret = words;
    return 0;
}

bool futex_words_are_lock(const struct futex_words *words, uint32_t tid, uint64_t word)
{
    const uint64_t pair = word & ~(uint64_t)7;
    uint32_t did = 0;
    for (uint64_t near = word - FUTEX_WORDS_NEAR; near != word + FUTEX_WORDS_NEAR + 4; near += 4) {
        const uint64_t other = near & ~(uint64_t)7;
        if (other - pair != SIGNALLED_DISTANCE && pair - other != SIGNALLED_DISTANCE)
            did |= find_entry(words, tid, near)->did;
    }
    return did == (WAITED | WOKE);
}
