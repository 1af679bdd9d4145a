/* See gpu_text.h. */
#include "cli/gpu/gpu_text.h"

#include "base/table_cell.h"
#include "base/units.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define INDEX_WIDTH   4 /* "0:13" */
#define NAME_WIDTH    26
#define COMMAND_WIDTH 15

static void put_number(const struct gpu_device *d, enum gpu_value value, double factor, const char *unit, int width,
                       struct buf *out)
{
    char text[32] = "-";
    uint64_t number;
    if (gpu_value_of(d, value, &number))
        snprintf(text, sizeof(text), "%.0f%s", (double)number * factor, unit);
    buf_printf(out, "%*s  ", width, text);
}

static void put_memory(const struct gpu_device *d, struct buf *out)
{
    char used_text[32], total_text[32], text[72] = "-";
    uint64_t used, total;
    if (gpu_value_of(d, GPU_MEMORY_USED, &used) && gpu_value_of(d, GPU_MEMORY_TOTAL, &total))
        snprintf(text, sizeof(text), "%s / %s", units_format_size(used, used_text, sizeof(used_text)),
                 units_format_size(total, total_text, sizeof(total_text)));
    buf_printf(out, "%21s  ", text);
}

static void put_device(const struct gpu_device *d, struct buf *out)
{
    char index[32];
    if (d->instance == GPU_NO_INSTANCE)
        snprintf(index, sizeof(index), "%u", d->index);
    else
        snprintf(index, sizeof(index), "%u:%u", d->index, d->instance);
    buf_printf(out, "%-*s  ", INDEX_WIDTH, index);
    table_cell_put(out, d->name, NAME_WIDTH);
    buf_puts(out, "  ");
    put_number(d, GPU_UTILIZATION, 1, " %", 5, out);
    put_memory(d, out);
    put_number(d, GPU_POWER, 0.001, " W", 6, out);
    put_number(d, GPU_TEMPERATURE, 1, " C", 5, out);
    put_number(d, GPU_CLOCK_SM, 1, " MHz", 8, out);
    buf_printf(out, "%s\n", gpu_device_state_text(d));
}

/* NAN: not known. */
static void put_share(double share, struct buf *out)
{
    char text[32] = "-";
    if (!isnan(share))
        snprintf(text, sizeof(text), "%.0f %%", share * 100);
    buf_printf(out, "  %6s", text);
}

static void put_rate(double rate, struct buf *out)
{
    char text[32] = "-";
    if (!isnan(rate))
        snprintf(text, sizeof(text), "%.*f", rate > 0 && rate < 10, rate);
    buf_printf(out, "  %10s", text);
}

static void put_process(const struct gpu_view *view, const struct gpu_process *p, struct buf *out)
{
    char busy[16] = "-", memory[32] = "-", command[GPU_COMMAND_BYTES];
    const char *service = gpu_view_service(view, p->h.pid);
    double launches, copies, waits;
    const bool has_launches = gpu_view_launch_rate(view, p->h.pid, &launches);
    const bool has_copies = gpu_view_rate(view, p->h.pid, AGENT_GPU_COPIES, &copies);
    const bool has_waits = gpu_view_rate(view, p->h.pid, AGENT_GPU_WAIT_SECONDS, &waits);
    if (p->busy != UINT32_MAX)
        snprintf(busy, sizeof(busy), "%u %%", p->busy);
    if (p->memory != UINT64_MAX)
        units_format_size(p->memory, memory, sizeof(memory));
    buf_printf(out, "%-*u  %8u  %5s  %10s", INDEX_WIDTH, p->device, p->h.pid, busy, memory);
    put_rate(has_launches ? launches : NAN, out);
    put_rate(has_copies ? copies : NAN, out);
    put_share(has_waits ? waits : NAN, out);
    buf_puts(out, "  ");
    table_cell_put(out, gpu_view_command(p->h.pid, command)[0] ? command : "-", COMMAND_WIDTH);
    buf_puts(out, "  ");
    table_cell_put(out, service[0] ? service : "-", 0);
    buf_putc(out, '\n');
}

static void put_processes(const struct gpu_view *view, struct buf *out)
{
    const uint32_t omitted = gpu_view_omitted(view);
    if (!view->list->process_count) {
        if (omitted)
            buf_printf(out, "\n%" PRIu32 " processes use GPUs, too many to be listed.\n", omitted);
        else
            buf_puts(out, "\nNo process uses a GPU.\n");
        return;
    }
    buf_printf(out, "\n%-*s  %8s  %5s  %10s  %10s  %10s  %6s  %-*s  %s\n", INDEX_WIDTH, "GPU", "PID", "USE", "MEMORY",
               "LAUNCHES/S", "COPIES/S", "WAITS", COMMAND_WIDTH, "PROCESS", "SERVICE");
    for (size_t i = 0; i < view->list->process_count; i++)
        put_process(view, &view->list->processes[i], out);
    if (omitted)
        buf_printf(out, "and %" PRIu32 " more processes\n", omitted);
    if (view->calls_missing[0])
        buf_printf(out, "Launches, copies and waits are not known: %s\n", view->calls_missing);
}

static void put_verdicts(const struct gpu_view *view, struct buf *out)
{
    char text[GPU_VERDICT_BYTES];
    buf_putc(out, '\n');
    for (size_t i = 0; i < view->list->device_count; i++) {
        const struct gpu_device *d = &view->list->devices[i];
        if (d->instance != GPU_NO_INSTANCE)
            continue;
        gpu_verdict_of(view, d, text);
        buf_printf(out, "GPU %u: %s\n", d->index, text);
    }
}

void gpu_text_put(const struct gpu_view *view, struct buf *out)
{
    buf_printf(out, "NVIDIA driver %s\n\n", view->driver[0] ? view->driver : "-");
    if (!view->list->device_count) {
        buf_puts(out, "No GPU: the driver lists none.\n");
        return;
    }
    buf_printf(out, "%-*s  %-*s  %5s  %21s  %6s  %5s  %8s  %s\n", INDEX_WIDTH, "GPU", NAME_WIDTH, "NAME", "USE",
               "MEMORY", "POWER", "TEMP", "SM CLOCK", "STATE");
    for (size_t i = 0; i < view->list->device_count; i++)
        put_device(&view->list->devices[i], out);
    put_processes(view, out);
    put_verdicts(view, out);
}
