/* Resolve: from a wire record of a CPU sample to a sample with every name and identity in it. Finishes stacks
 * that the kernel half had to leave (copied stacks) with the same rows. Pipeline thread only. */
#pragma once

#include "base/cleanup.h"
#include "model/loss.h"
#include "model/sample.h"
#include "resolve/kernel.h"
#include "resolve/processes.h"
#include "resolve/symbols.h"
#include "resolve/unwind_cache.h"

#include <linux/types.h>

#include "../../probes/cpu.h"

struct sample_resolver;

/* All borrowed for the resolver's life. */
int sample_resolver_new(struct processes *processes, struct symbols *symbols, struct kernel_symbols *kernel,
                        struct unwind_cache *unwind_cache, struct sample_resolver **ret);
void sample_resolver_free(struct sample_resolver *r);
DEFINE_FREEP(sample_resolver)

/* Fills `ret`, whose pointers hold until the next call. Counts what is not whole in `losses`. -ENOENT:
 * process unknown (counted; `ret` is still filled, by what the record itself says). -EBADMSG: the record
 * makes no sense (counted); `ret` is empty. */
int sample_resolve(struct sample_resolver *r, const struct cpu_sample *record, struct losses *losses,
                   struct sample *ret);

/* The user-space addresses of one stack, for other records that carry stacks (requests): fills `ret_frames`,
 * returns how many. Addresses as cpu_sample.data has them. The frames' texts hold until the next call of this
 * resolver. */
size_t sample_resolve_user(struct sample_resolver *r, const struct process *process,
                           const uint64_t *addresses, size_t count, struct frame *ret_frames, size_t max);
size_t sample_resolve_kernel(struct sample_resolver *r, const uint64_t *addresses, size_t count,
                             struct frame *ret_frames, size_t max);
