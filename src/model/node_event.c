/* Copies of events, and the severity and advice of each kind; see node_event.h. */
#include "model/node_event.h"

#include "base/clock.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static size_t string_bytes(const struct node_event *event)
{
    size_t bytes = strlen(event->name) + strlen(event->text) + 2;
    for (size_t i = 0; i < event->attribute_count; i++)
        bytes += strlen(event->attributes[i].name) + strlen(event->attributes[i].value) + 2;
    return bytes;
}

static const char *keep_string(char **at, const char *text)
{
    const size_t size = strlen(text) + 1;
    const char *kept = memcpy(*at, text, size);
    *at += size;
    return kept;
}

int node_event_keep(const struct node_event *event, uint64_t unix_ns, struct kept_node_event **ret)
{
    if (event->attribute_count > NODE_EVENT_ATTRIBUTES_MAX)
        return -E2BIG;
    const size_t bytes = sizeof(struct kept_node_event) + string_bytes(event);
    struct kept_node_event *k = malloc(bytes);
    if (!k)
        return -ENOMEM;
    char *at = k->strings;
    k->event = *event;
    k->unix_ns = unix_ns;
    k->observed_unix_ns = clock_unix_ns();
    k->bytes = bytes;
    k->event.name = keep_string(&at, event->name);
    k->event.text = keep_string(&at, event->text);
    k->event.attributes = k->attributes;
    for (size_t i = 0; i < event->attribute_count; i++)
        k->attributes[i] = (struct node_event_attribute){.name = keep_string(&at, event->attributes[i].name),
                                                         .value = keep_string(&at, event->attributes[i].value)};
    *ret = k;
    return 0;
}

bool node_event_is_of(const char *name, const char *kind)
{
    const size_t size = strlen(kind);
    return strncmp(name, kind, size) == 0 && (!name[size] || name[size] == '.');
}

bool node_event_is_error(const char *name)
{
    static const char *const errors[] = {"oom.killed",    "io.hung",         "blocked.long",
                                         "gpu.xid",       "gpu.lost",        "gpu.ecc",
                                         "gpu.row_remap", "gpu.driver_hung", "gpu.driver_failed"};
    for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++)
        if (strcmp(errors[i], name) == 0)
            return true;
    return false;
}

static const struct {
    const char *name, *advice;
} advices[] = {
    {"runqueue.delayed",
     "other threads had the CPU: give the service CPUs of its own, a larger share (cpu.weight), or the node less work."},
    {"io.slow", "see `sonde io` for the programs and files that keep this file system or device busy."},
    {"io.hung", "the file system or device does not answer: look at its server and at dmesg."},
    {"drops.listen_overflow",
     "`sonde why` shows the activity of the accepting thread; start more workers, or raise the backlog and "
     "net.core.somaxconn."},
    {"drops.retransmission_burst",
     "if all peers are affected, look at this node's interface (`ip -s link`); if one, at the way to it."},
    {"drops.packets",
     "SOCKET_RCVBUFF, SOCKET_BACKLOG: the program reads too slowly; other reasons: docs/signals/drops.md."},
    {"interrupts.long",
     "NET_RX, NET_TX: spread packets over more CPUs (`ethtool -L`, RPS), and look at firewall rules and BPF programs on "
     "their way; others: a driver or a module of the kernel; docs/signals/interrupts.md."},
    {"reclaim.long",
     "of a cgroup: raise its limit, or find the processes that grow (`sonde memory`); of the node: give services limits "
     "(memory.high), or the node less work; docs/signals/reclaim.md."},
    {"blocked.long",
     "look at the holder or the child that the text names; otherwise the functions show which file system, server or "
     "device does not answer; see dmesg; docs/signals/blocked.md."},
    {"blocked.load", "the load average counts these tasks, which need no CPU: find out why the oldest one waits; "
                     "docs/signals/blocked.md."},
    {"slow_calls.long",
     "the functions of its stack show what the kernel waited for: a disk (`sonde io`), a server of files, a lock that "
     "another thread has, memory; docs/signals/slow_calls.md."},
    {"oom.killed",
     "of a cgroup: look at the function that grew, or raise the limit if it needs that much; of the node: "
     "give services limits (memory.max), or the node less work; docs/signals/oom.md."},
    {"gpu.xid", "each event names what its code means and what to do; docs/signals/gpu.md."},
    {"gpu.lost",
     "restart the machine, or reset the GPU if the driver still lists it; if it comes back, have the card, its "
     "power and its slot checked."},
    {"gpu.ecc", "look at `sonde gpu` for remapped rows; if it comes back, have the GPU replaced."},
    {"gpu.row_remap", "stop what uses the GPU and reset it; a row that cannot be replaced: have the GPU replaced."},
    {"gpu.recovery_needed", "do what the driver wants as soon as what uses the GPU can be stopped."},
    {"gpu.throttled", "look at fans, air and power of the machine: the GPU computes more slowly than it could."},
    {"gpu.hang",
     "the text names the process and, with NCCL, the rank that is behind: `sonde why --hang PID` shows where its threads "
     "wait; a kernel that runs for so long on purpose: raise gpu.hang_after; docs/signals/gpu.md."},
    {"gpu.driver_hung",
     "programs that use a GPU may hang as well: look for Xid errors (`sonde events --kind gpu.xid`) and at dmesg; usually "
     "only a reset of the GPU or a restart of the machine helps."},
    {"gpu.driver_failed", "after an update of the driver, restart the machine; else look at dmesg."},
};

const char *node_event_advice(const char *name)
{
    for (size_t i = 0; i < sizeof(advices) / sizeof(advices[0]); i++)
        if (strcmp(advices[i].name, name) == 0)
            return advices[i].advice;
    return "";
}
