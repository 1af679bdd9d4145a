/* See memory_text.h. */
#include "cli/memory/memory_text.h"

#include "base/table_cell.h"
#include "base/units.h"

#include <inttypes.h>

#define COMMAND_WIDTH 15
#define BYTES_WIDTH   10

static size_t at_most(size_t count, size_t rows)
{
    return count < rows ? count : rows;
}

/* ---- tables ---- */

static void put_size(uint64_t bytes, struct buf *out)
{
    char text[32];
    const bool is_known = bytes && bytes != MEMORY_UNKNOWN;
    buf_printf(out, "%*s  ", BYTES_WIDTH, is_known ? units_format_size(bytes, text, sizeof(text)) : "-");
}

static void put_growth(int64_t bytes, struct buf *out)
{
    char size[32], text[40];
    const uint64_t magnitude = (uint64_t)(bytes < 0 ? -bytes : bytes);
    snprintf(text, sizeof(text), "%c%s", bytes < 0 ? '-' : '+', units_format_size(magnitude, size, sizeof(size)));
    buf_printf(out, "%*s  ", BYTES_WIDTH + 1, bytes ? text : "-");
}

static void put_cgroups(const struct memory_report *r, size_t rows, struct buf *out)
{
    buf_printf(out, "%*s  %*s  %*s  %s\n", BYTES_WIDTH, "ANONYMOUS", BYTES_WIDTH, "PAGE CACHE", BYTES_WIDTH, "SHARED",
               "CGROUP");
    for (size_t i = 0; i < at_most(r->cgroup_count, rows); i++) {
        const struct cgroup_memory_held *h = &r->cgroups[i].held;
        put_size(h->anonymous, out);
        put_size(h->cache - (h->shared < h->cache ? h->shared : h->cache), out);
        put_size(h->shared, out);
        table_cell_put(out, r->cgroups[i].path, 0);
        buf_putc(out, '\n');
    }
}

static void put_processes(const struct memory_report *r, size_t rows, struct buf *out)
{
    char interval[32];
    buf_printf(out, "\n%*s  %*s  %*s  %*s  %7s  %-*s  %s\n", BYTES_WIDTH, "ANONYMOUS", BYTES_WIDTH, "SHARED",
               BYTES_WIDTH, "SWAPPED", BYTES_WIDTH + 1, "GROWTH", "PID", COMMAND_WIDTH, "COMMAND", "CGROUP");
    for (size_t i = 0; i < at_most(r->process_count, rows); i++) {
        const struct memory_process *p = &r->processes[i];
        put_size(p->anonymous, out);
        put_size(p->shared, out);
        put_size(p->swapped, out);
        put_growth(p->growth, out);
        buf_printf(out, "%7" PRIu32 "  ", p->pid);
        table_cell_put(out, p->command, COMMAND_WIDTH);
        buf_puts(out, "  ");
        table_cell_put(out, p->cgroup ? p->cgroup : "", 0);
        buf_putc(out, '\n');
    }
    buf_printf(out, "GROWTH: in %s\n", units_format_duration(r->interval_ns, interval, sizeof(interval)));
}

static void put_files(const struct memory_report *r, size_t rows, struct buf *out)
{
    buf_printf(out, "\n%*s  %*s  %*s  %7s  %-*s  %s\n", BYTES_WIDTH, "PAGE CACHE", BYTES_WIDTH, "DIRTY", BYTES_WIDTH,
               "FILE SIZE", "PID", COMMAND_WIDTH, "COMMAND", "FILE");
    for (size_t i = 0; i < at_most(r->file_count, rows) && r->files[i].cached; i++) {
        const struct memory_file *f = &r->files[i];
        const struct memory_process *p = memory_report_process(r, f->pid);
        put_size(f->cached, out);
        put_size(f->dirty, out);
        put_size(f->size, out);
        if (f->pid)
            buf_printf(out, "%7" PRIu32 "  ", f->pid);
        else
            buf_printf(out, "%7s  ", "-");
        table_cell_put(out, p ? p->command : "-", COMMAND_WIDTH);
        buf_puts(out, "  ");
        table_cell_put(out, f->path, 0);
        if (f->processes > 1)
            buf_printf(out, " (and %" PRIu32 " other process%s)", f->processes - 1, f->processes > 2 ? "es" : "");
        buf_putc(out, '\n');
    }
}

void memory_text_put(const struct memory_report *r, size_t rows, struct buf *out)
{
    char found[32], whole[32];
    put_cgroups(r, rows, out);
    put_processes(r, rows, out);
    put_files(r, rows, out);
    buf_printf(out, "%zu files were found, with %s of the page cache, which with shared memory has %s", r->file_count,
               units_format_size(memory_report_cached(r), found, sizeof(found)),
               units_format_size(r->page_cache, whole, sizeof(whole)));
    if (r->unmeasured_files)
        buf_printf(out, "; %zu files could not be measured", r->unmeasured_files);
    buf_puts(out, ".\n");
}

/* ---- JSON ---- */

static void put_member(const char *key, const char *text, struct buf *out)
{
    buf_printf(out, ",\"%s\":", key);
    if (text)
        buf_put_json_string(out, text);
    else
        buf_puts(out, "null");
}

static void put_json_processes(const struct memory_report *r, size_t rows, struct buf *out)
{
    for (size_t i = 0; i < at_most(r->process_count, rows); i++) {
        const struct memory_process *p = &r->processes[i];
        buf_printf(out,
                   "%s{\"pid\":%" PRIu32 ",\"anonymous_bytes\":%" PRIu64 ",\"shared_bytes\":%" PRIu64
                   ",\"swapped_bytes\":%" PRIu64 ",\"growth_bytes\":%" PRId64,
                   i ? "," : "", p->pid, p->anonymous, p->shared, p->swapped, p->growth);
        put_member("command", p->command, out);
        put_member("cgroup", p->cgroup, out);
        buf_putc(out, '}');
    }
}

static void put_json_files(const struct memory_report *r, size_t rows, struct buf *out)
{
    for (size_t i = 0; i < at_most(r->file_count, rows) && r->files[i].cached; i++) {
        const struct memory_file *f = &r->files[i];
        const struct memory_process *p = memory_report_process(r, f->pid);
        buf_printf(out, "%s{\"cached_bytes\":%" PRIu64 ",\"size_bytes\":%" PRIu64 ",\"processes\":%" PRIu32,
                   i ? "," : "", f->cached, f->size, f->processes);
        if (f->dirty != MEMORY_UNKNOWN)
            buf_printf(out, ",\"dirty_bytes\":%" PRIu64, f->dirty);
        if (f->pid)
            buf_printf(out, ",\"pid\":%" PRIu32, f->pid);
        if (p)
            put_member("command", p->command, out);
        if (p && p->cgroup)
            put_member("cgroup", p->cgroup, out);
        put_member("path", f->path, out);
        buf_putc(out, '}');
    }
}

void memory_text_put_json(const struct memory_report *r, size_t rows, struct buf *out)
{
    buf_printf(out, "{\"interval_ns\":%" PRIu64 ",\"page_cache_bytes\":%" PRIu64 ",\"cgroups\":[", r->interval_ns,
               r->page_cache);
    for (size_t i = 0; i < at_most(r->cgroup_count, rows); i++) {
        const struct memory_cgroup *c = &r->cgroups[i];
        buf_printf(out, "%s{\"anonymous_bytes\":%" PRIu64 ",\"cache_bytes\":%" PRIu64 ",\"shared_bytes\":%" PRIu64,
                   i ? "," : "", c->held.anonymous, c->held.cache, c->held.shared);
        put_member("cgroup", c->path, out);
        buf_putc(out, '}');
    }
    buf_puts(out, "],\"processes\":[");
    put_json_processes(r, rows, out);
    buf_puts(out, "],\"files\":[");
    put_json_files(r, rows, out);
    buf_printf(out, "],\"files_found\":%zu,\"files_not_measured\":%zu,\"method\":\"%s\"}\n", r->file_count,
               r->unmeasured_files, r->is_by_mincore ? "mincore" : "cachestat");
}
