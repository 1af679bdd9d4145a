/* Copies parts of a stack into the record, for user space to finish a walk that the BPF program could not. Included by
 * unwind.bpf.h. */
#pragma once

/* Copies one page for unwind_copy_piece, up to `to`; false at the end. Progress is kept in the walk only, so that the
 * verifier checks one page for all. */
static __always_inline bool unwind_copy_page(struct unwind_scratch *scratch, __u64 to)
{
    __u64 copied = scratch->walk.copied;
    __u64 from = scratch->walk.copy_from + scratch->walk.copy_skipped + copied;
    __u64 at = scratch->walk.copy_at + copied;
    __u64 size = UNWIND_COPY_PAGE - (from & (UNWIND_COPY_PAGE - 1));

    if (from >= to)
        return false;
    if (size > to - from)
        size = to - from;
    UNWIND_SAME_REGISTER(size);
    UNWIND_SAME_REGISTER(at);
    if (size == 0 || size > UNWIND_COPY_PAGE || at > sizeof(scratch->data))
        return false;
    if (bpf_probe_read_user((__u8 *)scratch->data + at, size, (const void *)from) == 0) {
        scratch->walk.copied = copied + size;
        return true;
    }
    /* A page that the current function has not touched yet is not mapped. */
    if (copied)
        return false;
    scratch->walk.copy_skipped += size;
    return true;
}

/* Copies the readable part of [from, to) to data[] at byte offset `at`; `from` and `at` are multiples of 8. */
__noinline int unwind_copy_piece(__u64 from, __u64 to, __u32 at)
{
    struct unwind_scratch *scratch = unwind_scratch_get();

    if (!scratch)
        return 0;
    scratch->walk.copy_from = from;
    scratch->walk.copy_at = at;
    scratch->walk.copied = scratch->walk.copy_skipped = 0;
    for (int n = 0; n < STACK_COPY_BYTES / UNWIND_COPY_PAGE + 1; n++)
        if (!unwind_copy_page(scratch, to))
            break;
    unwind_restore_copied(scratch, (struct task_struct *)bpf_get_current_task(), from + scratch->walk.copy_skipped, at,
                          scratch->walk.copied);
    return 0;
}
