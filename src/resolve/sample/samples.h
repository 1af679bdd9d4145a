/* Resolves the record of a CPU sample to a sample with all names and identities. Finishes stacks that the BPF side
 * could not walk (copied stacks) by the same unwind tables. Pipeline thread only. */
#pragma once

#include "base/cleanup.h"
#include "model/loss.h"
#include "model/sample.h"
#include "resolve/kernel/kernel.h"
#include "resolve/process/processes.h"
#include "resolve/symbols/symbols.h"
#include "resolve/unwind/unwind_cache.h"

#include <linux/types.h>

#include "probes/unwind/stack.h"

struct interpreters;
struct jits;
struct line_objects;
struct sample_resolver;

/* All arguments are borrowed for the resolver's lifetime; `kernel` and `jits` may be NULL: their frames then have
 * no names. The caller frees `*ret`. -ENOMEM. */
int sample_resolver_new(struct processes *processes, struct symbols *symbols, struct kernel_symbols *kernel,
                        struct unwind_cache *unwind_cache, struct interpreters *interpreters, struct jits *jits,
                        struct sample_resolver **ret);
void sample_resolver_free(struct sample_resolver *r);
DEFINE_FREEP(sample_resolver)

/* Records the files of native frames in `to` (borrowed), for looking up source lines at the end; NULL: stops that. */
void sample_resolver_note_files(struct sample_resolver *r, struct line_objects *to);

/* Fills `ret`, of sample_type_cpu; the caller sets another type where the record has another. Its pointers are valid
 * until the next call of this resolver; its resource, where the process is known, until the next processes_begin_turn.
 * Counts incomplete data in `losses`. -ENOENT: unknown process (counted; `ret` is filled from the record alone).
 * -EBADMSG: malformed record (counted); `ret` is empty. */
int sample_resolve(struct sample_resolver *r, const struct stack_record *record, struct losses *losses,
                   struct sample *ret);

/* The frames of the sample resolved last, leaf first, which a caller may complete. */
struct frame *sample_frames(struct sample_resolver *r);

/* Names a return address of a kernel stack, as kernel_symbols_find does. */
void sample_kernel_frame(struct sample_resolver *r, uint64_t address, struct frame *ret);

/* Demangles a name that belongs to no file; see demangler_demangle. */
int sample_demangle(struct sample_resolver *r, const char *symbol, char out[DEMANGLED_MAX]);

/* Adds a frame of kind FRAME_WAIT as the leaf of `s`, or replaces the one added before. `s` must be the sample resolved
 * last, with its own frames. `text` is borrowed as long as `s` is used. */
void sample_put_leaf(struct sample_resolver *r, struct sample *s, const char *text);

/* Walks the copied stack of a valid record, to keep it in less memory: returns a record with the frames in place of the
 * copy, valid until the next call; its user_end says how the walk ended. Returns `record` itself if it has no copy. */
const struct stack_record *sample_walk_copy(struct sample_resolver *r, const struct stack_record *record);
