/* Adds source lines to a recorded profile; see record_lines.h. */
#include "recording/record_lines.h"

#include "base/log.h"
#include "base/units.h"
#include "resolve/elf/debug_files.h"
#include "resolve/lines/line_helper.h"
#include "resolve/symbols/debuginfod_cache.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/eventfd.h>

/* Written to by the signal handler. Blocking the signals here would not suffice: any thread may receive them. */
static int stop_fd = -1;

static void request_stop(int number)
{
    const uint64_t one = 1;
    (void)number;
    (void)!write(stop_fd, &one, sizeof(one));
}

static void ignore_signal(int number)
{
    (void)number;
}

struct progress {
    bool shown;
    uint32_t done, files;
};

static void show_files(void *context, uint32_t done, uint32_t files)
{
    struct progress *p = context;
    p->done = done;
    p->files = files;
    if (p->shown)
        fprintf(stderr, "\r\033[Kreading source lines: %u of %u files  (Ctrl-C stops and keeps those found)", done,
                files);
}

static void show_transfer(void *context, const char *url, uint64_t bytes)
{
    const struct progress *p = context;
    char size[32];
    if (p->shown)
        fprintf(stderr,
                "\r\033[Kreading source lines: %u of %u files, %s from %s  (Ctrl-C stops and keeps those found)",
                p->done, p->files, units_format_size(bytes, size, sizeof(size)), url);
}

int record_lines_check(void)
{
    int r = line_helper_check();
    if (r == -ENOPKG)
        log_error("record: --lines needs %s: install the package libdw1 (elfutils-libs where packages are RPMs)",
                  DWARF_LIBRARY_NAME);
    else if (r < 0)
        log_errno(r, "record: --lines: cannot start the process that reads debug information");
    return r;
}

/* ---- debuginfod ---- */

static int fetch_debug_file(void *context, const char *build_id)
{
    return debuginfod_find(context, build_id);
}

/* NULL: no server is configured, or debuginfod cannot be used (logged). */
static struct debuginfod *open_debuginfod(int cancel_fd, struct progress *progress)
{
    struct debuginfod_options options;
    struct debuginfod *servers;
    char path[DEBUGINFOD_CACHE_PATH_BYTES];
    if (debuginfod_options_from_environment(&options) < 0)
        return NULL;
    options.cache_path = path;
    options.stop_fd = cancel_fd;
    options.progress = show_transfer;
    options.context = progress;
    int r = debuginfod_cache_path(path);
    if (r < 0) {
        log_warning("record: debuginfod is not used: set HOME or DEBUGINFOD_CACHE_PATH for its cache directory");
        return NULL;
    }
    r = debuginfod_new(&options, &servers);
    if (r == -EPERM)
        log_warning(
            "record: debuginfod is not used: its cache directory %s belongs to another user, or is writable by others",
            path);
    else if (r == -ENOPKG)
        log_warning("record: debuginfod is not used: it needs libcurl.so.4 (the package libcurl4)");
    else if (r < 0)
        log_errno(r, "record: debuginfod is not used: its cache directory %s cannot be opened", path);
    return r < 0 ? NULL : servers;
}

static void warn_server_failures(const struct debuginfod *servers)
{
    const char *why, *url;
    for (size_t i = 0; (url = debuginfod_failure(servers, i, &why)) != NULL; i++)
        log_warning("record: the debuginfod server %s failed and was not used any further: %s", url, why);
}

/* ---- source lines ---- */

static int find_lines(const struct profile *p, const struct line_objects *objects,
                      const struct source_lines_options *options, struct source_lines **ret)
{
    const struct sigaction stopping = {.sa_handler = request_stop, .sa_flags = SA_RESTART};
    /* A Ctrl-C that arrives just after the search was meant to stop the search, and must not lose the profile: one
     * signal is ignored, the next terminates as usual (SA_RESETHAND). */
    const struct sigaction late = {.sa_handler = ignore_signal, .sa_flags = SA_RESTART | SA_RESETHAND};
    stop_fd = options->stop_fd;
    sigaction(SIGINT, &stopping, NULL);
    sigaction(SIGTERM, &stopping, NULL);
    int r = source_lines_find(p, objects, options, ret);
    sigaction(SIGINT, &late, NULL);
    sigaction(SIGTERM, &late, NULL);
    return r;
}

void record_lines_add(struct profile **profile, const struct line_objects *objects, bool inlines, bool show_progress,
                      size_t max_bytes, struct record_lines_stats *ret)
{
    struct progress progress = {.shown = show_progress};
    _cleanup_(source_lines_freep) struct source_lines *lines = NULL;
    _cleanup_close_ int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    _cleanup_(debuginfod_freep) struct debuginfod *servers = fd < 0 ? NULL : open_debuginfod(fd, &progress);
    const struct debug_fetcher fetcher = {.fetch = fetch_debug_file, .context = servers};
    const struct source_lines_options options = {.inlines = inlines,
                                                 .fetcher = servers ? &fetcher : NULL,
                                                 .stop_fd = fd,
                                                 .progress = show_files,
                                                 .context = &progress};
    struct profile *with_lines;
    int r = fd < 0 ? -errno : find_lines(*profile, objects, &options, &lines);
    if (r == 0)
        r = profile_with_lines(*profile, source_lines_rows(lines), max_bytes, &with_lines);
    if (show_progress)
        fprintf(stderr, "\r\033[K");
    if (servers) {
        warn_server_failures(servers);
        debuginfod_stats(servers, &ret->servers);
    }
    if (r < 0) {
        log_errno(r, "record: the profile has no source lines");
        return;
    }
    source_lines_stats(lines, &ret->lines);
    profile_free(*profile);
    *profile = with_lines;
}

static void report_servers(const struct debuginfod_stats *f)
{
    const uint32_t there = f->fetched + f->cached, missing = f->absent + f->too_large + f->unasked;
    const struct {
        uint32_t count;
        const char *text;
    } parts[] = {{f->absent, "not on any server"}, {f->too_large, "too large"}, {f->unasked, "not requested"}};
    const char *before = ": ";
    if (!there && !missing)
        return;
    fprintf(stderr, "; %u debug files from debuginfod", there);
    if (f->cached)
        fprintf(stderr, " (%u cached)", f->cached);
    if (missing)
        fprintf(stderr, ", %u missing", missing);
    for (size_t i = 0; i < array_size(parts); i++) {
        if (!parts[i].count)
            continue;
        fprintf(stderr, "%s%u %s", before, parts[i].count, parts[i].text);
        before = ", ";
    }
}

static void report_lines(const struct source_lines_stats *stats)
{
    const char *before = ": ";
    if (stats->frames == stats->with_line)
        return;
    fprintf(stderr, "; %u of %u native frames without lines", stats->frames - stats->with_line, stats->frames);
    for (int i = 0; i < SOURCE_LINE_REASON_COUNT; i++) {
        if (!stats->without[i])
            continue;
        fprintf(stderr, "%s%u %s", before, stats->without[i], source_line_reason_text((enum source_line_reason)i));
        before = ", ";
    }
}

void record_lines_report(const struct record_lines_stats *stats)
{
    report_servers(&stats->servers);
    report_lines(&stats->lines);
}
