/* Loads and attaches the I/O programs; see io_attach.h. */
#include "sources/io/io_attach.h"

#include "sources/attach/map_sizes.h"
#include "sources/attach/preempt_count.h"
#include "sources/attach/preemption.h"
#include "sources/attach/trace_parameters.h"
#include "sources/io/io_block.h"
#include "sources/io/io_functions.h"
#include "sources/io/io_skeleton.h"
#include "sources/io/io_syscalls.h"
#include "sources/sampling/task_filters.h"

#include "base/cleanup.h"

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---- io_uring ---- */

static bool passes_request(const struct btf *kernel, const char *name)
{
    unsigned count;
    const struct btf_param *parameters = trace_parameters(kernel, name, &count);
    return parameters && count > 1 && trace_parameter_is(kernel, &parameters[1], "io_kiocb");
}

/* Which of its programs fit this kernel's tracepoints. False: none. */
static bool choose_uring(struct io_bpf *bpf, const struct btf *kernel)
{
    unsigned count = 0;
    const bool is_new = kernel && passes_request(kernel, "io_uring_submit_req");
    const bool is_old = kernel && !is_new && passes_request(kernel, "io_uring_submit_sqe");
    const struct btf_param *completed = kernel ? trace_parameters(kernel, "io_uring_complete", &count) : NULL;
    const bool has_request =
        completed && (count == 4 || count == 8); /* as since 6.0; before that it is not passed, or with other fields */
    const bool is_seen = (is_new || is_old) && has_request;
    bpf_program__set_autoload(bpf->progs.io_uring_submitted, is_seen && is_new);
    bpf_program__set_autoload(bpf->progs.io_uring_submitted_old, is_seen && is_old);
    bpf_program__set_autoload(bpf->progs.io_uring_completed, is_seen);
    bpf->rodata->has_cqe = count == 4;
    return is_seen;
}

/* ---- mmap ---- */

static bool choose_pages(struct io_bpf *bpf, const struct btf *kernel)
{
    unsigned fault = 0, around = 0;
    const bool is_seen = kernel && trace_parameters(kernel, "mm_filemap_fault", &fault) &&
                         trace_parameters(kernel, "mm_filemap_map_pages", &around) && fault == 3 && around == 4;
    bpf->rodata->page_bytes = (uint32_t)sysconf(_SC_PAGESIZE);
    bpf_program__set_autoload(bpf->progs.io_page_fault, is_seen);
    bpf_program__set_autoload(bpf->progs.io_map_pages, is_seen);
    return is_seen;
}

/* ---- the page cache ---- */

static bool choose_cache(struct io_bpf *bpf, const struct btf *kernel, bool is_wanted)
{
    unsigned count = 0;
    const bool is_seen =
        is_wanted && kernel && trace_parameters(kernel, "mm_filemap_add_to_page_cache", &count) && count == 2;
    bpf_program__set_autoload(bpf->progs.io_pages_added, is_seen);
    (void)bpf_map__set_autocreate(bpf->maps.readers, is_seen);
    bpf->rodata->counts_misses = is_seen;
    return is_seen;
}

/* ---- system calls ---- */

#define FUNCTIONS   "functions of system calls"
#define TRACEPOINTS "entry and exit of all system calls"
#define MANY_WAIT   "rare and 32-bit calls are lost while hundreds of them wait"
#define TAX         "costs every system call on the node about 30 ns"

/* The methods, best first, and their requirements on the kernel. */
static const struct variant {
    enum io_method method;
    bool has_task_storage, has_loop;
    const char *name, *limitation;
} variants[] = {
    {IO_METHOD_FUNCTIONS, true, true, FUNCTIONS, MANY_WAIT},
    {IO_METHOD_TRACEPOINTS, true, true, TRACEPOINTS, TAX},
    {IO_METHOD_TRACEPOINTS, true, false, TRACEPOINTS ", no loops", TAX "; Linux AIO is not seen"},
    {IO_METHOD_TRACEPOINTS, false, false, TRACEPOINTS ", no storage", TAX "; Linux AIO is not seen"},
};

/* Halves the tables that take most of the memory until they fit; what then does not fit a table is counted as a loss,
 * or for IO_OTHER. `limit_bytes` 0: no limit. */
static int limit_tables(struct io_bpf *bpf, size_t limit_bytes, int cpus)
{
    struct bpf_map *const tables[] = {bpf->maps.counters,        bpf->maps.cgroup_names,    bpf->maps.mount_names,
                                      bpf->maps.device_counters, bpf->maps.device_requests, bpf->maps.requests,
                                      bpf->maps.aio_requests,    bpf->maps.readers,         bpf->maps.calls_by_thread};
    int r = 0;
    for (size_t bytes = SIZE_MAX; r == 0 && limit_bytes;) {
        bytes = 0;
        for (size_t i = 0; i < array_size(tables); i++)
            bytes += bpf_map__autocreate(tables[i]) ? map_sizes_bytes(tables[i], cpus) : 0;
        if (bytes <= limit_bytes || bpf_map__max_entries(bpf->maps.counters) <= IO_MIN_COUNTERS)
            break;
        for (size_t i = 0; r == 0 && i < array_size(tables); i++)
            r = bpf_map__set_max_entries(tables[i], bpf_map__max_entries(tables[i]) / 2);
    }
    return r;
}

/* Names of files are deleted with the accesses of a report, and give way to newer ones elsewhere. */
static void choose_names(struct io_bpf *bpf, const struct io_options *options)
{
    const bool names_failures = options->counts_uses || options->by_access;
    const bool is_fine = (options->by_process || options->by_file) && !options->by_access;
    bpf->rodata->counts_uses = options->counts_uses;
    (void)bpf_map__set_autocreate(bpf->maps.uses, options->counts_uses);
    (void)bpf_map__set_autocreate(bpf->maps.process_commands, options->counts_uses || options->by_process);
    (void)bpf_map__set_autocreate(bpf->maps.reserve, is_fine);
    if (is_fine)
        (void)bpf_map__set_max_entries(bpf->maps.counters, IO_MAX_FINE_COUNTERS);
    (void)bpf_map__set_autocreate(bpf->maps.failed_paths, names_failures);
    (void)bpf_map__set_autocreate(bpf->maps.path_scratch, names_failures);
    (void)bpf_map__set_autocreate(bpf->maps.file_names, options->by_file || names_failures);
    if (options->by_access)
        (void)bpf_map__set_max_entries(bpf->maps.file_names, IO_MAX_ACCESSES);
    else
        (void)bpf_map__set_type(bpf->maps.file_names, BPF_MAP_TYPE_LRU_HASH);
}

static int open_programs(const struct io_options *options, const struct variant *variant, struct io_bpf **ret)
{
    struct io_bpf *bpf = io_bpf__open();
    if (!bpf)
        return -errno;
    bpf->rodata->cgroup_hierarchy = (int)task_filters_cgroups();
    bpf->rodata->has_rdonly_cast = preempt_count_find().has_rdonly_cast;
    bpf->rodata->by_process = options->by_process || options->by_access;
    bpf->rodata->by_file = options->by_file || options->by_access;
    bpf->rodata->by_access = options->by_access;
    bpf->rodata->slow_ns = options->slow_ns;
    (void)bpf_map__set_autocreate(bpf->maps.slow_records, options->slow_ns > 0);
    (void)bpf_map__set_autocreate(bpf->maps.slow_scratch, options->slow_ns > 0);
    bpf->rodata->has_task_storage = variant->has_task_storage;
    (void)bpf_map__set_autocreate(variant->has_task_storage ? bpf->maps.calls_by_thread : bpf->maps.calls, false);
    choose_names(bpf, options);
    (void)bpf_map__set_autocreate(bpf->maps.accesses, options->by_access);
    (void)bpf_map__set_autocreate(bpf->maps.access_intervals, options->by_access);
    (void)bpf_map__set_autocreate(bpf->maps.access_arguments, options->by_access && variant->has_task_storage);
    (void)bpf_map__set_autocreate(bpf->maps.access_arguments_by_thread,
                                  options->by_access && !variant->has_task_storage);
    (void)bpf_map__set_autocreate(bpf->maps.aio_rings, variant->has_loop);
    (void)bpf_map__set_autocreate(bpf->maps.aio_requests, variant->has_loop);
    io_syscalls_fill((struct io_syscall *)bpf->rodata->syscalls);
    io_syscalls_fill_32((struct io_syscall *)bpf->rodata->syscalls_32);
    *ret = bpf;
    return 0;
}

static void choose_programs(struct io_bpf *bpf, const struct variant *variant)
{
    const bool by_tracepoint = variant->method == IO_METHOD_TRACEPOINTS;
    io_functions_choose(bpf, !by_tracepoint);
    bpf_program__set_autoload(bpf->progs.io_syscall_enter, by_tracepoint && variant->has_loop);
    bpf_program__set_autoload(bpf->progs.io_syscall_exit, by_tracepoint && variant->has_loop);
    bpf_program__set_autoload(bpf->progs.io_syscall_enter_plain, by_tracepoint && !variant->has_loop);
    bpf_program__set_autoload(bpf->progs.io_syscall_exit_plain, by_tracepoint && !variant->has_loop);
}

/* Which tasks' accesses are recorded. */
static int use_filter(const struct source_services *services, const struct io_options *options, struct io_bpf *bpf)
{
    if (options->by_access) {
        bpf->rodata->filter = task_filters_settings(services->filter);
        return shared_tables_use(services->tables, bpf->obj);
    }
    return bpf_map__set_autocreate(bpf->maps.followed, false)
               ?: bpf_map__set_autocreate(bpf->maps.cgroups, false)
               ?: bpf_map__set_autocreate(bpf->maps.commands, false) ?: bpf_map__set_autocreate(bpf->maps.users, false);
}

/* Adds the entries of IO_OTHER first, so that operations that do not fit can always be counted. */
static int fill_other(struct io_bpf *bpf)
{
    static const struct io_counters none;
    struct io_key key = {.cgroup_id = IO_OTHER, .mount = IO_NO_MOUNT};
    for (key.operation = IO_READ; key.operation < IO_OPERATIONS; key.operation++)
        if (bpf_map_update_elem(bpf_map__fd(bpf->maps.counters), &key, &none, BPF_ANY) < 0)
            return -errno;
    return 0;
}

struct seen {
    bool uring, pages, cache, devices;
};

static int try_variant(const struct source_services *services, const struct io_options *options,
                       const struct variant *variant, const struct btf *kernel, struct seen *ret_seen,
                       struct io_bpf **ret)
{
    struct io_bpf *bpf = NULL;
    int r = variant->method == IO_METHOD_FUNCTIONS ? io_functions_try() : 0;
    if (r == 0)
        r = open_programs(options, variant, &bpf);
    if (r < 0)
        return r;
    *ret_seen =
        (struct seen){choose_uring(bpf, kernel), choose_pages(bpf, kernel),
                      choose_cache(bpf, kernel, !options->by_access), io_block_choose(bpf, kernel, options->devices)};
    choose_programs(bpf, variant);
    r = use_filter(services, options, bpf)
            ?: limit_tables(bpf, services->table_bytes, libbpf_num_possible_cpus()) ?: io_bpf__load(bpf) ?: fill_other(bpf) ?: io_bpf__attach(bpf);
    if (r == 0 && variant->method == IO_METHOD_FUNCTIONS)
        r = io_functions_attach(bpf);
    if (r < 0)
        io_bpf__destroy(bpf);
    else
        *ret = bpf;
    return r;
}

static int try_variants(const struct source_services *services, const struct io_options *options,
                        const struct btf *kernel, struct attach_entry *entry, struct seen *ret_seen,
                        struct io_bpf **ret)
{
    int r = -ENOTSUP;
    entry->fallback_reason[0] = '\0';
    for (size_t i = 0; i < array_size(variants) && r < 0; i++) {
        if (options->method != IO_METHOD_BEST && options->method != variants[i].method)
            continue;
        if (variants[i].method == IO_METHOD_FUNCTIONS && preemption_is_possible()) {
            attach_entry_unfit(entry, variants[i].name, "the kernel may preempt its programs");
            continue;
        }
        r = try_variant(services, options, &variants[i], kernel, ret_seen, ret);
        if (r < 0) {
            attach_entry_refused(entry, variants[i].name, r);
            continue;
        }
        snprintf(entry->method, sizeof(entry->method), "%s", variants[i].name);
        attach_entry_limited(entry, variants[i].limitation);
        attach_entry_limited(entry, ret_seen->uring ? "" : "io_uring is not seen");
        attach_entry_limited(entry, ret_seen->pages ? "" : "mmap is not seen");
        attach_entry_limited(entry,
                             ret_seen->cache || options->by_access ? "" : "misses of the page cache are not seen");
        entry->attached = true;
    }
    return r;
}

int io_attach(const struct source_services *services, const struct io_options *options, struct attach_report *report,
              struct io_bpf **ret)
{
    struct io_options without_devices = *options;
    struct attach_entry *entry = attach_report_add(report, "I/O of file systems");
    struct btf *kernel = btf__load_vmlinux_btf();
    struct seen seen = {0};
    without_devices.devices = false;
    libbpf_set_print(NULL);
    int r = try_variants(services, options, kernel, entry, &seen, ret), devices = r;
    if (r == 0 && options->devices)
        devices = seen.devices ? io_block_attach(*ret) : -ENOTSUP;
    if (r < 0 && seen.devices)
        r = try_variants(services, &without_devices, kernel, entry, &seen, ret);
    if (options->devices)
        io_block_report(attach_report_add(report, "block devices"), kernel, devices);
    btf__free(kernel);
    if (r < 0)
        snprintf(entry->limitation, sizeof(entry->limitation), "no I/O is counted");
    return r;
}
