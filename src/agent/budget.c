/* The agent's own cost; see budget.h. */
#include "agent/budget.h"

#include "base/buf.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

/* Detail is restored only after a quiet period, and only with enough headroom: doubling a rate doubles the cost. */
#define WORSE_AFTER_NS (5 * 1000000000ull)
#define WORSE_FIRST_NS                                                                                                 \
    (20 * 1000000000ull) /* the initial scan of running processes is a one-time cost: not a reason to reduce detail    \
                          * for long */
#define SAVED_MAX_NS    (30 * 1000000000.0) /* times the allowed share */
#define BETTER_AFTER_NS (30 * 1000000000ull)
#define BETTER_BELOW    0.45

static double most_saved_ns(const struct budget *b)
{
    return SAVED_MAX_NS * b->cpu_share_allowed * b->cpus;
}

void budget_init(struct budget *b, double cpu_share_allowed, uint64_t memory_bytes_allowed, unsigned cpus)
{
    *b = (struct budget){
        .cpu_share_allowed = cpu_share_allowed,
        .memory_bytes_allowed = memory_bytes_allowed,
        .cpus = cpus ? cpus : 1,
    };
    b->saved_ns = most_saved_ns(b);
}

static double share_over_window(const struct budget *b)
{
    if (b->measured < 2)
        return b->cpu_share; /* the last known value */
    unsigned slots = BUDGET_WINDOW_SECONDS + 1;
    unsigned last = (b->measured - 1) % slots, first = b->measured > slots ? b->measured % slots : 0;
    uint64_t elapsed = b->time_ns[last] - b->time_ns[first];
    if (!elapsed)
        return b->cpu_share;
    return (double)(b->cpu_ns[last] - b->cpu_ns[first]) / elapsed / b->cpus;
}

/* Since the last measurement. */
static void save_unused(struct budget *b, uint64_t passed_ns, uint64_t spent_ns)
{
    b->saved_ns += b->cpu_share_allowed * b->cpus * (double)passed_ns - (double)spent_ns;
    if (b->saved_ns > most_saved_ns(b))
        b->saved_ns = most_saved_ns(b);
}

static bool change(struct budget *b, enum source_detail detail, uint64_t now_ns)
{
    b->detail = detail;
    b->saved_ns = b->saved_ns < 0 ? 0 : b->saved_ns;
    b->last_change_ns = now_ns;
    b->changes++;
    b->measured = 0; /* measure the new detail by its own cost */
    return true;
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
    b->cpu_share = share_over_window(b);
    b->memory_bytes = memory_bytes;
    b->over_memory = memory_bytes > b->memory_bytes_allowed;

    bool starting = !b->changes && now_ns - b->last_change_ns < WORSE_FIRST_NS;
    if (starting)
        b->saved_ns = most_saved_ns(b);
    bool settled = b->measured > 5 && !starting && now_ns - b->last_change_ns >= WORSE_AFTER_NS;
    if (settled && b->saved_ns < 0 && b->detail < SOURCE_DETAIL_LEAST)
        return change(b, b->detail + 1, now_ns);
    bool quiet = now_ns - b->last_change_ns >= BETTER_AFTER_NS;
    if (quiet && b->cpu_share < b->cpu_share_allowed * BETTER_BELOW && b->detail > SOURCE_DETAIL_FULL)
        return change(b, b->detail - 1, now_ns);
    return false;
}

const char *budget_detail_name(enum source_detail detail)
{
    static const char *const names[] = {"full", "counts", "half", "least"};
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
