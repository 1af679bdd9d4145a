/* See usdt_scan.h. A turn alternates between the queue and the walk, so that neither starves the other. */
#define HASH_NONFATAL_OOM 1

#include "resolve/usdt/usdt_scan.h"

#include "base/clock.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <uthash.h>

#define WANTED_MAX    4096
#define TRIES_MAX     6
#define PAUSE_NS      1000000000ull /* pause after a failed read, doubled each time */
#define WALK_PAUSE_NS 1000000000ull /* between two walks */

struct wanted {
    uint32_t pid;
    unsigned tries;
    uint64_t not_before_ns;
    UT_hash_handle hh;
};

struct usdt_scan {
    struct usdt_scan_options options;
    struct wanted *wanted; /* in order of arrival */
    DIR *walk;             /* NULL: none in progress */
    bool walk_again;
    uint64_t walk_not_before_ns;
    struct usdt_scan_stats stats;
};

int usdt_scan_new(const struct usdt_scan_options *options, struct usdt_scan **ret)
{
    struct usdt_scan *l = calloc(1, sizeof(*l));
    if (!l)
        return -ENOMEM;
    l->options = *options;
    *ret = l;
    return 0;
}

static void dequeue(struct usdt_scan *l, struct wanted *w)
{
    HASH_DEL(l->wanted, w);
    free(w);
}

void usdt_scan_free(struct usdt_scan *l)
{
    if (!l)
        return;
    while (l->wanted)
        dequeue(l, l->wanted);
    if (l->walk)
        closedir(l->walk);
    free(l);
}

/* ---- queue ---- */

static struct wanted *enqueue(struct usdt_scan *l, uint32_t pid)
{
    struct wanted *w = HASH_COUNT(l->wanted) < WANTED_MAX ? calloc(1, sizeof(*w)) : NULL;
    if (!w)
        return NULL;
    w->pid = pid;
    HASH_ADD(hh, l->wanted, pid, sizeof(w->pid), w);
    if (w->hh.tbl)
        return w;
    free(w);
    return NULL;
}

void usdt_scan_want(struct usdt_scan *l, uint32_t pid)
{
    struct wanted *w;
    HASH_FIND(hh, l->wanted, &pid, sizeof(pid), w);
    if (w) /* after the change it may be readable */
        w->tries = w->not_before_ns = 0;
    else if (!enqueue(l, pid))
        usdt_scan_want_all(l);
}

void usdt_scan_want_all(struct usdt_scan *l)
{
    l->walk_again = true;
}

/* ---- scans ---- */

/* The number of failures decides, not the error: a temporary-looking error may persist, and a permanent-looking one
 * may pass. */
static void try_later(struct usdt_scan *l, uint32_t pid, unsigned tries, uint64_t now_ns)
{
    struct wanted *w = tries < TRIES_MAX ? enqueue(l, pid) : NULL;
    l->stats.unread++;
    l->stats.given_up += !w;
    if (!w)
        return;
    w->tries = tries + 1;
    w->not_before_ns = now_ns + (PAUSE_NS << tries);
}

static void scan(struct usdt_scan *l, uint32_t pid, unsigned tries, uint64_t now_ns, uint64_t end_ns)
{
    const int r = l->options.scan(l->options.context, pid, end_ns);
    if (r == -EAGAIN)
        usdt_scan_want(l, pid);
    else if (r < 0)
        try_later(l, pid, tries, now_ns);
}

static struct wanted *first_due(const struct usdt_scan *l, uint64_t now_ns)
{
    struct wanted *w = l->wanted;
    while (w && now_ns < w->not_before_ns)
        w = w->hh.next;
    return w;
}

static bool scan_queued(struct usdt_scan *l, uint64_t now_ns, uint64_t end_ns)
{
    struct wanted *w = first_due(l, now_ns);
    if (!w)
        return false;
    const uint32_t pid = w->pid;
    const unsigned tries = w->tries;
    dequeue(l, w);
    scan(l, pid, tries, now_ns, end_ns);
    return true;
}

static bool begin_walk(struct usdt_scan *l, uint64_t now_ns)
{
    if (!l->walk_again || now_ns < l->walk_not_before_ns)
        return false;
    l->walk = opendir("/proc");
    l->walk_not_before_ns = now_ns + WALK_PAUSE_NS;
    l->walk_again = !l->walk;
    return l->walk != NULL;
}

static void end_walk(struct usdt_scan *l, uint64_t now_ns)
{
    closedir(l->walk);
    l->walk = NULL;
    l->walk_not_before_ns = now_ns + WALK_PAUSE_NS;
    l->stats.walks++;
}

/* Scans the next process of the walk unless it is queued; false at the end of the walk. */
static bool walk_step(struct usdt_scan *l, uint64_t now_ns, uint64_t end_ns)
{
    const struct dirent *entry;
    if (!l->walk && !begin_walk(l, now_ns))
        return false;
    while ((entry = readdir(l->walk))) {
        char *end;
        struct wanted *w;
        const unsigned long number = strtoul(entry->d_name, &end, 10);
        if (*end != '\0' || number == 0 || number > INT_MAX)
            continue;
        const uint32_t pid = (uint32_t)number;
        HASH_FIND(hh, l->wanted, &pid, sizeof(pid), w);
        if (w)
            continue;
        scan(l, pid, 0, now_ns, end_ns);
        return true;
    }
    end_walk(l, now_ns);
    return false;
}

void usdt_scan_turn_at(struct usdt_scan *l, uint64_t now_ns, uint64_t budget_ns)
{
    const uint64_t end_ns = clock_monotonic_ns() + budget_ns;
    bool more;
    do {
        more = scan_queued(l, now_ns, end_ns);
        more |= walk_step(l, now_ns, end_ns);
    } while (more && clock_monotonic_ns() < end_ns);
}

void usdt_scan_turn(struct usdt_scan *l, uint64_t budget_ns)
{
    usdt_scan_turn_at(l, clock_monotonic_ns(), budget_ns);
}

void usdt_scan_stats(const struct usdt_scan *l, struct usdt_scan_stats *ret)
{
    *ret = l->stats;
    ret->waiting = HASH_COUNT(l->wanted);
}
