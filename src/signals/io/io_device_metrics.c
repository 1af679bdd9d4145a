/* From series of block devices to metrics; see io_device_metrics.h. */
#include "signals/io/io_device_metrics.h"

#include "base/cleanup.h"
#include "signals/io/io_metrics.h"
#include "sources/io/io_counters.h"

static const char *const operation_names[IO_DEVICE_OPERATIONS] = {
    [IO_DEVICE_READ] = "read",
    [IO_DEVICE_WRITE] = "write",
    [IO_DEVICE_FLUSH] = "flush",
    [IO_DEVICE_DISCARD] = "discard",
};

static const char *operation_name(uint8_t operation)
{
    return operation < IO_DEVICE_OPERATIONS && operation_names[operation] ? operation_names[operation] : "unknown";
}

static void put_bytes(struct metric_set *set, const struct io_device_point *p, const struct metric_label *labels,
                      size_t label_count)
{
    if (p->operation == IO_DEVICE_READ)
        metric_add(set, "sonde_io_device_read_bytes", METRIC_COUNTER, "bytes", "Bytes read from block devices.",
                   (double)p->counters.bytes, labels, label_count);
    else if (p->operation == IO_DEVICE_WRITE)
        metric_add(set, "sonde_io_device_write_bytes", METRIC_COUNTER, "bytes", "Bytes written to block devices.",
                   (double)p->counters.bytes, labels, label_count);
}

static void put_point(void *context, const struct io_device_point *p)
{
    struct metric_set *set = context;
    const struct metric_label labels[] = {{"manager", p->job->manager},
                                          {"job_id", p->job->id},
                                          {"device", p->device},
                                          {"operation", operation_name(p->operation)}};
    const size_t of_device = 3, with_operation = 4;
    if (p->is_queue) {
        io_metrics_durations(set, "sonde_io_device_queue_seconds",
                             "Time of requests from their beginning until the device got them.", &p->counters, labels,
                             with_operation);
        return;
    }
    put_bytes(set, p, labels, of_device);
    metric_add(set, "sonde_io_device_operations", METRIC_COUNTER, "",
               "Requests that block devices ended, with those that failed.",
               (double)io_counters_operations(&p->counters), labels, with_operation);
    metric_add(set, "sonde_io_device_errors", METRIC_COUNTER, "", "Requests of block devices that failed.",
               (double)p->counters.errors, labels, with_operation);
    io_metrics_durations(set, "sonde_io_device_service_seconds",
                         "Time of requests at the device, from issue to completion.", &p->counters, labels,
                         with_operation);
}

void io_device_metrics_fill(const struct io_devices *devices, struct metric_set *set)
{
    io_devices_each(devices, put_point, set);
    metric_add(
        set, "sonde_io_device_series_folded", METRIC_GAUGE, "",
        "Entries of the kernel's table of block devices that count as job \"other\" because the series are full.",
        (double)io_devices_folded(devices), METRIC_NO_LABELS);
}
