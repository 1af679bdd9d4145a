/* Events per CPU, not per task. A CPU that goes offline takes its event with it for good: the dead event is closed,
 * and a new one is opened when the CPU returns, even when it was away too briefly for the online list to show it. */
#include "sources/attach/perf_events.h"

#include "sources/attach/cpu_changes.h"
#include "sources/attach/cpu_list.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define FOLLOW_PERIOD_NS 1000000000ULL

struct cpu_event {
    int fd;
    unsigned cpu;
    struct perf_event_mmap_page *ring; /* NULL: no ring */
};

struct perf_events {
    struct perf_event_attr attr;
    int program_fd;
    int changes_fd; /* uevent socket; -1: none */
    size_t page_bytes, ring_bytes;
    bool enabled;
    uint64_t checked_ns;
    struct cpu_event *events;
    size_t count;
    uint8_t record[UINT16_MAX + 1]; /* buffer for a record that wraps around the end of the ring */
};

static void event_close(struct perf_events *e, struct cpu_event *event)
{
    if (event->ring)
        munmap(event->ring, e->page_bytes + e->ring_bytes);
    closep(&event->fd);
}

static int event_open(struct perf_events *e, unsigned cpu)
{
    struct cpu_event event = {.fd = -1, .cpu = cpu}, *events;
    int r;

    event.fd = (int)syscall(SYS_perf_event_open, &e->attr, -1, (int)cpu, -1, PERF_FLAG_FD_CLOEXEC);
    if (event.fd < 0)
        return -errno;
    if (e->ring_bytes) {
        void *ring = mmap(NULL, e->page_bytes + e->ring_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, event.fd, 0);

        if (ring == MAP_FAILED) {
            r = -errno;
            goto fail;
        }
        event.ring = ring;
    }
    if (e->program_fd >= 0 && ioctl(event.fd, PERF_EVENT_IOC_SET_BPF, e->program_fd) < 0) {
        r = -errno;
        goto fail;
    }
    if (e->enabled && ioctl(event.fd, PERF_EVENT_IOC_ENABLE, 0) < 0) {
        r = -errno;
        goto fail;
    }
    events = reallocarray(e->events, e->count + 1, sizeof(*events));
    if (!events) {
        r = -ENOMEM;
        goto fail;
    }
    e->events = events;
    e->events[e->count++] = event;
    return 0;
fail:
    event_close(e, &event);
    return r;
}

static bool has_event(const struct perf_events *e, unsigned cpu)
{
    for (size_t i = 0; i < e->count; i++)
        if (e->events[i].cpu == cpu)
            return true;
    return false;
}

static int open_missing(struct perf_events *e, const struct cpu_list *online)
{
    int opened = 0;

    for (unsigned cpu = 0; cpu < CPU_LIST_MAX; cpu++) {
        int r;

        if (!cpu_list_has(online, cpu) || has_event(e, cpu))
            continue;
        r = event_open(e, cpu);
        if (r < 0 && r != -ENODEV) /* -ENODEV: the CPU went offline meanwhile */
            return r;
        opened += r == 0;
    }
    return opened;
}

static size_t ring_size(size_t page_bytes, size_t ring_bytes)
{
    size_t size = page_bytes;

    if (ring_bytes == 0)
        return 0;
    while (size * 2 <= ring_bytes)
        size *= 2;
    return size;
}

int perf_events_open(const struct perf_event_attr *attr, int program_fd, size_t ring_bytes, struct perf_events **ret)
{
    _cleanup_(perf_events_freep) struct perf_events *e = calloc(1, sizeof(*e));
    struct cpu_list online;
    int r;

    if (!e)
        return -ENOMEM;
    e->attr = *attr;
    e->attr.size = sizeof(e->attr);
    e->attr.disabled = 1;
    e->program_fd = program_fd;
    e->changes_fd = cpu_changes_open(); /* before reading the list, so that no later change is missed */
    e->page_bytes = (size_t)sysconf(_SC_PAGESIZE);
    e->ring_bytes = ring_size(e->page_bytes, ring_bytes);
    r = cpu_list_online(&online);
    if (r < 0)
        return r;
    r = open_missing(e, &online);
    if (r < 0)
        return r;
    if (e->count == 0)
        return -ENODEV;
    *ret = take_ptr(e);
    return 0;
}

void perf_events_free(struct perf_events *e)
{
    if (!e)
        return;
    for (size_t i = 0; i < e->count; i++)
        event_close(e, &e->events[i]);
    closep(&e->changes_fd);
    free(e->events);
    free(e);
}

int perf_events_enable(struct perf_events *e)
{
    e->enabled = true;
    for (size_t i = 0; i < e->count; i++)
        if (ioctl(e->events[i].fd, PERF_EVENT_IOC_ENABLE, 0) < 0)
            return -errno;
    return 0;
}

int perf_events_disable(struct perf_events *e)
{
    e->enabled = false;
    for (size_t i = 0; i < e->count; i++)
        if (ioctl(e->events[i].fd, PERF_EVENT_IOC_DISABLE, 0) < 0)
            return -errno;
    return 0;
}

void perf_events_values(const struct perf_events *e, uint64_t *ret, size_t count)
{
    memset(ret, 0, count * sizeof(*ret));
    for (size_t i = 0; i < e->count; i++) {
        uint64_t value;

        if (e->events[i].cpu < count && read(e->events[i].fd, &value, sizeof(value)) == sizeof(value))
            ret[e->events[i].cpu] = value;
    }
}

int perf_events_set_period(struct perf_events *e, uint64_t period)
{
    e->attr.sample_period = period;
    for (size_t i = 0; i < e->count; i++)
        if (ioctl(e->events[i].fd, PERF_EVENT_IOC_PERIOD, &period) < 0)
            return -errno;
    return 0;
}

int perf_events_follow(struct perf_events *e, uint64_t now_ns)
{
    struct cpu_list online, gone = {0};
    size_t kept = 0;
    int r;

    if (now_ns - e->checked_ns < FOLLOW_PERIOD_NS)
        return 0;
    e->checked_ns = now_ns;
    if (e->changes_fd >= 0)
        cpu_changes_take(e->changes_fd, &gone);
    r = cpu_list_online(&online);
    if (r == -EMFILE || r == -ENFILE)
        return 0; /* no free descriptor: retried at the next check */
    if (r < 0)
        return r;
    for (size_t i = 0; i < e->count; i++) {
        unsigned cpu = e->events[i].cpu;

        if (cpu_list_has(&online, cpu) && !cpu_list_has(&gone, cpu))
            e->events[kept++] = e->events[i];
        else
            event_close(e, &e->events[i]);
    }
    e->count = kept;
    return open_missing(e, &online);
}

/* Returns the record at `position`, copied to e->record if it wraps. NULL: its size is invalid. */
static const struct perf_event_header *ring_record(struct perf_events *e, const uint8_t *data, uint64_t position,
                                                   uint64_t available)
{
    size_t offset = position & (e->ring_bytes - 1), first = e->ring_bytes - offset;
    const struct perf_event_header *header =
        (const struct perf_event_header *)(data + offset); /* the header never wraps: records are 8-aligned */

    if (header->size < sizeof(*header) || header->size > available)
        return NULL;
    if (header->size <= first)
        return header;
    memcpy(e->record, data + offset, first);
    memcpy(e->record + first, data, header->size - first);
    return (const struct perf_event_header *)e->record;
}

static int ring_read(struct perf_events *e, const struct cpu_event *event, perf_events_take take, void *context)
{
    const uint8_t *data = (const uint8_t *)event->ring + e->page_bytes;
    uint64_t head = __atomic_load_n(&event->ring->data_head, __ATOMIC_ACQUIRE);
    uint64_t tail = event->ring->data_tail;
    int r = 0;

    while (tail < head) {
        const struct perf_event_header *record = ring_record(e, data, tail, head - tail);

        if (!record) { /* must not happen: discard the ring rather than interpret garbage */
            tail = head;
            r = -EBADMSG;
            break;
        }
        r = take(context, event->cpu, record);
        if (r)
            break;
        tail += record->size;
    }
    __atomic_store_n(&event->ring->data_tail, tail, __ATOMIC_RELEASE);
    return r;
}

int perf_events_read(struct perf_events *e, perf_events_take take, void *context)
{
    for (size_t i = 0; i < e->count; i++) {
        int r = e->events[i].ring ? ring_read(e, &e->events[i], take, context) : 0;

        if (r)
            return r;
    }
    return 0;
}

size_t perf_events_fds(const struct perf_events *e, int *ret_fds, size_t max)
{
    size_t n = e->count < max ? e->count : max;

    for (size_t i = 0; i < n; i++)
        ret_fds[i] = e->events[i].fd;
    return n;
}

size_t perf_events_bytes(const struct perf_events *e)
{
    return e->count * (e->ring_bytes ? e->page_bytes + e->ring_bytes : 0);
}
