/* `sonde probes watch`: attaches to a probe in every file that has it, also in those that are mapped
 * meanwhile, and prints what fires, or counts it by the value of an argument.
 *
 * Which files are mapped meanwhile the lives of processes tell (sources/process/process.c): a process that
 * has mapped code is looked at again. Firings before that are not heard. */
#include "cli/probes.h"

#include "base/clock.h"
#include "base/log.h"
#include "cli/file_part.h"
#include "cli/usdt_arguments.h"
#include "cli/usdt_counts.h"
#include "sources/source.h"
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
#include <time.h>

#define FLUSH_BYTES   (64u << 10)
#define BATCH_BYTES   ((size_t)1 << 20)
#define RING_BYTES    ((size_t)4 << 20) /* of the lives of processes, all CPUs together */
#define LOOK_EVERY_MS 50
#define CHANGED_MAX   256 /* processes at a time; when there are more, all are looked at */

/* What its arguments are: files that say the same share it. */
struct shape {
    struct usdt_arguments arguments;
    int by, histogram; /* -1: not asked */
};

struct watched { /* one file */
    struct usdt_watch_link *link;
    uint64_t device, inode;
    uint32_t pid; /* in which it was found */
};

struct watching {
    const struct probes_watch_options *options;
    struct usdt_processes *processes;
    struct usdt_watch *watch;
    struct shape *shapes[NATIVE_WATCH_CONTEXTS_MAX];
    size_t shape_count;
    struct watched files[NATIVE_WATCH_LINKS_MAX];
    size_t file_count;
    bool is_begun;     /* what is found from now on came later */
    uint64_t left_out; /* files that could not be attached to, later */
    struct usdt_counts counts;
    uint64_t fired, unread; /* unread: no number for the histogram */
    struct buf out, text;

    void *lives; /* of processes; NULL: they cannot be heard */
    struct batch *batch;
    uint32_t changed[CHANGED_MAX];
    size_t changed_count;
};

static void watching_clear(struct watching *w)
{
    usdt_watch_free(w->watch);
    for (size_t i = 0; i < w->shape_count; i++)
        free(w->shapes[i]);
    if (w->lives)
        source_process.free(w->lives);
    batch_free(w->batch);
    usdt_processes_free(w->processes);
    usdt_counts_clear(&w->counts);
    buf_clear(&w->out);
    buf_clear(&w->text);
}

static int flush(struct watching *w)
{
    int r = buf_error(&w->out);
    if (r == 0 && w->out.size)
        r = file_part_write_all(STDOUT_FILENO, w->out.data, w->out.size);
    w->out.size = 0;
    return r;
}

/* ---- firings ---- */

static void put_firing(struct watching *w, const struct shape *shape, const struct usdt_firing *f)
{
    const uint64_t unix_ns = clock_unix_from_monotonic(f->time_ns);
    const time_t seconds = (time_t)(unix_ns / 1000000000);
    struct tm tm;
    char clock[16] = "", process[sizeof(f->process) + 1] = "";
    if (localtime_r(&seconds, &tm))
        strftime(clock, sizeof(clock), "%H:%M:%S", &tm);
    memcpy(process, f->process, sizeof(f->process));
    for (char *c = process; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7F)
            *c = '?';
    buf_printf(&w->out, "%s.%06u %7" PRIu32 " ", clock, (unsigned)(unix_ns % 1000000000 / 1000), (uint32_t)f->pid);
    buf_put_utf8(&w->out, process);
    for (size_t i = 0; i < shape->arguments.count; i++) {
        buf_putc(&w->out, ' ');
        buf_put_utf8(&w->out, shape->arguments.all[i].name);
        buf_putc(&w->out, '=');
        usdt_arguments_put(&shape->arguments, f, i, &w->out);
    }
    buf_putc(&w->out, '\n');
}

static void put_firing_json(struct watching *w, const struct shape *shape, const struct usdt_firing *f)
{
    char process[sizeof(f->process) + 1] = "";
    memcpy(process, f->process, sizeof(f->process));
    buf_printf(&w->out, "{\"time_unix_ns\":%" PRIu64 ",\"pid\":%" PRIu32 ",\"tid\":%" PRIu32 ",\"process\":",
               clock_unix_from_monotonic(f->time_ns), (uint32_t)f->pid, (uint32_t)f->tid);
    buf_put_json_string(&w->out, process);
    buf_puts(&w->out, ",\"arguments\":[");
    for (size_t i = 0; i < shape->arguments.count; i++) {
        buf_puts(&w->out, i ? ",{\"name\":" : "{\"name\":");
        buf_put_json_string(&w->out, shape->arguments.all[i].name);
        buf_puts(&w->out, ",\"value\":");
        usdt_arguments_put_json(&shape->arguments, f, i, &w->out);
        buf_putc(&w->out, '}');
    }
    buf_puts(&w->out, "]}\n");
}

static void count_number(struct watching *w, struct usdt_count *count, const struct shape *shape,
                         const struct usdt_firing *f)
{
    const size_t i = (size_t)shape->histogram;
    if (i >= f->argument_count || f->unread >> i & 1) {
        w->unread++;
        return;
    }
    usdt_count_number(count, f->values[i], shape->arguments.all[i].type == NATIVE_SIGNED && (int64_t)f->values[i] < 0);
}

static bool is_counted(const struct watching *w)
{
    return w->options->by || w->options->histogram;
}

static int take_firing(void *context, const void *sampling_rule_context, const struct usdt_firing *f)
{
    struct watching *w = context;
    const struct shape *shape = sampling_rule_context;
    w->fired++;
    if (!is_counted(w)) {
        (w->options->json ? put_firing_json : put_firing)(w, shape, f);
        return w->out.size < FLUSH_BYTES ? buf_error(&w->out) : flush(w);
    }
    w->text.size = 0;
    if (shape->by >= 0)
        (w->options->json ? usdt_arguments_put_json : usdt_arguments_put)(&shape->arguments, f, (size_t)shape->by,
                                                                          &w->text);
    struct usdt_count *count = usdt_counts_add(&w->counts, w->text.size ? w->text.data : "", w->text.size);
    if (count && shape->histogram >= 0)
        count_number(w, count, shape, f);
    return buf_error(&w->text);
}

/* ---- files ---- */

/* -1 where it is not asked for. */
static int find_argument(const struct shape *shape, const struct native_probe *p, const char *name, int *ret)
{
    *ret = name ? usdt_arguments_find(&shape->arguments, name) : -1;
    if (!name || *ret >= 0)
        return 0;
    log_error("probes: %s:%s has no argument '%s'; it has: %s", p->sites->provider, p->sites->name, name,
              p->sites->declaration ? p->sites->declaration : p->sites->operands);
    return -EINVAL;
}

static int read_arguments(const struct native_probe *p, const struct probes_watch_options *o, struct shape *shape)
{
    usdt_arguments_read(p->sites, &shape->arguments);
    int r = find_argument(shape, p, o->by, &shape->by);
    if (r == 0)
        r = find_argument(shape, p, o->histogram, &shape->histogram);
    if (r < 0 || shape->histogram < 0)
        return r;
    const enum usdt_type type = shape->arguments.all[shape->histogram].type;
    if (type != NATIVE_TEXT && type != NATIVE_DOUBLE)
        return 0;
    log_error("probes: --hist is of whole numbers; '%s' is a %s", o->histogram,
              type == NATIVE_TEXT ? "text" : "double");
    return -EINVAL;
}

/* The one of the probe's file, a new one if there is none yet. */
static int get_shape(struct watching *w, const struct native_probe *p, struct shape **ret)
{
    _cleanup_free_ struct shape *shape = calloc(1, sizeof(*shape));
    if (!shape)
        return -ENOMEM;
    int r = read_arguments(p, w->options, shape);
    if (r < 0)
        return r;
    for (size_t i = 0; i < w->shape_count; i++)
        if (memcmp(w->shapes[i], shape, sizeof(*shape)) == 0) { /* all of it was zeroed or written */
            *ret = w->shapes[i];
            return 0;
        }
    if (w->shape_count == NATIVE_WATCH_CONTEXTS_MAX)
        return -ENOSPC;
    *ret = w->shapes[w->shape_count++] = take_ptr(shape);
    return 0;
}

static int attach(struct watching *w, const struct native_probe *p)
{
    struct shape *shape;
    struct watched file = {.device = p->device, .inode = p->inode, .pid = p->pid};
    int r = get_shape(w, p, &shape);
    if (r < 0)
        return r;
    const struct usdt_watch_target target = {
        .path = p->map_file,
        .pid = w->options->filter.pid ? (int)w->options->filter.pid : -1,
        .provider = p->sites->provider,
        .name = p->sites->name,
        .texts = usdt_arguments_texts(&shape->arguments),
        .context = shape,
    };
    r = usdt_watch_add(w->watch, &target, &file.link);
    if (r == -ENOENT || r == -ESRCH)
        return 0; /* the process has ended */
    if (r < 0)
        return r;
    w->files[w->file_count++] = file;
    if (w->is_begun)
        log_info("probes: attached also in process %" PRIu32 " (%s)", p->pid, p->process);
    return 0;
}

/* Files in which nobody fires any more, as far as we know; who still maps one will be attached to again. */
static void let_go_of_ended(struct watching *w)
{
    size_t kept = 0;
    for (size_t i = 0; i < w->file_count; i++)
        if (kill((pid_t)w->files[i].pid, 0) < 0 && errno == ESRCH)
            usdt_watch_remove(w->files[i].link);
        else
            w->files[kept++] = w->files[i];
    w->file_count = kept;
}

/* A file is attached to once, for all processes or for the one that was asked for. */
static int watch_probe(void *context, const struct native_probe *p)
{
    struct watching *w = context;
    for (size_t i = 0; i < w->file_count; i++)
        if (w->files[i].inode == p->inode && w->files[i].device == p->device)
            return 0;
    int r = w->file_count == NATIVE_WATCH_LINKS_MAX ? -ENOSPC : attach(w, p);
    if (r == -ENOTSUP)
        log_error(
            "probes: this kernel cannot tell one probe from another in one program (no cookies before Linux 5.15)");
    if (r < 0 && r != -EINVAL && !(r == -ENOSPC && w->is_begun))
        log_errno(r, "probes: cannot attach to %s:%s of %s", p->sites->provider, p->sites->name, p->path);
    if (r == 0 || !w->is_begun)
        return r;
    w->left_out++;
    return 0;
}

/* ---- what is mapped meanwhile ---- */

static void hear_lives(struct watching *w)
{
    const struct source_options options = {.ring_bytes = RING_BYTES};
    struct attach_report report = {0};
    int r = batch_new(BATCH_BYTES, &w->batch);
    if (r == 0)
        r = source_process.open(&options, &report, &w->lives);
    if (r == 0)
        r = source_process.start(w->lives);
    if (r < 0)
        log_warning("probes: what is loaded from now on is not heard (%s)", strerror(-r));
}

static void note_changed(struct watching *w, uint32_t pid)
{
    for (size_t i = 0; i < w->changed_count && i < CHANGED_MAX; i++)
        if (w->changed[i] == pid)
            return;
    if (w->changed_count < CHANGED_MAX)
        w->changed[w->changed_count] = pid;
    w->changed_count++;
}

static int look_at_changed(struct watching *w)
{
    if (w->file_count == NATIVE_WATCH_LINKS_MAX && w->changed_count) {
        let_go_of_ended(w);
        w->changed_count = CHANGED_MAX + 1;
    }
    int r = w->changed_count > CHANGED_MAX ? usdt_processes_walk(w->processes) : 0;
    for (size_t i = 0; r == 0 && w->changed_count <= CHANGED_MAX && i < w->changed_count; i++)
        r = usdt_processes_look(w->processes, w->changed[i]);
    w->changed_count = 0;
    return r == -ESRCH ? 0 : r;
}

/* Looks at who has mapped code since the last time. */
static int follow(struct watching *w)
{
    if (!w->lives)
        return 0;
    batch_clear(w->batch);
    int r = source_process.drain(w->lives, w->batch);
    for (size_t i = 0; r == 0 && i < batch_count(w->batch); i++) {
        const struct record_header *record = batch_get(w->batch, i);
        if (record->kind == RECORD_PROCESS_LOST)
            w->changed_count = CHANGED_MAX + 1;
        else if (record->kind == RECORD_PROCESS_MMAP && ((const struct process_mmap *)record)->path[0] == '/' &&
                 ((const struct process_mmap *)record)->path[1] != '/')
            note_changed(w, record->pid);
    }
    return r < 0 ? r : look_at_changed(w);
}

static int open_signals(void)
{
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    if (sigprocmask(SIG_BLOCK, &signals, NULL) < 0)
        return -errno;
    const int fd = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
    return fd < 0 ? -errno : fd;
}

/* Until the time is over, somebody interrupts it, or the one process has ended. */
static int watch_on(struct watching *w, int signals_fd, int pid_fd)
{
    const uint64_t start_ns = clock_monotonic_ns(), duration_ns = w->options->duration_ns;
    for (;;) {
        const uint64_t passed_ns = clock_monotonic_ns() - start_ns;
        const bool over = duration_ns && passed_ns >= duration_ns;
        const uint64_t left_ms = duration_ns && !over ? (duration_ns - passed_ns) / 1000000 + 1 : UINT64_MAX;
        const int wait_ms = w->lives && left_ms > LOOK_EVERY_MS ? LOOK_EVERY_MS : left_ms > INT_MAX ? -1 : (int)left_ms;
        struct pollfd fds[] = {{usdt_watch_fd(w->watch), POLLIN, 0}, {signals_fd, POLLIN, 0}, {pid_fd, POLLIN, 0}};
        if (!over && poll(fds, array_size(fds), wait_ms) < 0 && errno != EINTR)
            return -errno;
        int r = usdt_watch_poll(w->watch);
        if (r == 0)
            r = flush(w);
        const bool is_end = over || fds[1].revents || fds[2].revents;
        if (r == 0 && !is_end)
            r = follow(w);
        if (r < 0 || is_end)
            return r;
    }
}

static int put_end(struct watching *w)
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
    return flush(w);
}

static void tell_losses(const struct watching *w)
{
    const uint64_t lost = usdt_watch_lost(w->watch);
    struct usdt_losses losses;
    usdt_processes_losses(w->processes, &losses);
    probes_tell_losses(&losses);
    if (w->left_out)
        log_warning("probes: %" PRIu64 " times a file that was loaded later could not be attached to", w->left_out);
    if (lost)
        log_warning("probes: lost %" PRIu64 " firings beside the %" PRIu64
                    " that are told: they came faster than they were taken",
                    lost, w->fired);
    if (w->counts.others)
        log_warning("probes: %" PRIu64 " firings are not counted: more than %d values of %s", w->counts.others,
                    NATIVE_COUNTS_MAX, w->options->by ? w->options->by : "");
    if (w->unread)
        log_warning("probes: %" PRIu64 " values of %s could not be read", w->unread, w->options->histogram);
}

/* Lives of processes are heard before we look around, so that nobody slips through between. */
static int begin(struct watching *w)
{
    const struct usdt_filter *filter = &w->options->filter;
    int r = usdt_watch_new(take_firing, w, &w->watch);
    if (r == 0)
        r = usdt_processes_new(filter, watch_probe, w, &w->processes);
    if (r < 0)
        return r;
    hear_lives(w);
    r = usdt_processes_walk(w->processes);
    if (r == -ESRCH)
        log_error("probes: there is no process %" PRIu32, filter->pid);
    if (r == -EACCES)
        log_error("probes: process %" PRIu32 " cannot be looked at without CAP_SYS_PTRACE", filter->pid);
    if (r < 0)
        return r;
    if (w->file_count == 0 && !w->lives)
        return 0;
    if (w->file_count)
        log_info("probes: attached to %s:%s in %zu file%s", filter->provider, filter->name, w->file_count,
                 w->file_count == 1 ? "" : "s");
    else
        log_info("probes: nobody has a probe %s:%s yet; waiting for one", filter->provider, filter->name);
    w->is_begun = true;
    return 0;
}

int probes_watch(const struct probes_watch_options *options)
{
    _cleanup_(watching_clear) struct watching w = {.options = options, .counts.has_buckets = options->histogram};
    _cleanup_close_ int signals_fd = open_signals();
    _cleanup_close_ int pid_fd = options->filter.pid ? (int)syscall(SYS_pidfd_open, options->filter.pid, 0) : -1;
    int r = signals_fd < 0 ? signals_fd : begin(&w);
    if (r == 0 && w.is_begun)
        r = watch_on(&w, signals_fd, pid_fd);
    if (r < 0)
        return r;
    tell_losses(&w);
    if (w.file_count == 0 && w.fired == 0) {
        log_error("probes: nobody has a probe %s:%s", options->filter.provider, options->filter.name);
        return -ENOENT;
    }
    return put_end(&w);
}
