/* Which unwind tables are built, and when; see unwind_publisher.h. */
#include "pipeline/unwind_publisher_builds.h"

#include "resolve/unwind/unwind_cache.h"
#include "sources/tables/unwind_tables.h"

#include <utlist.h>

#define BUILD_AFTER_NS 1000000000ull /* for so long, lookups do not prove that a table is worth building */
/* Most programs that run once have exited by then: their tables would be built for nothing. */
#define RUNS_ON_AFTER_NS 300000000ull
#define RETRY_NS         10000000000ull
#define BUILD_BYTE_NS    35    /* of cfi_build, for each byte of call frame information */
#define LOOKUP_NS        15000 /* of one rule in user space */
/* A table is worth building before its lookups have cost as much: it also saves copies of stacks, and ends deep
 * stacks, which are not copied completely. */
#define BUILD_PER_LOOKUP (8 * LOOKUP_NS / BUILD_BYTE_NS)
/* Real tables have 0.4 to 0.7 bytes for each byte of call frame information. Where a byte of the tables' memory has
 * more than this, the table would not fit, and is not built: a file that was made for it could take any memory. */
#define INPUT_PER_TABLE_BYTE 3

void unwind_publisher_set_state(struct unwind_publisher *p, struct published_object *o, enum object_state state)
{
    const bool waited = o->state == OBJECT_WAITING, waits = state == OBJECT_WAITING;
    if (waits && !waited)
        DL_APPEND2(p->waiting, o, waiting_prev, waiting_next);
    if (waited && !waits)
        DL_DELETE2(p->waiting, o, waiting_prev, waiting_next);
    p->waiting_count += waits - waited;
    o->state = state;
}

void unwind_publisher_schedule_retry(struct unwind_publisher *p, uint64_t at_ns)
{
    if (!p->retry_ns || at_ns < p->retry_ns)
        p->retry_ns = at_ns;
}

void unwind_publisher_retry(struct unwind_publisher *p, struct published_object *o, uint64_t after_ns)
{
    o->retry_ns = p->now_ns + after_ns;
    unwind_publisher_schedule_retry(p, o->retry_ns);
}

static void queue_build(struct unwind_publisher *p, struct published_object *o, bool is_outside_share)
{
    int fd = object_open(o->object);
    o->is_outside_share = is_outside_share;
    o->waiting_since_ns = 0;
    const bool is_queued = fd >= 0 && unwind_builder_add(p->builder, o->id, fd);
    unwind_publisher_set_state(p, o, is_queued ? OBJECT_QUEUED : OBJECT_UNKNOWN);
    if (!is_queued)
        unwind_publisher_retry(p, o, RETRY_NS);
}

void unwind_publisher_build(struct unwind_publisher *p, struct published_object *o, bool is_urgent)
{
    if (is_urgent || p->share.of_cpu == 0) {
        queue_build(p, o, true);
    } else if (o->state != OBJECT_WAITING) {
        unwind_publisher_set_state(p, o, OBJECT_WAITING);
        if (o->waiting_since_ns)
            return; /* programs that map it start and end */
        o->waiting_since_ns = p->now_ns;
        struct unwind_demand demand;
        o->first_lookups = unwind_cache_demand(p->cache, o->id, &demand) ? demand.lookups : 0;
    }
}

/* Whether the table of `o`, which has users, is worth building now, and how much: lookups for each byte. While CPU time
 * is saved up, every object is worth it that stays in use and had a second walk: the first answer about a new program
 * needs its stacks. */
static bool is_worth_building(const struct unwind_publisher *p, const struct published_object *o, double *ret_worth)
{
    struct unwind_demand demand;
    if (!unwind_cache_demand(p->cache, o->id, &demand) ||
        demand.input_bytes / INPUT_PER_TABLE_BYTE > unwind_tables_max_bytes(p->tables))
        return false;
    const uint64_t waited_ns = p->now_ns - o->waiting_since_ns;
    const bool is_proven = waited_ns >= BUILD_AFTER_NS && demand.lookups * BUILD_PER_LOOKUP >= demand.input_bytes;
    const bool runs_on = waited_ns >= RUNS_ON_AFTER_NS && demand.lookups > o->first_lookups;
    *ret_worth = (double)(demand.lookups + 1) / (double)(demand.input_bytes + 1);
    return is_proven || (runs_on && cpu_share_is_plentiful(&p->share));
}

void unwind_publisher_build_next(struct unwind_publisher *p)
{
    if (!p->waiting)
        return;
    struct unwind_builder_stats stats;
    unwind_builder_stats(p->builder, &stats);
    if (stats.queued || !cpu_share_allows(&p->share, p->now_ns))
        return;
    struct published_object *best = NULL;
    double best_worth = 0, worth;
    for (struct published_object *o = p->waiting; o; o = o->waiting_next)
        if (is_worth_building(p, o, &worth) && worth > best_worth) {
            best = o;
            best_worth = worth;
        }
    if (best)
        queue_build(p, best, false);
}
