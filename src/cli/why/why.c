/* `sonde why`: prints the slowest requests with their latency breakdown. Queries the agent of this node; if none runs,
 * observes requests itself for the given time. */
#include "base/clock.h"
#include "base/log.h"
#include "base/standard_output.h"
#include "base/units.h"
#include "cli/coverage_text.h"
#include "cli/observe.h"
#include "cli/output.h"
#include "cli/subcommands.h"
#include "cli/why/why_text.h"
#include "client/agent_address.h"
#include "client/agent_client.h"
#include "client/agent_limits.h"
#include "diagnose/request_sentence.h"
#include "export/coverage_json.h"
#include "export/requests_html.h"
#include "export/requests_json.h"
#include "gpu_report/gpu_hang_observe.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define REQUESTS_MAX       1000 /* that an agent returns */
#define TRACE_REQUESTS_MAX 10   /* of one trace, unless --slowest is given */

/* ---- which requests ---- */

struct wanted_requests {
    const char *service, *route, *trace_id; /* NULL: any */
};

/* `service` may be the name, the unit, or the name with the port as it is printed. */
static bool is_any_wanted(const struct wanted_requests *w)
{
    return !w->service && !w->route && !w->trace_id;
}

static bool is_wanted(const struct wanted_requests *w, const struct request *r)
{
    return (!w->service || request_service_matches(w->service, r->service, r->unit, r->port)) &&
           (!w->route || strcmp(w->route, r->route) == 0) &&
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

/* ---- the subcommand ---- */

static int query_or_observe(const char *address, bool address_given, uint64_t last_ns, enum request_choice which,
                            size_t max, struct coverage *ret_coverage, struct request ***ret, size_t *ret_count)
{
    int r = agent_client_requests(address, last_ns / 1000000000u, max, which, ret_coverage, ret, ret_count);
    if (r == 0) {
        agent_limits_report(address);
        return 0;
    }
    if (address_given || agent_address_is_denied() || (r != -ECONNREFUSED && r != -ENOPKG))
        return agent_address_log_failure("why", address, r);
    _cleanup_(requests_freep) struct requests *requests = NULL;
    r = requests_new(OBSERVE_MEMORY_BYTES / 8, &requests) ?: observe_requests(last_ns, requests, ret_coverage);
    if (r == 0)
        r = requests_choose(requests, 0, clock_monotonic_ns(), which, max, ret, ret_count);
    for (size_t i = 0; r == 0 && i < *ret_count; i++)
        (void)request_set_sentence(&(*ret)[i]); /* out of memory: the sentence without the usual value remains */
    return r;
}

/* ---- output ---- */

struct why_format {
    bool json, stacks, grouped;
    const char *html; /* file; NULL: none */
};

static int write_html(const struct output *output, struct request *const *requests, size_t count,
                      const struct coverage *coverage)
{
    _cleanup_buf_ struct buf out = {0};
    int r = requests_html_write(requests, count, coverage, &out);
    return r < 0 ? r : output_write(output, ".html", out.data, out.size);
}

static int print_requests(struct request *const *requests, size_t count, const struct coverage *coverage,
                          const struct why_format *format, uint64_t last_ns)
{
    _cleanup_buf_ struct buf out = {0};
    if (format->json) {
        coverage_json_begin(coverage, COVERAGE_REQUESTS, "requests", &out);
        requests_json_write(requests, count, &out);
        requests_json_put_groups(requests, count, &out);
        buf_puts(&out, "}\n");
    } else if (count && format->grouped) {
        coverage_text_put_overload(coverage, &out);
        why_text_put_groups(requests, count, format->stacks, last_ns, &out);
        coverage_text_put_rest(coverage, &out);
    } else if (count) {
        coverage_text_put_overload(coverage, &out);
        why_text_put(requests, count, format->stacks, last_ns, &out);
        coverage_text_put_rest(coverage, &out);
    } else {
        coverage_text_put_nothing(coverage, COVERAGE_REQUESTS, &out);
    }
    return standard_output_write("why", &out);
}

static bool is_trace_id(const char *text)
{
    return strlen(text) == 32 && strspn(text, "0123456789abcdefABCDEF") == 32;
}

static int print_hang(uint32_t pid, const char *address)
{
    _cleanup_buf_ struct buf out = {0};
    const int r = gpu_hang_observe(pid, address, &out);
    return r < 0 ? r : standard_output_write("why", &out);
}

static int run_why(int argc, char **argv)
{
    int64_t slowest = 0, hang_pid = 0; /* 0: not given, groups are printed */
    uint64_t last_ns = 60 * 1000000000ull;
    struct why_format format = {.json = false};
    struct output output;
    const char *address = NULL;
    struct wanted_requests wanted = {0};
    int operands = 0;
    const struct option_spec specs[] = {
        {'n', "slowest", OPTION_INTEGER, &slowest, "N", "the N slowest requests, up to 1000, instead of groups", 1,
         REQUESTS_MAX},
        {'l', "last", OPTION_DURATION, &last_ns, "DURATION", "of the last DURATION, up to 5m (default 60s)", 1000000000,
         REQUESTS_KEPT_SECONDS * 1000000000ll},
        {0, "service", OPTION_TEXT, &wanted.service, "NAME", "only requests of this service", 0, 0},
        {0, "route", OPTION_TEXT, &wanted.route, "ROUTE", "only requests of this route (\"/users/{id}\")", 0, 0},
        {0, "hang", OPTION_INTEGER, &hang_pid, "PID",
         "instead of requests: whether this process hangs in a call of CUDA or NCCL, with the stacks of its threads", 1,
         INT32_MAX},
        {0, "stacks", OPTION_FLAG, &format.stacks, NULL, "also print the stack of every wait", 0, 0},
        {0, "json", OPTION_FLAG, &format.json, NULL, "as a JSON object (docs/why.md)", 0, 0},
        {0, "html", OPTION_TEXT, &format.html, "FILE",
         "write one self-contained HTML file instead (-: standard output)", 0, 0},
        {0, "agent", OPTION_TEXT, &address, "ADDRESS", AGENT_ADDRESS_HELP, 0, 0},
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
    if (hang_pid && (operands || slowest || !is_any_wanted(&wanted) || format.json || format.stacks || format.html)) {
        log_error("why: --hang can be combined with --agent only");
        return -EINVAL;
    }
    if (hang_pid) {
        r = print_hang((uint32_t)hang_pid, agent_address_or_default(address));
        return r == -EINVAL ? -EIO : r;
    }
    if (format.html && (format.json || format.stacks)) {
        log_error("why: --html cannot be combined with --json or --stacks (it has the stacks)");
        return -EINVAL;
    }
    r = format.html ? output_check("why", format.html, &output) : 0;
    if (r < 0)
        return r == -EINVAL ? -EIO : r;
    struct request **requests = NULL;
    size_t count = 0;
    struct coverage coverage = {0};
    format.grouped = !slowest && !wanted.trace_id;
    const size_t max = slowest ? (size_t)slowest : format.grouped ? REQUESTS_MAX : TRACE_REQUESTS_MAX;
    r = query_or_observe(agent_address_or_default(address), address, last_ns,
                         format.grouped ? REQUEST_CHOICE_GROUPS : REQUEST_CHOICE_ALL,
                         is_any_wanted(&wanted) ? max : REQUESTS_MAX, &coverage, &requests, &count);
    if (r < 0)
        return r == -EINVAL ? -EIO : r;
    const uint64_t all = request_list_total(requests, count);
    count = keep_wanted(requests, count, &wanted, max);
    coverage.filtered_out = count ? 0 : all;
    r = format.html ? write_html(&output, requests, count, &coverage)
                    : print_requests(requests, count, &coverage, &format, last_ns);
    for (size_t i = 0; i < count; i++)
        request_free(requests[i]);
    free(requests);
    return r;
}

const struct subcommand subcommand_why = {
    .name = "why",
    .synopsis =
        "[TRACE_ID] [--slowest N] [--service NAME] [--route ROUTE] [--last 60s] [--stacks | --json | --html FILE] "
        "[--agent ADDRESS] | --hang PID [--agent ADDRESS]",
    .summary = "Show why requests were slow, or whether a process hangs on its GPU",
    .details =
        "Prints requests by route and cause, most time lost first, with an example of each. The time lost is how much longer\n"
        "the slow ones took than the median of their route, in all. --slowest or a TRACE_ID print requests one by one.\n"
        "The wall time of each request is broken down into components that add up to it; unknown time is `unattributed`.\n"
        "Its critical path shows where the time went, step by step, over all threads that it waited for.\n"
        "Queries the agent of this node; if none runs, observes requests itself for the given time, which needs root.\n"
        "--hang PID observes the process for 5 to 15 seconds, as root, and shows where its threads wait.",
    .flags_anywhere = true,
    .run = run_why,
};
