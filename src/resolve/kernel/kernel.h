/* Names of kernel code: the kernel, its modules (also those loaded later), BPF programs with their source
 * lines. The kernel itself is asked, where it can be; else all of /proc/kallsyms is read, and read again when
 * an address falls outside everything known, at most once a second. Pipeline thread only. */
#pragma once

#include "base/cleanup.h"
#include "model/frame.h"
#include "model/metric.h"

#include <stdbool.h>
#include <stdint.h>

struct kernel_symbols;

/* `kallsyms`: path, NULL for /proc/kallsyms; the file `modules` beside it tells where modules end. Both are
 * opened now, since it is the opener's rights that count, and read (0.1 s of CPU) when the first address is
 * asked for. Addresses that read as 0 (no right, kptr_restrict): -EPERM, and frames will have no names. */
int kernel_symbols_new(const char *kallsyms, struct kernel_symbols **ret);

/* Who asks the kernel for a name. `ask` returns "NAME+0xOFFSET/0xSIZE", of a module followed by " [MODULE]", or
 * NULL; its text need hold until the next call only. */
struct kernel_asker {
    const char *(*ask)(void *context, uint64_t address);
    void *context;
    uint64_t text_start, text_end; /* the kernel's own text */
};
/* From now on; /proc/kallsyms is then read only for an address that the asker cannot name. */
void kernel_symbols_set_asker(struct kernel_symbols *k, const struct kernel_asker *asker);

/* How many answers, and BPF programs whose lines are known, are remembered at most. A power of two. -ENOMEM. */
int kernel_symbols_limit(struct kernel_symbols *k, size_t entries);

void kernel_symbols_free(struct kernel_symbols *k);
DEFINE_FREEP(kernel_symbols)

/* Always fills a whole frame (FRAME_KERNEL or FRAME_BPF; mapping "[kernel.kallsyms]", "[module]" or "[bpf]").
 * False when unnamed. Its strings hold for the next few hundred calls at least, so a stack's frames may be
 * filled one after the other. */
bool kernel_symbols_find(struct kernel_symbols *k, uint64_t address, struct frame *ret);

/* Lets the next call look for new modules and programs at once, however short ago the last look was. */
void kernel_symbols_expire(struct kernel_symbols *k);

void kernel_symbols_metrics(const struct kernel_symbols *k, struct metric_set *set);
