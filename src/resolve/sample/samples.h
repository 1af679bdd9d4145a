/* Resolve: from a wire record of a CPU sample to a sample with every name and identity in it. Finishes stacks
 * that the kernel half had to leave (copied stacks) with the same rows. Pipeline thread only. */
#pragma once

#include "base/cleanup.h"
#include "model/loss.h"
#include "model/sample.h"
#include "resolve/kernel/kernel.h"
#include "resolve/process/processes.h"
#include "resolve/symbols/symbols.h"
#include "resolve/unwind/unwind_cache.h"

#include <linux/types.h>

#include "probes/cpu.h"

struct interpreters;
struct jits;
struct line_objects;
struct sample_resolver;

/* All borrowed for the resolver's life. */
int sample_resolver_new(struct processes *processes, struct symbols *symbols, struct kernel_symbols *kernel,
                        struct unwind_cache *unwind_cache, struct interpreters *interpreters, struct jits *jits,
                        struct sample_resolver **ret);
void sample_resolver_free(struct sample_resolver *r);
DEFINE_FREEP(sample_resolver)

/* From now on the files of native frames are noted there (borrowed), for their source lines at the end; NULL: no more.
 */
void sample_resolver_note_files(struct sample_resolver *r, struct line_objects *to);

/* Fills `ret`, whose pointers hold until the next call. Counts what is not whole in `losses`. -ENOENT:
 * process unknown (counted; `ret` is still filled, by what the record itself says). -EBADMSG: the record
 * makes no sense (counted); `ret` is empty. */
int sample_resolve(struct sample_resolver *r, const struct cpu_sample *record, struct losses *losses,
                   struct sample *ret);

/* Puts a frame of the kind FRAME_WAIT above the leaf of the sample resolved last, or another one in its place. */
void sample_put_leaf(struct sample_resolver *r, struct sample *s, const char *text);

/* Whose the record is, at its moment; NULL: it is not known. */
const struct process *sample_process(struct sample_resolver *r, const struct cpu_sample *record);

/* For other records that carry stacks (requests). The frames' texts hold until the next call of this resolver. */

/* The user stack of `record`, finished from the copy that it may hold: fills `ret` with addresses as
 * cpu_sample.data has them, returns how many. `*ret_end` is how the walk ended (enum unwind_end). */
size_t sample_user_stack(struct sample_resolver *r, const struct cpu_sample *record, const struct process *process,
                         uint64_t *ret, size_t max, unsigned *ret_end);

/* Names the addresses of one user stack: fills `ret_frames`, returns how many. A stack that did not end at the
 * thread's entry gets a frame that says why, and is counted, as in samples. */
size_t sample_resolve_user(struct sample_resolver *r, const struct process *process, const uint64_t *addresses,
                           size_t count, unsigned end, struct losses *losses, struct frame *ret_frames, size_t max);
/* Behind `count` frames one that says why there are no more; how many there are then. */
size_t sample_end_stack(const char *reason, size_t count, struct frame *ret_frames, size_t max);
size_t sample_resolve_kernel(struct sample_resolver *r, const uint64_t *addresses, size_t count,
                             struct frame *ret_frames, size_t max);
