/* Resolves the name of an event to something that can be sampled; see record_event.h. USDT probes are found in the
 * notes of ELF files, as in `sonde probes`. */
#include "recording/record_event.h"

#include "base/buf.h"
#include "base/log.h"
#include "base/text_list.h"
#include "base/units.h"
#include "model/profile.h"
#include "model/task_filter.h"
#include "recording/opened_files.h"
#include "recording/record_gpu.h"
#include "resolve/usdt/usdt_processes.h"
#include "sources/attach/privileges.h"
#include "sources/attach/tracepoint.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#define HARDWARE_PERIOD_MIN 1000 /* at shorter periods the CPU is busy with interrupts only */
#define FILES_MAX           64
#define LIST_BYTES          900

struct record_event {
    struct sample_event event;
    struct user_probe_site sites[USER_PROBE_SITES_MAX];
    struct opened_files files;
    bool left_out; /* some sites or files exceeded the limits */
    struct record_gpu *gpu;
};

/* ---- the name ---- */

static void log_forms(const char *name)
{
    _cleanup_buf_ struct buf list = {0};
    const char *form;
    for (size_t i = 0; (form = sample_event_form(i)); i++)
        buf_printf(&list, "%s%s", i ? ", " : "", form);
    log_error("record: --event: unknown event '%s'; events are %s", name, buf_error(&list) ? "" : list.data);
}

static int set_period(struct sample_event *event, int64_t period)
{
    if (!period)
        return 0;
    if (!event->period) {
        log_error("record: --period cannot be combined with %s (it records every call, with its bytes)", event->name);
        return -EINVAL;
    }
    if (event->kind == SAMPLE_EVENT_HARDWARE && period < HARDWARE_PERIOD_MIN) {
        log_error("record: --period: the minimum for %s is %d", event->name, HARDWARE_PERIOD_MIN);
        return -EINVAL;
    }
    event->period = (uint64_t)period;
    return 0;
}

int record_event_new(const struct text_list *names, int64_t period, struct record_event **ret)
{
    if (names->count == 0 && period)
        log_error("record: --period needs --event (-F sets the rate of CPU samples)");
    if (names->count == 0) {
        *ret = NULL;
        return period ? -EINVAL : 0;
    }
    if (names->count > 1 || strchr(names->values[0], ',')) {
        log_error("record: --event: only one event per recording");
        return -EINVAL;
    }
    _cleanup_(record_event_freep) struct record_event *e = calloc(1, sizeof(*e));
    if (!e)
        return -ENOMEM;
    int r = sample_event_parse(names->values[0], &e->event);
    if (r == -EINVAL || r == -ENAMETOOLONG)
        log_forms(names->values[0]);
    if (r == 0)
        r = set_period(&e->event, period);
    if (r == 0)
        *ret = take_ptr(e);
    return r;
}

int record_event_new_gpu(bool has_command, struct record_event **ret)
{
    _cleanup_(record_event_freep) struct record_event *e = calloc(1, sizeof(*e));
    if (!e)
        return -ENOMEM;
    sample_event_gpu(&e->event);
    int r = record_gpu_new(&e->gpu);
    if (r == 0 && has_command)
        r = record_gpu_prepare_command(e->gpu);
    if (r == 0)
        *ret = take_ptr(e);
    return r;
}

int record_event_of_replay(const struct sample_event *event, struct record_event **ret)
{
    struct record_event *e = calloc(1, sizeof(*e));
    if (!e)
        return -ENOMEM;
    e->event = *event;
    *ret = e;
    return 0;
}

void record_event_free(struct record_event *e)
{
    if (!e)
        return;
    opened_files_close(&e->files);
    record_gpu_free(e->gpu);
    free(e);
}

/* ---- availability on this machine ---- */

static int check_counter(const struct sample_event *event)
{
    int r = sample_event_try(event);
    if (r == 0)
        return 0;
    if (r == -EPERM || r == -EACCES) {
        privileges_explain();
        return log_errno(r, "record: %s cannot be counted", event->name);
    }
    if (event->kind == SAMPLE_EVENT_HARDWARE)
        return log_errno(r, "record: this machine has no counter of %s (virtual machines often have none)",
                         event->name);
    return log_errno(r, "record: this kernel does not count %s", event->name);
}

static int check_tracepoint(const char *subsystem, const char *name)
{
    char list[LIST_BYTES];
    uint64_t id;
    int r = tracepoint_id(subsystem, name, &id);
    if (r == -EPERM || r == -EACCES) {
        privileges_explain();
        return log_errno(r, "record: tracepoints cannot be read");
    }
    if (r == -ENODEV)
        return log_errno(r, "record: tracepoints cannot be found by name: this kernel has no tracefs");
    if (r != -ENOENT)
        return r < 0 ? log_errno(r, "record: the tracepoint %s:%s cannot be read", subsystem, name) : 0;
    tracepoint_list(subsystem, list, sizeof(list));
    if (list[0]) {
        log_error("record: no tracepoint %s:%s; %s has %s", subsystem, name, subsystem, list);
        return r;
    }
    tracepoint_list(NULL, list, sizeof(list));
    log_error("record: no tracepoint %s:%s; subsystems are %s", subsystem, name, list);
    return r;
}

/* ---- probes ---- */

/* -EEXIST: it was opened before, so that its sites are known. */
static int open_file_once(struct record_event *e, const char *path)
{
    bool is_new;
    const int fd = opened_files_get(&e->files, FILES_MAX, path, &is_new);
    return fd < 0 || is_new ? fd : -EEXIST;
}

static void add_sites(struct record_event *e, int fd, const struct usdt_site *sites, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (e->event.site_count == USER_PROBE_SITES_MAX) {
            e->left_out = true;
            return;
        }
        e->sites[e->event.site_count++] = (struct user_probe_site){
            .fd = fd, .file_offset = sites[i].file_offset, .semaphore_offset = sites[i].semaphore_offset};
    }
}

static int add_probe(void *context, const struct usdt_probe *probe)
{
    struct record_event *e = context;
    const int fd = open_file_once(e, probe->map_file);
    if (fd >= 0)
        add_sites(e, fd, probe->sites, probe->site_count);
    e->left_out |= fd == -ENOSPC;
    return 0; /* a file that is gone by now is skipped */
}

static int find_in_all_processes(struct record_event *e, const struct task_filter *filter)
{
    const struct usdt_filter probe = {.provider = e->event.group, .name = e->event.member};
    _cleanup_(usdt_processes_freep) struct usdt_processes *all = NULL;
    int r = usdt_processes_new(&probe, add_probe, e, &all);
    if (r < 0)
        return r;
    if (filter->pid_count == 0)
        return usdt_processes_walk(all);
    for (size_t i = 0; r == 0 && i < filter->pid_count; i++)
        r = usdt_processes_look(all, filter->pids[i]);
    return r;
}

/* Adds the sites of the probe in the file at `path`. Writes the names of all its probes to `list`, for error messages.
 */
static int read_file_probes(struct record_event *e, const char *path, struct buf *list)
{
    _cleanup_(usdt_probes_freep) struct usdt_probes *probes = NULL;
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    int r = fd < 0 ? -errno : usdt_probes_read_file(fd, &probes);
    for (size_t i = 0, n; r == 0 && i < probes->count; i += n) {
        const struct usdt_site *s = &probes->sites[i];
        n = usdt_probes_run(probes, i);
        if (list->size < LIST_BYTES) {
            buf_puts(list, list->size ? ", " : "");
            buf_put_shown(list, s->provider);
            buf_putc(list, ':');
            buf_put_shown(list, s->name);
        }
        if (strcmp(s->provider, e->event.group) != 0 || strcmp(s->name, e->event.member) != 0)
            continue;
        const int of_probe = open_file_once(e, path);
        if (of_probe >= 0)
            add_sites(e, of_probe, s, n);
        else
            r = of_probe;
    }
    return r == -EEXIST ? 0 : r;
}

/* Looks `command` up as execvp(3) does; "" when it is not found. */
static void find_command(const char *command, char ret[PATH_MAX])
{
    const char *path = getenv("PATH");
    ret[0] = '\0';
    if (strchr(command, '/')) {
        snprintf(ret, PATH_MAX, "%s", command);
        return;
    }
    for (const char *at = path ? path : "/usr/bin:/bin"; at; at = strchr(at, ':') ? strchr(at, ':') + 1 : NULL) {
        const int size = (int)strcspn(at, ":");
        if (snprintf(ret, PATH_MAX, "%.*s/%s", size, size ? at : ".", command) < PATH_MAX && access(ret, X_OK) == 0)
            return;
        ret[0] = '\0';
    }
}

/* Reading may block on a dead file system: acceptable here, as the user named the file. */
static int find_in_named_file(struct record_event *e)
{
    _cleanup_buf_ struct buf list = {0};
    const struct sample_event *event = &e->event;
    int r = read_file_probes(e, event->path, &list);
    if (r == -ENOEXEC)
        return log_errno(r, "record: %s has no probes: it is not an ELF executable or library", event->path);
    if (r < 0)
        return log_errno(r, "record: %s cannot be read", event->path);
    if (event->site_count)
        return 0;
    log_error("record: %s has no probe %s; it has %s", event->path, event->name, list.size ? list.data : "none");
    return -ENOENT;
}

static int find_in_processes(struct record_event *e, const struct task_filter *filter, const char *command)
{
    _cleanup_buf_ struct buf list = {0};
    char path[PATH_MAX] = "";
    int r = 0;
    if (command)
        find_command(command, path);
    if (path[0])
        (void)read_file_probes(e, path, &list); /* a script has no probes */
    if (!command || filter->pid_count)
        r = find_in_all_processes(e, filter);
    if (r < 0)
        return log_errno(r, "record: processes cannot be searched for probes");
    if (e->event.site_count)
        return 0;
    if (command)
        log_error("record: %s itself has no probe %s; if a library has it, name the library: usdt:/PATH:%s", command,
                  e->event.name, e->event.name);
    else
        log_error("record: no process %shas a probe %s (`sonde probes` lists them)",
                  filter->pid_count ? "selected by -p " : "", e->event.name);
    return -ENOENT;
}

static int find_probe(struct record_event *e, const struct task_filter *filter, const char *command)
{
    int r = e->event.path[0] ? find_in_named_file(e) : find_in_processes(e, filter, command);
    if (r == 0 && e->left_out)
        log_warning("record: %s has more sites than can be attached; some are left out", e->event.name);
    return r;
}

int record_event_find(struct record_event *e, const struct task_filter *filter, const char *command,
                      const struct sample_event **ret)
{
    int r = 0;
    switch (e->event.kind) {
    case SAMPLE_EVENT_SOFTWARE:
    case SAMPLE_EVENT_HARDWARE:
        r = check_counter(&e->event);
        break;
    case SAMPLE_EVENT_TRACEPOINT:
        r = check_tracepoint(e->event.group, e->event.member);
        break;
    case SAMPLE_EVENT_MMAP:
        r = check_tracepoint("syscalls", "sys_exit_mmap");
        break;
    case SAMPLE_EVENT_BRK:
        r = check_tracepoint("syscalls", "sys_exit_brk");
        break;
    case SAMPLE_EVENT_USER_PROBE:
        r = find_probe(e, filter, command);
        e->event.sites = e->sites;
        break;
    case SAMPLE_EVENT_GPU:
        r = record_gpu_find(e->gpu, filter, command, &e->event);
        break;
    }
    *ret = &e->event;
    return r;
}

/* ---- profile and messages ---- */

int record_event_set(const struct record_event *e, struct profile *profile)
{
    const struct sample_type type = sample_type_of_event(e->event.name, e->event.unit);
    profile->period = e->event.period;
    return profile_set_type(profile, &type);
}

const char *record_event_format(const struct record_event *e, uint64_t samples, uint64_t sum,
                                char out[RECORD_EVENT_TEXT_BYTES])
{
    const unsigned long long count = samples, all = sum;
    char time[32];
    if (strcmp(e->event.unit, "nanoseconds") == 0)
        snprintf(out, RECORD_EVENT_TEXT_BYTES, "%s on GPUs", units_format_duration(sum, time, sizeof(time)));
    else if (!e->event.period)
        snprintf(out, RECORD_EVENT_TEXT_BYTES, "%llu events of %llu %s in all", count, all, e->event.unit);
    else if (e->event.period == 1)
        snprintf(out, RECORD_EVENT_TEXT_BYTES, "%llu events", count);
    else
        snprintf(out, RECORD_EVENT_TEXT_BYTES, "%llu samples for %llu events", count, all);
    return out;
}

void record_event_explain_none(const struct record_event *e, struct buf *out)
{
    const unsigned long long period = e->event.period;
    if (e->gpu)
        buf_puts(out, record_gpu_explain_none());
    else if (period > 1)
        buf_printf(out, "no samples of %s: one sample is taken per %llu events%s; lower it with --period",
                   e->event.name, period, sample_event_is_counted(&e->event) ? " on a CPU" : "");
    else
        buf_printf(out, "no events of %s were recorded", e->event.name);
}
