/* The ways to see what goes through sockets, best first; see request_ladder.h. */
#include "sources/request_ladder.h"

#include "base/cleanup.h"
#include "sources/cpu_filters.h"

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>

#include "request.skel.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum request_programs { BY_SOCKET = 1, BY_FUNCTION = 2, BY_SYSCALL = 4, WITH_EVERY_RUNG = 8, IF_SENDPAGE = 16 };

static const struct {
    const char *name;
    unsigned used;
} programs[] = {
    {"request_socket_receive", BY_SOCKET},
    {"request_socket_send", BY_SOCKET},
    {"request_inet_receive", BY_FUNCTION},
    {"request_inet6_receive", BY_FUNCTION},
    {"request_inet_send", BY_FUNCTION},
    {"request_inet6_send", BY_FUNCTION},
    {"request_inet_sendpage", IF_SENDPAGE},
    {"request_syscall_exit", BY_SYSCALL},
    {"request_connection_state", WITH_EVERY_RUNG},
    {"request_switch", WITH_EVERY_RUNG},
    {"request_waking", WITH_EVERY_RUNG},
    {"request_thread_exit", WITH_EVERY_RUNG},
};

static const struct rung {
    const char *name;
    unsigned programs;
    bool task_registers;
    const char *truth;
} rungs[] = {
    {"socket tracepoints", BY_SOCKET | IF_SENDPAGE, true, ""},
    {"socket tracepoints, no sendpage", BY_SOCKET, true, "replies sent by sendfile seem to end with their header"},
    {"fexit of inet_sendmsg, inet_recvmsg", BY_FUNCTION | IF_SENDPAGE, true, ""},
    {"fexit, registers found by their place", BY_FUNCTION | IF_SENDPAGE, false, ""},
    {"exit of all system calls", BY_SYSCALL, true, "costs every system call on the node about 60 ns; io_uring is not seen"},
    {"exit of all system calls, registers found by their place", BY_SYSCALL, false,
     "costs every system call on the node about 60 ns; io_uring is not seen"},
};

static bool kernel_has_function(const char *name)
{
    struct btf *btf = btf__load_vmlinux_btf();
    bool has = btf && btf__find_by_name_kind(btf, name, BTF_KIND_FUNC) > 0;
    btf__free(btf);
    return has;
}

static void choose_programs(struct request_bpf *bpf, const struct rung *rung, bool has_sendpage)
{
    unsigned used = rung->programs | WITH_EVERY_RUNG;
    if (!has_sendpage)
        used &= ~(unsigned)IF_SENDPAGE;
    for (size_t i = 0; i < array_size(programs); i++) {
        struct bpf_program *program = bpf_object__find_program_by_name(bpf->obj, programs[i].name);
        if (program)
            bpf_program__set_autoload(program, programs[i].used & used);
    }
    bpf_map__set_autocreate(rung->programs & BY_SOCKET ? bpf->maps.socket_hash : bpf->maps.socket_storage, false);
}

static void set_options(struct request_bpf *bpf, const struct rung *rung, const struct source_options *options)
{
    bpf->rodata->has_task_registers = rung->task_registers;
    bpf->rodata->has_socket_storage = rung->programs & BY_SOCKET;
    bpf->rodata->skip_pid = (uint32_t)getpid(); /* always: our page is no service of the node */
    bpf->rodata->cgroup_hierarchy = (int)cpu_filters_cgroups();
    bpf->rodata->wanted_pids = (uint32_t)options->pid_count;
    bpf->rodata->wanted_cgroups = (uint32_t)options->cgroup_count;
    bpf->rodata->wanted_commands = (uint32_t)options->command_count;
    uint32_t ring_bytes = 256 * 1024;
    while (options->ring_bytes && ring_bytes > 65536 && ring_bytes > options->ring_bytes)
        ring_bytes /= 2;
    bpf_map__set_max_entries(bpf->maps.request_ring, ring_bytes);
}

static int fill_filters(struct request_bpf *bpf, const struct source_options *options)
{
    uint8_t one = 1;
    for (size_t i = 0; i < options->pid_count; i++) {
        uint64_t key = options->pids[i];
        if (bpf_map__update_elem(bpf->maps.wanted, &key, sizeof(key), &one, sizeof(one), BPF_ANY) < 0)
            return -errno;
    }
    for (size_t i = 0; i < options->cgroup_count; i++) {
        uint64_t key = options->cgroup_ids[i];
        if (bpf_map__update_elem(bpf->maps.wanted_cgroup_ids, &key, sizeof(key), &one, sizeof(one), BPF_ANY) < 0)
            return -errno;
    }
    for (size_t i = 0; i < options->command_count; i++)
        if (bpf_map__update_elem(bpf->maps.wanted_comms, options->commands[i], 16, &one, sizeof(one), BPF_ANY) < 0)
            return -errno;
    return 0;
}

int request_ladder_forget(struct request_bpf *bpf)
{
    int connections = bpf_map__fd(bpf->maps.connections), fd = bpf_map__fd(bpf->maps.free_connections);
    uint32_t count = bpf_map__max_entries(bpf->maps.connections), taken;
    _cleanup_free_ void *blank = calloc(1, bpf_map__value_size(bpf->maps.connections));
    if (!blank)
        return -ENOMEM;
    memset(bpf->bss->tracked, 0, sizeof(bpf->bss->tracked));
    bpf->bss->parked_requests = 0;
    while (bpf_map_lookup_and_delete_elem(fd, NULL, &taken) == 0)
        ;
    for (uint32_t i = count; i-- > 0;) /* the first are taken first: others' pages stay untouched */
        if (bpf_map_update_elem(connections, &i, blank, BPF_ANY) < 0 || bpf_map_update_elem(fd, NULL, &i, BPF_ANY) < 0)
            return -errno;
    return 0;
}

/* Loads and attaches; what attaches sees requests from now on, but the ring is empty until somebody is served. */
static int try_rung(const struct rung *rung, const struct source_options *options, bool has_sendpage, struct request_bpf **ret)
{
    struct request_bpf *bpf = request_bpf__open();
    if (!bpf)
        return -errno;
    choose_programs(bpf, rung, has_sendpage);
    set_options(bpf, rung, options);
    int r = request_bpf__load(bpf);
    if (r == 0)
        r = fill_filters(bpf, options);
    if (r == 0)
        r = request_ladder_forget(bpf);
    if (r == 0)
        r = request_bpf__attach(bpf);
    if (r < 0) {
        request_bpf__destroy(bpf);
        return r;
    }
    *ret = bpf;
    return 0;
}

/* A rung that cannot be taken is no error: why not goes into the report. */
static int quiet(enum libbpf_print_level level, const char *format, va_list arguments)
{
    (void)level;
    (void)format;
    (void)arguments;
    return 0;
}

int request_ladder_climb(const struct source_options *options, struct attach_report *report, int only, struct request_bpf **ret)
{
    struct attach_entry *entry = attach_report_add(report, "requests");
    bool has_sendpage = kernel_has_function("inet_sendpage");
    int r = -ENOTSUP;
    libbpf_print_fn_t before = libbpf_set_print(quiet);
    for (size_t i = 0; i < array_size(rungs); i++) {
        if (only != REQUEST_RUNG_BEST && (size_t)only != i)
            continue;
        if (!has_sendpage && rungs[i].programs == BY_SOCKET) /* the same as the one above */
            continue;
        r = try_rung(&rungs[i], options, has_sendpage, ret);
        if (r == 0) {
            snprintf(entry->rung, sizeof(entry->rung), "%s", rungs[i].name);
            snprintf(entry->truth, sizeof(entry->truth), "%s", rungs[i].truth);
            entry->attached = true;
            break;
        }
        attach_entry_refused(entry, rungs[i].name, r);
    }
    libbpf_set_print(before);
    if (r < 0)
        snprintf(entry->truth, sizeof(entry->truth), "no requests are seen");
    return r;
}
