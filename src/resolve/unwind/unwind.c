/* Walks copied stacks; see unwind.h. The loop mirrors unwind_frame of probes/unwind/unwind.bpf.h. */
#include "resolve/unwind/unwind.h"

#include "resolve/process/processes.h"
#include "resolve/unwind/unwind_cache.h"

#include "base/cleanup.h"

#include <linux/types.h>

#include "probes/request.h"

#include <errno.h>
#include <string.h>

#define STACK_MAX_BYTES (8u << 20) /* Linux's default limit for the main thread (RLIMIT_STACK) */

static bool piece_contains(const struct unwind_piece *piece, uint64_t address)
{
    return address >= piece->address && piece->bytes >= 8 && address - piece->address <= piece->bytes - 8;
}

static int read_copy(const struct unwind_copy *copy, uint64_t address, void *ret_u64)
{
    if (copy->ret_last)
        *copy->ret_last = address;
    for (size_t i = 0; i < array_size(copy->pieces); i++) {
        const struct unwind_piece *piece = &copy->pieces[i];
        if (!piece_contains(piece, address))
            continue;
        memcpy(ret_u64, (const char *)piece->data + (address - piece->address), 8);
        return 0;
    }
    return -EFAULT;
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
#define UNWIND_GOROUTINE(context)                      (&((const struct unwind_copy *)(context))->goroutine)
#include "probes/unwind/unwind_step.h"

int unwind_walk(const struct unwind_copy *copy, unwind_rule_fn find_rule, void *context, uint64_t *ret_frames,
                size_t max, size_t *ret_count)
{
    struct unwind_registers r = copy->registers;
    bool interrupted = copy->interrupted, by_fp = false;
    size_t count = 0;
    int end;
    if (copy->spans)
        copy->spans->sp[0] = r.sp;
    for (bool first = true;; first = false) {
        struct unwind_rule rule;
        end = find_rule(context, r.ip - !interrupted, &rule);
        if (end == UNWIND_END_NO_MAPPING && by_fp) {
            end = UNWIND_END_NO_CFI; /* the frame pointer led outside all code, so it did not point to a frame */
            break;
        }
        if (!first) {
            if (count == max) {
                end = UNWIND_END_TOO_DEEP;
                break;
            }
            ret_frames[count++] = interrupted ? r.ip | FRAME_EXACT : r.ip;
        }
        if (copy->ret_cfa)
            *copy->ret_cfa = end == 0 ? rule.cfa : UNWIND_CFA_NONE;
        if (end == 0)
            end = unwind_step(&rule, &r, interrupted, (void *)copy);
        bool without_rule = end == UNWIND_END_NO_CFI;
        if (without_rule)
            end = unwind_step_fp(&r, by_fp, (void *)copy);
        if (end >= 0)
            break;
        if (copy->spans)
            copy->spans->sp[++copy->spans->count] = r.sp;
        by_fp = without_rule;
        interrupted = end == UNWIND_STEP_INTERRUPTED;
    }
    *ret_count = count;
    return end;
}

struct sample_walk {
    const struct process *process;
    struct unwind_cache *cache;
    bool walks_code;
    bool is_at_code; /* the walk reached JIT code, which only the BPF side can walk */
};

/* How the walk of a sample stopped. */
struct walk_stop {
    int end;             /* enum unwind_end */
    bool is_at_code;     /* see struct sample_walk */
    uint8_t cfa;         /* enum unwind_cfa of the last step */
    uint64_t missed;     /* the last address that was read, or could not be; 0: none */
    uint64_t last_frame; /* in the format of stack_record.data; 0: the walk found no frame */
};

static int find_process_rule(void *context, uint64_t address, struct unwind_rule *ret_rule)
{
    struct sample_walk *w = context;
    const struct process_mapping *mapping = process_mapping_find(w->process, address);
    if (!mapping)
        return UNWIND_END_NO_MAPPING;
    if (!mapping->object) {
        w->is_at_code = w->walks_code;
        return w->walks_code ? UNWIND_END_UNSUPPORTED : UNWIND_END_NO_CFI;
    }
    uint64_t offset = address - mapping->start + mapping->file_offset;
    if (offset > UINT32_MAX)
        return UNWIND_END_NO_CFI;
    int r = unwind_cache_find(w->cache, mapping->object, (uint32_t)offset, ret_rule);
    if (r < 0)
        return r == -ENOENT ? UNWIND_END_NO_CFI : UNWIND_END_NO_TABLE;
    return 0;
}

/* Locates the parts of data[] after the frames. False: the record is shorter than its fields claim. */
static bool find_pieces(const struct stack_record *record, struct unwind_copy *copy)
{
    const size_t frames = (size_t)record->kernel_frames + record->user_frames;
    const size_t fixed = sizeof(*record) + stack_record_tail_bytes(record);
    const size_t size = record->h.size_bytes < fixed ? 0 : record->h.size_bytes - fixed;
    if (frames * 8 > size || record->stack_bytes > size - frames * 8)
        return false;
    const uint64_t *words = (const uint64_t *)record->data + frames;
    copy->pieces[0] = (struct unwind_piece){
        .address = (record->stop_sp & ~7ULL) + 8ULL * record->stack_skipped_words,
        .data = words,
        .bytes = record->stack_bytes,
    };
    words += record->stack_bytes / 8;
    size_t rest = size / 8 - frames - record->stack_bytes / 8;
    if (record->flags & STACK_RECORD_REGISTERS && rest >= STACK_RECORD_REGISTER_COUNT) {
        rest -= STACK_RECORD_REGISTER_COUNT;
        copy->leaf = words + rest;
    }
    if (record->flags & STACK_RECORD_SECOND_STACK && rest > 1)
        copy->pieces[1] = (struct unwind_piece){.address = words[0], .data = words + 1, .bytes = 8 * (rest - 1)};
    return true;
}

/* Whether the copy has its maximum length, and the missed address is above it, where the stack may continue. */
static bool is_too_short(const struct stack_record *record, const struct unwind_copy *copy, uint64_t missed)
{
    const struct unwind_piece *last = &copy->pieces[copy->pieces[1].bytes ? 1 : 0];
    return copy->pieces[0].bytes + copy->pieces[1].bytes + 8ULL * record->stack_skipped_words + 24 > STACK_COPY_BYTES &&
           missed >= last->address + last->bytes && missed - last->address < STACK_MAX_BYTES;
}

/* Whether the missed address is on the stack that a signal handler interrupted, if the handler had its own stack and
 * nothing of the other one was copied. */
static bool is_on_interrupted_stack(const struct unwind_copy *copy, const struct walk_stop *stop)
{
    return stop->last_frame & FRAME_EXACT && !piece_contains(&copy->pieces[0], stop->missed) &&
           copy->pieces[1].bytes == 0;
}

/* Whether the walk had to continue on the goroutine's stack, which Go's runtime left for the thread's own (g0): it was
 * not copied, or its location is incompletely known. */
static bool is_on_goroutine_stack(const struct unwind_copy *copy, const struct walk_stop *stop)
{
    if (stop->cfa == UNWIND_CFA_GOROUTINE && stop->end == UNWIND_END_UNSUPPORTED)
        return true;
    return stop->end == UNWIND_END_BAD_READ && (stop->cfa == UNWIND_CFA_GOROUTINE || stop->cfa == UNWIND_CFA_FP) &&
           !piece_contains(&copy->pieces[0], stop->missed) && !piece_contains(&copy->pieces[1], stop->missed);
}

/* Whether the walk stopped for something that the record does not contain, but that the BPF side will have once it has
 * the table that it lacked. */
static bool needs_bpf_side(const struct stack_record *record, const struct unwind_copy *copy,
                           const struct walk_stop *stop)
{
    if (record->user_end != UNWIND_END_NO_TABLE && record->user_end != UNWIND_END_NO_PROCESS)
        return false;
    if (stop->is_at_code || is_on_goroutine_stack(copy, stop))
        return true;
    return stop->end == UNWIND_END_BAD_READ &&
           (is_too_short(record, copy, stop->missed) || is_on_interrupted_stack(copy, stop));
}

/* How the sample's stack ends (enum unwind_end), from how the BPF side's walk and the walk of the copy ended. */
static int choose_stack_end(const struct stack_record *record, const struct unwind_copy *copy,
                            const struct walk_stop *stop)
{
    if (record->user_end == UNWIND_END_NOT_RUNNING && stop->end == UNWIND_END_BAD_READ &&
        is_too_short(record, copy, stop->missed))
        return UNWIND_END_TOO_DEEP;
    if (needs_bpf_side(record, copy, stop))
        return record->user_end;
    return stop->end;
}

int unwind_finish_sample(const struct stack_record *record, const struct process *process, struct unwind_cache *cache,
                         bool walks_code, uint64_t *ret_frames, size_t max, size_t *ret_count,
                         struct unwind_spans *ret_spans)
{
    struct walk_stop stop = {.cfa = UNWIND_CFA_NONE};
    struct unwind_copy copy = {
        .registers = {.ip = record->stop_ip,
                      .sp = record->stop_sp,
                      .fp = record->stop_fp,
                      .lr = record->stop_lr,
                      .bx = record->stop_bx},
        .interrupted = record->flags & STACK_RECORD_STOP_INTERRUPTED,
        .ret_last = &stop.missed,
        .ret_cfa = &stop.cfa,
        .spans = ret_spans,
    };
    *ret_count = 0;
    ret_spans->first = record->user_frames - 1;
    ret_spans->count = 0;
    if (!process || record->stack_bytes == 0 || !find_pieces(record, &copy))
        return record->user_end;

    struct sample_walk walk = {.process = process, .cache = cache, .walks_code = walks_code};
    stop.end = unwind_walk(&copy, find_process_rule, &walk, ret_frames, max, ret_count);
    stop.is_at_code = walk.is_at_code;
    stop.last_frame = *ret_count > 0 ? ret_frames[*ret_count - 1] : 0;
    return choose_stack_end(record, &copy, &stop);
}
