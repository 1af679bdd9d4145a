/* See constant_cause.h. Components are compared by the time that four of five requests spend in them at least. Waits
 * that only some requests have, or that vary, have a small one, however long the longest is.
 *
 * All components of one kind count as a whole. Their places name code by samples and by inference, so that the same
 * wait has one name in some requests and another one, or none, in the others. */
#include "aggregate/constant_cause.h"

#include "model/request_cause.h"

#include <stdlib.h>
#include <string.h>

#define ABSENT_SHARE 5 /* one in so many requests may lack the constant component */
#define SMALL_SHARE  4 /* it takes at least this part of a typical request */
#define MOST_SHARE   2 /* a component with at least this part of an answer's time is most of it */

/* The time that one request spent in a component, or in waiting for a service. */
struct spent {
    uint64_t key; /* kind_key; of a service, a hash with SERVICE_KEY */
    size_t request;
    uint64_t ns;
};

#define SERVICE_KEY (1ull << 63)

struct comparison {
    const struct request *requests[CONSTANT_CAUSE_MAX];
    size_t count;
    struct spent *spent;
    size_t spent_count;
};

static uint64_t service_key(const char *name)
{
    uint64_t hash = 0xcbf29ce484222325ull;
    for (; *name; name++)
        hash = (hash ^ (unsigned char)*name) * 0x100000001b3ull;
    return hash | SERVICE_KEY;
}

static int compare_spent(const void *a, const void *b)
{
    const struct spent *x = a, *y = b;
    return x->key != y->key ? (x->key < y->key ? -1 : 1) : x->request < y->request ? -1 : x->request > y->request;
}

static int longer_first(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? 1 : x > y ? -1 : 0;
}

/* Whether the component was spent by another process, or in waiting for one. */
static bool is_outside(const struct request_part *part)
{
    return part->kind == REQUEST_PART_DOWNSTREAM || strstr(part->detail, " of process ");
}

static uint64_t kind_key(const struct request_part *part)
{
    return (uint64_t)part->kind * 2 + is_outside(part);
}

static void add_request(struct comparison *c, const struct request *r)
{
    const size_t request = c->count;
    c->requests[c->count++] = r;
    for (size_t i = 0; i < r->part_count; i++)
        if (r->parts[i].kind != REQUEST_PART_UNATTRIBUTED)
            c->spent[c->spent_count++] = (struct spent){kind_key(&r->parts[i]), request, r->parts[i].duration_ns};
    if (r->upstream && r->upstream[0])
        c->spent[c->spent_count++] = (struct spent){service_key(r->upstream), request, r->upstream_longest_ns};
}

/* The `rank`-th longest time, from 0, that requests spent in a component; 0: fewer have it. `spent` has `count` entries
 * of one key. */
static uint64_t ranked_ns(const struct spent *spent, size_t count, size_t rank)
{
    uint64_t sums_ns[CONSTANT_CAUSE_MAX];
    size_t sums = 0;
    for (size_t i = 0; i < count; i++) {
        if (i && spent[i].request == spent[i - 1].request)
            sums_ns[sums - 1] += spent[i].ns;
        else
            sums_ns[sums++] = spent[i].ns;
    }
    qsort(sums_ns, sums, sizeof(sums_ns[0]), longer_first);
    return rank < sums ? sums_ns[rank] : 0;
}

/* The component, and the service, with the most time in four of five requests. */
struct most {
    uint64_t key, ns; /* ns 0: none */
};

static void find_most(const struct comparison *c, struct most *ret_part, struct most *ret_service)
{
    const size_t rank = c->count - 1 - c->count / ABSENT_SHARE;
    for (size_t i = 0, end; i < c->spent_count; i = end) {
        for (end = i + 1; end < c->spent_count && c->spent[end].key == c->spent[i].key;)
            end++;
        struct most *most = c->spent[i].key & SERVICE_KEY ? ret_service : ret_part;
        const uint64_t ns = ranked_ns(&c->spent[i], end - i, rank);
        if (ns > most->ns)
            *most = (struct most){c->spent[i].key, ns};
    }
}

/* The number of its longest component with this key, from 1; 0: it has none. */
static uint8_t find_part(const struct request *r, uint64_t key)
{
    size_t found = 0;
    for (size_t i = 0; i < r->part_count; i++)
        if (kind_key(&r->parts[i]) == key && (!found || r->parts[i].duration_ns > r->parts[found - 1].duration_ns))
            found = i + 1;
    return (uint8_t)found;
}

static bool has_service(const struct request *r, uint64_t key)
{
    return r->upstream && r->upstream[0] && service_key(r->upstream) == key;
}

static uint64_t median_ns(const struct comparison *c)
{
    uint64_t all_ns[CONSTANT_CAUSE_MAX];
    for (size_t i = 0; i < c->count; i++)
        all_ns[i] = c->requests[i]->duration_ns;
    qsort(all_ns, c->count, sizeof(all_ns[0]), longer_first);
    return all_ns[c->count / 2];
}

/* By request, a hash of the place of its component with this key; 0: it has none. */
static void list_places(const struct comparison *c, uint64_t key, uint32_t places[CONSTANT_CAUSE_MAX])
{
    for (size_t i = 0; i < c->count; i++) {
        const struct request *r = c->requests[i];
        const uint8_t found = find_part(r, key);
        places[i] = found && r->parts[found - 1].detail[0] ? request_part_key(r, &r->parts[found - 1]) : 0;
    }
}

static size_t count_places(const struct comparison *c, const uint32_t places[CONSTANT_CAUSE_MAX], uint32_t place)
{
    size_t count = 0;
    for (size_t i = 0; place && i < c->count; i++)
        count += places[i] == place;
    return count;
}

/* The request that has it, if possible in the place where most have it, whose duration is nearest to the median. */
static const struct request *find_typical(const struct comparison *c, const struct most *part,
                                          const struct most *service, uint64_t typical_ns)
{
    const struct request *best = NULL;
    uint32_t places[CONSTANT_CAUSE_MAX] = {0};
    size_t best_places = 0;
    uint64_t best_ns = 0;
    if (part->ns)
        list_places(c, part->key, places);
    for (size_t i = 0; i < c->count; i++) {
        const struct request *r = c->requests[i];
        const uint64_t off_ns = r->duration_ns > typical_ns ? r->duration_ns - typical_ns : typical_ns - r->duration_ns;
        const size_t same_places = count_places(c, places, places[i]);
        if ((service->ns && !has_service(r, service->key)) || (part->ns && !find_part(r, part->key)) ||
            (best && (best_places > same_places || (best_places == same_places && off_ns >= best_ns))))
            continue;
        best = r;
        best_ns = off_ns;
        best_places = same_places;
    }
    return best;
}

static const struct request *find_constant(struct comparison *c, struct request_constant *ret)
{
    struct most part = {0}, service = {0};
    const uint64_t typical_ns = median_ns(c);
    qsort(c->spent, c->spent_count, sizeof(c->spent[0]), compare_spent);
    find_most(c, &part, &service);
    if (service.ns < part.ns || service.ns < typical_ns / SMALL_SHARE)
        service.ns = 0;
    if (part.ns < typical_ns / SMALL_SHARE || part.ns < service.ns / MOST_SHARE)
        part.ns = 0;
    if (!part.ns && !service.ns)
        return NULL;
    const struct request *typical = find_typical(c, &part, &service, typical_ns);
    if (!typical)
        return NULL;
    *ret = (struct request_constant){part.ns ? find_part(typical, part.key) : 0, service.ns > 0};
    if (ret->is_upstream && ret->part && !is_outside(&typical->parts[ret->part - 1]))
        ret->part = 0;
    return typical;
}

const struct request *constant_cause_find(struct request *const *requests, size_t count, struct request_constant *ret)
{
    struct comparison c = {.count = 0};
    const struct request *found = NULL;
    c.spent = calloc(CONSTANT_CAUSE_MAX * (REQUEST_PARTS_MAX + 1), sizeof(*c.spent));
    for (size_t i = 0; c.spent && i < count && c.count < CONSTANT_CAUSE_MAX; i++)
        if (requests[i]->segment_count)
            add_request(&c, requests[i]);
    if (c.count >= CONSTANT_CAUSE_MIN)
        found = find_constant(&c, ret);
    free(c.spent);
    return found;
}
