/* Resolves and reads the FILE argument of `sonde trace`, with a progress line; see trace_input.h. */
#include "cli/trace/trace_input.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/units.h"
#include "trace/import/triton_file.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#define PROGRESS_RECORDS 4096 /* records between progress updates */
#define PROGRESS_NS      200000000

/* ---- progress ---- */

struct trace_progress trace_progress_begin(void)
{
    return (struct trace_progress){.is_terminal = isatty(STDERR_FILENO), .next_ns = clock_monotonic_ns() + PROGRESS_NS};
}

void trace_progress_update(struct trace_progress *p, const char *path, uint64_t position, uint64_t size)
{
    char read[32], whole[32];
    const uint64_t now = p->is_terminal ? clock_monotonic_ns() : 0;
    if (!p->is_terminal || now < p->next_ns)
        return;
    p->shown = true;
    p->next_ns = now + PROGRESS_NS;
    units_format_size(position, read, sizeof(read));
    if (size)
        fprintf(stderr, "\r\033[Kreading %s: %s of %s", path, read, units_format_size(size, whole, sizeof(whole)));
    else
        fprintf(stderr, "\r\033[Kreading %s: %s", path, read);
    fflush(stderr);
}

void trace_progress_end(struct trace_progress *p)
{
    if (p->shown)
        fprintf(stderr, "\r\033[K");
    p->shown = false;
}

/* ---- FILE ---- */

void trace_input_clear(struct trace_input *input)
{
    triton_files_clear(&input->files);
}

int trace_input_find(const char *argument, struct trace_input *ret)
{
    struct trace_input input = {.argument = argument};
    const int r = triton_files_find(argument, &input.files);
    if (r == -ENOENT)
        log_error("trace: neither %s nor %s.0 exists", argument, argument);
    else if (r < 0)
        log_errno(r, "trace: %s cannot be read", argument);
    if (r == 0)
        *ret = input;
    return r;
}

/* Logs the skipped content. Returns 1 when objects were malformed or the file could not be read to its end. */
static int log_report(const char *path, const struct triton_report *r)
{
    if (r->bad)
        log_error("trace: %s: skipped %llu malformed bytes at %llu places, the first at byte %llu: %s", path,
                  (unsigned long long)r->bad_bytes, (unsigned long long)r->bad, (unsigned long long)r->first_bad,
                  r->first_reason);
    if (r->odd)
        log_warning(
            "trace: %s: %llu objects have bytes in strings that JSON does not allow, the first object at byte %llu; they are kept",
            path, (unsigned long long)r->odd, (unsigned long long)r->first_odd);
    if (r->error == -EBADMSG)
        log_error("trace: %s: the compressed data is damaged after %llu decompressed bytes", path,
                  (unsigned long long)r->bytes);
    else if (r->error < 0 && r->error != -ENODATA)
        log_errno(r->error, "trace: %s cannot be read past byte %llu", path, (unsigned long long)r->bytes);
    if (r->is_cut)
        log_warning("trace: %s is truncated: read up to byte %llu of %llu", path, (unsigned long long)r->cut,
                    (unsigned long long)r->bytes);
    return r->bad || (r->error < 0 && r->error != -ENODATA);
}

int trace_input_read(const char *path, void *context, int (*take)(void *context, const struct triton_record *record))
{
    _cleanup_(triton_file_freep) struct triton_file *file = NULL;
    struct triton_record record;
    struct trace_progress progress = trace_progress_begin();
    int r = triton_file_open(path, &file);
    if (r < 0)
        return log_errno(r, "trace: %s cannot be read", path);
    unsigned records = 0;
    while ((r = triton_file_next(file, &record)) > 0) {
        r = take(context, &record);
        if (r != 0)
            break;
        if (++records % PROGRESS_RECORDS == 0)
            trace_progress_update(&progress, path, triton_file_position(file), triton_file_size(file));
    }
    trace_progress_end(&progress);
    if (r > 0) /* the callback stopped early: the rest of the file is not validated */
        return 0;
    if (r == -EILSEQ)
        log_error(
            "trace: %s is not a Triton trace file: it does not start with '[' (sonde trace convert --format triton converts OTLP spans to one)",
            path);
    else if (r < 0)
        log_errno(r, "trace: %s cannot be read", path);
    return r < 0 ? (r == -EINVAL ? -EIO : r) : log_report(path, triton_file_report(file));
}
