/* One check per kind of record. Unknown kinds are rejected: a recording from a newer Sonde fails with an error instead
 * of being misread. */
#include "sources/events/record_check.h"

#include "sources/attach/sample_event.h"

#include "probes/event.h"
#include "probes/hotspot.h"
#include "probes/offcpu.h"
#include "probes/process.h"
#include "probes/python.h"
#include "probes/request.h"
#include "probes/v8.h"

#include <stdint.h>
#include <string.h>

static bool check_stack_record(const struct record_header *header)
{
    const struct stack_record *s = (const struct stack_record *)header;

    if (header->size_bytes < sizeof(*s))
        return false;
    const size_t least = sizeof(*s) + 8 * ((size_t)s->kernel_frames + s->user_frames) + s->stack_bytes +
                         (s->flags & STACK_RECORD_REGISTERS ? 8 * STACK_RECORD_REGISTER_COUNT : 0) +
                         stack_record_tail_bytes(s);
    return s->kernel_frames <= STACK_MAX_KERNEL_FRAMES && s->user_frames <= STACK_MAX_USER_FRAMES &&
           s->user_end < UNWIND_END_COUNT && s->stack_bytes <= STACK_COPY_BYTES && s->stack_bytes % 8 == 0 &&
           memchr(s->comm, 0, sizeof(s->comm)) &&
           (s->flags & STACK_RECORD_SECOND_STACK ? header->size_bytes > least && header->size_bytes % 8 == 0 &&
                                                       header->size_bytes - least + s->stack_bytes <= STACK_COPY_BYTES
                                                 : header->size_bytes == least);
}

static bool check_mmap(const struct record_header *header)
{
    const struct process_mmap *m = (const struct process_mmap *)header;

    if (header->size_bytes < sizeof(*m))
        return false;
    return m->path_bytes > 0 && m->path_bytes <= header->size_bytes - sizeof(*m) && m->path[m->path_bytes - 1] == 0 &&
           m->build_id_bytes <= PROCESS_BUILD_ID_MAX_BYTES && m->start + m->size_bytes >= m->start;
}

static bool check_request(const struct record_header *header)
{
    const struct request_record *r = (const struct request_record *)header;

    if (!request_record_is_sound(r))
        return false;
    for (size_t i = 0; i < r->wait_count; i++)
        if (!memchr(r->waits[i].file_system, 0, sizeof(r->waits[i].file_system)) ||
            !memchr(r->waits[i].file_name, 0, sizeof(r->waits[i].file_name)))
            return false;
    return memchr(r->comm, 0, sizeof(r->comm));
}

static bool check_off_cpu(const struct record_header *header)
{
    const struct off_cpu_wait *w = (const struct off_cpu_wait *)header;

    return header->size_bytes == sizeof(*w) && w->start_ns <= header->time_ns && w->queued_ns <= w->weight_ns &&
           w->waker < OFF_CPU_WAKER_COUNT && memchr(w->comm, 0, sizeof(w->comm));
}

bool record_check(const struct record_header *header)
{
    uint32_t size = header->size_bytes;

    if (size < sizeof(*header) || size > RECORD_MAX_BYTES || size % 8 != 0)
        return false;
    switch (header->kind) {
    case RECORD_CPU_SAMPLE:
    case RECORD_OFF_CPU_STACK:
    case RECORD_OFF_CPU_WAKER:
    case RECORD_REQUEST_STACK:
        return check_stack_record(header);
    case RECORD_PYTHON_CODE:
        return python_code_is_sound((const struct python_code *)header);
    case RECORD_V8_CODE:
        return v8_code_is_sound((const struct v8_code *)header);
    case RECORD_HOTSPOT_METHOD:
        return size == sizeof(struct hotspot_method);
    case RECORD_EVENT:
        return sample_event_record_is_sound((const struct event_record *)header);
    case RECORD_PROCESS_FORK:
        return size == sizeof(struct process_fork);
    case RECORD_PROCESS_EXEC:
        return size == sizeof(struct process_exec) && memchr(((const struct process_exec *)header)->comm, 0, 16);
    case RECORD_PROCESS_COMM:
        return size == sizeof(struct process_comm) && memchr(((const struct process_comm *)header)->comm, 0, 16);
    case RECORD_PROCESS_EXIT:
        return size == sizeof(struct process_exit);
    case RECORD_PROCESS_MMAP:
        return check_mmap(header);
    case RECORD_PROCESS_LOST:
        return size == sizeof(struct process_lost);
    case RECORD_OFF_CPU:
        return check_off_cpu(header);
    case RECORD_REQUEST:
        return check_request(header);
    default:
        return false;
    }
}
