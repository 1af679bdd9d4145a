/* The methods to trace socket traffic, best first; see request_attach.h. */
#include "sources/request/request_attach.h"

#include "base/cleanup.h"
#include "sources/attach/preempt_count.h"
#include "sources/attach/uprobe_link.h"
#include "sources/sampling/task_filters.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include <linux/types.h>

#include "probes/request.h"
#include "request.skel.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum request_programs {
    BY_SOCKET = 1,
    BY_FUNCTION = 2,
    BY_SYSCALL = 4,
    WITH_EVERY_METHOD = 8,
    IF_SENDPAGE = 16,
    FOR_TLS = 32,           /* at uprobes, which uprobe_attachments.h attaches; */
    FOR_TLS_IN_LOOP = 64,   /* these where preemption is to be disabled, */
    FOR_TLS_BY_CALLS = 128, /* or these */
};

static const struct {
    const char *name;
    unsigned used;
} programs[] = {
    {"request_socket_receive", BY_SOCKET},
    {"request_socket_send", BY_SOCKET},
    {"request_ready", BY_SOCKET},
    {"request_retransmission", BY_SOCKET},
    {"request_inet_receive", BY_FUNCTION},
    {"request_inet6_receive", BY_FUNCTION},
    {"request_inet_send", BY_FUNCTION},
    {"request_inet6_send", BY_FUNCTION},
    {"request_inet_sendpage", IF_SENDPAGE},
    {"request_syscall_exit", BY_SYSCALL},
    {"request_connection_state", WITH_EVERY_METHOD},
    {"request_flush", WITH_EVERY_METHOD},
    {"tls_read", FOR_TLS},
    {"tls_read_ex", FOR_TLS},
    {"tls_write", FOR_TLS},
    {"tls_write_ex", FOR_TLS},
    {"tls_write_ex2", FOR_TLS},
    {"tls_return", FOR_TLS_IN_LOOP},
    {"tls_return_by_calls", FOR_TLS_BY_CALLS},
    {"tls_free", FOR_TLS},
    {"tls_new", FOR_TLS},
    {"tls_bio_write", FOR_TLS},
    {"tls_go_read", FOR_TLS},
    {"tls_go_text", FOR_TLS_IN_LOOP},
    {"tls_go_text_by_calls", FOR_TLS_BY_CALLS},
    {"tls_go_write", FOR_TLS},
};

#define BEGIN_WHEN_READ "requests begin when they are read"

static const struct method {
    const char *name;
    unsigned programs;
    bool task_registers;
    const char *limitation;
} methods[] = {
    {"socket tracepoints", BY_SOCKET | IF_SENDPAGE, true, ""},
    {"socket tracepoints, no sendpage", BY_SOCKET, true, "replies sent by sendfile seem to end with their header"},
    {"fexit of inet_sendmsg, inet_recvmsg", BY_FUNCTION | IF_SENDPAGE, true,
     "messages over Unix sockets are not seen; " BEGIN_WHEN_READ},
    {"fexit, registers found by their place", BY_FUNCTION | IF_SENDPAGE, false,
     "messages over Unix sockets are not seen; " BEGIN_WHEN_READ},
    {"exit of all system calls", BY_SYSCALL, true,
     "costs every system call on the node about 60 ns; io_uring is not seen; " BEGIN_WHEN_READ},
    {"exit of all system calls, registers found by their place", BY_SYSCALL, false,
     "costs every system call on the node about 60 ns; io_uring is not seen; " BEGIN_WHEN_READ},
};

/* Whether the kernel has this attach target. libbpf loads the kernel's BTF for the first such query of each object: 10
 * ms. */
static bool has_attach_target(struct bpf_program *program, const char *name)
{
    return bpf_program__set_attach_target(program, 0, name) == 0;
}

static void choose_programs(struct request_bpf *bpf, const struct method *method, bool has_sendpage, bool tls)
{
    unsigned used = method->programs | WITH_EVERY_METHOD;
    if (!has_sendpage)
        used &= ~(unsigned)IF_SENDPAGE;
    const bool has_preempt_disable = tls && preempt_count_find().has_preempt_disable;
    if (tls)
        used |= FOR_TLS | (has_preempt_disable ? FOR_TLS_IN_LOOP : FOR_TLS_BY_CALLS);
    for (size_t i = 0; i < array_size(programs); i++) {
        struct bpf_program *program = bpf_object__find_program_by_name(bpf->obj, programs[i].name);
        if (!program)
            continue;
        bpf_program__set_autoload(program, programs[i].used & used);
        bpf_program__set_autoattach(program, !(programs[i].used & (FOR_TLS | FOR_TLS_IN_LOOP | FOR_TLS_BY_CALLS)));
    }
    bpf_program__set_autoattach(bpf->progs.request_flush, false); /* it is run, not attached */
    struct bpf_map *maps[] = {bpf->maps.tls_calls,    bpf->maps.tls_streams, bpf->maps.tls_records,
                              bpf->maps.tls_buffered, bpf->maps.tls_sockets, bpf->maps.tls_goroutines,
                              bpf->maps.tls_texts};
    for (size_t i = 0; i < array_size(maps); i++)
        (void)bpf_map__set_autocreate(maps[i], tls);
    bpf->rodata->reads_tls = tls;
    bpf->rodata->has_preempt_disable = has_preempt_disable;
}

static void set_options(struct request_bpf *bpf, const struct method *method, const struct source_services *services)
{
    bpf->rodata->sampling_seed = services->sampling_seed;
    bpf->rodata->links = shared_tables_links_fd(services->tables) >= 0;
    (void)bpf_map__set_autocreate(bpf->maps.request_threads, bpf->rodata->links);
    bpf->rodata->wants_callers = services->wants_callers;
    if (!services->wants_callers)
        bpf_map__set_max_entries(bpf->maps.callers, 1);
    bpf->rodata->has_recorder = shared_tables_recorder(services->tables) != NULL;
    bpf->rodata->has_tasks = shared_tables_has_tasks(services->tables);
    bpf->rodata->preempt_count_distance = preempt_count_find().distance;
    bpf->rodata->has_task_registers = method->task_registers;
    bpf->rodata->has_socket_cookies = method->programs & BY_SOCKET;
    bpf->rodata->skip_pid = (uint32_t)getpid(); /* always: our own page is not a service of the node */
    bpf->rodata->cgroup_hierarchy = (int)task_filters_cgroups();
    bpf->rodata->wanted_pids = (uint32_t)services->filter->pid_count;
    bpf->rodata->wanted_cgroups = (uint32_t)services->filter->cgroup_count;
    bpf->rodata->wanted_commands = (uint32_t)services->filter->command_count;
    const struct task_filter *filter = services->filter;
    bpf->rodata->counts_opaque = !filter->pid_count && !filter->cgroup_count && !filter->command_count;
    uint32_t ring_bytes = 256 * 1024;
    while (services->ring_bytes && ring_bytes > 65536 && ring_bytes > services->ring_bytes)
        ring_bytes /= 2;
    bpf_map__set_max_entries(bpf->maps.request_ring, ring_bytes);
    bpf->rodata->ring_bytes = ring_bytes;
}

static int fill_filters(struct request_bpf *bpf, const struct task_filter *filter)
{
    uint8_t one = 1;
    for (size_t i = 0; i < filter->pid_count; i++) {
        uint64_t key = filter->pids[i];
        if (bpf_map__update_elem(bpf->maps.wanted, &key, sizeof(key), &one, sizeof(one), BPF_ANY) < 0)
            return -errno;
    }
    for (size_t i = 0; i < filter->cgroup_count; i++) {
        uint64_t key = filter->cgroup_ids[i];
        if (bpf_map__update_elem(bpf->maps.wanted_cgroup_ids, &key, sizeof(key), &one, sizeof(one), BPF_ANY) < 0)
            return -errno;
    }
    for (size_t i = 0; i < filter->command_count; i++)
        if (bpf_map__update_elem(bpf->maps.wanted_comms, filter->commands[i], 16, &one, sizeof(one), BPF_ANY) < 0)
            return -errno;
    return 0;
}

static void release(struct request_bpf *bpf, uint64_t claim)
{
    (void)bpf_map_delete_elem(bpf_map__fd(bpf->maps.claims), &claim);
}

void request_attach_forget_process(struct request_bpf *bpf, uint32_t place)
{
    static const struct request_process blank;
    uint64_t *names = (uint64_t *)bpf->bss->process_names, name = names[place];
    names[place] = 0;
    (void)bpf_map_update_elem(bpf_map__fd(bpf->maps.processes), &place, &blank, BPF_ANY);
    release(bpf, REQUEST_CLAIM_PROCESS | place);
    release(bpf, REQUEST_CLAIM_NAME | name);
}

void request_attach_forget_opaque(struct request_bpf *bpf, uint32_t place)
{
    uint64_t *names = (uint64_t *)bpf->bss->opaque_names, name = names[place];
    names[place] = 0;
    bpf->bss->opaque_traffic[place] = (struct request_opaque){0};
    release(bpf, REQUEST_CLAIM_OPAQUE_NAME | name);
    release(bpf, REQUEST_CLAIM_OPAQUE | place);
}

/* Loads and attaches. On success requests are traced from now on. `opened`: consumed; NULL: opens its own. */
static int try_method(const struct method *method, bool has_sendpage, bool tls, const struct source_services *services,
                      struct request_bpf *opened, struct request_bpf **ret)
{
    struct request_bpf *bpf = opened ?: request_bpf__open();
    if (!bpf)
        return -errno;
    choose_programs(bpf, method, has_sendpage, tls);
    uprobe_links_prepare(bpf->obj);
    set_options(bpf, method, services);
    int r = shared_tables_use(services->tables, bpf->obj);
    if (r == 0)
        r = request_bpf__load(bpf);
    if (r == 0)
        r = fill_filters(bpf, services->filter);
    if (r == 0)
        r = request_bpf__attach(bpf);
    if (r < 0) {
        request_bpf__destroy(bpf);
        return r;
    }
    *ret = bpf;
    return 0;
}

/* Silences libbpf: a method that fails is not an error; the reason goes into the report. */
static int discard_libbpf_message(enum libbpf_print_level level, const char *format, va_list arguments)
{
    (void)level;
    (void)format;
    (void)arguments;
    return 0;
}

int request_attach_best(const struct source_services *services, struct attach_report *report, int method, bool tls,
                        struct request_bpf **ret)
{
    struct attach_entry *entry = attach_report_add(report, "requests");
    struct request_bpf *opened = request_bpf__open();
    int r = -ENOTSUP;
    if (!opened)
        return -errno;
    libbpf_print_fn_t before = libbpf_set_print(discard_libbpf_message);
    const bool has_sendpage = has_attach_target(opened->progs.request_inet_sendpage, "inet_sendpage");
    for (size_t i = 0; i < array_size(methods) && r < 0; i++) {
        if (method != REQUEST_METHOD_BEST && (size_t)method != i)
            continue;
        if (!has_sendpage && methods[i].programs == BY_SOCKET) /* the same as the previous method */
            continue;
        r = try_method(&methods[i], has_sendpage, tls, services, take_ptr(opened), ret);
        if (r < 0 && tls && try_method(&methods[i], has_sendpage, false, services, NULL, ret) == 0) {
            attach_entry_unfit(entry, "plaintext of TLS", "the kernel does not load its programs");
            r = 0;
        }
        if (r < 0) {
            attach_entry_refused(entry, methods[i].name, r);
            continue;
        }
        snprintf(entry->method, sizeof(entry->method), "%s", methods[i].name);
        snprintf(entry->limitation, sizeof(entry->limitation), "%s", methods[i].limitation);
        entry->attached = true;
    }
    request_bpf__destroy(opened);
    libbpf_set_print(before);
    if (r < 0)
        snprintf(entry->limitation, sizeof(entry->limitation), "no requests are seen");
    return r;
}
