/* `sonde calls`: which services of the node call which others. */
#include "aggregate/service_calls.h"
#include "base/log.h"
#include "base/standard_output.h"
#include "base/table_cell.h"
#include "base/units.h"
#include "cli/coverage_text.h"
#include "cli/subcommands.h"
#include "client/agent_address.h"
#include "client/agent_client.h"
#include "client/agent_limits.h"
#include "export/coverage_json.h"
#include "export/service_calls_json.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

struct calls_args {
    const char *address, *service; /* service NULL: all */
    uint64_t last_ns;
    bool json;
};

static bool is_wanted(const struct calls_args *args, const struct service_call *call)
{
    return !args->service || service_call_has(call, args->service);
}

/* "postgres :5432 at 127.0.0.1"; of a server that is not known, its address. */
static void put_server(const struct service_call *call, struct buf *out)
{
    _cleanup_buf_ struct buf text = {0};
    if (call->server[0])
        buf_printf(&text, "%s%s%s", call->server, call->address[0] ? " at " : "", call->address);
    else
        buf_puts(&text, call->address[0] ? call->address : call->protocol[0] ? "a Unix socket" : "other");
    table_cell_put(out, text.data ? text.data : "", 38);
}

static const char *mean_text(uint64_t wait_ns, uint64_t calls, char *out, size_t size)
{
    return units_format_duration(calls ? wait_ns / calls : 0, out, size);
}

/* "60 SELECT of 150 ms, 60 BEGIN of 310 us" */
static void put_kinds(const struct service_call *call, struct buf *out)
{
    char mean[32];
    for (size_t i = 0; i < call->kind_count; i++) {
        const struct service_call_kind *kind = &call->kinds[i];
        buf_printf(out, "%s%" PRIu64 " ", i ? ", " : "", kind->calls);
        table_cell_put(out, kind->name, 0);
        buf_printf(out, " of %s", mean_text(kind->wait_ns, kind->calls, mean, sizeof(mean)));
    }
}

static void put_call(const struct service_call *call, struct buf *out)
{
    char mean[32], p99[32], wait[32];
    table_cell_put(out, call->client, 20);
    buf_putc(out, ' ');
    put_server(call, out);
    buf_putc(out, ' ');
    table_cell_put(out, call->protocol, 10);
    buf_printf(out, " %9.2f %10s %10s %10s %7" PRIu64 "  ", call->calls_per_second,
               units_format_duration(call->wait_ns, wait, sizeof(wait)),
               mean_text(call->wait_ns, call->calls, mean, sizeof(mean)),
               units_format_duration(call->p99_ns, p99, sizeof(p99)), call->failed);
    put_kinds(call, out);
    buf_putc(out, '\n');
}

static void put_table(const struct service_call *calls, size_t count, uint64_t last_ns, struct buf *out)
{
    char last[32];
    buf_printf(out, "Calls of other services in the last %s, those waited for longest first:\n\n",
               units_format_duration(last_ns, last, sizeof(last)));
    buf_printf(out, "%-20s %-38s %-10s %9s %10s %10s %10s %7s  %s\n", "CLIENT", "SERVER", "PROTOCOL", "CALLS/S",
               "WAITED", "MEAN", "P99", "FAILED", "MOST TIME IN");
    for (size_t i = 0; i < count; i++)
        put_call(&calls[i], out);
}

static int print_calls(const struct calls_args *args)
{
    _cleanup_buf_ struct buf out = {0};
    _cleanup_free_ struct service_call *calls = NULL;
    struct coverage coverage;
    size_t count = 0, kept = 0;
    int r = agent_client_calls(args->address, args->last_ns / 1000000000u, &coverage, &calls, &count);
    if (r < 0)
        return agent_address_log_failure("calls", args->address, r);
    for (size_t i = 0; i < count; i++)
        if (is_wanted(args, &calls[i]))
            calls[kept++] = calls[i];
    coverage.filtered_out = kept ? 0 : count;
    if (args->json) {
        coverage_json_begin(&coverage, COVERAGE_CALLS, "calls", &out);
        service_calls_json_write(calls, kept, &out);
        buf_puts(&out, "}\n");
    } else if (kept) {
        put_table(calls, kept, args->last_ns, &out);
    } else {
        coverage_text_put_nothing(&coverage, COVERAGE_CALLS, &out);
    }
    return standard_output_write("calls", &out);
}

static int run_calls(int argc, char **argv)
{
    struct calls_args args = {.last_ns = 60 * 1000000000ull};
    const struct option_spec specs[] = {
        {'l', "last", OPTION_DURATION, &args.last_ns, "DURATION", "of the last DURATION, up to 5m (default 60s)",
         1000000000, SERVICE_CALLS_SECONDS * 1000000000ll},
        {0, "service", OPTION_TEXT, &args.service, "NAME", "only calls by or of this service, or of this address", 0,
         0},
        {0, "json", OPTION_FLAG, &args.json, NULL, "as a JSON object (docs/page.md)", 0, 0},
        {0, "agent", OPTION_TEXT, &args.address, "ADDRESS", AGENT_ADDRESS_HELP, 0, 0},
        {0},
    };
    int r = options_parse(&subcommand_calls, specs, argc, argv, NULL);
    if (r != 0)
        return r < 0 ? r : 0;
    args.address = agent_address_or_default(args.address);
    r = print_calls(&args);
    if (r == 0)
        agent_limits_report(args.address);
    return r == -EINVAL ? -EIO : r;
}

const struct subcommand subcommand_calls = {
    .name = "calls",
    .synopsis = "[--service NAME] [--last 60s] [--json] [--agent ADDRESS]",
    .summary = "Show which services call which others, how often and how long they wait",
    .details =
        "Prints a row for each service that serves requests and each service that it calls over HTTP, gRPC, PostgreSQL,\n"
        "MySQL or Redis. All calls are counted, not a sample. WAITED is until the first bytes of the replies, of all calls\n"
        "together: calls that wait at the same time count each. docs/why.md describes the exceptions.\n"
        "Queries the agent of this node.",
    .run = run_calls,
};
