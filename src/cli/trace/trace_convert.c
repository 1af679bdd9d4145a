/* `sonde trace convert`: converts Triton's trace files to OTLP or Chrome's format in one pass, trace by trace, and OTLP
 * spans back to Triton's JSON. The latter reads all input first, as the spans of a request may be anywhere in it. The
 * output file is replaced atomically. */
#include "base/clock.h"
#include "base/file_part.h"
#include "base/log.h"
#include "base/units.h"
#include "cli/trace/trace.h"
#include "cli/trace/trace_input.h"
#include "import/packed_file.h"
#include "trace/aggregate/trace_table.h"
#include "trace/export/trace_format.h"
#include "trace/export/triton_json.h"
#include "trace/import/otlp_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#define NAMES_BYTES ((size_t)16 << 20)
#define FLUSH_BYTES ((size_t)256 << 10)

struct conversion {
    const struct trace_format *format; /* NULL: Triton's own */
    struct strings *names;
    struct trace_table *table; /* of the current input file; borrowed */
    struct trace_spans_options options;
    struct buf out;
    int fd;
    bool any;     /* something was written */
    bool is_read; /* at least one file was read */
    bool has_salt;
    uint64_t empty; /* traces that produced no output */
    uint64_t tensors;
    uint64_t late;
};

static int flush_output(struct conversion *c, bool always)
{
    if (buf_error(&c->out) || (!always && c->out.size < FLUSH_BYTES))
        return buf_error(&c->out);
    int r = file_part_write_all(c->fd, c->out.data, c->out.size);
    c->out.size = 0;
    return r;
}

static int take_complete(struct conversion *c, bool drain)
{
    const struct triton_trace *trace;
    int r = 0;
    while (r == 0 && (trace = trace_table_take(c->table, drain))) {
        size_t before = c->out.size;
        r = c->format->put(&c->out, trace, &c->options, !c->any);
        c->any |= c->out.size > before;
        c->empty += c->out.size == before;
        if (r == 0)
            r = flush_output(c, false);
    }
    return r;
}

/* A restarted server reuses trace IDs. The first timestamp of the file, used as salt, keeps span IDs distinct. */
static void choose_salt(struct conversion *c, const struct triton_record *record)
{
    if (!c->has_salt && record->stamp_count) {
        c->options.salt = record->stamps[0].ns;
        c->has_salt = true;
    }
}

static int take_record(void *context, const struct triton_record *record)
{
    struct conversion *c = context;
    choose_salt(c, record);
    c->tensors += record->activity.at != NULL;
    int r = trace_table_add(c->table, record);
    return r < 0 ? r : take_complete(c, false);
}

/* 0; 1: part of the file could not be read (logged); -errno: conversion or output failed. */
static int convert_file(struct conversion *c, const char *path)
{
    _cleanup_(trace_table_freep) struct trace_table *table = NULL;
    int r = trace_table_new(c->names, 0, false, &table);
    if (r < 0)
        return r;
    c->table = table;
    c->has_salt = false;
    int read = trace_input_read(path, c, take_record);
    r = take_complete(c, true);
    c->late += trace_table_losses(table)->late;
    c->is_read |= read >= 0;
    return r < 0 ? r : read != 0;
}

static int convert_traces(struct conversion *c, char **files, int count)
{
    int bad = 0, r = strings_new(&c->names);
    if (r < 0)
        return r;
    strings_set_max_bytes(c->names, NAMES_BYTES);
    c->options.names = c->names;
    c->format->begin(&c->out);
    for (int i = 0; i < count; i++) {
        _cleanup_(trace_input_clear) struct trace_input input = {0};
        bad |= trace_input_find(files[i], &input) < 0;
        for (size_t n = 0; n < input.files.count; n++) {
            r = convert_file(c, input.files.paths[n]);
            if (r < 0)
                return log_errno(r, "trace: %s cannot be converted", input.files.paths[n]);
            bad |= r;
        }
    }
    if (!c->is_read)
        return -ENODATA; /* already logged; an existing output file is kept */
    c->format->end(&c->out);
    if (c->empty)
        log_warning("trace: %llu traces have no interval with a start and an end: not in the output",
                    (unsigned long long)c->empty);
    if (c->tensors)
        log_warning("trace: %llu tensors are not in the output: the format cannot hold them",
                    (unsigned long long)c->tensors);
    if (c->late)
        log_warning("trace: %llu objects are too far from the others of their ID in the file: not in the output",
                    (unsigned long long)c->late);
    r = flush_output(c, true);
    return r < 0 ? log_errno(r, "trace: cannot write the output") : bad;
}

/* ---- OTLP to Triton ---- */

static int read_whole(const char *path, struct buf *ret)
{
    _cleanup_(packed_file_freep) struct packed_file *file = NULL;
    _cleanup_free_ char *piece = malloc(FLUSH_BYTES);
    struct trace_progress progress = trace_progress_begin();
    ssize_t n;
    int r = piece ? packed_file_open(path, &file) : -ENOMEM;
    if (r < 0)
        return r;
    while ((n = packed_file_read(file, piece, FLUSH_BYTES)) > 0 && buf_append(ret, piece, (size_t)n) == 0)
        trace_progress_update(&progress, path, packed_file_position(file), packed_file_size(file));
    trace_progress_end(&progress);
    return n > 0 ? buf_error(ret) : (int)n;
}

/* 0; 1: part of the file could not be read (logged); -ENOMEM. */
static int read_otlp(const char *path, struct otlp_spans *spans)
{
    _cleanup_buf_ struct buf data = {.max_bytes = OTLP_FILE_MAX_BYTES};
    size_t offset = 0, before = spans->count;
    int read = read_whole(path, &data);
    if (read < 0)
        log_errno(read, "trace: %s cannot be read to its end", path);
    int r = read < 0 && data.size == 0 ? 0 : otlp_file_read(data.data, data.size, spans, &offset);
    if (r == -EBADMSG && spans->count == before && data.size > 1 && memcmp(data.data, "[{", 2) == 0)
        log_error(
            "trace: %s is a JSON array, as in Triton's trace files: --format triton reads OTLP and writes such files",
            path);
    else if (r == -EBADMSG)
        log_error("trace: %s: neither OTLP JSON nor protobuf from byte %zu on; %zu spans before it were read", path,
                  offset, spans->count - before);
    if (r == 0 && read == 0 && data.size && spans->count == before)
        log_warning("trace: %s has no OTLP spans: \"resourceSpans\" is missing or empty", path);
    return r == -ENOMEM ? r : r < 0 || read < 0;
}

static int convert_spans(struct conversion *c, char **files, int count)
{
    _cleanup_(otlp_spans_clear) struct otlp_spans spans = {0};
    struct triton_json_losses losses = {0};
    int bad = 0, r = otlp_spans_init(&spans);
    for (int i = 0; i < count && r == 0; i++) {
        int read = read_otlp(files[i], &spans);
        bad |= read > 0;
        r = read < 0 ? read : 0;
    }
    if (r < 0)
        return log_errno(r, "trace: cannot store the spans");
    if (bad && spans.count == 0)
        return -ENODATA; /* already logged */
    r = triton_json_write(&c->out, &spans, c->options.zero_ns, &losses);
    if (losses.spans)
        log_warning("trace: %llu spans have no ancestor with triton.trace_id: not in the output",
                    (unsigned long long)losses.spans);
    if (losses.events)
        log_warning("trace: %llu events were dropped by the exporter of the spans: not in the output",
                    (unsigned long long)losses.events);
    if (losses.too_early)
        log_warning("trace: %llu times are before --zero and are written as 0", (unsigned long long)losses.too_early);
    if (strings_dropped(spans.texts))
        log_warning("trace: %llu names were dropped: table full", (unsigned long long)strings_dropped(spans.texts));
    if (r == 0)
        r = flush_output(c, true);
    return r < 0 ? log_errno(r, "trace: cannot write the output") : bad;
}

/* ---- output ---- */

static int convert_all(struct conversion *c, char **files, int count)
{
    return c->format ? convert_traces(c, files, count) : convert_spans(c, files, count);
}

/* Replaces a regular file atomically; writes directly to a pipe or a device. */
static int convert_into(struct conversion *c, const char *output, char **files, int count)
{
    struct stat st;
    if (strcmp(output, "-") == 0) {
        c->fd = STDOUT_FILENO;
        return convert_all(c, files, count);
    }
    if (stat(output, &st) == 0 && !S_ISREG(st.st_mode)) {
        _cleanup_close_ int fd = open(output, O_WRONLY | O_CLOEXEC | O_NOCTTY);
        if (fd < 0)
            return log_errno(-errno, "trace: %s cannot be written", output);
        c->fd = fd;
        return convert_all(c, files, count);
    }
    _cleanup_(file_part_discard) struct file_part part = FILE_PART_NONE;
    int r = file_part_create(output, &part);
    if (r < 0)
        return log_errno(r, "trace: %s cannot be written", output);
    c->fd = part.fd;
    int converted = convert_all(c, files, count);
    if (converted < 0)
        return converted;
    r = file_part_commit(&part, output);
    return r < 0 ? log_errno(r, "trace: %s cannot be written", output) : converted;
}

static int run_trace_convert(int argc, char **argv)
{
    const char *format = NULL, *output = "-";
    int64_t zero_ns = -1;
    const struct option_spec specs[] = {
        {'f', "format", OPTION_TEXT, &format, "NAME",
         "otlp-json, otlp (protobuf) or chrome; or triton, from OTLP input", 0, 0},
        {'o', "output", OPTION_TEXT, &output, "FILE", "output file (default -, standard output)", 0, 0},
        {0, "zero", OPTION_INTEGER, &zero_ns, "NS",
         "Unix time in nanoseconds of time 0 in Triton's file (default: boot time of this machine; for --format triton: 0)",
         0, INT64_MAX},
        {0},
    };
    int files, r = options_parse(&trace_subcommand_convert, specs, argc, argv, &files);
    if (r != 0)
        return r < 0 ? r : 0;
    struct conversion c = {.format = format ? trace_format_by_name(format) : NULL};
    bool to_triton = format && strcmp(format, "triton") == 0;
    if (!format || files == 0) {
        log_error("trace: convert needs --format NAME and a FILE (sonde trace convert --help)");
        return -EINVAL;
    }
    if (!c.format && !to_triton) {
        log_error("trace: --format: '%s' is not one of otlp-json, otlp, chrome, triton", format);
        return -EINVAL;
    }
    c.options.zero_ns = zero_ns >= 0 ? (uint64_t)zero_ns : to_triton ? 0 : clock_unix_from_monotonic(0);
    r = convert_into(&c, output, argv + 1, files);
    buf_clear(&c.out);
    strings_free(c.names);
    return r != 0;
}

const struct subcommand trace_subcommand_convert = {
    .name = "trace convert",
    .synopsis = "--format NAME [-o FILE] [--zero NS] FILE...",
    .summary = "Convert trace files into OpenTelemetry's or Chrome's format, and back",
    .details =
        "FILE is as for `sonde trace summary`; with --format triton, it is OTLP in JSON or protobuf. Triton's timestamps count from\n"
        "boot: for a file of another machine or of an earlier boot, give that boot time with --zero.",
    .flags_anywhere = true,
    .run = run_trace_convert,
};
