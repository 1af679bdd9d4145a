/* `sonde probes watch`: attaches to a probe in every file that has it, including files mapped later, and prints each
 * firing or counts firings by the value of an argument.
 *
 * Files mapped later are found through process lifecycle events (signal "process"): a process that maps code
 * is scanned again. Firings before that scan are not seen. */
#include "base/end_signals.h"
#include "base/standard_output.h"
#include "cli/probes/probes.h"

#include "aggregate/usdt_counts.h"
#include "base/clock.h"
#include "base/log.h"
#include "resolve/usdt/usdt_arguments.h"
#include "signals/signals.h"
#include "sources/usdt/usdt_watch.h"

#include "probes/process.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>

#define FLUSH_BYTES      (64u << 10)
#define BATCH_BYTES      ((size_t)1 << 20)
#define RING_BYTES       ((size_t)4 << 20) /* for process lifecycle events, all CPUs together */
#define SCAN_INTERVAL_MS 50
#define CHANGED_MAX      256 /* changed processes per interval; if there are more, all processes are scanned */

/* The arguments of the probe. Files with equal declarations share one. */
struct probe_arguments {
    struct usdt_arguments arguments;
    int by, histogram; /* argument index; -1: option not given */
};

struct watched_file {
    struct usdt_watch_link *link;
    uint64_t device, inode;
    uint32_t pid; /* a process that maps the file */
};

struct watch_state {
    const struct probes_watch_options *options;
    struct usdt_processes *processes;
    struct usdt_watch *watch;
    struct probe_arguments *shapes[USDT_WATCH_CONTEXTS_MAX];
    size_t shape_count;
    struct watched_file files[USDT_WATCH_LINKS_MAX];
    size_t file_count;
    bool is_started;   /* the initial scan is done */
    uint64_t left_out; /* failed attempts to attach to files found after the initial scan */
    struct usdt_counts counts;
    uint64_t fired, unread; /* unread: firings without a value for the histogram */
    struct buf out, text;

    const struct source *source; /* of process lifecycle events */
    void *process_source;        /* its state; NULL: not available */
    struct batch *batch;
    uint32_t changed[CHANGED_MAX];
    size_t changed_count;
};

static void watch_state_clear(struct watch_state *w)
{
    usdt_watch_free(w->watch);
    for (size_t i = 0; i < w->shape_count; i++)
        free(w->shapes[i]);
    if (w->process_source)
        w->source->free(w->process_source);
    batch_free(w->batch);
    usdt_processes_free(w->processes);
    usdt_counts_clear(&w->counts);
    buf_clear(&w->out);
    buf_clear(&w->text);
}

/* ---- firings ---- */

static void put_firing(struct watch_state *w, const struct probe_arguments *probe_arguments,
                       const struct usdt_firing *f)
{
    const uint64_t unix_ns = clock_unix_from_monotonic(f->time_ns);
    char clock[CLOCK_TEXT_BYTES], process[sizeof(f->process) + 1] = "";
    memcpy(process, f->process, sizeof(f->process));
    for (char *c = process; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7F)
            *c = '?';
    buf_printf(&w->out, "%s.%06u %7" PRIu32 " ", clock_time_of_day(unix_ns, clock),
               (unsigned)(unix_ns % 1000000000 / 1000), (uint32_t)f->pid);
    buf_put_shown(&w->out, process);
    for (size_t i = 0; i < probe_arguments->arguments.count; i++) {
        buf_putc(&w->out, ' ');
        buf_put_shown(&w->out, probe_arguments->arguments.all[i].name);
        buf_putc(&w->out, '=');
        usdt_arguments_put(&probe_arguments->arguments, f, i, &w->out);
    }
    buf_putc(&w->out, '\n');
}

static void put_firing_json(struct watch_state *w, const struct probe_arguments *probe_arguments,
                            const struct usdt_firing *f)
{
    char process[sizeof(f->process) + 1] = "";
    memcpy(process, f->process, sizeof(f->process));
    buf_printf(&w->out, "{\"time_unix_ns\":%" PRIu64 ",\"pid\":%" PRIu32 ",\"tid\":%" PRIu32 ",\"process\":",
               clock_unix_from_monotonic(f->time_ns), (uint32_t)f->pid, (uint32_t)f->tid);
    buf_put_json_string(&w->out, process);
    buf_puts(&w->out, ",\"arguments\":[");
    for (size_t i = 0; i < probe_arguments->arguments.count; i++) {
        buf_puts(&w->out, i ? ",{\"name\":" : "{\"name\":");
        buf_put_json_string(&w->out, probe_arguments->arguments.all[i].name);
        buf_puts(&w->out, ",\"value\":");
        usdt_arguments_put_json(&probe_arguments->arguments, f, i, &w->out);
        buf_putc(&w->out, '}');
    }
    buf_puts(&w->out, "]}\n");
}

static void count_number(struct watch_state *w, struct usdt_count *count, const struct probe_arguments *probe_arguments,
                         const struct usdt_firing *f)
{
    const size_t i = (size_t)probe_arguments->histogram;
    if (i >= f->argument_count || f->unread >> i & 1) {
        w->unread++;
        return;
    }
    usdt_count_number(count, f->values[i],
                      probe_arguments->arguments.all[i].type == USDT_SIGNED && (int64_t)f->values[i] < 0);
}

static bool is_counted(const struct watch_state *w)
{
    return w->options->by || w->options->histogram;
}

static int take_firing(void *context, const void *target_context, const struct usdt_firing *f)
{
    struct watch_state *w = context;
    const struct probe_arguments *probe_arguments = target_context;
    w->fired++;
    if (!is_counted(w)) {
        (w->options->json ? put_firing_json : put_firing)(w, probe_arguments, f);
        return w->out.size < FLUSH_BYTES ? buf_error(&w->out) : standard_output_flush(&w->out);
    }
    w->text.size = 0;
    if (probe_arguments->by >= 0)
        (w->options->json ? usdt_arguments_put_json : usdt_arguments_put)(&probe_arguments->arguments, f,
                                                                          (size_t)probe_arguments->by, &w->text);
    struct usdt_count *count = usdt_counts_add(&w->counts, w->text.size ? w->text.data : "", w->text.size);
    if (count && probe_arguments->histogram >= 0)
        count_number(w, count, probe_arguments, f);
    return buf_error(&w->text);
}

/* ---- files ---- */

/* Sets `*ret` to the index of the argument, -1 when `name` is NULL. -EINVAL after logging: no such argument. */
static int find_argument(const struct probe_arguments *probe_arguments, const struct usdt_probe *p, const char *name,
                         int *ret)
{
    *ret = name ? usdt_arguments_find(&probe_arguments->arguments, name) : -1;
    if (!name || *ret >= 0)
        return 0;
    log_error("probes: %s:%s has no argument '%s'; it has: %s", p->sites->provider, p->sites->name, name,
              p->sites->declaration ? p->sites->declaration : p->sites->operands);
    return -EINVAL;
}

static int read_arguments(const struct usdt_probe *p, const struct probes_watch_options *o,
                          struct probe_arguments *probe_arguments)
{
    usdt_arguments_read(p->sites, &probe_arguments->arguments);
    int r = find_argument(probe_arguments, p, o->by, &probe_arguments->by);
    if (r == 0)
        r = find_argument(probe_arguments, p, o->histogram, &probe_arguments->histogram);
    if (r < 0 || probe_arguments->histogram < 0)
        return r;
    const enum usdt_type type = probe_arguments->arguments.all[probe_arguments->histogram].type;
    if (type != USDT_TEXT && type != USDT_DOUBLE)
        return 0;
    log_error("probes: --hist is of whole numbers; '%s' is a %s", o->histogram, type == USDT_TEXT ? "text" : "double");
    return -EINVAL;
}

/* Returns the shape that equals the probe's arguments, or adds one. -ENOSPC: limit reached. */
static int get_shape(struct watch_state *w, const struct usdt_probe *p, struct probe_arguments **ret)
{
    _cleanup_free_ struct probe_arguments *probe_arguments = calloc(1, sizeof(*probe_arguments));
    if (!probe_arguments)
        return -ENOMEM;
    int r = read_arguments(p, w->options, probe_arguments);
    if (r < 0)
        return r;
    for (size_t i = 0; i < w->shape_count; i++)
        if (memcmp(w->shapes[i], probe_arguments, sizeof(*probe_arguments)) ==
            0) { /* safe: every byte was zeroed or written */
            *ret = w->shapes[i];
            return 0;
        }
    if (w->shape_count == USDT_WATCH_CONTEXTS_MAX)
        return -ENOSPC;
    *ret = w->shapes[w->shape_count++] = take_ptr(probe_arguments);
    return 0;
}

static int attach_file(struct watch_state *w, const struct usdt_probe *p)
{
    struct probe_arguments *probe_arguments;
    struct watched_file file = {.device = p->device, .inode = p->inode, .pid = p->pid};
    int r = get_shape(w, p, &probe_arguments);
    if (r < 0)
        return r;
    const struct usdt_watch_target target = {
        .path = p->map_file,
        .pid = w->options->filter.pid ? (int)w->options->filter.pid : -1,
        .provider = p->sites->provider,
        .name = p->sites->name,
        .texts = usdt_arguments_texts(&probe_arguments->arguments),
        .context = probe_arguments,
    };
    r = usdt_watch_add(w->watch, &target, &file.link);
    if (r == -ENOENT || r == -ESRCH)
        return 0; /* the process has ended */
    if (r < 0)
        return r;
    w->files[w->file_count++] = file;
    if (w->is_started)
        log_info("probes: attached also in process %" PRIu32 " (%s)", p->pid, p->process);
    return 0;
}

/* Detaches from files whose process has ended. If another process still maps one, the next scan attaches to it again.
 */
static void detach_ended(struct watch_state *w)
{
    size_t kept = 0;
    for (size_t i = 0; i < w->file_count; i++)
        if (kill((pid_t)w->files[i].pid, 0) < 0 && errno == ESRCH)
            usdt_watch_remove(w->files[i].link);
        else
            w->files[kept++] = w->files[i];
    w->file_count = kept;
}

/* Attaches to each file once, for all processes or for the one that was selected. */
static int watch_probe(void *context, const struct usdt_probe *p)
{
    struct watch_state *w = context;
    for (size_t i = 0; i < w->file_count; i++)
        if (w->files[i].inode == p->inode && w->files[i].device == p->device)
            return 0;
    int r = w->file_count == USDT_WATCH_LINKS_MAX ? -ENOSPC : attach_file(w, p);
    if (r == -ENOTSUP)
        log_error(
            "probes: this kernel cannot distinguish the probes of one program: BPF cookies need Linux 5.15 or later");
    if (r < 0 && r != -EINVAL && !(r == -ENOSPC && w->is_started))
        log_errno(r, "probes: cannot attach to %s:%s of %s", p->sites->provider, p->sites->name, p->path);
    if (r == 0 || !w->is_started)
        return r;
    w->left_out++;
    return 0;
}

/* ---- files mapped later ---- */

static void open_process_source(struct watch_state *w)
{
    const struct source_services services = {.ring_bytes = RING_BYTES};
    struct attach_report report = {0};
    size_t signal;
    int r = signals_record_type(RECORD_PROCESS_MMAP, &signal) ? 0 : -ENOTSUP;
    if (r == 0)
        r = batch_new(BATCH_BYTES, signals_check_record, &w->batch);
    if (r == 0) {
        w->source = all_signals[signal]->source;
        r = w->source->open(&services, NULL, &report, &w->process_source);
    }
    if (r == 0)
        r = w->source->start(w->process_source);
    if (r < 0)
        log_warning("probes: files loaded from now on are not attached (%s)", strerror(-r));
}

static void note_changed(struct watch_state *w, uint32_t pid)
{
    for (size_t i = 0; i < w->changed_count && i < CHANGED_MAX; i++)
        if (w->changed[i] == pid)
            return;
    if (w->changed_count < CHANGED_MAX)
        w->changed[w->changed_count] = pid;
    w->changed_count++;
}

static int scan_changed(struct watch_state *w)
{
    if (w->file_count == USDT_WATCH_LINKS_MAX && w->changed_count) {
        detach_ended(w);
        w->changed_count = CHANGED_MAX + 1;
    }
    int r = w->changed_count > CHANGED_MAX ? usdt_processes_walk(w->processes) : 0;
    for (size_t i = 0; r == 0 && w->changed_count <= CHANGED_MAX && i < w->changed_count; i++)
        r = usdt_processes_look(w->processes, w->changed[i]);
    w->changed_count = 0;
    return r == -ESRCH ? 0 : r;
}

/* Drains process lifecycle events and scans the processes that have mapped a file with code since the last call. */
static int drain_process_source(struct watch_state *w)
{
    if (!w->process_source)
        return 0;
    batch_clear(w->batch);
    int r = w->source->drain(w->process_source, w->batch);
    for (size_t i = 0; r == 0 && i < batch_count(w->batch); i++) {
        const struct record_header *record = batch_get(w->batch, i);
        if (record->kind == RECORD_PROCESS_LOST)
            w->changed_count = CHANGED_MAX + 1;
        else if (record->kind == RECORD_PROCESS_MMAP && ((const struct process_mmap *)record)->path[0] == '/' &&
                 ((const struct process_mmap *)record)->path[1] != '/')
            note_changed(w, record->pid);
    }
    return r < 0 ? r : scan_changed(w);
}

static int open_signals(void)
{
    sigset_t signals;
    const int r = end_signals_block(&signals);
    if (r < 0)
        return r;
    const int fd = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
    return fd < 0 ? -errno : fd;
}

/* Runs until the duration has passed, SIGINT or SIGTERM arrives, or the selected process ends. */
static int watch_loop(struct watch_state *w, int signals_fd, int pid_fd)
{
    const uint64_t start_ns = clock_monotonic_ns(), duration_ns = w->options->duration_ns;
    for (;;) {
        const uint64_t passed_ns = clock_monotonic_ns() - start_ns;
        const bool over = duration_ns && passed_ns >= duration_ns;
        const uint64_t left_ms = duration_ns && !over ? (duration_ns - passed_ns) / 1000000 + 1 : UINT64_MAX;
        const int wait_ms = w->process_source && left_ms > SCAN_INTERVAL_MS ? SCAN_INTERVAL_MS
                            : left_ms > INT_MAX                             ? -1
                                                                            : (int)left_ms;
        struct pollfd fds[] = {{usdt_watch_fd(w->watch), POLLIN, 0}, {signals_fd, POLLIN, 0}, {pid_fd, POLLIN, 0}};
        if (!over && poll(fds, array_size(fds), wait_ms) < 0 && errno != EINTR)
            return -errno;
        int r = usdt_watch_poll(w->watch);
        if (r == 0)
            r = standard_output_flush(&w->out);
        const bool is_end = over || fds[1].revents || fds[2].revents;
        if (r == 0 && !is_end)
            r = drain_process_source(w);
        if (r < 0 || is_end)
            return r;
    }
}

static int put_counts(struct watch_state *w)
{
    const char *by = w->options->by;
    if (!w->options->json && is_counted(w))
        usdt_counts_put(&w->counts, by, &w->out);
    if (w->options->json) {
        buf_printf(&w->out, "{\"fired\":%" PRIu64 ",\"lost\":%" PRIu64, w->fired, usdt_watch_lost(w->watch));
        if (is_counted(w)) {
            buf_printf(&w->out, ",\"not_counted\":%" PRIu64 ",\"unread\":%" PRIu64 ",\"counts\":", w->counts.others,
                       w->unread);
            usdt_counts_put_json(&w->counts, by, &w->out);
        }
        buf_puts(&w->out, "}\n");
    }
    return standard_output_flush(&w->out);
}

static void warn_losses(const struct watch_state *w)
{
    const uint64_t lost = usdt_watch_lost(w->watch);
    struct usdt_losses losses;
    usdt_processes_losses(w->processes, &losses);
    probes_warn_losses(&losses);
    if (w->left_out)
        log_warning("probes: %" PRIu64 " attempts to attach to files loaded later failed", w->left_out);
    if (lost)
        log_warning("probes: lost %" PRIu64 " firings, in addition to the %" PRIu64
                    " reported: they came faster than they were read",
                    lost, w->fired);
    if (w->counts.others)
        log_warning("probes: %" PRIu64 " firings were not counted: %s has more than %d values", w->counts.others,
                    w->options->by ? w->options->by : "", USDT_COUNTS_MAX);
    if (w->unread)
        log_warning("probes: %" PRIu64 " values of %s could not be read", w->unread, w->options->histogram);
}

/* Opens the process lifecycle events before the initial scan, so that no mapping in between is missed. */
static int start_watching(struct watch_state *w)
{
    const struct usdt_filter *filter = &w->options->filter;
    int r = usdt_watch_new(take_firing, w, &w->watch);
    if (r == 0)
        r = usdt_processes_new(filter, watch_probe, w, &w->processes);
    if (r < 0)
        return r;
    open_process_source(w);
    r = usdt_processes_walk(w->processes);
    if (r == -ESRCH)
        log_error("probes: no process %" PRIu32, filter->pid);
    if (r == -EACCES)
        log_error("probes: process %" PRIu32 " cannot be inspected without CAP_SYS_PTRACE", filter->pid);
    if (r < 0)
        return r;
    if (w->file_count == 0 && !w->process_source)
        return 0;
    if (w->file_count)
        log_info("probes: attached to %s:%s in %zu file%s", filter->provider, filter->name, w->file_count,
                 w->file_count == 1 ? "" : "s");
    else
        log_info("probes: no process has a probe %s:%s yet; waiting for one", filter->provider, filter->name);
    w->is_started = true;
    return 0;
}

int probes_watch(const struct probes_watch_options *options)
{
    _cleanup_(watch_state_clear) struct watch_state w = {.options = options, .counts.has_buckets = options->histogram};
    _cleanup_close_ int signals_fd = open_signals();
    _cleanup_close_ int pid_fd = options->filter.pid ? (int)syscall(SYS_pidfd_open, options->filter.pid, 0) : -1;
    int r = signals_fd < 0 ? signals_fd : start_watching(&w);
    if (r == 0 && w.is_started)
        r = watch_loop(&w, signals_fd, pid_fd);
    if (r < 0)
        return r;
    warn_losses(&w);
    if (w.file_count == 0 && w.fired == 0) {
        log_error("probes: no process has a probe %s:%s", options->filter.provider, options->filter.name);
        return -ENOENT;
    }
    return put_counts(&w);
}
