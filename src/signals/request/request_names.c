/* Names through the pipeline's resolvers; see request_names.h. */
#include "signals/request/request_names.h"

#include "aggregate/recent_stacks.h"
#include "diagnose/waits.h"
#include "signals/recent_waits.h"
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

static size_t name_kernel_frames(void *context, const __u64 *addresses, size_t count, struct frame *ret_frames,
                                 size_t max)
{
    const struct request_namer *n = context;
    uint64_t copy[REQUEST_KERNEL_FRAMES];
    if (count > array_size(copy))
        count = array_size(copy);
    for (size_t i = 0; i < count; i++)
        copy[i] = addresses[i];
    return sample_resolve_kernel(n->resolver, copy, count, ret_frames, max);
}

/* Counts and names the reason why a wait has no user stack; NULL: it needs none. */
static const char *count_missing_stack(const struct request_namer *n, const struct request_wait *w)
{
    switch (w->user_end) {
    case REQUEST_STACK_SHED:
        n->losses->count[LOSS_SHED]++;
        return "not unwound, to stay within bounds";
    case REQUEST_STACK_LOST:
    case REQUEST_STACK_APART:
        n->losses->count[LOSS_TRUNCATED]++;
        return "not kept, to stay within bounds";
    default:
        return NULL;
    }
}

static size_t name_user_frames(void *context, const struct request_record *record, const struct request_wait *w,
                               const __u64 *addresses, struct frame *ret_frames, size_t max)
{
    const struct request_namer *n = context;
    const struct process *process = processes_find(n->processes, record->h.pid, record->cgroup_id);
    uint64_t copy[REQUEST_USER_FRAMES];
    unsigned end = w->user_end;
    int count = -ENOENT;
    if (w->user_end == REQUEST_STACK_APART)
        count = wait_stacks_find(n->wait_stacks, record->h.pid, w->stack, copy, array_size(copy), &end);
    else if (w->user_end < REQUEST_STACK_APART)
        for (count = 0; count < w->user_frames && count < (int)array_size(copy); count++)
            copy[count] = addresses[count];
    if (count >= 0)
        return sample_resolve_user(n->resolver, process, copy, (size_t)count, end, n->losses, ret_frames, max);
    const char *reason = count_missing_stack(n, w);
    return reason ? sample_end_stack(reason, 0, ret_frames, max) : 0;
}

static const struct resource *find_resource(void *context, uint32_t pid, uint64_t cgroup_id)
{
    const struct request_namer *n = context;
    const struct process *process = processes_find(n->processes, pid, cgroup_id);
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

/* Reads the link in /proc, which opens nothing. The descriptor may stand for another file by now. */
static void read_descriptor(void *context, uint32_t pid, uint64_t fd, char out[PATH_DESCRIPTOR_BYTES])
{
    char path[64], target[PATH_MAX];
    (void)context;
    snprintf(path, sizeof(path), "/proc/%u/fd/%" PRIu64, pid, fd);
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

static size_t find_samples(void *context, uint32_t tid, uint64_t from_ns, uint64_t to_ns, const char **ret, size_t max)
{
    const struct request_namer *n = context;
    return n->recent_stacks ? recent_stacks_find(n->recent_stacks, tid, from_ns, to_ns, ret, max) : 0;
}

static bool find_wait(void *context, uint32_t tid, uint64_t from_ns, uint64_t to_ns, struct path_wait *ret)
{
    const struct request_namer *n = context;
    return n->recent_waits && recent_waits_find(n->recent_waits, tid, from_ns, to_ns, ret);
}

static void read_peer(void *context, uint64_t cookie, char out[PATH_PEER_BYTES])
{
    const struct request_namer *n = context;
    struct request_peer peer;
    out[0] = '\0';
    if (n->source && request_source_peer(n->source, cookie, &peer))
        wait_peer(peer.family, peer.address, peer.port, out, PATH_PEER_BYTES);
}

struct request_names request_names_by(struct request_namer *n)
{
    return (struct request_names){
        .context = n,
        .kernel_frames = name_kernel_frames,
        .user_frames = name_user_frames,
        .resource = find_resource,
        .path = {.context = n,
                 .thread = read_thread_name,
                 .file = read_file,
                 .samples = find_samples,
                 .wait = find_wait,
                 .descriptor = read_descriptor,
                 .peer = read_peer},
    };
}
