/* `sonde requests`: the routes that an agent observes, and the requests that failed or were slow. On a terminal the
 * table of routes is live. */
#include "aggregate/requests.h"
#include "base/clock.h"
#include "base/end_signals.h"
#include "base/log.h"
#include "base/standard_output.h"
#include "cli/coverage_text.h"
#include "cli/requests/requests_text.h"
#include "cli/subcommands.h"
#include "client/agent_address.h"
#include "client/agent_client.h"
#include "client/agent_limits.h"
#include "export/coverage_json.h"
#include "export/request_routes_json.h"
#include "export/requests_json.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#define REQUESTS_MAX 1000 /* that an agent returns */
#define REFRESH_NS   2000000000ull

struct requests_args {
    const char *address, *service; /* service NULL: all */
    uint64_t last_ns;
    bool json, abnormal, each;
};

/* --service may be the name, the unit, or the name with the port as it is printed. */
static bool is_service(const struct requests_args *args, const char *service, const char *unit, uint16_t port)
{
    return !args->service || request_service_matches(args->service, service, unit, port);
}

/* ---- routes ---- */

static int put_routes(const struct requests_args *args, struct buf *out)
{
    _cleanup_free_ struct request_route *routes = NULL;
    size_t count = 0, kept = 0;
    struct coverage coverage;
    int r = agent_client_routes(args->address, args->last_ns / 1000000000u, &coverage, &routes, &count);
    if (r < 0)
        return agent_address_log_failure("requests", args->address, r);
    for (size_t i = 0; i < count; i++)
        if (is_service(args, routes[i].service, routes[i].unit, routes[i].port))
            routes[kept++] = routes[i];
    coverage.filtered_out = kept ? 0 : count;
    if (args->json) {
        coverage_json_begin(&coverage, COVERAGE_ROUTES, "routes", out);
        request_routes_json_write(routes, kept, out);
        return buf_puts(out, "}\n");
    }
    if (kept) {
        coverage_text_put_overload(&coverage, out);
        requests_text_put_routes(routes, kept, args->last_ns, out);
        coverage_text_put_rest(&coverage, out);
    } else {
        coverage_text_put_nothing(&coverage, COVERAGE_ROUTES, out);
    }
    return 0;
}

static int print_routes(const struct requests_args *args)
{
    _cleanup_buf_ struct buf out = {0};
    int r = put_routes(args, &out);
    return r < 0 ? r : standard_output_write("requests", &out);
}

/* Redraws the table until SIGINT or SIGTERM. */
static int show_routes(const struct requests_args *args)
{
    sigset_t signals;
    int blocked = end_signals_block(&signals);
    if (blocked < 0)
        return blocked;
    do {
        _cleanup_buf_ struct buf out = {0};
        buf_puts(&out, "\033[H\033[2J");
        int r = put_routes(args, &out) ?: standard_output_write("requests", &out);
        if (r < 0)
            return r;
    } while (!end_signals_wait(&signals, REFRESH_NS));
    return 0;
}

/* ---- abnormal requests ---- */

static int earliest_first(const void *a, const void *b)
{
    const struct request *x = *(struct request *const *)a, *y = *(struct request *const *)b;
    return x->start_unix_ns < y->start_unix_ns ? -1 : x->start_unix_ns > y->start_unix_ns;
}

static int print_abnormal(const struct requests_args *args)
{
    _cleanup_buf_ struct buf out = {0};
    struct request **requests = NULL;
    size_t count = 0, kept = 0;
    struct coverage coverage;
    int r = agent_client_requests(args->address, args->last_ns / 1000000000u, REQUESTS_MAX,
                                  args->each ? REQUEST_CHOICE_ABNORMAL : REQUEST_CHOICE_ABNORMAL_GROUPS, &coverage,
                                  &requests, &count);
    if (r < 0)
        return agent_address_log_failure("requests", args->address, r);
    const uint64_t all = request_list_total(requests, count);
    for (size_t i = 0; i < count; i++)
        if (is_service(args, requests[i]->service, requests[i]->unit, requests[i]->port))
            requests[kept++] = requests[i];
        else
            request_free(requests[i]);
    coverage.filtered_out = kept ? 0 : all;
    if (args->each)
        qsort(requests, kept, sizeof(requests[0]), earliest_first);
    if (args->json) {
        coverage_json_begin(&coverage, COVERAGE_ABNORMAL, "requests", &out);
        requests_json_write(requests, kept, &out);
        requests_json_put_groups(requests, kept, &out);
        buf_puts(&out, "}\n");
    } else if (kept) {
        if (args->each)
            requests_text_put_abnormal(requests, kept, args->last_ns, &out);
        else
            requests_text_put_groups(requests, kept, args->last_ns, &out);
        coverage_text_put_rest(&coverage, &out);
    } else {
        coverage_text_put_nothing(&coverage, COVERAGE_ABNORMAL, &out);
    }
    for (size_t i = 0; i < kept; i++)
        request_free(requests[i]);
    free(requests);
    return standard_output_write("requests", &out);
}

/* ---- the subcommand ---- */

static int run_requests(int argc, char **argv)
{
    struct requests_args args = {.last_ns = 60 * 1000000000ull};
    const struct option_spec specs[] = {
        {'l', "last", OPTION_DURATION, &args.last_ns, "DURATION", "of the last DURATION, up to 5m (default 60s)",
         1000000000, REQUESTS_KEPT_SECONDS * 1000000000ll},
        {0, "service", OPTION_TEXT, &args.service, "NAME", "only requests of this service", 0, 0},
        {0, "abnormal", OPTION_FLAG, &args.abnormal, NULL, "the requests that failed or were slow, by route and cause",
         0, 0},
        {0, "each", OPTION_FLAG, &args.each, NULL, "with --abnormal: one line for each request", 0, 0},
        {0, "json", OPTION_FLAG, &args.json, NULL, "as a JSON object (docs/why.md)", 0, 0},
        {0, "agent", OPTION_TEXT, &args.address, "ADDRESS", AGENT_ADDRESS_HELP, 0, 0},
        {0},
    };
    int r = options_parse(&subcommand_requests, specs, argc, argv, NULL);
    if (r != 0)
        return r < 0 ? r : 0;
    if (args.each && !args.abnormal) {
        log_error("requests: --each needs --abnormal");
        return -EINVAL;
    }
    args.address = agent_address_or_default(args.address);
    if (args.abnormal)
        r = print_abnormal(&args);
    else if (args.json || !isatty(STDOUT_FILENO))
        r = print_routes(&args);
    else
        r = show_routes(&args);
    if (r == 0)
        agent_limits_report(args.address);
    return r == -EINVAL ? -EIO : r;
}

const struct subcommand subcommand_requests = {
    .name = "requests",
    .synopsis = "[--abnormal [--each]] [--service NAME] [--last 60s] [--json] [--agent ADDRESS]",
    .summary = "Show the rate, latency and errors of each route, and abnormal requests",
    .details =
        "Prints a table of services and routes, from a random sample of their requests (docs/why.md). On a terminal it is\n"
        "redrawn every two seconds until Ctrl-C. `~` marks an estimate from that sample.\n"
        "--abnormal prints requests with status 5xx, without a reply, or slow (three times the median of their route), by\n"
        "route and cause. LOST is how much longer the slow ones took than that median, in all.\n"
        "Queries the agent of this node.",
    .run = run_requests,
};
