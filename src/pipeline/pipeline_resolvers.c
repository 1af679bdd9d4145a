/* Creates the resolvers, each with its part of the memory. */
#include "pipeline/pipeline_private.h"

#include "base/log.h"
#include "resolve/interpreter/interpreters.h"
#include "resolve/jit/jit.h"
#include "resolve/kernel/kernel.h"
#include "resolve/lines/native_lines.h"
#include "resolve/process/processes.h"
#include "resolve/sample/samples.h"
#include "resolve/symbols/symbols.h"
#include "resolve/unwind/unwind_cache.h"
#include "sources/kernel_names/kernel_names.h"

#include <errno.h>
#include <stdio.h>

#define CODE_MIN_BYTES (9 << 18) /* a replay cannot have evicted code re-emitted */

static void close_unused_file(uint64_t object_id, void *pipeline)
{
    const struct pipeline *p = pipeline;
    symbols_close(p->symbols, object_id);
    unwind_cache_close(p->unwind_cache, object_id);
}

int pipeline_make_resolvers(struct pipeline *p, size_t cache_entries)
{
    const uint64_t *bytes = p->memory.bytes, code_bytes = bytes[MEMORY_CODE];
    const struct symbols_options symbols = {.cache_bytes = bytes[MEMORY_SYMBOLS], .entries_max = cache_entries};
    int r = processes_new(bytes[MEMORY_PROCESSES], &p->processes);
    if (r == 0)
        r = symbols_new(&symbols, &p->symbols);
    if (r == 0)
        r = kernel_symbols_new(NULL, &p->kernel);
    if (r == 0 || r == -EPERM) /* without permission, kernel frames have no names */
        r = unwind_cache_new(bytes[MEMORY_UNWIND_CACHE], &p->unwind_cache);
    if (r == 0)
        r = interpreters_new(interpreters_known, array_size(interpreters_known),
                             code_bytes > CODE_MIN_BYTES ? code_bytes : CODE_MIN_BYTES, &p->interpreters);
    if (r == 0)
        interpreters_read_by(p->interpreters, processes_read_memory, p->processes);
    if (r == 0)
        r = jits_new(p->processes, bytes[MEMORY_JIT], &p->jits);
    if (r == 0)
        r = sample_resolver_new(p->processes, p->symbols, p->kernel, p->unwind_cache, p->interpreters, p->jits,
                                &p->resolver);
    if (r == 0)
        processes_on_unused_file(p->processes, close_unused_file, p);
    if (r == 0 && cache_entries) {
        processes_limit_caches(p->processes, cache_entries);
        unwind_cache_limit(p->unwind_cache, cache_entries);
        jits_limit(p->jits, cache_entries);
        interpreters_limit_cache(p->interpreters, cache_entries);
        r = p->kernel ? kernel_symbols_limit(p->kernel, cache_entries) : 0;
    }
    return r;
}

void pipeline_set_memory(struct pipeline *p, const struct memory_plan *memory)
{
    p->memory = *memory;
    processes_set_max_bytes(p->processes, memory->bytes[MEMORY_PROCESSES]);
    unwind_cache_set_max_bytes(p->unwind_cache, memory->bytes[MEMORY_UNWIND_CACHE]);
    jits_set_max_bytes(p->jits, memory->bytes[MEMORY_JIT]);
}

void pipeline_start_helper(struct pipeline *p, struct attach_report *report)
{
    struct attach_entry *entry = attach_report_add(report, "files of processes");
    int r = processes_start_helper(p->processes);
    entry->attached = r == 0;
    if (r == 0) {
        snprintf(entry->method, sizeof(entry->method), "opened by a helper process");
        return;
    }
    attach_entry_refused(entry, "a helper process",
                         log_errno(r, "no helper process: files are opened later, or not at all"));
    snprintf(entry->limitation, sizeof(entry->limitation),
             "files are opened later, or not at all: frames may lack names, stacks may be truncated");
}

void pipeline_start_lines(struct pipeline *p, struct attach_report *report)
{
    struct attach_entry *entry = attach_report_add(report, "lines of native code");
    int r = native_lines_new(&p->native_lines);
    entry->attached = r == 0;
    if (r == 0) {
        snprintf(entry->method, sizeof(entry->method), "DWARF, by confined processes");
        return;
    }
    if (r == -ENOPKG)
        attach_entry_unfit(entry, "DWARF", "libdw.so.1 is not installed (package libdw1, or elfutils-libs)");
    else
        attach_entry_refused(entry, "DWARF", r);
    snprintf(entry->limitation, sizeof(entry->limitation), "causes name native functions without their source lines");
}

void pipeline_ask_kernel_for_names(struct pipeline *p, struct attach_report *report)
{
    struct kernel_asker asker = {.ask = kernel_names_lookup};
    if (kernel_names_open(report, &p->kernel_names) < 0)
        return;
    kernel_names_text(p->kernel_names, &asker.text_start, &asker.text_end);
    asker.context = p->kernel_names;
    kernel_symbols_set_asker(p->kernel, &asker);
}
