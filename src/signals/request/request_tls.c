/* See request_tls.h. Shared libraries are found by their names (libssl, libcrypto, and gRPC's, which contain
 * BoringSSL); of the others, programs are opened: Node exports the functions of OpenSSL, and Go's programs have symbols
 * for theirs. BIO_write, which many do without, is attached to in single processes: in those that were seen to write
 * TLS records into memory. */
#include "signals/request/request_tls.h"

#include "base/clock.h"
#include "base/log.h"
#include "resolve/elf/tls_sites.h"
#include "resolve/usdt/usdt_providers.h"
#include "sources/request/request.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <utlist.h>

#define START_NS        200000000
#define TURN_NS         5000000
#define BUFFERED_MAX    64 /* processes */
#define FILES_A_PROCESS 4

/* What a hit of a program costs its thread: measured with nginx, which makes six a request. */
#define HIT_NS          2000
#define COST_OF_AGENT   0.5 /* share of the agent's CPU limit */
#define COST_LEAST_CPUS 0.005
#define COST_WINDOW_NS  5000000000ull

/* A file that defines functions of TLS. */
struct tls_file {
    struct tls_file *prev, *next;
    int fd;
    struct uprobe_site bio;               /* file_offset 0: none */
    struct uprobe_attachment *attachment; /* of the others; NULL: none */
    const char *declined;                 /* why its plaintext is not read; NULL: it is, or the file has no SSL_read */
};

/* A process that writes TLS records into memory. */
struct buffered_process {
    uint32_t pid; /* 0: none */
    struct {
        const struct tls_file *file;
        struct uprobe_attachment *attachment;
    } files[FILES_A_PROCESS];
};

struct request_tls {
    void *source;
    struct uprobe_attachments *attachments;
    struct usdt_providers *files_in_use;
    struct tls_file *files;
    struct buffered_process buffered[BUFFERED_MAX];
    double most_cpus;        /* that reading may cost */
    uint64_t since_ns, runs; /* at the beginning of the window over which the cost is measured */
};

static const char *name_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static bool is_candidate(const char *path)
{
    const char *name = name_of(path);
    return strncmp(name, "libssl", 6) == 0 || strncmp(name, "libcrypto", 9) == 0 || strstr(name, "grpc") ||
           !strstr(name, ".so");
}

static bool is_wanted(void *context, const struct elf_file *f)
{
    struct tls_sites sites;
    (void)context;
    return tls_sites_find(f, &sites) == 0 && (sites.count || sites.declined);
}

/* ---- processes with memory BIOs ---- */

static bool has_attached(const struct buffered_process *p, const struct tls_file *file)
{
    for (size_t i = 0; i < FILES_A_PROCESS; i++)
        if (p->files[i].file == file)
            return true;
    return false;
}

static void detach_bio(struct request_tls *t, struct buffered_process *p, const struct tls_file *file)
{
    for (size_t i = 0; i < FILES_A_PROCESS; i++) {
        if (!p->files[i].file || (file && p->files[i].file != file))
            continue;
        uprobe_attachments_remove(t->attachments, p->files[i].attachment);
        p->files[i].file = NULL;
    }
}

static void attach_bio(struct request_tls *t, struct buffered_process *p, const struct tls_file *file)
{
    for (size_t i = 0; i < FILES_A_PROCESS; i++) {
        if (p->files[i].file)
            continue;
        if (uprobe_attachments_add(t->attachments, file->fd, (int32_t)p->pid, &file->bio, 1, &p->files[i].attachment) ==
            0)
            p->files[i].file = file;
        return;
    }
}

/* Before the process was scanned, it may map every file: those that it does not map leave their places. */
static void attach_mapped_bios(struct request_tls *t, struct buffered_process *p)
{
    const struct tls_file *file;
    for (size_t i = 0; i < FILES_A_PROCESS; i++)
        if (p->files[i].file && !usdt_providers_may_map(t->files_in_use, p->pid, p->files[i].file))
            detach_bio(t, p, p->files[i].file);
    DL_FOREACH(t->files, file)
    {
        if (file->bio.file_offset && !has_attached(p, file) && usdt_providers_may_map(t->files_in_use, p->pid, file))
            attach_bio(t, p, file);
    }
}

static struct buffered_process *find_buffered(struct request_tls *t, uint32_t pid)
{
    for (size_t i = 0; i < BUFFERED_MAX; i++)
        if (t->buffered[i].pid == pid)
            return &t->buffered[i];
    return NULL;
}

static void follow_buffered(struct request_tls *t)
{
    uint32_t pids[BUFFERED_MAX];
    const size_t count = request_source_tls_buffered(t->source, pids, BUFFERED_MAX);
    for (size_t i = 0; i < count; i++) {
        struct buffered_process *p = find_buffered(t, pids[i]) ? NULL : find_buffered(t, 0);
        if (!p)
            continue;
        p->pid = pids[i];
        log_debug("process %u: writes TLS records into memory", p->pid);
    }
    for (size_t i = 0; i < BUFFERED_MAX; i++)
        if (t->buffered[i].pid)
            attach_mapped_bios(t, &t->buffered[i]);
}

/* ---- files ---- */

static int find_sites(int fd, struct tls_sites *ret)
{
    _cleanup_(elf_file_freep) struct elf_file *elf = NULL;
    const int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (copy < 0)
        return -EMFILE;
    int r = elf_open(copy, &elf);
    if (r < 0) {
        close(copy);
        return r;
    }
    return tls_sites_find(elf, ret);
}

static void file_free(struct tls_file *file)
{
    closep(&file->fd);
    free(file);
}

static int take_file(void *context, const struct usdt_provider_file *mapped, void **ret)
{
    struct request_tls *t = context;
    struct uprobe_site sites[UPROBE_SITES_MAX];
    struct tls_sites found;
    size_t count = 0;
    int r = find_sites(mapped->fd, &found);
    struct tls_file *file = r == 0 ? calloc(1, sizeof(*file)) : NULL;
    if (!file)
        return r < 0 ? r : -ENOMEM;
    file->declined = found.declined;
    for (size_t i = 0; i < found.count; i++) {
        const struct uprobe_site site = {.file_offset = found.all[i].file_offset, .kind = found.all[i].kind};
        if (site.kind == TLS_PROBE_BIO_WRITE)
            file->bio = site;
        else
            sites[count++] = site;
    }
    file->fd = fcntl(mapped->fd, F_DUPFD_CLOEXEC, 0);
    r = file->fd < 0 ? -EMFILE
        : count
            ? uprobe_attachments_add(t->attachments, file->fd, UPROBE_EVERY_PROCESS, sites, count, &file->attachment)
            : 0;
    if (r < 0) {
        file_free(file);
        return r;
    }
    DL_APPEND(t->files, file);
    log_debug("process %u: OpenSSL, %zu sites%s%s", mapped->process->pid, found.count, found.declined ? ": " : "",
              found.declined ? found.declined : "");
    *ret = file;
    return 0;
}

static void release_file(void *context, void *taken)
{
    struct request_tls *t = context;
    struct tls_file *file = taken;
    for (size_t i = 0; i < BUFFERED_MAX; i++)
        if (t->buffered[i].pid)
            detach_bio(t, &t->buffered[i], file);
    if (file->attachment)
        uprobe_attachments_remove(t->attachments, file->attachment);
    DL_DELETE(t->files, file);
    file_free(file);
}

/* ---- life cycle ---- */

int request_tls_new(void *request_source, struct processes *processes, double agent_cpus, struct request_tls **ret)
{
    _cleanup_(request_tls_freep) struct request_tls *t = calloc(1, sizeof(*t));
    if (!t)
        return -ENOMEM;
    t->source = request_source;
    t->attachments = request_source_tls(request_source);
    t->most_cpus = agent_cpus * COST_OF_AGENT > COST_LEAST_CPUS ? agent_cpus * COST_OF_AGENT : COST_LEAST_CPUS;
    const struct usdt_providers_options options = {.processes = processes,
                                                   .is_candidate = is_candidate,
                                                   .is_wanted = is_wanted,
                                                   .context = t,
                                                   .appeared = take_file,
                                                   .gone = release_file};
    int r = usdt_providers_new(&options, &t->files_in_use);
    if (r < 0)
        return r;
    *ret = take_ptr(t);
    return 0;
}

void request_tls_free(struct request_tls *t)
{
    if (!t)
        return;
    usdt_providers_free(t->files_in_use);
    free(t);
}

void request_tls_start(struct request_tls *t)
{
    usdt_providers_look_at_all(t->files_in_use);
    usdt_providers_turn(t->files_in_use, START_NS);
}

/* A busy server makes hundreds of thousands of calls a second, and each is slower by HIT_NS. */
static void limit_cost(struct request_tls *t, uint64_t now_ns)
{
    if (uprobe_attachments_is_stopped(t->attachments) || now_ns - t->since_ns < COST_WINDOW_NS)
        return;
    const uint64_t runs = request_source_tls_runs(t->source);
    const double cpus = (double)(runs - t->runs) * HIT_NS / (double)(now_ns - t->since_ns);
    const bool is_first = t->since_ns == 0;
    t->since_ns = now_ns;
    t->runs = runs;
    if (is_first || cpus <= t->most_cpus)
        return;
    uprobe_attachments_stop(t->attachments);
    log_warning(
        "requests over TLS are not read any more, until the agent is started again: it cost the servers %.0f %% of "
        "a CPU, more than half of budget.one_cpu",
        cpus * 100);
}

void request_tls_turn(struct request_tls *t, const struct mapped_processes *mapped)
{
    limit_cost(t, clock_monotonic_ns());
    if (mapped->is_incomplete)
        usdt_providers_look_at_all(t->files_in_use);
    for (size_t i = 0; i < mapped->count; i++)
        usdt_providers_look(t->files_in_use, mapped->pids[i]);
    usdt_providers_turn(t->files_in_use, TURN_NS);
    follow_buffered(t);
}

void request_tls_forget(struct request_tls *t, uint32_t pid)
{
    struct buffered_process *p = find_buffered(t, pid);
    usdt_providers_forget(t->files_in_use, pid);
    request_source_tls_forget(t->source, pid);
    if (!p)
        return;
    detach_bio(t, p, NULL);
    p->pid = 0;
}

void request_tls_metrics(const struct request_tls *t, struct metric_set *set)
{
    struct uprobe_attachments_stats stats;
    const struct tls_file *file;
    size_t declined = 0;
    DL_FOREACH(t->files, file)
    {
        declined += file->declined != NULL;
    }
    uprobe_attachments_stats(t->attachments, &stats);
    metric_add(set, "sonde_requests_tls_stopped", METRIC_GAUGE, "",
               "1: requests over TLS are not read any more, because it cost the servers too much.",
               stats.is_stopped ? 1 : 0, METRIC_NO_LABELS);
    metric_add(set, "sonde_requests_tls_attachments", METRIC_GAUGE, "",
               "Files, and files of single processes, with functions of TLS that the agent is attached to.",
               (double)stats.attached, METRIC_NO_LABELS);
    metric_add(set, "sonde_requests_tls_attachments_waiting", METRIC_GAUGE, "",
               "Files with functions of TLS that wait to be attached or detached.", (double)stats.waiting,
               METRIC_NO_LABELS);
    metric_add(set, "sonde_requests_tls_attachments_refused", METRIC_GAUGE, "",
               "Files with functions of TLS that the kernel refused to attach to.", (double)stats.refused,
               METRIC_NO_LABELS);
    metric_add(
        set, "sonde_requests_tls_files_declined", METRIC_GAUGE, "",
        "Files with functions of TLS that are not attached to: each hit would be a single step, or their code is not known.",
        (double)declined, METRIC_NO_LABELS);
}
