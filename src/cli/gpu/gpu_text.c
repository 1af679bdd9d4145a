/* See gpu_text.h. */
#include "cli/gpu/gpu_text.h"

#include "base/table_cell.h"
#include "base/units.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define INDEX_WIDTH 4 /* "0:13" */
#define NAME_WIDTH  26

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

static void put_process(const struct gpu_process *p, struct buf *out)
{
    _cleanup_buf_ struct buf name = {0};
    char path[48], busy[16] = "-", memory[32] = "-";
    snprintf(path, sizeof(path), "/proc/%u/comm", p->h.pid);
    if (buf_read_file(&name, path, 64) < 0 || !name.data)
        buf_puts(&name, "-");
    if (name.data)
        name.data[strcspn(name.data, "\n")] = '\0';
    if (p->busy != UINT32_MAX)
        snprintf(busy, sizeof(busy), "%u %%", p->busy);
    if (p->memory != UINT64_MAX)
        units_format_size(p->memory, memory, sizeof(memory));
    buf_printf(out, "%-*u  %8u  %5s  %10s  ", INDEX_WIDTH, p->device, p->h.pid, busy, memory);
    table_cell_put(out, name.data ? name.data : "", 0);
    buf_putc(out, '\n');
}

void gpu_text_put(const struct gpu_list *list, const char *driver, struct buf *out)
{
    buf_printf(out, "NVIDIA driver %s\n\n%-*s  %-*s  %5s  %21s  %6s  %5s  %8s  %s\n", driver[0] ? driver : "-",
               INDEX_WIDTH, "GPU", NAME_WIDTH, "NAME", "USE", "MEMORY", "POWER", "TEMP", "SM CLOCK", "STATE");
    for (size_t i = 0; i < list->device_count; i++)
        put_device(&list->devices[i], out);
    if (!list->device_count)
        buf_puts(out, "no device\n");
    buf_printf(out, "\n%-*s  %8s  %5s  %10s  %s\n", INDEX_WIDTH, "GPU", "PID", "USE", "MEMORY", "PROCESS");
    for (size_t i = 0; i < list->process_count; i++)
        put_process(&list->processes[i], out);
    if (!list->process_count)
        buf_puts(out, "no process\n");
}
