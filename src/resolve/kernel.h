/* Names of kernel code: the kernel, its modules (also those loaded later), BPF programs with their source lines. Re-read lazily
 * when an address falls outside everything known, at most once a second. Pipeline thread only. */
#pragma once

#include "base/cleanup.h"
#include "model/frame.h"
#include "model/metric.h"

#include <stdbool.h>
#include <stdint.h>

struct kernel_symbols;

/* `kallsyms`: path, NULL for /proc/kallsyms. Addresses that read as 0 (no right, kptr_restrict): -EPERM, and frames will have
 * no names. */
int kernel_symbols_new(const char *kallsyms, struct kernel_symbols **ret);
void kernel_symbols_free(struct kernel_symbols *k);
DEFINE_FREEP(kernel_symbols)

/* Fills a frame (FRAME_KERNEL or FRAME_BPF); strings borrowed until the next call that may re-read. False when unnamed. */
bool kernel_symbols_find(struct kernel_symbols *k, uint64_t address, struct frame *ret);

void kernel_symbols_metrics(const struct kernel_symbols *k, struct metric_set *set);
