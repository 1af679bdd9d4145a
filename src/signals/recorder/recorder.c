/* Signal "recorder": keeps what threads and sockets did in the last seconds, for the signals that explain (the flight
 * recorder, tables/flight_recorder.h). It has no records of its own. Its programs also sum up waits for Python's GIL.
 */
#include "sources/recorder/recorder.h"

#include "base/clock.h"
#include "signals/recorder/gil_waits.h"
#include "signals/signal.h"

#define MEMORY_BYTES (16 << 20)

static uint64_t recorder_bytes(const void *settings)
{
    return ((const struct recorder_options *)settings)->memory_bytes;
}

static int create_recorder(const struct signal_services *services, const void *settings, void *source, void **ret_self)
{
    struct gil_waits *waits = NULL;
    const int r = source ? gil_waits_new(services, source, &waits) : 0;
    (void)settings;
    *ret_self = waits;
    return r;
}

static void destroy_recorder(void *self)
{
    gil_waits_free(self);
}

static void follow_waits(void *self, const struct mapped_processes *mapped)
{
    (void)mapped;
    gil_waits_follow(self, clock_monotonic_ns());
}

static void put_metrics(void *self, struct metric_set *set)
{
    gil_waits_metrics(self, set);
}

#define FIELD(f) offsetof(struct recorder_options, f), sizeof(((struct recorder_options *)0)->f)

static const struct setting settings[] = {
    SIGNAL_ENABLED("recorder.enabled",
                   "record the activity of threads and sockets in the last seconds, to explain requests"),
    {"recorder.memory", SETTING_SIZE, FIELD(memory_bytes), 1 << 20, 1 << 30, "a size of 1MiB to 1GiB, such as 16MiB",
     "memory for it, all CPUs together"},
    {0},
};

const struct signal signal_recorder = {
    .name = "recorder",
    .memory = {.fixed_bytes = 2336u << 10},
    .source = &source_recorder,
    .flags = SIGNAL_AUXILIARY,
    .settings_bytes = sizeof(struct recorder_options),
    .defaults = &(const struct recorder_options){.enabled = true, .memory_bytes = MEMORY_BYTES},
    .settings = settings,
    .recorder_bytes = recorder_bytes,
    .create = create_recorder,
    .destroy = destroy_recorder,
    .turn = follow_waits,
    .metrics = put_metrics,
};
