/* See coverage_text.h. */
#include "cli/coverage_text.h"

#include "base/log.h"
#include "base/table_cell.h"
#include "base/units.h"

#include <stdio.h>

#define PORTS_IN_A_LINE 3

/* "443"; "others": those that did not fit the kernel's table. */
static void format_port(const struct opaque_port *port, char *out, size_t size)
{
    if (port->port)
        snprintf(out, size, "%u", port->port);
    else
        snprintf(out, size, "others");
}

static const char *format_rate(const struct opaque_port *port, char *out, size_t size)
{
    return units_format_size((uint64_t)(port->bytes_per_second + 0.5), out, size);
}

void coverage_text_put_ports(const struct coverage *c, const char *indent, struct buf *out)
{
    if (c->port_count)
        buf_printf(out, "%s%6s  %-24s %-18s %12s %12s\n", indent, "PORT", "SERVICE", "PROTOCOL", "BYTES/S",
                   "NEW CONN.");
    for (size_t i = 0; i < c->port_count; i++) {
        const struct opaque_port *port = &c->ports[i];
        char number[16], rate[32];
        format_port(port, number, sizeof(number));
        buf_printf(out, "%s%6s  ", indent, number);
        table_cell_put(out, port->process, 24);
        buf_printf(out, " %-18s %12s %12llu\n", opaque_protocol_name(port->protocol),
                   format_rate(port, rate, sizeof(rate)), (unsigned long long)port->connections);
    }
    if (c->ports_omitted)
        buf_printf(out, "%sand %zu more\n", indent, c->ports_omitted);
}

void coverage_text_put_nothing(const struct coverage *c, enum coverage_subject subject, struct buf *out)
{
    coverage_put_nothing(c, subject, out);
    buf_putc(out, '\n');
    for (size_t i = 0; i < c->gap_count; i++) {
        table_cell_put(out, c->gaps[i].text, 0);
        buf_putc(out, '\n');
    }
    if (!c->port_count)
        return;
    buf_puts(
        out,
        "\nServers on these ports exchanged something that Sonde cannot read (it reads HTTP, and TLS of OpenSSL and Go):\n");
    coverage_text_put_ports(c, "  ", out);
}

void coverage_text_put_overload(const struct coverage *c, struct buf *out)
{
    table_cell_put(out, c->overload, 0);
    buf_puts(out, c->overload[0] ? "\n\n" : "");
}

void coverage_text_put_rest(const struct coverage *c, struct buf *out)
{
    for (size_t i = 0; i < c->gap_count; i++)
        log_write(c->gaps[i].reason == COVERAGE_BUDGET ? LOG_LEVEL_WARNING : LOG_LEVEL_INFO, "%s", c->gaps[i].text);
    for (size_t i = 0; i < c->port_count && i < PORTS_IN_A_LINE; i++) {
        const struct opaque_port *port = &c->ports[i];
        char number[16], rate[32];
        format_port(port, number, sizeof(number));
        buf_printf(out, i ? ", %s " : "Cannot be read: port %s ", number);
        table_cell_put(out, port->process, 0);
        buf_printf(out, " (%s) %s/s", opaque_protocol_name(port->protocol), format_rate(port, rate, sizeof(rate)));
    }
    const size_t more = c->ports_omitted + (c->port_count > PORTS_IN_A_LINE ? c->port_count - PORTS_IN_A_LINE : 0);
    if (more)
        buf_printf(out, ", and %zu more (sonde doctor)", more);
    if (c->port_count)
        buf_putc(out, '\n');
}
