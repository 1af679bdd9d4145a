/* Kept requests, in slots of ten seconds by end time (CLOCK_MONOTONIC); see kept_requests.h. A slot is dropped as a
 * whole when it expires. When the memory is full, the largest slot loses a request of its most frequent route, so that
 * a slow service does not displace all others: the fastest one of the route's most frequent cause, so that each cause
 * keeps examples. */
#include "aggregate/kept_requests.h"

#include "aggregate/requests.h"

#include <errno.h>
#include <stdlib.h>

#define SLOT_NS    (10 * 1000000000ull)
#define SLOTS      (REQUESTS_KEPT_SECONDS * 1000000000ull / SLOT_NS + 1) /* plus the current one */
#define SHARES_MAX 64 /* routes, or causes, distinguished in a slot */

struct slot {
    uint64_t number; /* end time / SLOT_NS */
    struct kept_request *requests;
    size_t count, capacity, bytes;
};

struct kept_requests {
    size_t max_bytes, bytes; /* of all requests */
    struct slot slots[SLOTS];
    uint64_t newest;
    uint64_t dropped;
};

int kept_requests_new(size_t max_bytes, struct kept_requests **ret)
{
    struct kept_requests *k = calloc(1, sizeof(*k));
    if (!k)
        return -ENOMEM;
    k->max_bytes = max_bytes;
    *ret = k;
    return 0;
}

static void clear_slot(struct kept_requests *k, struct slot *slot)
{
    for (size_t i = 0; i < slot->count; i++)
        request_free(slot->requests[i].request);
    free(slot->requests);
    k->bytes -= slot->bytes;
    *slot = (struct slot){0};
}

void kept_requests_free(struct kept_requests *k)
{
    if (!k)
        return;
    for (size_t i = 0; i < SLOTS; i++)
        clear_slot(k, &k->slots[i]);
    free(k);
}

static uint64_t end_of(const struct request *request)
{
    return request->start_ns + request->duration_ns;
}

static void remove_at(struct kept_requests *k, struct slot *slot, size_t i)
{
    slot->bytes -= slot->requests[i].request->bytes;
    k->bytes -= slot->requests[i].request->bytes;
    request_free(slot->requests[i].request);
    slot->requests[i] = slot->requests[--slot->count];
}

bool kept_requests_remove(struct kept_requests *k, uint64_t id)
{
    for (size_t s = 0; s < SLOTS; s++)
        for (size_t i = 0; i < k->slots[s].count; i++)
            if (k->slots[s].requests[i].request->id == id) {
                remove_at(k, &k->slots[s], i);
                return true;
            }
    return false;
}

/* The slot of that number, after dropping expired slots; NULL if that time is no longer kept. */
static struct slot *slot_of(struct kept_requests *k, uint64_t number)
{
    if (number + SLOTS <= k->newest)
        return NULL;
    if (number > k->newest) {
        k->newest = number;
        for (size_t i = 0; i < SLOTS; i++)
            if (k->slots[i].number + SLOTS <= number)
                clear_slot(k, &k->slots[i]);
    }
    struct slot *slot = &k->slots[number % SLOTS];
    slot->number = number;
    return slot;
}

static uint64_t hash_text(uint64_t hash, const char *text)
{
    for (; *text; text++)
        hash = (hash ^ (unsigned char)*text) * 0x100000001b3ull;
    return (hash ^ 0xff) * 0x100000001b3ull;
}

uint64_t kept_requests_route(const struct request *request)
{
    return hash_text(hash_text(hash_text(0xcbf29ce484222325ull ^ request->port, request->service), request->method),
                     request->route);
}

/* The requests of a slot with one route, or of a route with one cause. */
struct share {
    uint64_t key;
    size_t count, fastest;
};

struct shares {
    struct share list[SHARES_MAX]; /* the last one is that of all keys beyond SHARES_MAX - 1 */
    size_t count;
};

static struct share *find_share(struct shares *s, uint64_t key)
{
    for (size_t i = 0; i < s->count; i++)
        if (s->list[i].key == key)
            return &s->list[i];
    if (s->count == SHARES_MAX)
        return &s->list[SHARES_MAX - 1];
    s->list[s->count] = (struct share){.key = key};
    return &s->list[s->count++];
}

static uint64_t duration_at(const struct slot *slot, size_t i)
{
    return slot->requests[i].request->duration_ns;
}

static void add_to_share(struct shares *s, uint64_t key, const struct slot *slot, size_t i)
{
    struct share *share = find_share(s, key);
    if (!share->count++ || duration_at(slot, i) < duration_at(slot, share->fastest))
        share->fastest = i;
}

/* The most frequent one; of several, the one with the fastest request. */
static const struct share *most_frequent(const struct shares *s, const struct slot *slot)
{
    const struct share *most = &s->list[0];
    for (size_t i = 1; i < s->count; i++) {
        const struct share *share = &s->list[i];
        if (share->count > most->count ||
            (share->count == most->count && duration_at(slot, share->fastest) < duration_at(slot, most->fastest)))
            most = share;
    }
    return most;
}

/* The request that the slot loses next. */
static size_t find_victim(const struct slot *slot)
{
    struct shares routes = {.count = 0}, causes = {.count = 0};
    for (size_t i = 0; i < slot->count; i++)
        add_to_share(&routes, slot->requests[i].route, slot, i);
    const struct share *most = most_frequent(&routes, slot);
    for (size_t i = 0; i < slot->count; i++)
        if (find_share(&routes, slot->requests[i].route) == most)
            add_to_share(&causes, slot->requests[i].cause, slot, i);
    return most_frequent(&causes, slot)->fastest;
}

static struct slot *find_largest_slot(struct kept_requests *k)
{
    struct slot *largest = &k->slots[0];
    for (size_t i = 1; i < SLOTS; i++)
        if (k->slots[i].bytes > largest->bytes)
            largest = &k->slots[i];
    return largest;
}

/* Drops requests until the rest fits. False: `request` was one of them. */
static bool fit_memory(struct kept_requests *k, const struct request *request)
{
    bool is_kept = true;
    while (k->bytes > k->max_bytes) {
        struct slot *slot = find_largest_slot(k);
        const size_t victim = find_victim(slot);
        is_kept &= slot->requests[victim].request != request;
        remove_at(k, slot, victim);
        k->dropped++;
    }
    return is_kept;
}

void kept_requests_limit(struct kept_requests *k, size_t max_bytes)
{
    k->max_bytes = max_bytes;
    (void)fit_memory(k, NULL);
}

int kept_requests_add(struct kept_requests *k, struct request *request, uint32_t cause)
{
    struct slot *slot = slot_of(k, end_of(request) / SLOT_NS);
    if (!slot) {
        k->dropped++;
        request_free(request);
        return -ENOSPC;
    }
    if (slot->count == slot->capacity) {
        size_t capacity = slot->capacity ? slot->capacity * 2 : 16;
        struct kept_request *grown = reallocarray(slot->requests, capacity, sizeof(grown[0]));
        if (!grown) {
            request_free(request);
            return -ENOMEM;
        }
        slot->requests = grown;
        slot->capacity = capacity;
    }
    slot->requests[slot->count++] = (struct kept_request){request, kept_requests_route(request), cause};
    slot->bytes += request->bytes;
    k->bytes += request->bytes;
    return fit_memory(k, request) ? 0 : -ENOSPC;
}

const struct kept_request *kept_requests_next(const struct kept_requests *k, uint64_t since_ns,
                                              struct kept_position *at)
{
    for (; at->slot < SLOTS; at->slot++, at->index = 0) {
        const struct slot *slot = &k->slots[at->slot];
        while (at->index < slot->count) {
            const struct kept_request *kept = &slot->requests[at->index++];
            if (end_of(kept->request) >= since_ns)
                return kept;
        }
    }
    return NULL;
}

size_t kept_requests_count(const struct kept_requests *k)
{
    size_t count = 0;
    for (size_t s = 0; s < SLOTS; s++)
        count += k->slots[s].count;
    return count;
}

size_t kept_requests_bytes(const struct kept_requests *k)
{
    size_t bytes = sizeof(*k) + k->bytes;
    for (size_t s = 0; s < SLOTS; s++)
        bytes += k->slots[s].capacity * sizeof(struct kept_request);
    return bytes;
}

uint64_t kept_requests_dropped(const struct kept_requests *k)
{
    return k->dropped;
}
