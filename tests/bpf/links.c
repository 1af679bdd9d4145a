/* See links.h. */
#include "links.h"

#include "watch.h"

#include "resolve/usdt/usdt_probes.h"
#include "sources/source.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include <bpf/bpf.h>
#include <fcntl.h>
#include <string.h>
#include <sys/syscall.h>

#define ARGUMENTS "u64 trace_id_high, u64 trace_id_low, u64 span_id, u64 id"

struct sonde_provider *links_provider;
struct sonde_probe *links_enter_probe, *links_leave_probe;

const struct link_ids links_outer = {0x0123456789abcdef, 0xfedcba9876543210, 0x8000000000000001},
                      links_inner = {0x0123456789abcdef, 1, 2}, links_none;

void links_enter(const struct link_ids *ids)
{
    sonde_probe_fire(links_enter_probe, ids->trace_id_high, ids->trace_id_low, ids->span_id, 1);
}

void links_leave(const struct link_ids *again)
{
    sonde_probe_fire(links_leave_probe, again->trace_id_high, again->trace_id_low, again->span_id, 0);
}

pid_t links_thread(void)
{
    return (pid_t)syscall(SYS_gettid);
}

/* ---- the source, attached to our own provider ---- */

/* Not the name that agents check for: no agent on this machine must attach to it. */
int links_open_file(void)
{
    char path[64], name[64];
    for (int fd = 0; fd < 256; fd++) {
        snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
        ssize_t size = readlink(path, name, sizeof(name) - 1);
        if (size > 0 && (name[size] = '\0', strcmp(name, "/memfd:sonde_trace_test (deleted)") == 0))
            return open(path, O_RDONLY | O_CLOEXEC);
    }
    return -1;
}

struct thread_link links_entry(const struct links *l, uint32_t key)
{
    struct thread_link link = {0};
    (void)bpf_map_lookup_elem(shared_tables_links_fd(l->tables), &key, &link);
    return link;
}

bool links_know(const struct links *l, pid_t tid)
{
    const struct thread_link link = links_entry(l, (uint32_t)tid);
    return link.started_ns && link.epoch == links_entry(l, LINK_EPOCH_KEY).epoch;
}

double links_metric(const struct links *l, const char *name)
{
    _cleanup_(metric_set_freep) struct metric_set *set = NULL;
    assert_int_equal(metric_set_new(&set), 0);
    source_link.metrics(l->source, set);
    for (size_t i = 0; i < metric_set_families(set); i++)
        if (strcmp(metric_set_family(set, i).name, name) == 0)
            return metric_set_family(set, i).points[0].value;
    fail_msg("there is no %s", name);
    return 0;
}

void (*links_pass_time)(void);

void links_turn(const struct links *l)
{
    usleep(2000);
    if (links_pass_time)
        links_pass_time();
    assert_int_equal(source_link.drain(l->source, NULL), 0);
}

void links_turn_until(const struct links *l, bool attached)
{
    for (int i = 0; i < 30000; i++) {
        links_turn(l);
        if (sonde_probe_enabled(links_enter_probe) == attached && sonde_probe_enabled(links_leave_probe) == attached &&
            links_metric(l, "sonde_usdt_attachments_waiting") == 0)
            return;
    }
    fail_msg("%s in a minute", attached ? "not attached" : "not detached");
}

void links_read_sites(int fd, struct link_site sites[2])
{
    struct elf_file *elf;
    struct usdt_probes *probes;
    assert_int_equal(elf_open(dup(fd), &elf), 0);
    assert_int_equal(usdt_probes_read(elf, &probes), 0);
    assert_int_equal(probes->count, 2);
    for (size_t i = 0; i < 2; i++) {
        assert_true(probes->sites[i].semaphore_offset > 0);
        sites[i] = (struct link_site){probes->sites[i].file_offset, probes->sites[i].semaphore_offset,
                                      strcmp(probes->sites[i].name, "thread_leave") == 0};
    }
    usdt_probes_free(probes);
    elf_file_free(elf);
}

struct links links_begin(void)
{
    struct attach_report report = {0};
    struct links l = {0};
    struct link_site sites[2];
    assert_int_equal(sonde_provider_new("sonde_trace_test", &links_provider), 0);
    assert_int_equal(sonde_probe_add(links_provider, "thread_enter", ARGUMENTS, &links_enter_probe), 0);
    assert_int_equal(sonde_probe_add(links_provider, "thread_leave", ARGUMENTS, &links_leave_probe), 0);
    assert_int_equal(sonde_provider_load(links_provider), 0);
    _cleanup_close_ int fd = links_open_file();
    assert_true(fd >= 0);
    links_read_sites(fd, sites);
    l.options = watch_defaults;
    l.options.filter = (struct task_filter){.pids = {(uint32_t)getpid()}, .pid_count = 1};
    l.tables = l.options.tables = watch_tables(&l.options, true);
    const struct source_services services = watch_services(&l.options, l.tables);
    if (source_link.open(&services, NULL, &report, &l.source) < 0)
        fail_msg("%s", report.entries[0].fallback_reason);
    assert_false(sonde_probe_enabled(links_enter_probe));
    assert_int_equal(link_source_attach(l.source, fd, sites, 2, &l.attachment), 0);
    links_turn_until(&l, true);
    return l;
}

void links_end_with(struct links *l, const struct losses *expected)
{
    struct losses losses = {0};
    source_link.losses(l->source, &losses);
    assert_memory_equal(&losses, expected, sizeof(losses));
    link_source_detach(l->source, l->attachment);
    links_turn_until(l, false);
    source_link.free(l->source);
    shared_tables_free(l->tables);
    sonde_provider_free(links_provider);
}

void links_end(struct links *l)
{
    links_end_with(l, &(struct losses){0});
}
