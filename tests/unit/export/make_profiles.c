/* Writes known profiles in every format, and known metrics, into a folder, for readers that others wrote
 * (tests/e2e/test_formats.py). */
#include "export/export.h"
#include "export/openmetrics.h"

#include "../fixture.h"

#include <errno.h>

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
    metric_add(set, "sonde_self_samples", METRIC_COUNTER, "", "CPU samples taken.", 12345678901,
               METRIC_NO_LABELS);
    metric_add(set, "sonde_self_losses", METRIC_COUNTER, "", "What was lost,\nby \"reason\" \\ why.", 1,
               METRIC_LABELS({"reason", "ring_full"}));
    metric_add(set, "sonde_self_losses", METRIC_COUNTER, "", "", 2,
               METRIC_LABELS({"reason", "hostile \"\\\n\xff\r <&"}));
    metric_add(set, "sonde_self_memory_bytes", METRIC_GAUGE, "bytes", "Memory.", 0.1 + 0.2, METRIC_NO_LABELS);
    metric_add(set, "sonde_build", METRIC_INFO, "", "What runs.", 1,
               METRIC_LABELS({"version", SONDE_VERSION}, {"arch", "x86_64"}));
    const double bounds[] = {0.001, 0.5, 1, 10};
    const uint64_t counts[] = {1, 2, 0, 3, 4};
    metric_add_histogram(set, "sonde_request_duration_seconds", "seconds", "How long requests took.", bounds,
                         counts, 4, 61.25, METRIC_LABELS({"service", "shop"}));
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
               {"empty", empty},
               {"dropped", truncated}};
    if (argc != 2)
        return 2;
    for (size_t i = 0; i < array_size(all); i++) {
        _cleanup_(profile_freep) struct profile *p = NULL;
        if (profile_new(0, &p) < 0)
            return 1;
        all[i].fill(p);
        if (write_profile(argv[1], all[i].name, p) < 0)
            return 1;
    }
    return write_metrics(argv[1]) < 0;
}
