/* Finds thread contexts and goroutine labels in the ELF files of processes; see thread_contexts.h
 * (resolve/elf/thread_context.h, resolve/elf/go_labels.h). */
#include "pipeline/thread_contexts.h"

#include "base/log.h"
#include "resolve/elf/go_labels.h"
#include "resolve/elf/thread_context.h"
#include "resolve/process/process_go.h"
#include "resolve/process/processes.h"
#include "sources/tables/context_tables.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#define PROCESSES_MAX 16384 /* as many as the unwind publisher keeps */

struct context_process {
    uint32_t pid;
    uint64_t start_time_ns, mapping_version; /* as of the last registration */
    bool is_in_kernel;
    uint16_t go; /* enum go_labels_kind, as registered with the BPF programs; or UNKNOWN */
    UT_hash_handle hh;
};

struct thread_contexts {
    struct context_tables tables;
    struct context_process *processes;
    uint64_t in_kernel, refused;
    uint64_t go_in_kernel, go_unknown, go_refused;
    bool warned_of_version;
};

int thread_contexts_new(const struct context_tables *tables, struct thread_contexts **ret)
{
    struct thread_contexts *c = calloc(1, sizeof(*c));
    if (!c)
        return -ENOMEM;
    c->tables = *tables;
    *ret = c;
    return 0;
}

static void unregister_go(struct thread_contexts *c, struct context_process *p)
{
    c->go_unknown -= p->go == GO_LABELS_UNKNOWN;
    if (p->go > GO_LABELS_UNKNOWN) {
        (void)context_tables_set_go_labels(&c->tables, p->pid, NULL);
        c->go_in_kernel--;
    }
    p->go = GO_LABELS_NONE;
}

static void unregister(struct thread_contexts *c, struct context_process *p)
{
    if (p->is_in_kernel) {
        (void)context_tables_set_thread_context(&c->tables, p->pid, NULL);
        c->in_kernel--;
    }
    p->is_in_kernel = false;
    unregister_go(c, p);
}

static void destroy(struct thread_contexts *c, struct context_process *p)
{
    unregister(c, p);
    HASH_DEL(c->processes, p);
    free(p);
}

void thread_contexts_free(struct thread_contexts *c)
{
    if (!c)
        return;
    while (c->processes)
        destroy(c, c->processes);
    free(c);
}

static struct context_process *get(struct thread_contexts *c, uint32_t pid)
{
    struct context_process *p;
    HASH_FIND(hh, c->processes, &pid, sizeof(pid), p);
    if (p)
        return p;
    if (HASH_COUNT(c->processes) >= PROCESSES_MAX)
        destroy(c, c->processes); /* the oldest entry */
    p = calloc(1, sizeof(*p));
    if (!p)
        return NULL;
    p->pid = pid;
    HASH_ADD(hh, c->processes, pid, sizeof(p->pid), p);
    if (!p->hh.tbl) {
        free(p);
        return NULL;
    }
    return p;
}

/* The glibc loader stays mapped under its own name for the lifetime of the process. */
static bool has_glibc(const struct process *process)
{
    for (size_t i = 0; i < process->mapping_count; i++) {
        const char *path = process->mappings[i].path, *name = path ? strrchr(path, '/') : NULL;
        if (name && strncmp(name, "/ld-linux-x86-64.so", 19) == 0)
            return true;
    }
    return false;
}

/* Several libraries may define the variable; the loader binds all references to the one that is mapped first. */
static bool find_thread_context(const struct process *process, struct thread_context_place *ret)
{
    for (size_t i = 0; i < process->mapping_count; i++) {
        const struct process_mapping *m = &process->mappings[i];
        const struct thread_context_symbol *symbol = m->object ? m->object->thread_context : NULL;
        if (!symbol)
            continue;
        const uint64_t bias = m->start - m->file_offset - symbol->code_vaddr;
        *ret = (struct thread_context_place){
            .kind = symbol->kind,
            .place = symbol->place + (symbol->kind == THREAD_CONTEXT_OFFSET ? 0 : bias),
            .has_modules = has_glibc(process),
        };
        return true;
    }
    return false;
}

static void warn_of_version(struct thread_contexts *c, const struct process *process, const struct go_labels_file *file)
{
    if (!c->warned_of_version)
        log_warning("process %" PRIu32
                    " is a Go program (%s) with an unknown layout of goroutine labels: its samples have no labels",
                    process->pid, file->version[0] ? file->version : "before 1.18");
    c->warned_of_version = true;
}

static void register_go(struct thread_contexts *c, struct context_process *p, const struct process *process)
{
    const struct go_labels_file *file = process_go_file(process);
    if (!file)
        return;
    if (file->layout.kind == GO_LABELS_UNKNOWN) {
        p->go = GO_LABELS_UNKNOWN;
        c->go_unknown++;
        warn_of_version(c, process, file);
    } else if (context_tables_set_go_labels(&c->tables, p->pid, &file->layout) == 0) {
        p->go = file->layout.kind;
        c->go_in_kernel++;
    } else {
        c->go_refused++;
    }
}

void thread_contexts_want(struct thread_contexts *c, const struct process *process)
{
    struct thread_context_place place;
    struct context_process *p = process && !process->exited ? get(c, process->pid) : NULL;
    if (!p || (p->start_time_ns == process->start_time_ns && p->mapping_version == process->mapping_version))
        return;
    p->start_time_ns = process->start_time_ns;
    p->mapping_version = process->mapping_version;
    unregister(c, p);
    register_go(c, p, process);
    if (!find_thread_context(process, &place))
        return;
    p->is_in_kernel = context_tables_set_thread_context(&c->tables, p->pid, &place) == 0;
    c->in_kernel += p->is_in_kernel;
    c->refused += !p->is_in_kernel;
}

void thread_contexts_forget(struct thread_contexts *c, uint32_t pid)
{
    struct context_process *p;
    HASH_FIND(hh, c->processes, &pid, sizeof(pid), p);
    if (p)
        destroy(c, p);
}

void thread_contexts_metrics(const struct thread_contexts *c, struct metric_set *set)
{
    metric_add(set, "sonde_thread_context_processes", METRIC_GAUGE, "",
               "Processes whose threads publish which traced request they work for (OTEP 4947).", (double)c->in_kernel,
               METRIC_NO_LABELS);
    metric_add(set, "sonde_thread_context_refused", METRIC_COUNTER, "",
               "Processes with a thread context that did not fit into the BPF map.", (double)c->refused,
               METRIC_NO_LABELS);
    metric_add(set, "sonde_go_labels_processes", METRIC_GAUGE, "", "Go programs whose goroutine labels are read.",
               (double)c->go_in_kernel, METRIC_NO_LABELS);
    metric_add(set, "sonde_go_labels_unknown_processes", METRIC_GAUGE, "",
               "Go programs whose goroutine labels are not read: unknown Go version or kind of linking.",
               (double)c->go_unknown, METRIC_NO_LABELS);
    metric_add(set, "sonde_go_labels_refused", METRIC_COUNTER, "", "Go programs that did not fit into the BPF map.",
               (double)c->go_refused, METRIC_NO_LABELS);
}
