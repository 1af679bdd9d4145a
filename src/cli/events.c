/* `sonde events`: lists the events of the node, with advice for each kind. */
#include "base/clock.h"
#include "base/log.h"
#include "base/standard_output.h"
#include "base/table_cell.h"
#include "cli/coverage_text.h"
#include "cli/subcommands.h"
#include "client/agent_address.h"
#include "client/agent_client.h"
#include "client/agent_limits.h"
#include "export/coverage_json.h"
#include "model/node_event.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define LAST_MAX_NS 3600000000000ll

struct events_args {
    const char *address, *kind; /* kind NULL: all */
    uint64_t last_ns;
    bool json;
};

static void put_json(const struct agent_event *events, size_t count, struct buf *out)
{
    buf_putc(out, '[');
    for (size_t i = 0; i < count; i++) {
        buf_printf(out, "%s{\"time_unix_nano\":%llu,\"duration_ns\":%llu,\"name\":", i ? "," : "",
                   (unsigned long long)events[i].time_unix_ns, (unsigned long long)events[i].duration_ns);
        buf_put_json_string(out, events[i].name);
        buf_puts(out, ",\"text\":");
        buf_put_json_string(out, events[i].text);
        buf_puts(out, ",\"advice\":");
        buf_put_json_string(out, node_event_advice(events[i].name));
        buf_printf(out, ",\"attributes\":%s}", events[i].attributes);
    }
    buf_puts(out, "]}\n");
}

/* Once for each kind of event in the list. */
static void put_advice(const struct agent_event *events, size_t count, struct buf *out)
{
    bool has_title = false;
    for (size_t i = 0; i < count; i++) {
        const char *advice = node_event_advice(events[i].name);
        size_t earlier = 0;
        while (strcmp(events[earlier].name, events[i].name) != 0)
            earlier++;
        if (earlier < i || !advice[0])
            continue;
        buf_printf(out, "%s  %s: %s\n", has_title ? "" : "\nWhat to do:\n", events[i].name, advice);
        has_title = true;
    }
}

static void put_table(const struct agent_event *events, size_t count, struct buf *out)
{
    char time[CLOCK_TEXT_BYTES];
    buf_printf(out, "%-8s  %-26s  %s\n", "TIME", "KIND", "EVENT");
    for (size_t i = 0; i < count; i++) {
        buf_printf(out, "%s  ", clock_time_of_day(events[i].time_unix_ns, time));
        table_cell_put(out, events[i].name, 26);
        buf_puts(out, "  ");
        table_cell_put(out, events[i].text, 0);
        buf_putc(out, '\n');
    }
    put_advice(events, count, out);
}

static int print_events(const struct events_args *args)
{
    _cleanup_buf_ struct buf out = {0};
    _cleanup_free_ struct agent_event *events = NULL;
    struct coverage coverage;
    size_t count = 0, kept = 0;
    int r = agent_client_events(args->address, args->last_ns / 1000000000u, &coverage, &events, &count);
    if (r < 0)
        return agent_address_log_failure("events", args->address, r);
    for (size_t i = 0; i < count; i++)
        if (!args->kind || node_event_is_of(events[i].name, args->kind))
            events[kept++] = events[i];
    coverage.filtered_out = kept ? 0 : count;
    if (args->json) {
        coverage_json_begin(&coverage, COVERAGE_EVENTS, "events", &out);
        put_json(events, kept, &out);
    } else if (kept) {
        put_table(events, kept, &out);
        coverage_text_put_rest(&coverage, &out);
    } else {
        coverage_text_put_nothing(&coverage, COVERAGE_EVENTS, &out);
    }
    return standard_output_write("events", &out);
}

static int run_events(int argc, char **argv)
{
    struct events_args args = {.last_ns = 3600 * 1000000000ull};
    const struct option_spec specs[] = {
        {'l', "last", OPTION_DURATION, &args.last_ns, "DURATION", "of the last DURATION, up to 1h (default 1h)",
         1000000000, LAST_MAX_NS},
        {'k', "kind", OPTION_TEXT, &args.kind, "KIND",
         "only events of this kind, or of this signal: drops.packets, drops", 0, 0},
        {0, "json", OPTION_FLAG, &args.json, NULL, "as a JSON object (docs/page.md)", 0, 0},
        {0, "agent", OPTION_TEXT, &args.address, "ADDRESS", AGENT_ADDRESS_HELP, 0, 0},
        {0},
    };
    int r = options_parse(&subcommand_events, specs, argc, argv, NULL);
    if (r != 0)
        return r < 0 ? r : 0;
    args.address = agent_address_or_default(args.address);
    r = print_events(&args);
    if (r == 0)
        agent_limits_report(args.address);
    return r == -EINVAL ? -EIO : r;
}

const struct subcommand subcommand_events = {
    .name = "events",
    .synopsis = "[--kind KIND] [--last 1h] [--json] [--agent ADDRESS]",
    .summary = "List what happened on the node: full queues, slow I/O, lost packets",
    .details =
        "Prints the events of the node, newest first, and what to do about each kind. The agent keeps 256 of them.\n"
        "docs/signals names the kinds. Queries the agent of this node.",
    .run = run_events,
};
