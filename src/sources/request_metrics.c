/* Rate, errors and duration of requests, by process and class of status; see request_metrics.h. */
#include "sources/request_metrics.h"

#include "sources/request_ladder.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include <linux/types.h>

#include "../../probes/request.h"
#include "request.skel.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#define SWEEP_NS     (5 * 1000000000ull)
#define GONE_KEPT_NS (300 * 1000000000ull) /* two scrapes, and more */

struct request_metrics {
    struct request_bpf *bpf;
    uint64_t swept_ns;
};

int request_metrics_new(struct request_bpf *bpf, struct request_metrics **ret)
{
    struct request_metrics *m = calloc(1, sizeof(*m));
    if (!m)
        return -ENOMEM;
    m->bpf = bpf;
    *ret = m;
    return 0;
}

void request_metrics_free(struct request_metrics *m)
{
    free(m);
}

static const char *const class_names[REQUEST_CLASSES] = {"none", "1xx", "2xx", "3xx", "4xx", "5xx"};

static void write_class(struct metric_set *set, uint32_t pid, const struct request_process *p, int class)
{
    double bounds[REQUEST_BUCKETS - 1];
    uint64_t counts[REQUEST_BUCKETS], total = 0;
    for (int i = 0; i < REQUEST_BUCKETS; i++) {
        if (i < REQUEST_BUCKETS - 1)
            bounds[i] = (double)(1ull << (i + REQUEST_BUCKET_SHIFT + 1)) / 1e9;
        counts[i] = p->buckets[class][i];
        total += counts[i];
    }
    if (!total)
        return;
    char pid_text[16], command[17];
    snprintf(pid_text, sizeof(pid_text), "%u", pid);
    snprintf(command, sizeof(command), "%.16s", p->comm);
    metric_add_histogram(set, "http_server_request_duration_seconds", "seconds",
                         "Requests served, from their first bytes to the last of the reply, by class of status (none: no reply).",
                         bounds, counts, REQUEST_BUCKETS - 1, (double)p->duration_sum_ns[class] / 1e9,
                         METRIC_LABELS({"process_pid", pid_text}, {"process_command", command},
                                       {"http_response_status_class", class_names[class]}));
}

/* The process whose counters are at `place`, or 0. */
static uint32_t read_place(const struct request_metrics *m, uint32_t place, struct request_process *ret)
{
    uint32_t pid = ((const volatile uint32_t *)m->bpf->bss->process_names)[place];
    return pid && bpf_map_lookup_elem(bpf_map__fd(m->bpf->maps.processes), &place, ret) == 0 ? pid : 0;
}

void request_metrics_write(struct request_metrics *m, struct metric_set *set)
{
    for (uint32_t place = 0; place < REQUEST_PROCESSES_MAX; place++) {
        struct request_process p;
        uint32_t pid = read_place(m, place, &p);
        for (int class = 0; pid && class < REQUEST_CLASSES; class++)
            write_class(set, pid, &p, class);
    }
}

void request_metrics_sweep(struct request_metrics *m, uint64_t now_ns)
{
    if (now_ns - m->swept_ns < SWEEP_NS)
        return;
    m->swept_ns = now_ns;
    for (uint32_t place = 0; place < REQUEST_PROCESSES_MAX; place++) {
        struct request_process p;
        uint32_t pid = read_place(m, place, &p);
        if (pid && kill((pid_t)pid, 0) < 0 && errno == ESRCH && now_ns > p.last_ns + GONE_KEPT_NS)
            request_ladder_forget_process(m->bpf, place);
    }
}
