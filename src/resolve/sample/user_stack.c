/* Walks recorded user stacks to their end; see user_stack.h. */
#include "resolve/sample/user_stack.h"

#include "model/loss.h"
#include "resolve/interpreter/interpreter_join.h"
#include "resolve/interpreter/interpreters.h"
#include "resolve/process/processes.h"

#include <string.h>

/* Walks the copy of the stack. Returns the number of frames found, above those of the record. */
static size_t walk_copy(struct user_stack *u, const struct stack_record *record, const struct process *process)
{
    const bool walks_code = interpreters_walk_code(u->interpreters, process);
    size_t more = 0;
    u->end = (unsigned)unwind_finish_sample(record, process, u->unwind_cache, walks_code, u->addresses + u->count,
                                            STACK_MAX_USER_FRAMES - u->count, &more, &u->spans);
    return more;
}

void user_stack_walk(struct user_stack *u, const struct stack_record *record, const struct process *process)
{
    u->count = record->user_frames;
    u->end = record->user_end;
    memcpy(u->addresses, record->data + record->kernel_frames, u->count * sizeof(*u->addresses));
    u->spans.count = 0;
    if (record->stack_bytes == 0 || !process)
        return;
    size_t more = walk_copy(u, record, process);
    /* The code was mapped without a record, or before its record arrived: walk again by the current mappings. */
    if ((u->end == UNWIND_END_NO_MAPPING || u->end == UNWIND_END_NO_CFI) &&
        processes_read_mappings(u->processes, process))
        more = walk_copy(u, record, process);
    u->count += more;
    if (u->end == UNWIND_END_NO_MAPPING && record->flags & STACK_RECORD_STOP_BY_FP && more == 0 && u->count > 0) {
        u->count--;
        u->end = UNWIND_END_NO_CFI;
    }
}

const struct stack_record *user_stack_replace_copy(struct user_stack *u, const struct stack_record *record)
{
    struct stack_record *s = &u->walked.record;
    const size_t tail_bytes = stack_record_tail_bytes(record);
    const size_t frames_end = sizeof(*s) + sizeof(*s->data) * (record->kernel_frames + u->count);
    memcpy(s, record, sizeof(*s) + sizeof(*s->data) * record->kernel_frames);
    memcpy(s->data + s->kernel_frames, u->addresses, u->count * sizeof(*u->addresses));
    memcpy((char *)s + frames_end, (const char *)record + record->h.size_bytes - tail_bytes, tail_bytes);
    s->h.size_bytes = (uint32_t)(frames_end + tail_bytes);
    s->user_frames = (uint16_t)u->count;
    s->user_end = (uint8_t)u->end;
    s->stack_bytes = 0;
    s->flags &= (uint8_t) ~(STACK_RECORD_REGISTERS | STACK_RECORD_SECOND_STACK);
    interpreter_resolve_marks(s, &u->spans);
    return s;
}

/* Whether the address is outside all known mappings. */
static bool is_unmapped(const struct process *process, uint64_t user)
{
    const uint64_t address = user & ~FRAME_EXACT;
    return !process_mapping_find(process, user & FRAME_EXACT || !address ? address : address - 1);
}

/* The process may have mapped code without a record. */
static void refresh_mappings(const struct user_stack *u, const struct process *process)
{
    for (size_t i = 0; i < u->count; i++)
        if (is_unmapped(process, u->addresses[i])) {
            processes_read_mappings(u->processes, process);
            return;
        }
}

/* If the walk ended outside all mappings, its last address is stale stack content, which would make equal stacks
 * differ: it is dropped, unless it is the leaf. */
void user_stack_settle(struct user_stack *u, const struct process *process)
{
    if (!process)
        return;
    refresh_mappings(u, process);
    if (u->count > 1 && u->end == UNWIND_END_NO_MAPPING && is_unmapped(process, u->addresses[u->count - 1]))
        u->count--;
}

const char *user_stack_count_end(const struct user_stack *u, struct losses *losses)
{
    static const char *const texts[UNWIND_END_COUNT] = {
        [UNWIND_END_NO_PROCESS] = "mappings not known yet",
        [UNWIND_END_NO_TABLE] = "unwind table not ready",
        [UNWIND_END_NO_MAPPING] = "address outside all code",
        [UNWIND_END_BAD_READ] = "stack not readable",
        [UNWIND_END_NO_CFI] = "no unwinding rules",
        [UNWIND_END_TOO_DEEP] = "stack too deep",
        [UNWIND_END_UNSUPPORTED] = "unwinding rule not supported",
        [UNWIND_END_NOT_RUNNING] = "waiting since before the recording",
    };
    if (u->end == UNWIND_END_ENTRY || u->end == UNWIND_END_NO_USER)
        return NULL;
    losses->count[u->end == UNWIND_END_NO_PROCESS || u->end == UNWIND_END_NO_TABLE ? LOSS_NO_UNWIND_TABLE
                                                                                   : LOSS_TRUNCATED]++;
    return u->end < UNWIND_END_COUNT && texts[u->end] ? texts[u->end] : ""; /* "": of a newer version */
}

/* During exec the registers still belong to the old program, but its stack has been freed with the rest of its memory,
 * shortly before its mappings are removed. */
bool user_stack_is_gone(const struct stack_record *record, const struct process *process)
{
    if (record->kernel_frames == 0)
        return false;
    const uint64_t ip = record->user_frames ? record->data[record->kernel_frames] & ~FRAME_EXACT : record->stop_ip;
    const bool is_freed = record->user_end != UNWIND_END_ENTRY && record->stack_bytes == 0;
    return is_freed || !process_mapping_find(process, ip);
}
