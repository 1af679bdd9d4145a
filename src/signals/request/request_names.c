/* Names through the pipeline's resolvers; see request_names.h. */
#include "signals/request/request_names.h"

#include "base/peer.h"
#include "signals/recent_samples.h"
#include "signals/recent_waits.h"
#include "sources/interrupt_names.h"
#include "sources/request/request.h"
#include "sources/tables/flight_recorder.h"

#include <linux/types.h>

#include "probes/recorder/recorder.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const struct resource *find_resource(void *context, uint32_t pid, uint64_t cgroup_id)
{
    const struct request_namer *n = context;
    const struct process *process = n->processes ? processes_find(n->processes, pid, cgroup_id) : NULL;
    return process ? processes_resource(n->processes, process) : NULL;
}

/* Reads /proc: the thread may have ended, and its ID then belongs to none or to another. */
static void read_thread_name(void *context, uint32_t tid, char out[PATH_THREAD_BYTES])
{
    char path[32];
    (void)context;
    snprintf(path, sizeof(path), "/proc/%u/comm", tid);
    _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
    const ssize_t n = fd >= 0 ? read(fd, out, PATH_THREAD_BYTES - 1) : 0;
    out[n > 0 ? n - (out[n - 1] == '\n') : 0] = '\0';
}

void served_ports_note(struct served_ports *s, uint32_t pid, uint16_t port)
{
    s->ports[pid % SERVED_PORTS_MAX].pid = pid;
    s->ports[pid % SERVED_PORTS_MAX].port = port;
}

uint16_t served_ports_find(const struct served_ports *s, uint32_t pid)
{
    return s->ports[pid % SERVED_PORTS_MAX].pid == pid ? s->ports[pid % SERVED_PORTS_MAX].port : 0;
}

static void name_process(void *context, uint32_t pid, char out[PATH_PROCESS_BYTES])
{
    const struct request_namer *n = context;
    const uint16_t port = n->served ? served_ports_find(n->served, pid) : 0;
    const struct resource *resource = port ? find_resource(context, pid, 0) : NULL;
    char service[REQUEST_SERVICE_BYTES], command[PATH_THREAD_BYTES] = "";
    if (resource) {
        request_service_text(resource->service_name, resource->systemd_unit, port, service);
        snprintf(out, PATH_PROCESS_BYTES, "%.*s", PATH_PROCESS_BYTES - 1, service);
        return;
    }
    if (n->processes)
        processes_command(n->processes, pid, command);
    if (!command[0])
        read_thread_name(context, pid, command);
    snprintf(out, PATH_PROCESS_BYTES, "%s", command);
}

/* Reads the link in /proc, which opens nothing. The descriptor may stand for another file by now. */
static void read_descriptor(void *context, uint32_t tid, uint64_t fd, char out[PATH_DESCRIPTOR_BYTES])
{
    char path[64], target[PATH_MAX];
    (void)context;
    snprintf(path, sizeof(path), "/proc/%u/fd/%" PRIu64, tid, fd);
    const ssize_t n = readlink(path, target, sizeof(target) - 1);
    target[n > 0 ? n : 0] = '\0';
    const char *last = strrchr(target, '/');
    snprintf(out, PATH_DESCRIPTOR_BYTES, "%s", target[0] == '/' && last ? last + 1 : "");
}

static void read_file(void *context, uint64_t key, struct path_file_name *out)
{
    const struct request_namer *n = context;
    struct recorder_file file;
    if (!n->recorder || !flight_recorder_file(n->recorder, key, &file))
        return;
    snprintf(out->name, sizeof(out->name), "%s", file.name);
    snprintf(out->file_system, sizeof(out->file_system), "%s", file.file_system);
}

/* The last component of a link such as ../../block/nvme0n1, or ../../block/sda/sda1. */
static void read_device(void *context, uint32_t device, char *out, size_t size)
{
    char path[64], target[PATH_MAX];
    (void)context;
    snprintf(path, sizeof(path), "/sys/dev/block/%" PRIu32 ":%" PRIu32, recorder_device_major(device),
             recorder_device_minor(device));
    const ssize_t n = readlink(path, target, sizeof(target) - 1);
    target[n > 0 ? n : 0] = '\0';
    const char *last = strrchr(target, '/');
    if (last)
        snprintf(out, size, "%s", last + 1);
}

static void name_interrupt(void *context, uint32_t number, char out[PATH_INTERRUPT_BYTES])
{
    _Static_assert(PATH_INTERRUPT_BYTES == INTERRUPT_NAME_BYTES, "whole names");
    (void)context;
    interrupt_name_read(number, out);
}

/* The limit that a cgroup has by now. */
static void name_cgroup(void *context, uint64_t id, char out[PATH_CGROUP_BYTES])
{
    struct request_namer *n = context;
    _Static_assert(PATH_CGROUP_BYTES == CGROUP_MEMORY_TEXT_BYTES, "whole texts");
    if (n->cgroups && n->cgroup_id != id) {
        _cleanup_close_ int root_fd = cgroup_memory_open();
        cgroup_memory_text(n->cgroups, root_fd, id, n->cgroup);
        n->cgroup_id = id;
    }
    snprintf(out, PATH_CGROUP_BYTES, "%s", n->cgroup);
}

/* The samples of a watched server are the more frequent ones, and have lines of native code. */
static void find_samples(void *context, uint32_t tid, uint64_t from_ns, uint64_t to_ns, struct code_tally *tally)
{
    const struct request_namer *n = context;
    if (n->recent_waits)
        recent_waits_find_runs(n->recent_waits, tid, from_ns, to_ns, tally);
    if (n->recent_samples && !tally->samples)
        recent_samples_find(n->recent_samples, tid, from_ns, to_ns, tally);
}

static bool find_wait(void *context, uint32_t tid, uint64_t from_ns, uint64_t to_ns, struct path_wait *ret)
{
    const struct request_namer *n = context;
    return n->recent_waits && recent_waits_find(n->recent_waits, tid, from_ns, to_ns, ret);
}

static void find_next_wait(void *context, uint32_t tid, uint64_t from_ns, uint64_t to_ns, struct code_tally *tally)
{
    const struct request_namer *n = context;
    if (n->recent_waits)
        recent_waits_find_next(n->recent_waits, tid, from_ns, to_ns, tally);
}

static void read_peer(void *context, uint64_t cookie, char out[PATH_PEER_BYTES])
{
    const struct request_namer *n = context;
    struct request_peer peer;
    out[0] = '\0';
    if (n->source && request_source_peer(n->source, cookie, &peer))
        peer_text(peer.family, peer.address, peer.port, out, PATH_PEER_BYTES);
}

static void find_asked(void *context, uint64_t cookie, uint64_t from_ns, uint64_t to_ns, char out[PATH_ASKED_BYTES])
{
    _Static_assert(PATH_ASKED_BYTES == HTTP2_CALL_BYTES, "whole texts");
    const struct request_namer *n = context;
    if (n->source)
        request_source_http2_asked(n->source, cookie, from_ns, to_ns, out);
}

struct request_names request_names_by(struct request_namer *n)
{
    return (struct request_names){
        .context = n,
        .resource = find_resource,
        .path = {.context = n,
                 .thread = read_thread_name,
                 .process = name_process,
                 .file = read_file,
                 .device = read_device,
                 .interrupt = name_interrupt,
                 .cgroup = name_cgroup,
                 .samples = find_samples,
                 .wait = find_wait,
                 .next_wait = find_next_wait,
                 .descriptor = read_descriptor,
                 .peer = read_peer,
                 .asked = find_asked},
    };
}
