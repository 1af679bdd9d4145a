/* See process_labels.h. */
#include "signals/process_labels.h"

#include "resolve/process/processes.h"

#include <stdio.h>

void process_labels_fill(struct processes *processes, uint32_t pid, struct process_labels *ret)
{
    const struct process *found = processes ? processes_find(processes, pid, 0) : NULL;
    const struct resource *resource = found ? processes_resource(processes, found) : &resource_unknown;
    size_t count = 0;
    job_from_cgroup(resource->cgroup_path, &ret->job);
    snprintf(ret->pid, sizeof(ret->pid), "%u", pid);
    ret->list[count++] = (struct metric_label){"pid", ret->pid};
    ret->list[count++] = (struct metric_label){"service_name", resource->service_name};
    ret->list[count++] = (struct metric_label){"manager", ret->job.manager};
    ret->list[count++] = (struct metric_label){"job_id", ret->job.id};
    ret->list[count++] = (struct metric_label){"container_id", resource->container_id};
}
