/* See gil_waits.h. */
#include "signals/recorder/gil_waits.h"

#include "model/service_names.h"
#include "resolve/process/processes.h"
#include "signals/signal.h"
#include "sources/recorder/recorder.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SERVICES_MAX 128
#define INTERVAL_NS  1000000000ull

struct gil_waits {
    const struct signal_services *services;
    void *source;
    uint64_t next_ns;
    size_t count;
    char names[SERVICES_MAX][SERVICE_NAME_BYTES];
    uint64_t ns[SERVICES_MAX];
};

int gil_waits_new(const struct signal_services *services, void *recorder_source, struct gil_waits **ret)
{
    struct gil_waits *w = calloc(1, sizeof(*w));
    if (!w)
        return -ENOMEM;
    w->services = services;
    w->source = recorder_source;
    *ret = w;
    return 0;
}

void gil_waits_free(struct gil_waits *w)
{
    free(w);
}

/* A process that has exited may only have left the name of its main thread. */
static void add_wait(void *self, uint32_t pid, uint64_t ns)
{
    struct gil_waits *w = self;
    struct processes *processes = w->services->processes;
    const struct process *process = processes_find(processes, pid, 0);
    char command[16] = "";
    if (!process)
        processes_command(processes, pid, command);
    const char *name = process      ? processes_resource(processes, process)->service_name
                       : command[0] ? command
                                    : "unknown";
    w->ns[service_names_place(w->names, SERVICES_MAX, &w->count, name)] += ns;
}

void gil_waits_follow(struct gil_waits *w, uint64_t now_ns)
{
    if (now_ns < w->next_ns)
        return;
    w->next_ns = now_ns + INTERVAL_NS;
    recorder_source_take_gil_waits(w->source, add_wait, w);
}

void gil_waits_metrics(const struct gil_waits *w, struct metric_set *set)
{
    for (size_t i = 0; i < w->count; i++)
        metric_add(set, "sonde_python_gil_wait_seconds", METRIC_COUNTER, "seconds",
                   "Time that threads of Python programs waited for the global interpreter lock (GIL), all threads "
                   "together.",
                   (double)w->ns[i] / 1e9, METRIC_LABELS({"service_name", w->names[i]}));
}
