/* Source lines for `sonde record`; see record_lines.h. */
#include "cli/record_lines.h"

#include "base/log.h"
#include "base/units.h"
#include "resolve/elf/debug_files.h"
#include "resolve/lines/line_helper.h"
#include "resolve/symbols/debuginfod_cache.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/eventfd.h>

/* Handlers have nothing else to go by; signals may come to any thread, so that blocking them here would not do. */
static int stop_fd = -1;

static void stop(int number)
{
    const uint64_t one = 1;
    (void)number;
    (void)!write(stop_fd, &one, sizeof(one));
}

static void let_pass(int number)
{
    (void)number;
}

struct progress {
    bool shown;
    uint32_t done, files;
};

static void show(void *context, uint32_t done, uint32_t files)
{
    struct progress *p = context;
    p->done = done;
    p->files = files;
    if (p->shown)
        fprintf(stderr, "\r\033[Klooking for source lines: %u of %u files  (Ctrl-C ends that and keeps what there is)",
                done, files);
}

static void show_transfer(void *context, const char *url, uint64_t bytes)
{
    const struct progress *p = context;
    char size[32];
    if (p->shown)
        fprintf(
            stderr,
            "\r\033[Klooking for source lines: %u of %u files, %s from %s  (Ctrl-C ends that and keeps what there is)",
            p->done, p->files, units_format_size(bytes, size, sizeof(size)), url);
}

int record_lines_check(void)
{
    int r = line_helper_check();
    if (r == -ENOPKG)
        log_error("record: --lines needs %s: install the package libdw1 (elfutils-libs where packages are RPMs)",
                  DWARF_LIBRARY_NAME);
    else if (r < 0)
        log_errno(r, "record: --lines: nothing can be started to read debug information");
    return r;
}

/* ---- debuginfod ---- */

static int fetch(void *context, const char *build_id)
{
    return debuginfod_find(context, build_id);
}

/* NULL: none is configured, or it cannot be asked, which is said. */
static struct debuginfod *open_servers(int stop, struct progress *progress)
{
    struct debuginfod_options options;
    struct debuginfod *servers;
    char path[DEBUGINFOD_CACHE_PATH_BYTES];
    if (debuginfod_options_from_environment(&options) < 0)
        return NULL;
    options.cache_path = path;
    options.stop_fd = stop;
    options.progress = show_transfer;
    options.context = progress;
    int r = debuginfod_cache_path(path);
    if (r < 0) {
        log_warning(
            "record: no debuginfod server is asked: neither HOME nor DEBUGINFOD_CACHE_PATH tells where its files are to be kept");
        return NULL;
    }
    r = debuginfod_new(&options, &servers);
    if (r == -EPERM)
        log_warning(
            "record: no debuginfod server is asked: the folder for its files, %s, is another user's, or anybody may write to it",
            path);
    else if (r == -ENOPKG)
        log_warning("record: no debuginfod server is asked: that needs libcurl.so.4 (the package libcurl4)");
    else if (r < 0)
        log_errno(r, "record: no debuginfod server is asked: the folder for its files, %s", path);
    return r < 0 ? NULL : servers;
}

static void tell_failures(const struct debuginfod *servers)
{
    const char *why, *url;
    for (size_t i = 0; (url = debuginfod_failure(servers, i, &why)) != NULL; i++)
        log_warning("record: the debuginfod server %s failed and was not asked any more: %s", url, why);
}

/* ---- all ---- */

static int find(const struct profile *p, const struct line_objects *objects, const struct source_lines_options *options,
                struct source_lines **ret)
{
    const struct sigaction stopping = {.sa_handler = stop, .sa_flags = SA_RESTART};
    /* Who is a moment late meant the looking, too: that must not cost the profile. The next one ends us, as it ends any
     * program. */
    const struct sigaction late = {.sa_handler = let_pass, .sa_flags = SA_RESTART | SA_RESETHAND};
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
    _cleanup_(debuginfod_freep) struct debuginfod *servers = fd < 0 ? NULL : open_servers(fd, &progress);
    const struct debug_fetcher fetcher = {.fetch = fetch, .context = servers};
    const struct source_lines_options options = {.inlines = inlines,
                                                 .fetcher = servers ? &fetcher : NULL,
                                                 .stop_fd = fd,
                                                 .progress = show,
                                                 .context = &progress};
    struct profile *with;
    int r = fd < 0 ? -errno : find(*profile, objects, &options, &lines);
    if (r == 0)
        r = profile_with_lines(*profile, source_lines_rows(lines), max_bytes, &with);
    if (show_progress)
        fprintf(stderr, "\r\033[K");
    if (servers) {
        tell_failures(servers);
        debuginfod_stats(servers, &ret->servers);
    }
    if (r < 0) {
        log_errno(r, "record: the profile is without source lines");
        return;
    }
    source_lines_stats(lines, &ret->lines);
    profile_free(*profile);
    *profile = with;
}

static void report_servers(const struct debuginfod_stats *f)
{
    const uint32_t there = f->fetched + f->cached, missing = f->absent + f->too_large + f->unasked;
    const struct {
        uint32_t count;
        const char *text;
    } parts[] = {{f->absent, "no server has"}, {f->too_large, "are too large"}, {f->unasked, "could not be asked for"}};
    const char *before = ": ";
    if (!there && !missing)
        return;
    fprintf(stderr, "; %u debug files by debuginfod", there);
    if (f->cached)
        fprintf(stderr, " (%u of its cache)", f->cached);
    if (missing)
        fprintf(stderr, ", %u not", missing);
    for (size_t i = 0; i < array_size(parts); i++) {
        if (!parts[i].count)
            continue;
        fprintf(stderr, "%s%u %s", before, parts[i].count, parts[i].text);
        before = ", ";
    }
}

static void report_lines(const struct source_lines_stats *figures)
{
    const char *before = ": ";
    if (figures->frames == figures->with_line)
        return;
    fprintf(stderr, "; %u of %u native frames without lines", figures->frames - figures->with_line, figures->frames);
    for (int i = 0; i < SOURCE_LINE_REASON_COUNT; i++) {
        if (!figures->without[i])
            continue;
        fprintf(stderr, "%s%u %s", before, figures->without[i], source_line_reason_text((enum source_line_reason)i));
        before = ", ";
    }
}

void record_lines_report(const struct record_lines_stats *figures)
{
    report_servers(&figures->servers);
    report_lines(&figures->lines);
}
