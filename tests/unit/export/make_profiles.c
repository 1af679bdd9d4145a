/* Writes known profiles in every format, and known metrics, into a directory, for third-party readers
 * (tests/e2e/test_formats.py). */
#include "export/export.h"
#include "export/openmetrics.h"
#include "export/otlp_profiles.h"

#include "../fixture.h"

#include <errno.h>
#include <stdbool.h>

static int write_file(const char *folder, const char *name, const char *suffix, const struct buf *b)
{
    char path[4096];
    snprintf(path, sizeof(path), "%s/%s%s", folder, name, suffix);
    _cleanup_fclose_ FILE *f = fopen(path, "we");
    if (!f || (b->size && fwrite(b->data, 1, b->size, f) != b->size) || fflush(f) != 0) {
        perror(path);
        return -1;
    }
    return 0;
}

static int write_profile(const char *folder, const char *name, const struct profile *p)
{
    for (const struct exporter *const *e = exporters; *e; e++) {
        _cleanup_buf_ struct buf out = {0};
        int r = (*e)->write(p, &out);
        if (r < 0) {
            fprintf(stderr, "%s: %s: %s\n", name, (*e)->name, strerror(-r));
            return -1;
        }
        if (write_file(folder, name, (*e)->suffix, &out) < 0)
            return -1;
    }
    return 0;
}

struct packets {
    const char *folder, *name;
    unsigned count;
    bool failed;
};

static void write_packet(void *context, const struct otlp_profiles_packet *packet)
{
    struct packets *to = context;
    struct buf data = {.data = (char *)(uintptr_t)packet->data, .size = packet->size};
    char suffix[24];
    snprintf(suffix, sizeof(suffix), ".%u.otlp", to->count++);
    to->failed |= write_file(to->folder, to->name, suffix, &data) < 0;
}

static int write_packets(const char *folder, const char *name, const struct profile *p, size_t max_bytes)
{
    const struct otlp_profiles_options options = {
        .packet_max_bytes = max_bytes, .host_name = "node \xff", .id_seed = 1, .time_step_ns = 1 << 20};
    struct packets to = {.folder = folder, .name = name};
    uint64_t too_large = 0;
    int r = otlp_profiles_write(p, &options, &(struct otlp_profiles_sink){&to, write_packet}, &too_large);
    return r < 0 || to.failed || too_large ? -1 : 0;
}

/* More than two packets of OTLP, with timestamps and links. */
static void many(struct profile *p)
{
    p->start_unix_ns = 1785585600000000000u;
    p->duration_ns = 60000000000u;
    p->period = 10000000u;
    for (uint32_t i = 0; i < 6000; i++) {
        char names[3][32];
        struct frame frames[3];
        struct resource resource = fixture_resource(1 + i % 7, "many");
        resource.service_name = i % 2 ? "odd" : "even";
        for (uint32_t n = 0; n < 3; n++) {
            snprintf(names[n], sizeof(names[n]), "function_%u", (i >> (4 * n)) * (n + 1));
            frames[n] = fixture_native(names[n]);
        }
        fixture_add_moment(p, &resource, i % 11, 10000000 + i, frames, 3, i);
        fixture_add_moment(p, &resource, i % 11, 10000000, frames, 3, i);
    }
}

/* One entry, split over several packets. */
static void hot(struct profile *p)
{
    const struct resource resource = fixture_resource(7, "hot");
    const struct frame frame = fixture_native("loop");
    p->start_unix_ns = 1785585600000000000u;
    p->duration_ns = 60000000000u;
    p->period = 1000000u;
    for (uint32_t i = 0; i < 30000; i++)
        fixture_add_moment(p, &resource, 7, 1000000, &frame, 1, 3 * i);
}

static void deep(struct profile *p)
{
    fixture_deep(p, 1000);
}

static void empty(struct profile *p)
{
    (void)p;
}

static void truncated(struct profile *p)
{
    fixture_typical(p);
    p->dropped = 3;
}

static int write_metrics(const char *folder)
{
    _cleanup_(metric_set_freep) struct metric_set *set = NULL;
    if (metric_set_new(&set) < 0)
        return -1;
    metric_add(set, "sonde_self_samples", METRIC_COUNTER, "", "CPU samples taken.", 12345678901, METRIC_NO_LABELS);
    metric_add(set, "sonde_self_losses", METRIC_COUNTER, "", "Lost records,\nby \"reason\" \\ why.", 1,
               METRIC_LABELS({"reason", "ring_full"}));
    metric_add(set, "sonde_self_losses", METRIC_COUNTER, "", "", 2,
               METRIC_LABELS({"reason", "hostile \"\\\n\xff\r <&"}));
    metric_add(set, "sonde_self_memory_bytes", METRIC_GAUGE, "bytes", "Memory.", 0.1 + 0.2, METRIC_NO_LABELS);
    metric_add(set, "sonde_build", METRIC_INFO, "", "Build.", 1,
               METRIC_LABELS({"version", SONDE_VERSION}, {"arch", "x86_64"}));
    const double bounds[] = {0.001, 0.5, 1, 10};
    const uint64_t counts[] = {1, 2, 0, 3, 4};
    metric_add_histogram(set, "sonde_request_duration_seconds", "seconds", "How long requests took.", bounds, counts, 4,
                         61.25, METRIC_LABELS({"service", "shop"}));
    for (int openmetrics = 0; openmetrics < 2; openmetrics++) {
        _cleanup_buf_ struct buf out = {0};
        if (openmetrics_write(set, openmetrics, &out) < 0 ||
            write_file(folder, "metrics", openmetrics ? ".om" : ".txt", &out) < 0)
            return -1;
    }
    return 0;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*fill)(struct profile *p);
    } all[] = {{"typical", fixture_typical},
               {"hostile", fixture_hostile},
               {"deep", deep},
               {"many", many},
               {"hot", hot},
               {"empty", empty},
               {"dropped", truncated}};
    if (argc != 2)
        return 2;
    for (size_t i = 0; i < array_size(all); i++) {
        _cleanup_(profile_freep) struct profile *p = NULL;
        if (profile_new(0, &p) < 0)
            return 1;
        const bool is_small = all[i].fill == many || all[i].fill == hot;
        all[i].fill(p);
        if (write_profile(argv[1], all[i].name, p) < 0 ||
            write_packets(argv[1], all[i].name, p, is_small ? 1 << 17 : 1 << 20) < 0)
            return 1;
    }
    return write_metrics(argv[1]) < 0;
}
