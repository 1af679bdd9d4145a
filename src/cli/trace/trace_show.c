/* `sonde trace show`: prints one request with all its spans as a text waterfall. */
#include "base/log.h"
#include "base/standard_output.h"
#include "base/units.h"
#include "cli/trace/trace.h"
#include "cli/trace/trace_input.h"
#include "trace/aggregate/trace_search.h"
#include "trace/export/trace_waterfall.h"

#include <errno.h>
#include <string.h>

static int take_record(void *context, const struct triton_record *record)
{
    return trace_search_add(context, record);
}

/* 1: found and printed; 0: not in this file; -errno. Sets `*ret_bad` when part of the file could not be read. */
static int show_file(const char *path, uint64_t id, bool *ret_bad)
{
    _cleanup_(trace_search_clear) struct trace_search s = {0};
    int r = trace_search_begin(&s, id);
    if (r < 0)
        return r;
    *ret_bad |= trace_input_read(path, &s, take_record) != 0;
    r = trace_search_end(&s);
    if (r < 0 || s.request.count == 0)
        return r;
    _cleanup_buf_ struct buf out = {0};
    r = trace_waterfall_write(&out, &s.request, s.names);
    if (r == 0)
        r = standard_output_flush(&out);
    if (s.request.dropped)
        log_warning("trace: %s: %llu traces of the request were dropped: table full", path,
                    (unsigned long long)s.request.dropped);
    return r < 0 ? log_errno(r, "trace: cannot write the request") : 1;
}

/* ---- by the client's request ID ---- */

struct trace_id {
    const char *text;
    bool is_number; /* a trace ID; otherwise the client's request ID */
    uint64_t id;
};

struct request_id_search {
    const char *text;
    size_t size;
    uint64_t id;
    bool is_found;
};

static int match_request_id(void *context, const struct triton_record *record)
{
    struct request_id_search *n = context;
    const struct triton_text *id = &record->request_id;
    if (!id->at || id->size != n->size || memcmp(id->at, n->text, n->size) != 0)
        return 0;
    n->id = record->id;
    n->is_found = true;
    return 1;
}

/* Shows the first request in the file with this client request ID. Returns as show_file does. */
static int show_by_request_id(const char *path, const char *text, bool *ret_bad)
{
    struct request_id_search n = {.text = text, .size = strlen(text)};
    int r = trace_input_read(path, &n, match_request_id);
    if (n.is_found)
        return show_file(path, n.id, ret_bad);
    *ret_bad |= r != 0;
    return 0;
}

static struct trace_id parse_id(const char *text)
{
    char *end;
    errno = 0;
    unsigned long long id = strtoull(text, &end, 10);
    const bool is_number = *text >= '0' && *text <= '9' && !*end && !errno;
    return (struct trace_id){.text = text, .is_number = is_number, .id = id};
}

static int run_trace_show(int argc, char **argv)
{
    const struct option_spec specs[] = {{0}};
    int operands, r = options_parse(&trace_subcommand_show, specs, argc, argv, &operands);
    if (r != 0)
        return r < 0 ? r : 0;
    if (operands < 2) {
        log_error("trace: show needs an ID and a FILE (sonde trace show --help)");
        return -EINVAL;
    }
    const struct trace_id wanted = parse_id(argv[1]);
    if (!wanted.is_number && access(wanted.text, F_OK) == 0) {
        log_error("trace: '%s' is a file: give the ID first (sonde trace summary --slowest 10 FILE lists some)",
                  wanted.text);
        return -EINVAL;
    }
    bool bad = false, found = false;
    for (int i = 2; i <= operands; i++) {
        _cleanup_(trace_input_clear) struct trace_input input = {0};
        r = trace_input_find(argv[i], &input);
        for (size_t n = 0; r >= 0 && n < input.files.count; n++) {
            r = wanted.is_number ? show_file(input.files.paths[n], wanted.id, &bad)
                                 : show_by_request_id(input.files.paths[n], wanted.text, &bad);
            found |= r > 0;
        }
        bad |= r < 0;
    }
    if (!found && !bad)
        log_error("trace: no trace has the ID %s (sonde trace summary --slowest 10 FILE lists some)", wanted.text);
    return bad || !found;
}

const struct subcommand trace_subcommand_show = {
    .name = "trace show",
    .synopsis = "ID FILE...",
    .summary = "Show one request as a text waterfall",
    .details =
        "ID is a trace ID, of the request or of any of its child traces, or the request ID set by the client. FILE is as for `sonde trace summary`; in a rotated set, the request is shown for each file that has the ID.",
    .flags_anywhere = true,
    .run = run_trace_show,
};
