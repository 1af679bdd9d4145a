/* Symbol names of kernel code: the kernel, its modules (including ones loaded later), and BPF programs with their
 * source lines. Names come from the kernel itself (kernel_asker) where possible. Otherwise all of /proc/kallsyms is
 * read, and read again, at most once a second, when an address is outside every known symbol. Pipeline thread only. */
#pragma once

#include "base/cleanup.h"
#include "model/frame.h"
#include "model/metric.h"

#include <stdbool.h>
#include <stdint.h>

struct kernel_symbols;

/* `kallsyms`: path; NULL: /proc/kallsyms. The file `modules` in the same directory gives the end addresses of modules.
 * Both are opened now, because the permissions are checked at open(2), and are read (0.1 s of CPU) on the first lookup.
 * -EPERM: addresses read as 0 (no permission, kptr_restrict), so frames will have no names. */
int kernel_symbols_new(const char *kallsyms, struct kernel_symbols **ret);

/* Resolves names by the kernel itself. `ask` returns "NAME+0xOFFSET/0xSIZE", for a module followed by " [MODULE]", or
 * NULL; its string must be valid until the next call only. */
struct kernel_asker {
    const char *(*ask)(void *context, uint64_t address);
    void *context;
    uint64_t text_start, text_end; /* the kernel's own text */
};
/* Sets the asker (copied). /proc/kallsyms is then read only for addresses that it cannot name. */
void kernel_symbols_set_asker(struct kernel_symbols *k, const struct kernel_asker *asker);

/* Empties the name cache and limits it, and the BPF programs whose lines are kept, to `entries`: a power of two; more
 * than the default has no effect. -ENOMEM: unchanged. */
int kernel_symbols_limit(struct kernel_symbols *k, size_t entries);

void kernel_symbols_free(struct kernel_symbols *k);
DEFINE_FREEP(kernel_symbols)

/* Always fills a complete frame (FRAME_KERNEL or FRAME_BPF; mapping "[kernel.kallsyms]", "[module]" or "[bpf]"). False:
 * it has no name. Strings are valid for at least a few hundred further calls, so the frames of a stack can be filled
 * one after another. */
bool kernel_symbols_find(struct kernel_symbols *k, uint64_t address, struct frame *ret);

/* Makes the next lookup check for new modules and programs immediately. */
void kernel_symbols_expire(struct kernel_symbols *k);

void kernel_symbols_metrics(const struct kernel_symbols *k, struct metric_set *set);
