/* What to do about each kind of event; see node_event.h. */
#include "model/node_event.h"

#include <string.h>

static const struct {
    const char *name, *advice;
} advices[] = {
    {"runqueue.delayed",
     "other threads had the CPU: give the service CPUs of its own, a larger share (cpu.weight), or the node less work."},
    {"io.slow", "see `sonde io` for the programs and files that keep this file system or device busy."},
    {"io.hung", "the file system or device does not answer: look at its server and at dmesg."},
    {"drops.listen_overflow",
     "see `sonde why` for what the accepting thread does; start more workers, or raise the backlog and "
     "net.core.somaxconn."},
    {"drops.retransmission_burst",
     "if all peers are affected, look at this node's interface (`ip -s link`); if one, at the way to it."},
    {"drops.packets",
     "SOCKET_RCVBUFF, SOCKET_BACKLOG: the program reads too slowly; other reasons: docs/signals/drops.md."},
    {"interrupts.long",
     "NET_RX, NET_TX: spread packets over more CPUs (`ethtool -L`, RPS), and look at firewall rules and BPF programs on "
     "their way; others: a driver or a module of the kernel; docs/signals/interrupts.md."},
    {"reclaim.long",
     "of a cgroup: raise its limit, or look at what grew in it; of the node: give services limits (memory.high), or the "
     "node less work; docs/signals/reclaim.md."},
    {"blocked.long",
     "what it waits for does not come: look at the holder, or by the functions at the file system, its server or its "
     "device, and at dmesg; docs/signals/blocked.md."},
    {"blocked.load", "the load average counts these tasks, which need no CPU: look at what the oldest one waits for; "
                     "docs/signals/blocked.md."},
    {"oom.killed",
     "of a cgroup: look at the function that grew, or raise the limit if it needs that much; of the node: "
     "give services limits (memory.max), or the node less work; docs/signals/oom.md."},
};

const char *node_event_advice(const char *name)
{
    for (size_t i = 0; i < sizeof(advices) / sizeof(advices[0]); i++)
        if (strcmp(advices[i].name, name) == 0)
            return advices[i].advice;
    return "";
}
