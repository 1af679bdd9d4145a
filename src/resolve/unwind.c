/* Walking copied stacks; see unwind.h. The loop mirrors unwind_frame of probes/unwind.bpf.h. */
#include "resolve/unwind.h"

#include "resolve/processes.h"
#include "resolve/unwind_cache.h"

#include <errno.h>
#include <string.h>

#define STACK_MAX_BYTES (8u << 20) /* what Linux gives a main thread, unless told otherwise */

static int read_copy(const struct unwind_copy *copy, uint64_t address, void *ret_u64)
{
    uint64_t offset = address - copy->address;
    if (copy->ret_last)
        *copy->ret_last = address;
    if (address < copy->address || copy->stack_bytes < 8 || offset > copy->stack_bytes - 8)
        return -EFAULT;
    memcpy(ret_u64, (const char *)copy->stack + offset, 8);
    return 0;
}

static inline int leaf_register(const struct unwind_copy *copy, uint32_t number, void *ret_u64)
{
    if (!copy->leaf)
        return -ENOENT;
    memcpy(ret_u64, &copy->leaf[number], 8);
    return 0;
}

#if defined(__aarch64__)
#define UNWIND_ARM64
#endif
#define UNWIND_READ(context, address, ret_u64)         read_copy(context, address, ret_u64)
#define UNWIND_LEAF_REGISTER(context, number, ret_u64) leaf_register(context, number, ret_u64)
#include "../../probes/unwind_step.h"

int unwind_walk(const struct unwind_copy *copy, unwind_rule_fn find_rule, void *context, uint64_t *ret_frames,
                size_t max, size_t *ret_count)
{
    struct unwind_registers r = copy->registers;
    bool interrupted = copy->interrupted, by_fp = false;
    size_t count = 0;
    int end;
    for (bool first = true;; first = false) {
        struct unwind_rule rule;
        end = find_rule(context, r.ip - !interrupted, &rule);
        if (end == UNWIND_END_NO_MAPPING && by_fp) {
            end = UNWIND_END_NO_CFI; /* what a frame pointer led to was no code: it pointed to no frame */
            break;
        }
        if (!first) {
            if (count == max) {
                end = UNWIND_END_TOO_DEEP;
                break;
            }
            ret_frames[count++] = interrupted ? r.ip | CPU_FRAME_EXACT : r.ip;
        }
        if (end == 0)
            end = unwind_step(&rule, &r, interrupted, (void *)copy);
        bool without_rule = end == UNWIND_END_NO_CFI;
        if (without_rule)
            end = unwind_step_fp(&r, by_fp, (void *)copy);
        if (end >= 0)
            break;
        by_fp = without_rule;
        interrupted = end == UNWIND_STEP_INTERRUPTED;
    }
    *ret_count = count;
    return end;
}

struct sample_walk {
    const struct process *process;
    struct unwind_cache *cache;
};

static int find_process_rule(void *context, uint64_t address, struct unwind_rule *ret_rule)
{
    const struct sample_walk *w = context;
    const struct process_mapping *mapping = process_mapping_find(w->process, address);
    if (!mapping)
        return UNWIND_END_NO_MAPPING;
    if (!mapping->object)
        return UNWIND_END_NO_CFI;
    uint64_t offset = address - mapping->start + mapping->file_offset;
    if (offset > UINT32_MAX)
        return UNWIND_END_NO_CFI;
    int r = unwind_cache_find(w->cache, mapping->object, (uint32_t)offset, ret_rule);
    if (r < 0)
        return r == -ENOENT ? UNWIND_END_NO_CFI : UNWIND_END_NO_ROWS;
    return 0;
}

/* The copy is as long as copies get, and what was wanted lies above it, where stacks still may be. */
static bool is_too_short(const struct cpu_sample *record, const struct unwind_copy *copy, uint64_t missed)
{
    const uint64_t end = copy->address + copy->stack_bytes;
    return copy->stack_bytes + 8ULL * record->stack_skipped_words + 16 > CPU_STACK_COPY_BYTES &&
           missed + 8 > end && missed - copy->address < STACK_MAX_BYTES;
}

int unwind_finish_sample(const struct cpu_sample *record, const struct process *process,
                         struct unwind_cache *cache, uint64_t *ret_frames, size_t max, size_t *ret_count)
{
    *ret_count = 0;
    if (!process || record->stack_bytes == 0)
        return record->user_end;
    size_t frames = (size_t)record->kernel_frames + record->user_frames;
    size_t room = record->h.size_bytes < sizeof(*record) ? 0 : record->h.size_bytes - sizeof(*record);
    if (frames * 8 > room || record->stack_bytes > room - frames * 8)
        return record->user_end;
    const uint64_t *words = (const uint64_t *)record->data;
    bool has_leaf = record->flags & CPU_SAMPLE_REGISTERS &&
                    room - frames * 8 - record->stack_bytes >= 8 * CPU_SAMPLE_REGISTER_COUNT;
    uint64_t missed = 0;
    struct unwind_copy copy = {
        .registers = {.ip = record->stop_ip,
                      .sp = record->stop_sp,
                      .fp = record->stop_fp,
                      .lr = record->stop_lr,
                      .bx = record->stop_bx},
        .interrupted = record->flags & CPU_SAMPLE_STOP_INTERRUPTED,
        .address = (record->stop_sp & ~7ULL) + 8ULL * record->stack_skipped_words,
        .stack = &record->data[frames],
        .stack_bytes = record->stack_bytes,
        .ret_last = &missed,
        .leaf = has_leaf ? words + frames + record->stack_bytes / 8 : NULL,
    };
    struct sample_walk walk = {.process = process, .cache = cache};
    int end = unwind_walk(&copy, find_process_rule, &walk, ret_frames, max, ret_count);
    const bool was_missing =
        record->user_end == UNWIND_END_NO_ROWS || record->user_end == UNWIND_END_NO_PROCESS;
    if (end == UNWIND_END_BAD_READ && was_missing && is_too_short(record, &copy, missed))
        return record->user_end;
    return end;
}
