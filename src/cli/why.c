/* `sonde why`: prints the slowest requests with their latency breakdown. Queries the agent of this node; if none runs,
 * observes requests itself for the given time. */
#include "agent/loop.h"
#include "agent/pipeline.h"
#include "aggregate/requests.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/units.h"
#include "cli/agent_client.h"
#include "cli/privileges.h"
#include "cli/subcommands.h"
#include "export/requests_json.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define MEMORY_BYTES  (64 << 20)
#define REQUESTS_MAX  1000 /* that an agent returns */
#define PATH_SHORTEST 200  /* segments shorter than this part of the request are not printed */

/* ---- without an agent ---- */

static int take_request(void *context, struct request *request)
{
    return requests_add(context, request);
}

static int observe_requests(uint64_t duration_ns, struct requests *requests)
{
    struct config config;
    config_defaults(&config);
    config_enable_signals(&config, false);
    config_put_bool(&config, "requests.enabled", true);
    config_put_bool(&config, "recorder.enabled", true);
    struct pipeline_options options = {.config = &config,
                                       .sample_hz = CONFIG_RATE_HZ,
                                       .ring_bytes = 8 << 20,
                                       .table_bytes = 16 << 20,
                                       .memory_bytes = MEMORY_BYTES};
    struct pipeline_sink sink = {.context = requests, .request = take_request};
    struct attach_report report = {0};
    _cleanup_(pipeline_freep) struct pipeline *pipeline = NULL;
    int r = pipeline_new(&options, &sink, &report, &pipeline);
    if (r < 0) {
        for (size_t i = 0; i < report.count; i++)
            if (!report.entries[i].attached)
                log_error("%s: not attached (%s)", report.entries[i].probe, report.entries[i].fallback_reason);
        privileges_explain();
        return r;
    }
    r = pipeline_start(pipeline);
    if (r < 0)
        return r;
    _cleanup_(loop_freep) struct loop *loop = NULL;
    r = loop_new(pipeline, &loop);
    if (r < 0)
        return r;
    char duration[32];
    log_info("no agent is running: observing requests for %s (Ctrl-C stops earlier)",
             units_format_duration(duration_ns, duration, sizeof(duration)));
    struct loop_end end;
    return loop_run(loop, &(struct loop_options){.duration_ns = duration_ns}, &end);
}

/* ---- which requests ---- */

struct wanted_requests {
    const char *service, *route, *trace_id; /* NULL: any */
};

static bool is_any_wanted(const struct wanted_requests *w)
{
    return !w->service && !w->route && !w->trace_id;
}

static bool is_wanted(const struct wanted_requests *w, const struct request *r)
{
    return (!w->service || strcmp(w->service, r->service) == 0) && (!w->route || strcmp(w->route, r->route) == 0) &&
           (!w->trace_id ||
            (trace_link_is_set(&r->link) && strcasecmp(w->trace_id, trace_link_text(&r->link).trace_id) == 0));
}

/* Keeps at most `max` of the wanted requests, in their order, and frees the others. Returns how many are kept. */
static size_t keep_wanted(struct request **requests, size_t count, const struct wanted_requests *w, size_t max)
{
    size_t kept = 0;
    for (size_t i = 0; i < count; i++)
        if (kept < max && is_wanted(w, requests[i]))
            requests[kept++] = requests[i];
        else
            request_free(requests[i]);
    return kept;
}

/* ---- output ---- */

static void print_component(const struct request_part *part, uint64_t duration_ns)
{
    static const char blocks[] = "##############################";
    char duration[32];
    double share = duration_ns ? (double)part->duration_ns / duration_ns : 0;
    printf("    %5.1f%%  %9s  %-14s %-30.*s %s\n", share * 100,
           units_format_duration(part->duration_ns, duration, sizeof(duration)), request_part_name(part->kind),
           (int)(share * 30 + 0.5), blocks, part->detail);
}

static void print_stack(const char *stack)
{
    char line[REQUEST_FRAME_BYTES];
    for (const char *at = stack; request_next_frame(&at, line);)
        printf("                         %s\n", line);
}

static void print_notes(const char *notes)
{
    char line[REQUEST_FRAME_BYTES];
    for (const char *at = notes; request_next_frame(&at, line);)
        printf("                                          %s\n", line);
}

/* The critical path, one line a segment, and its evidence. */
static void print_path(const struct request *r)
{
    static const char *const owners[REQUEST_OWNER_COUNT] = {"", "of another request", "of one of several requests", ""};
    if (r->segment_count == 0)
        return;
    printf("   Path:\n");
    for (size_t i = 0; i < r->segment_count; i++) {
        const struct request_segment *s = &r->segments[i];
        char start[32], duration[32];
        if (s->duration_ns < r->duration_ns / PATH_SHORTEST)
            continue;
        printf("    +%-9s %9s  %-14s %s%s%s%s\n", units_format_duration(s->start_ns, start, sizeof(start)),
               units_format_duration(s->duration_ns, duration, sizeof(duration)), request_part_name(s->kind), s->detail,
               s->detail[0] && owners[s->owner][0] ? ", " : "", owners[s->owner], s->is_inferred ? " (inferred)" : "");
        print_notes(s->notes);
    }
}

static void print_request(size_t number, const struct request *r, bool stacks)
{
    char duration[32], clock[CLOCK_TEXT_BYTES];
    printf("%zu. %s %s took %s", number, r->method, r->route,
           units_format_duration(r->duration_ns, duration, sizeof(duration)));
    if (r->status)
        printf(", status %u", r->status);
    else
        printf(", no reply seen");
    printf("  (%s, process %u, began %s.%03u)\n   Why: %s\n", r->service, r->pid,
           clock_time_of_day(r->start_unix_ns, clock), (unsigned)(r->start_unix_ns / 1000000u % 1000u), r->cause);
    if (trace_link_is_set(&r->link)) {
        const struct trace_link_text text = trace_link_text(&r->link);
        printf("   Trace: %s%s%s\n", text.trace_id, text.span_id[0] ? ", span " : "", text.span_id);
    }
    for (size_t i = 0; i < r->part_count; i++) {
        print_component(&r->parts[i], r->duration_ns);
        if (stacks)
            print_stack(r->parts[i].stack);
    }
    print_path(r);
    printf("\n");
}

static int print_requests(struct request *const *requests, size_t count, bool json, bool stacks, uint64_t last_ns)
{
    if (json) {
        _cleanup_buf_ struct buf out = {0};
        int r = requests_json_write(requests, count, &out);
        if (r == 0 && fwrite(out.data, 1, out.size, stdout) != out.size)
            r = -errno;
        if (r == 0)
            putchar('\n');
        return r;
    }
    char last[32], heading[48];
    units_format_duration(last_ns, last, sizeof(last));
    snprintf(heading, sizeof(heading), "%zu slowest requests", count);
    if (count == 0)
        printf(
            "No request was broken down in the last %s. Sonde sees HTTP/1.1 requests on TCP sockets (docs/why.md).\n",
            last);
    else
        printf("The %s of the last %s:\n\n", count == 1 ? "slowest request" : heading, last);
    for (size_t i = 0; i < count; i++)
        print_request(i + 1, requests[i], stacks);
    return 0;
}

/* The list covers only requests with a latency breakdown, and only the time the agent has been running: reports limits
 * of both. */
static void report_limits(const char *address, uint64_t last_ns)
{
    struct agent_state state;
    char uptime[32];
    if (agent_client_state(address, &state) < 0)
        return;
    if (strcmp(state.detail, "full") != 0)
        log_warning(
            "the agent exceeds budget.cpu and works at detail '%s': requests are %s; slower ones may be missing here",
            state.detail, strcmp(state.detail, "least") == 0 ? "not observed" : "counted, not broken down");
    if (state.uptime_ns < last_ns)
        log_info("the agent has been running for %s only",
                 units_format_duration(state.uptime_ns, uptime, sizeof(uptime)));
}

/* ---- the subcommand ---- */

static int query_or_observe(const char *address, bool address_given, uint64_t last_ns, size_t slowest,
                            struct request ***ret, size_t *ret_count)
{
    int r = agent_client_requests(address, last_ns / 1000000000u, slowest, ret, ret_count);
    if (r == 0)
        report_limits(address, last_ns);
    if (r == -ENOPKG && address_given)
        return r; /* already logged */
    if (r != -ECONNREFUSED && r != -ENOPKG)
        return r < 0 ? log_errno(r, "why: the agent at %s does not answer", address) : 0;
    if (address_given)
        return log_errno(r, "why: no agent at %s", address);
    _cleanup_(requests_freep) struct requests *requests = NULL;
    r = requests_new(MEMORY_BYTES / 8, &requests);
    if (r == 0)
        r = observe_requests(last_ns, requests);
    return r < 0 ? r : requests_slowest(requests, 0, slowest, ret, ret_count);
}

static bool is_trace_id(const char *text)
{
    return strlen(text) == 32 && strspn(text, "0123456789abcdefABCDEF") == 32;
}

static int run_why(int argc, char **argv)
{
    int64_t slowest = 10;
    uint64_t last_ns = 60 * 1000000000ull;
    bool json = false, stacks = false;
    const char *address = NULL;
    struct wanted_requests wanted = {0};
    int operands = 0;
    const struct option_spec specs[] = {
        {'n', "slowest", OPTION_INTEGER, &slowest, "N", "number of requests, up to 1000 (default 10)", 1, REQUESTS_MAX},
        {'l', "last", OPTION_DURATION, &last_ns, "DURATION", "of the last DURATION, up to 5m (default 60s)", 1000000000,
         REQUESTS_KEPT_SECONDS * 1000000000ll},
        {0, "service", OPTION_TEXT, &wanted.service, "NAME", "only requests of this service", 0, 0},
        {0, "route", OPTION_TEXT, &wanted.route, "ROUTE", "only requests of this route (\"/users/{id}\")", 0, 0},
        {0, "stacks", OPTION_FLAG, &stacks, NULL, "also print the stack of every wait", 0, 0},
        {0, "json", OPTION_FLAG, &json, NULL, "as a JSON array (docs/why.md)", 0, 0},
        {0, "agent", OPTION_TEXT, &address, "ADDRESS:PORT", "address of the agent (default 127.0.0.1:7070)", 0, 0},
        {0},
    };
    int r = options_parse(&subcommand_why, specs, argc, argv, &operands);
    if (r != 0)
        return r < 0 ? r : 0;
    if (operands > 1 || (operands == 1 && !is_trace_id(argv[1]))) {
        log_error("why: '%s' is no trace ID (32 hexadecimal digits)", argv[operands > 1 ? 2 : 1]);
        return -EINVAL;
    }
    wanted.trace_id = operands ? argv[1] : NULL;
    struct request **requests = NULL;
    size_t count = 0;
    r = query_or_observe(address ? address : "127.0.0.1:7070", address, last_ns,
                         is_any_wanted(&wanted) ? (size_t)slowest : REQUESTS_MAX, &requests, &count);
    if (r < 0)
        return r == -EINVAL ? -EIO : r;
    count = keep_wanted(requests, count, &wanted, (size_t)slowest);
    r = print_requests(requests, count, json, stacks, last_ns);
    for (size_t i = 0; i < count; i++)
        request_free(requests[i]);
    free(requests);
    return r;
}

const struct subcommand subcommand_why = {
    .name = "why",
    .synopsis = "[TRACE_ID] [--slowest N] [--service NAME] [--route ROUTE] [--last 60s] [--stacks | --json] "
                "[--agent ADDRESS:PORT]",
    .summary = "Show why the slowest requests were slow",
    .details =
        "The wall time of each request is broken down into components that add up to it; unknown time is `unattributed`.\n"
        "Its critical path shows where the time went, step by step, over all threads that it waited for.\n"
        "Queries the agent of this node; if none runs, observes requests itself for the given time, which needs root.",
    .flags_anywhere = true,
    .run = run_why,
};
