/* Exact counts of requests per service, and their division by route; see request_metrics.h. */
#include "signals/request/request_metrics.h"

#include "resolve/process/processes.h"
#include "signals/request/request_series.h"
#include "sources/request/request.h"

#include <linux/types.h>

#include "probes/request.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SWEEP_NS     (5 * 1000000000ull)
#define SETTLE_NS    500000000ull /* longer than a record takes from the kernel's counter to request_metrics_record */
#define PROC_TICK_NS 10000000ull
#define NAME_MAX_    64

struct request_metrics {
    void *source;
    struct processes *processes; /* NULL: no names */
    uint64_t swept_ns, settled_ns;
    struct { /* the process counted at each place, as of the last sweep */
        uint64_t name;
        uint32_t service;
    } places[REQUEST_SOURCE_PROCESSES_MAX];
    struct request_series *series;
    struct request_totals_exact ended[REQUEST_SERIES_SERVICES]; /* sums of ended processes */
    struct request_totals_exact exact[REQUEST_SERIES_SERVICES]; /* while they settle: with those that run */
    bool is_counted[REQUEST_SERIES_SERVICES];                   /* any request */
};

int request_metrics_new(void *source, struct processes *processes, struct request_metrics **ret)
{
    _cleanup_(request_metrics_freep) struct request_metrics *m = calloc(1, sizeof(*m));
    if (!m || request_series_new(&m->series) < 0)
        return -ENOMEM;
    m->source = source;
    m->processes = processes;
    *ret = take_ptr(m);
    return 0;
}

void request_metrics_free(struct request_metrics *m)
{
    if (!m)
        return;
    request_series_free(m->series);
    free(m);
}

/* Reads when a process started, in /proc's units (10 ms since boot). -ESRCH: no such process. */
static int read_start(uint32_t pid, uint64_t *ret_ns)
{
    char path[32], text[512];
    unsigned long long ticks;
    snprintf(path, sizeof(path), "/proc/%u/stat", pid);
    _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT ? -ESRCH : -errno;
    ssize_t n = read(fd, text, sizeof(text) - 1);
    if (n < 0)
        return -errno;
    text[n] = 0;
    const char *at = strrchr(text, ')'); /* the command may contain ')' */
    for (int field = 2; at && field < 22; field++)
        at = strchr(at + 1, ' ');
    if (!at || sscanf(at, "%llu", &ticks) != 1)
        return -EBADMSG;
    *ret_ns = ticks * PROC_TICK_NS;
    return 0;
}

/* Whether the PID was reused by a process that started at `start_ns`. */
static bool is_reused_pid(uint64_t name, uint64_t start_ns)
{
    const uint64_t tick = PROC_TICK_NS >> 10, mask = (1ull << (REQUEST_NAME_BITS - REQUEST_NAME_PID_BITS)) - 1;
    return (((name >> REQUEST_NAME_PID_BITS) - (start_ns >> 10)) & mask) > tick;
}

static bool has_ended(uint64_t name)
{
    uint64_t start_ns;
    int r = read_start(request_name_pid(name), &start_ns);
    return r == 0 ? is_reused_pid(name, start_ns) : r == -ESRCH;
}

/* Writes the service's name; "" if the process is unknown, or gone and its ID reused. */
static void name_service(const struct request_metrics *m, uint64_t name, char out[NAME_MAX_])
{
    const uint32_t pid = request_name_pid(name);
    const struct process *process = m->processes ? processes_find(m->processes, pid, 0) : NULL;
    uint64_t start_ns;
    snprintf(out, NAME_MAX_, "%s", process ? processes_resource(m->processes, process)->service_name : "");
    if (read_start(pid, &start_ns) == 0 && is_reused_pid(name, start_ns))
        out[0] = 0; /* the name may belong to the new process */
}

/* Reads the counters at `place`. The service of a process is fixed for its lifetime: its counts must not move to
 * another series. False: no process is counted there. */
static bool read_counters(struct request_metrics *m, uint32_t place, struct request_process *ret)
{
    uint64_t process;
    if (!request_source_read_process(m->source, place, &process, ret))
        return false;
    if (m->places[place].name != process) {
        char name[NAME_MAX_];
        name_service(m, process, name);
        if (!name[0])
            snprintf(name, sizeof(name), "%.16s", ret->comm);
        if (request_series_service(m->series, name, &m->places[place].service) < 0)
            return false;
        m->places[place].name = process;
        m->is_counted[m->places[place].service] = true;
    }
    return true;
}

static void add_counters(const struct request_process *p, struct request_totals_exact *to)
{
    for (int class = 0; class < REQUEST_CLASSES; class ++) {
        for (int i = 0; i < REQUEST_BUCKETS; i++)
            to->counts[class][i] += p->buckets[class][i];
        to->sum_ns[class] += p->duration_sum_ns[class];
    }
}

static void settle(struct request_metrics *m, uint64_t now_ns)
{
    m->settled_ns = now_ns;
    memcpy(m->exact, m->ended, sizeof(m->exact));
    for (uint32_t place = 0; place < REQUEST_SOURCE_PROCESSES_MAX; place++) {
        struct request_process p;
        if (read_counters(m, place, &p))
            add_counters(&p, &m->exact[m->places[place].service]);
    }
    for (uint32_t i = 0; i < REQUEST_SERIES_SERVICES; i++)
        if (m->is_counted[i])
            request_series_settle(m->series, i, &m->exact[i]);
}

/* The place of the process; of several that had this ID, the latest. REQUEST_SOURCE_PROCESSES_MAX: it has none. */
static uint32_t find_place(const struct request_metrics *m, uint32_t pid)
{
    uint32_t found = REQUEST_SOURCE_PROCESSES_MAX;
    uint64_t latest = 0;
    for (uint32_t place = 0; place < REQUEST_SOURCE_PROCESSES_MAX; place++) {
        const uint64_t name = request_source_process_name(m->source, place);
        if (name > latest && request_name_pid(name) == pid) {
            latest = name;
            found = place;
        }
    }
    return found;
}

/* The service that counts the process. */
static int service_of(struct request_metrics *m, const struct request *request, uint32_t *ret)
{
    const uint32_t place = find_place(m, request->pid);
    struct request_process p;
    if (place == REQUEST_SOURCE_PROCESSES_MAX || !read_counters(m, place, &p))
        return request_series_service(m->series, request->service, ret);
    *ret = m->places[place].service;
    return 0;
}

void request_metrics_record(struct request_metrics *m, const struct request *request)
{
    uint32_t service;
    if (service_of(m, request, &service) == 0)
        request_series_record(m->series, service, request);
}

void request_metrics_write(struct request_metrics *m, uint64_t now_ns, struct metric_set *set)
{
    if (now_ns - m->settled_ns >= SETTLE_NS)
        settle(m, now_ns);
    request_series_write(m->series, set);
}

void request_metrics_sweep(struct request_metrics *m, uint64_t now_ns)
{
    if (now_ns - m->settled_ns >= SETTLE_NS)
        settle(m, now_ns);
    if (now_ns - m->swept_ns < SWEEP_NS)
        return;
    m->swept_ns = now_ns;
    for (uint32_t place = 0; place < REQUEST_SOURCE_PROCESSES_MAX; place++) {
        struct request_process p;
        if (!read_counters(m, place, &p) || now_ns < p.last_ns + SWEEP_NS || !has_ended(m->places[place].name))
            continue;
        add_counters(&p, &m->ended[m->places[place].service]);
        request_source_forget_process(m->source, place);
        m->places[place].name = 0;
    }
}
