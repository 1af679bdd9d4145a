/* See stack_record.h. */
#include "signals/stack_record.h"

#include "probes/unwind/stack.h"

#include <string.h>

bool stack_record_check(const struct record_header *header)
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
