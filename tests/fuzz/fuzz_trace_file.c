/* An arbitrary trace file, from the reader to its summary, waterfalls and conversions: reading terminates, offsets are
 * within the file and increase, every object counts at most once, and the output is complete lines of valid UTF-8
 * without control characters. */
#include "trace/aggregate/trace_flow.h"
#include "trace/aggregate/trace_summary.h"
#include "base/buf.h"
#include "base/utf8.h"
#include "trace/export/trace_format.h"
#include "trace/export/trace_summary_json.h"
#include "trace/export/trace_summary_text.h"
#include "trace/export/trace_waterfall.h"
#include "trace/import/triton_file.h"

#include "memory_file.h"

#include <stdint.h>
#include <string.h>

static void check_text(const struct buf *out)
{
    for (size_t i = 0; i < out->size;) {
        size_t n = utf8_length(out->data + i);
        if (n == 0 || ((unsigned char)out->data[i] < 0x20 && out->data[i] != '\n' && out->data[i] != '\t'))
            abort();
        i += n;
    }
    if (out->size && out->data[out->size - 1] != '\n')
        abort();
}

struct pass {
    struct strings *names;
    struct trace_table *table;
    struct trace_summary *summary;
    struct trace_flow_finder *flow;
    struct buf out;
    struct trace_request request; /* the first one */
    uint64_t root, traces;
};

static void convert(struct pass *p, const struct triton_trace *trace)
{
    const struct trace_spans_options options = {.names = p->names, .salt = 1, .zero_ns = 1};
    for (const struct trace_format *const *f = trace_formats; *f; f++) {
        _cleanup_buf_ struct buf out = {0};
        if ((*f)->put(&out, trace, &options, true) < 0)
            abort();
    }
    if (p->traces == 0)
        p->root = trace->root_id;
    if (trace->root_id == p->root && trace_request_add(&p->request, trace) < 0)
        abort();
}

static void take(struct pass *p, bool drain)
{
    const struct triton_trace *trace;
    while ((trace = trace_table_take(p->table, drain))) {
        convert(p, trace);
        p->traces++;
        if (trace_flow_take(p->flow, p->table, trace) < 0 || trace_summary_add(p->summary, trace) < 0 ||
            trace_summary_text_put_trace(&p->out, trace, p->names) < 0)
            abort();
    }
}

static void write_out(struct pass *p)
{
    const struct trace_percentiles percentiles = {{50, 99}, 2};
    struct trace_sums *sums = trace_summary_finish(p->summary);
    _cleanup_buf_ struct buf json = {0};
    sums->flow = trace_flow_finish(p->flow, &sums->losses.flow_nodes);
    if (trace_summary_text_put_frontend(&p->out, sums, TRACE_HTTP, &percentiles) < 0 || trace_summary_text_put_frontend(&p->out, sums, TRACE_GRPC, &percentiles) < 0 ||
        trace_summary_text_put_slowest(&p->out, sums) < 0 || trace_summary_text_put_flow(&p->out, &sums->flow) < 0 ||
        trace_summary_json_write(&json, "file", sums, &percentiles) < 0 || trace_waterfall_write(&p->out, &p->request, p->names) < 0)
        abort();
    check_text(&p->out);
    for (int frontend = 0; frontend < TRACE_FRONTENDS; frontend++)
        for (size_t i = 0; i < sums->model_count[frontend]; i++)
            if (sums->models[frontend][i].traces > p->traces)
                abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[MEMORY_FILE_PATH_BYTES];
    int fd = memory_file(data, size, path);
    _cleanup_(triton_file_freep) struct triton_file *file = NULL;
    struct pass p = {0};
    if (triton_file_open(path, &file) < 0 || strings_new(&p.names) < 0 || trace_table_new(p.names, 3, true, &p.table) < 0 ||
        trace_flow_finder_new(p.names, &p.flow) < 0)
        abort();
    const struct trace_summary_options options = {.names = p.names, .percentiles = true, .slowest = 3};
    if (trace_summary_new(&options, &p.summary) < 0)
        abort();
    struct triton_record record;
    uint64_t next = 0, records = 0;
    for (int r; (r = triton_file_next(file, &record)) != 0; records++) {
        if (r < 0)
            break;
        if (record.offset < next)
            abort();
        next = record.offset + 1;
        trace_flow_see(p.flow, &record);
        if (trace_table_add(p.table, &record) < 0)
            abort();
        take(&p, false);
    }
    const struct triton_report *report = triton_file_report(file);
    if (report->records != records || next > report->bytes || report->cut > report->bytes || report->bad_bytes > report->bytes ||
        (report->bad && report->first_bad > report->bytes))
        abort();
    take(&p, true);
    write_out(&p);
    buf_clear(&p.out);
    trace_request_clear(&p.request);
    trace_summary_free(p.summary);
    trace_flow_finder_free(p.flow);
    trace_table_free(p.table);
    strings_free(p.names);
    close(fd);
    return 0;
}
