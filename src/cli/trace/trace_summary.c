/* `sonde trace summary`: summarises the requests of a trace file: time per model and step. Each record goes from the
 * file to the table of open traces; complete traces go to the sums, the data flow and, with -t, the sorted list. */
#include "trace/aggregate/trace_summary.h"

#include "base/log.h"
#include "base/standard_output.h"
#include "cli/trace/trace.h"
#include "cli/trace/trace_input.h"
#include "trace/aggregate/trace_flow.h"
#include "trace/aggregate/trace_order.h"
#include "trace/aggregate/trace_table.h"
#include "trace/export/trace_summary_json.h"
#include "trace/export/trace_summary_text.h"

#include <errno.h>
#include <string.h>

#define NAMES_BYTES ((size_t)16 << 20)
#define FLUSH_BYTES ((size_t)64 << 10)

struct summary_args {
    bool show_trace, json;
    int64_t slowest;
    struct trace_percentiles percentiles;
};

/* State for the files of one FILE argument. */
struct summary_state {
    struct strings *names;
    struct trace_table *table;            /* of the current file; borrowed */
    struct trace_flow_finder *flow;       /* of the current file; borrowed */
    struct trace_flow_finder *flow_shown; /* of the first file with a data flow; owned */
    struct trace_summary *summary;
    struct trace_order *order; /* NULL without -t */
    uint64_t file;
    struct trace_table_losses losses;
};

static void summary_state_clear(struct summary_state *s)
{
    trace_flow_finder_free(s->flow_shown);
    trace_summary_free(s->summary);
    trace_order_free(s->order);
    strings_free(s->names);
}

static int summary_state_new(const struct summary_args *args, struct summary_state *s)
{
    int r = strings_new(&s->names);
    if (r < 0)
        return r;
    strings_set_max_bytes(s->names, NAMES_BYTES);
    struct trace_summary_options options = {
        .names = s->names, .percentiles = args->percentiles.count > 0, .slowest = (size_t)args->slowest};
    r = trace_summary_new(&options, &s->summary);
    if (r == 0 && args->show_trace) {
        r = trace_order_new(&s->order);
        if (r < 0)
            log_errno(
                r, "trace: -t needs a temporary file for sorting, which cannot be created (TMPDIR sets the directory)");
    }
    return r;
}

/* ---- reading ---- */

static int take_trace(struct summary_state *s, const struct triton_trace *trace)
{
    int counts = trace_summary_add(s->summary, trace);
    if (counts < 0)
        return counts;
    int r = trace_flow_take(s->flow, s->table, trace);
    if (r == 0 && counts && s->order)
        r = trace_order_add(s->order, s->file, trace);
    return r;
}

static int take_complete(struct summary_state *s, bool drain)
{
    const struct triton_trace *trace;
    int r = 0;
    while (r == 0 && (trace = trace_table_take(s->table, drain)))
        r = take_trace(s, trace);
    return r;
}

static int take_record(void *context, const struct triton_record *record)
{
    struct summary_state *s = context;
    trace_flow_see(s->flow, record);
    int r = trace_table_add(s->table, record);
    return r < 0 ? r : take_complete(s, false);
}

static void add_losses(struct summary_state *s)
{
    const struct trace_table_losses *losses = trace_table_losses(s->table);
    s->losses.late += losses->late;
    s->losses.orphans += losses->orphans;
    s->losses.moments += losses->moments;
}

/* 0; 1: part of the file could not be read (`*ret_read` is set when some of it was); -errno: processing failed. */
static int read_file(struct summary_state *s, const char *path, bool *ret_read)
{
    _cleanup_(trace_table_freep) struct trace_table *table = NULL;
    _cleanup_(trace_flow_finder_freep) struct trace_flow_finder *flow = NULL;
    uint64_t dropped;
    int r = trace_table_new(s->names, 0, true, &table);
    if (r == 0)
        r = trace_flow_finder_new(s->names, &flow);
    if (r < 0)
        return r;
    s->table = table;
    s->flow = flow;
    int read = trace_input_read(path, s, take_record);
    r = take_complete(s, true); /* on a read error too, the records read count */
    add_losses(s);
    if (!s->flow_shown && trace_flow_finish(flow, &dropped).root)
        s->flow_shown = take_ptr(flow);
    trace_summary_next_file(s->summary);
    s->file++;
    if (r < 0 || read == -ENOMEM)
        return r < 0 ? r : read;
    *ret_read |= read >= 0;
    return read != 0;
}

/* ---- output ---- */

static int put_traces(const struct summary_state *s, uint8_t frontend, struct buf *out)
{
    struct triton_trace trace;
    int r = s->order ? trace_order_rewind(s->order) : 0;
    while (s->order && r == 0 && (r = trace_order_next(s->order, &trace)) > 0) {
        r = trace.frontends & frontend ? trace_summary_text_put_trace(out, &trace, s->names) : 0;
        if (r == 0 && out->size >= FLUSH_BYTES)
            r = standard_output_flush(out);
    }
    return r;
}

static int put_text(const struct summary_state *s, const struct trace_sums *sums, const char *file,
                    const struct summary_args *args)
{
    _cleanup_buf_ struct buf out = {0};
    buf_printf(&out, "File: %s\n", file);
    int r = put_traces(s, TRITON_HTTP, &out);
    if (r == 0)
        r = trace_summary_text_put_frontend(&out, sums, TRACE_HTTP, &args->percentiles);
    if (r == 0)
        r = put_traces(s, TRITON_GRPC, &out);
    if (r == 0)
        r = trace_summary_text_put_frontend(&out, sums, TRACE_GRPC, &args->percentiles);
    if (r == 0)
        r = trace_summary_text_put_flow(&out, &sums->flow);
    if (r == 0)
        r = trace_summary_text_put_slowest(&out, sums);
    return r < 0 ? r : standard_output_flush(&out);
}

static void warn_count(const char *file, uint64_t count, const char *what)
{
    if (count)
        log_warning("trace: %s: %llu %s", file, (unsigned long long)count, what);
}

static void warn_losses(const char *file, const struct summary_state *s, const struct trace_summary_losses *sums)
{
    warn_count(file, sums->no_frontend, "traces arrived neither through HTTP nor through gRPC: not in the summary");
    warn_count(file, sums->unfinished, "traces have no REQUEST_START or no REQUEST_END: not in the summary");
    warn_count(file, sums->unnamed, "traces do not name their model: not in the summary");
    warn_count(file, sums->backwards, "times end before they begin: not in their averages");
    warn_count(file, sums->models, "traces are of models beyond the first 1024: not in the summary");
    warn_count(file, sums->flow_nodes, "nodes of the data flow were dropped: table full");
    warn_count(file, s->losses.late, "objects are too far from the others of their ID in the file: not in the summary");
    warn_count(
        file, s->losses.orphans,
        "traces are too far from their parent in the file: not in the summary, unless they arrived through HTTP or gRPC themselves");
    warn_count(file, s->losses.moments, "timestamps beyond the first 65536 of their ID were dropped");
    warn_count(file, strings_dropped(s->names), "names were dropped: table full");
}

/* 0; 1: part of the input could not be read; -errno. */
static int summarise(const struct trace_input *input, const struct summary_args *args, struct buf *json)
{
    _cleanup_(summary_state_clear) struct summary_state s = {0};
    bool any = false;
    int bad = 0, r = summary_state_new(args, &s);
    for (size_t i = 0; r >= 0 && i < input->files.count; i++) {
        r = read_file(&s, input->files.paths[i], &any);
        bad |= r > 0;
    }
    if (r < 0 || !any)
        return r < 0 ? r : 1;
    struct trace_sums *sums = trace_summary_finish(s.summary);
    if (s.flow_shown)
        sums->flow = trace_flow_finish(s.flow_shown, &sums->losses.flow_nodes);
    warn_losses(input->argument, &s, &sums->losses);
    if (args->json) {
        buf_puts(json, json->size > 1 ? ",\n" : "");
        r = trace_summary_json_write(json, input->argument, sums, &args->percentiles);
    } else {
        r = put_text(&s, sums, input->argument, args);
    }
    return r < 0 ? log_errno(r, "trace: cannot write the summary") : bad;
}

/* ---- the command line ---- */

static int parse_percentiles(const char *text, struct trace_percentiles *ret)
{
    for (const char *at = text; text;) {
        char *end;
        double value = *at >= '0' && *at <= '9' ? strtod(at, &end) : -1;
        if (value < 0 || !(value <= 100) || (*end && *end != ',') || ret->count == TRACE_PERCENTILES_MAX) {
            log_error("trace: --percentiles: '%s' is not a list of up to %d numbers from 0 to 100, such as 50,90,99.9",
                      text, TRACE_PERCENTILES_MAX);
            return -EINVAL;
        }
        ret->values[ret->count++] = value;
        if (!*end)
            break;
        at = end + 1;
    }
    return 0;
}

static int run_trace_summary(int argc, char **argv)
{
    struct summary_args args = {0};
    const char *percentiles = NULL;
    const struct option_spec specs[] = {
        {'t', "show-trace", OPTION_FLAG, &args.show_trace, NULL,
         "also print each trace with the intervals between its timestamps", 0, 0},
        {'p', "percentiles", OPTION_TEXT, &percentiles, "LIST",
         "also print these percentiles of every line, such as 50,90,99", 0, 0},
        {'n', "slowest", OPTION_INTEGER, &args.slowest, "N", "also list the N slowest requests, up to 1000", 1,
         TRACE_SLOWEST_MAX},
        {0, "json", OPTION_FLAG, &args.json, NULL, "as JSON", 0, 0},
        {0},
    };
    int files, r = options_parse(&trace_subcommand_summary, specs, argc, argv, &files);
    if (r != 0)
        return r < 0 ? r : 0;
    if (args.json && args.show_trace) {
        log_error("trace: -t cannot be combined with --json (its output is text)");
        return -EINVAL;
    }
    r = parse_percentiles(percentiles, &args.percentiles);
    if (r == 0 && files == 0) {
        log_error("trace: summary needs a FILE (sonde trace summary --help)");
        r = -EINVAL;
    }
    if (r < 0)
        return r;
    _cleanup_buf_ struct buf json = {0};
    int status = 0;
    buf_putc(&json, '[');
    for (int i = 1; i <= files; i++) {
        _cleanup_(trace_input_clear) struct trace_input input = {0};
        r = trace_input_find(argv[i], &input);
        if (r == 0)
            r = summarise(&input, &args, &json);
        status |= r != 0;
    }
    buf_puts(&json, "]\n");
    if (args.json && (r = standard_output_flush(&json)) < 0)
        return log_errno(r, "trace: cannot write the summary");
    return status;
}

const struct subcommand trace_subcommand_summary = {
    .name = "trace summary",
    .synopsis = "[-t | --json] [--percentiles LIST] [--slowest N] FILE...",
    .summary = "Summarise where the time of all requests went, as trace_summary.py does",
    .details =
        "FILE is a trace file in Triton's JSON, plain or compressed with gzip or zstd, or - for standard input. If FILE does not exist,\n"
        "the rotated set FILE.0, FILE.1, ... is read as one. A truncated file is read up to its end.",
    .flags_anywhere = true,
    .run = run_trace_summary,
};
