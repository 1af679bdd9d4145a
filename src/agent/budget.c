/* The agent's own cost; see budget.h. */
#include "agent/budget.h"

#include "base/buf.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#define SECOND_NS      1000000000ull
#define LEVEL_NS       (30 * SECOND_NS)                    /* a level lasts at least so long; */
#define FAR_OVER_NS    (BUDGET_WINDOW_SECONDS * SECOND_NS) /* one that is_far_over, until its cost is measured */
#define RESTORE_MAX_NS (480 * SECOND_NS) /* and at most so long before detail is restored, where the cost allows it */
#define WORSE_FIRST_NS                                                                                                 \
    (20 * SECOND_NS) /* the initial scan of running processes is a one-time cost, and not counted                      \
                      */
#define SAVED_MAX_SECONDS 30
#define BETTER_BELOW      0.6 /* of the allowed share: the next level costs more */
#define FAR_OVER_FROM     2   /* times the allowed share: one level would not suffice */

static double most_saved_ns(const struct budget *b)
{
    return (double)SECOND_NS * SAVED_MAX_SECONDS * b->one_cpu_share_allowed;
}

void budget_init(struct budget *b, double one_cpu_share_allowed, uint64_t memory_bytes_allowed, unsigned levels)
{
    *b = (struct budget){
        .one_cpu_share_allowed = one_cpu_share_allowed,
        .memory_bytes_allowed = memory_bytes_allowed,
        .levels = levels | 1u << SOURCE_DETAIL_FULL,
        .restore_after_ns = LEVEL_NS,
    };
    b->saved_ns = most_saved_ns(b);
}

static double share_over_window(const struct budget *b)
{
    if (b->measured < 2)
        return b->one_cpu_share; /* the last known value */
    unsigned slots = BUDGET_WINDOW_SECONDS + 1;
    unsigned last = (b->measured - 1) % slots, first = b->measured > slots ? b->measured % slots : 0;
    uint64_t elapsed = b->time_ns[last] - b->time_ns[first];
    if (!elapsed)
        return b->one_cpu_share;
    return (double)(b->cpu_ns[last] - b->cpu_ns[first]) / (double)elapsed;
}

/* Since the last measurement. */
static void save_unused(struct budget *b, uint64_t passed_ns, uint64_t spent_ns)
{
    b->saved_ns += b->one_cpu_share_allowed * (double)passed_ns - (double)spent_ns;
    if (b->saved_ns > most_saved_ns(b))
        b->saved_ns = most_saved_ns(b);
    if (b->saved_ns < -most_saved_ns(b))
        b->saved_ns = -most_saved_ns(b);
}

/* The next level that reduces something more (`step` 1) or less (-1); `b->detail` if no such level exists. */
static enum source_detail next_level(const struct budget *b, enum source_detail detail, int step)
{
    for (int level = (int)detail + step; level >= SOURCE_DETAIL_FULL && level <= SOURCE_DETAIL_LEAST; level += step)
        if (b->levels >> level & 1)
            return (enum source_detail)level;
    return detail;
}

static bool change(struct budget *b, enum source_detail detail, uint64_t now_ns)
{
    const bool is_restored = detail < b->detail, was_too_early = !is_restored && b->was_restored;
    if (detail == b->detail)
        return false;
    /* Reduced again after detail was restored: the load has not gone, or it comes and goes. */
    if (was_too_early && b->restore_after_ns < RESTORE_MAX_NS)
        b->restore_after_ns *= 2;
    if (was_too_early && now_ns - b->last_change_ns > RESTORE_MAX_NS)
        b->restore_after_ns = LEVEL_NS;
    b->was_restored = is_restored;
    b->detail = detail;
    b->saved_ns = b->saved_ns < 0 ? 0 : b->saved_ns;
    b->last_change_ns = now_ns;
    b->changes++;
    b->measured = 0; /* measure the new detail by its own cost */
    return true;
}

static bool is_far_over(const struct budget *b)
{
    return b->one_cpu_share > FAR_OVER_FROM * b->one_cpu_share_allowed;
}

/* How long the present level lasts before detail is reduced further. */
static uint64_t least_ns(const struct budget *b)
{
    return is_far_over(b) ? FAR_OVER_NS : LEVEL_NS;
}

/* Half of the allowed savings are there: the cost was low for a while, and not only for the last seconds. */
static bool has_headroom(const struct budget *b)
{
    return b->one_cpu_share < b->one_cpu_share_allowed * BETTER_BELOW && b->saved_ns > most_saved_ns(b) / 2;
}

bool budget_measure(struct budget *b, uint64_t now_ns, uint64_t cpu_ns, uint64_t memory_bytes)
{
    assert(now_ns >= b->last_change_ns);
    const unsigned before = (b->measured - 1) % (BUDGET_WINDOW_SECONDS + 1);
    if (b->measured && cpu_ns < b->cpu_ns[before])
        b->measured = 0; /* the run time of detached BPF programs is no longer in the total */
    if (b->measured)
        save_unused(b, now_ns - b->time_ns[before], cpu_ns - b->cpu_ns[before]);
    unsigned slot = b->measured % (BUDGET_WINDOW_SECONDS + 1);
    b->cpu_ns[slot] = cpu_ns;
    b->time_ns[slot] = now_ns;
    if (b->last_change_ns == 0)
        b->last_change_ns = now_ns;
    b->measured++;
    b->one_cpu_share = share_over_window(b);
    b->memory_bytes = memory_bytes;
    b->over_memory = memory_bytes > b->memory_bytes_allowed;

    const uint64_t lasted_ns = now_ns - b->last_change_ns;
    if (!b->changes && lasted_ns < WORSE_FIRST_NS)
        b->saved_ns = most_saved_ns(b);
    if (lasted_ns >= least_ns(b) && b->saved_ns < 0) {
        const enum source_detail next = next_level(b, b->detail, 1);
        return change(b, is_far_over(b) ? next_level(b, next, 1) : next, now_ns);
    }
    if (lasted_ns >= b->restore_after_ns && has_headroom(b))
        return change(b, next_level(b, b->detail, -1), now_ns);
    return false;
}

bool budget_is_exhausted(const struct budget *b)
{
    return b->saved_ns < 0 && next_level(b, b->detail, 1) == b->detail;
}

/* How long the savings last at the present cost, and a level at least. */
static uint64_t reduces_after_ns(const struct budget *b, uint64_t now_ns)
{
    const double excess = b->one_cpu_share - b->one_cpu_share_allowed;
    const uint64_t lasted_ns = now_ns - b->last_change_ns;
    const uint64_t free_ns = !b->changes && lasted_ns < WORSE_FIRST_NS ? WORSE_FIRST_NS - lasted_ns : 0;
    const uint64_t saved_ns = free_ns + (uint64_t)(b->saved_ns > 0 ? b->saved_ns / excess : 0);
    const uint64_t level_ns = lasted_ns < least_ns(b) ? least_ns(b) - lasted_ns : 0;
    return saved_ns > level_ns ? saved_ns : level_ns;
}

const char *budget_outlook(const struct budget *b, uint64_t now_ns, char out[BUDGET_OUTLOOK_BYTES])
{
    out[0] = '\0';
    if (b->one_cpu_share <= b->one_cpu_share_allowed || now_ns < b->last_change_ns)
        return out;
    if (next_level(b, b->detail, 1) == b->detail)
        snprintf(out, BUDGET_OUTLOOK_BYTES, "above its limit, and no detail is left to reduce");
    else
        snprintf(out, BUDGET_OUTLOOK_BYTES,
                 "above its limit for a while, by CPU time that it left unused before; at this rate it reduces detail "
                 "in about %llu s",
                 (unsigned long long)(reduces_after_ns(b, now_ns) / SECOND_NS + 1));
    return out;
}

const char *budget_detail_name(enum source_detail detail)
{
    static const char *const names[] = {
        [SOURCE_DETAIL_FULL] = "full",
        [SOURCE_DETAIL_NO_WAIT_STACKS] = "no_wait_stacks",
        [SOURCE_DETAIL_HALF_RATE] = "half_rate",
        [SOURCE_DETAIL_QUARTER_RATE] = "quarter_rate",
        [SOURCE_DETAIL_NO_OFF_CPU] = "no_off_cpu",
        [SOURCE_DETAIL_SLOWEST_PATHS] = "slowest_paths",
        [SOURCE_DETAIL_LEAST] = "least",
    };
    return names[detail];
}

uint64_t budget_own_cpu_ns(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return ((uint64_t)usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000000u +
           ((uint64_t)usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1000u;
}

#define SMAPS_MAX_BYTES (4 << 20)

uint64_t budget_own_resident_bytes(void)
{
    _cleanup_buf_ struct buf text = {0};
    if (buf_read_file(&text, "/proc/self/smaps", SMAPS_MAX_BYTES) < 0 || !text.data)
        return 0;
    uint64_t resident_kib = 0;
    bool is_bpf_map = false;
    for (char *line = text.data, *next; line && *line; line = next) {
        next = strchr(line, '\n');
        if (next)
            *next++ = '\0';
        unsigned long long kib;
        if (sscanf(line, "Rss: %llu kB", &kib) == 1)
            resident_kib += is_bpf_map ? 0 : kib;
        else if (strchr("0123456789abcdef", line[0])) /* first line of a mapping; field names begin with capitals */
            is_bpf_map = strstr(line, "anon_inode:bpf-map");
    }
    return resident_kib * 1024;
}
