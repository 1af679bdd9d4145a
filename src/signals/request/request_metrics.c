/* Rate, errors and duration of requests per service and status class; see request_metrics.h. */
#include "signals/request/request_metrics.h"

#include "resolve/process/processes.h"
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
#define PROC_TICK_NS 10000000ull
#define SERVICES_MAX 128 /* further services count as "other" */
#define NAME_MAX_    64

/* Every second of the kernel's power-of-two bounds, from 262 us to 69 s: each is a line per service and class. */
#define FIRST_BOUND 7
#define LAST_BOUND  25
#define BOUNDS      ((LAST_BOUND - FIRST_BOUND) / 2 + 1)

struct service {
    char name[NAME_MAX_];
    uint64_t ended[REQUEST_CLASSES][BOUNDS + 1]; /* sums of ended processes */
    uint64_t ended_ns[REQUEST_CLASSES];
    uint64_t counts[REQUEST_CLASSES][BOUNDS + 1]; /* during a write: totals */
    uint64_t sum_ns[REQUEST_CLASSES];
};

struct request_metrics {
    void *source;
    struct processes *processes; /* NULL: no names */
    uint64_t swept_ns;
    struct { /* the process counted at each place, as of the last sweep */
        uint64_t name;
        uint32_t service;
    } places[REQUEST_SOURCE_PROCESSES_MAX];
    struct service *services[SERVICES_MAX];
    size_t service_count;
};

int request_metrics_new(void *source, struct processes *processes, struct request_metrics **ret)
{
    struct request_metrics *m = calloc(1, sizeof(*m));
    if (!m)
        return -ENOMEM;
    m->source = source;
    m->processes = processes;
    *ret = m;
    return 0;
}

void request_metrics_free(struct request_metrics *m)
{
    for (size_t i = 0; m && i < m->service_count; i++)
        free(m->services[i]);
    free(m);
}

static int find_service(struct request_metrics *m, const char *name, uint32_t *ret)
{
    for (size_t i = 0; i < m->service_count; i++)
        if (strcmp(m->services[i]->name, name) == 0) {
            *ret = (uint32_t)i;
            return 0;
        }
    if (m->service_count == SERVICES_MAX - 1 && strcmp(name, "other") != 0)
        return find_service(m, "other", ret);
    struct service *service = calloc(1, sizeof(*service));
    if (!service)
        return -ENOMEM;
    snprintf(service->name, sizeof(service->name), "%s", name);
    *ret = (uint32_t)m->service_count;
    m->services[m->service_count++] = service;
    return 0;
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

/* Reads the counters at `place` and returns their service, which is fixed for the lifetime of the process: its counts
 * must not move to another series. */
static struct service *read_counters(struct request_metrics *m, uint32_t place, struct request_process *ret)
{
    uint64_t process;
    if (!request_source_read_process(m->source, place, &process, ret))
        return NULL;
    if (m->places[place].name != process) {
        char name[NAME_MAX_];
        name_service(m, process, name);
        if (!name[0])
            snprintf(name, sizeof(name), "%.16s", ret->comm);
        if (find_service(m, name, &m->places[place].service) < 0)
            return NULL;
        m->places[place].name = process;
    }
    return m->services[m->places[place].service];
}

static void add_counters(const struct request_process *p, uint64_t counts[][BOUNDS + 1], uint64_t *sum_ns)
{
    for (int digit = 0; digit < REQUEST_CLASSES; digit++) {
        for (int i = 0; i < REQUEST_BUCKETS; i++) {
            int at = i <= FIRST_BOUND ? 0 : i > LAST_BOUND ? BOUNDS : (i - FIRST_BOUND + 1) / 2;
            counts[digit][at] += p->buckets[digit][i];
        }
        sum_ns[digit] += p->duration_sum_ns[digit];
    }
}

static void write_class(struct metric_set *set, const struct service *service, int digit)
{
    static const char *const class_names[REQUEST_CLASSES] = {"none", "1xx", "2xx", "3xx", "4xx", "5xx"};
    double bounds[BOUNDS];
    uint64_t total = 0;
    for (int i = 0; i <= BOUNDS; i++) {
        if (i < BOUNDS)
            bounds[i] = (double)(1ull << (FIRST_BOUND + 2 * i + REQUEST_BUCKET_SHIFT + 1)) / 1e9;
        total += service->counts[digit][i];
    }
    if (!total)
        return;
    metric_add_histogram(
        set, "http_server_request_duration_seconds", "seconds",
        "Requests served, from their first bytes to the last of the reply, by class of status (none: no reply).",
        bounds, service->counts[digit], BOUNDS, (double)service->sum_ns[digit] / 1e9,
        METRIC_LABELS({"service_name", service->name}, {"http_response_status_class", class_names[digit]}));
}

void request_metrics_write(struct request_metrics *m, struct metric_set *set)
{
    for (size_t i = 0; i < m->service_count; i++) {
        memcpy(m->services[i]->counts, m->services[i]->ended, sizeof(m->services[i]->counts));
        memcpy(m->services[i]->sum_ns, m->services[i]->ended_ns, sizeof(m->services[i]->sum_ns));
    }
    for (uint32_t place = 0; place < REQUEST_SOURCE_PROCESSES_MAX; place++) {
        struct request_process p;
        struct service *service = read_counters(m, place, &p);
        if (service)
            add_counters(&p, service->counts, service->sum_ns);
    }
    for (size_t i = 0; i < m->service_count; i++)
        for (int digit = 0; digit < REQUEST_CLASSES; digit++)
            write_class(set, m->services[i], digit);
}

void request_metrics_sweep(struct request_metrics *m, uint64_t now_ns)
{
    if (now_ns - m->swept_ns < SWEEP_NS)
        return;
    m->swept_ns = now_ns;
    for (uint32_t place = 0; place < REQUEST_SOURCE_PROCESSES_MAX; place++) {
        struct request_process p;
        struct service *service = read_counters(m, place, &p);
        if (!service || now_ns < p.last_ns + SWEEP_NS || !has_ended(m->places[place].name))
            continue;
        add_counters(&p, service->ended, service->ended_ns);
        request_source_forget_process(m->source, place);
        m->places[place].name = 0;
    }
}
