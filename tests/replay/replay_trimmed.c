/* Replays a recording with small or emptied caches: `replay-trimmed WIRE MEMORY_BYTES EVERY [ENTRIES [PACKETS
 * NAME...]]`. The pipeline may hold MEMORY_BYTES (0: plenty), each of its caches ENTRIES (0: as many as that allows),
 * and after every EVERYth sample (0: never), in the middle of a turn, all caches are emptied. Writes folded stacks,
 * with losses as comments; and writes to the file PACKETS the exported samples, without kernel frames (their names are
 * today's), of the processes with these names. test_replay.py and test_caches.py compare: a cache saves work and does
 * not change output. */
#include "export/export.h"
#include "export/otlp_profiles.h"
#include "model/profile.h"
#include "pipeline/pipeline.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct replay {
    struct pipeline *pipeline;
    struct profile *profile, *sent;
    char **names; /* NULL-terminated */
    unsigned long every, entries, count;
};

static bool is_wanted(const struct replay *r, const char *command)
{
    for (char **name = r->names; name && *name; name++)
        if (strcmp(*name, command) == 0)
            return true;
    return false;
}

static int send(struct replay *r, const struct sample *sample)
{
    struct sample s = *sample;
    while (s.frame_count && s.frames[0].kind != FRAME_NATIVE && s.frames[0].kind != FRAME_TRUNCATED)
        s.frames++, s.frame_count--;
    return is_wanted(r, s.resource->command) ? profile_add_moment(r->sent, &s, s.time_ns) : 0;
}

static void write_packet(void *context, const struct otlp_profiles_packet *packet)
{
    fwrite(packet->data, 1, packet->size, context);
}

static int write_packets(const struct profile *p, const char *path)
{
    const struct otlp_profiles_options o = {.packet_max_bytes = 512 << 10, .host_name = "node"};
    uint64_t too_large;
    FILE *file = fopen(path, "we");
    if (!file)
        return -errno;
    int r = otlp_profiles_write(p, &o, &(struct otlp_profiles_sink){file, write_packet}, &too_large);
    return fclose(file) == 0 ? r : -errno;
}

static int take_sample(void *context, const struct sample *sample)
{
    struct replay *r = context;
    int error = profile_add(r->profile, sample);
    if (error >= 0)
        error = send(r, sample);
    if (r->every && ++r->count % r->every == 0)
        pipeline_trim(r->pipeline);
    return error;
}

/* Prints the work of the caches to stderr, which shows whether they evicted anything. */
static void print_cache_stats(const struct pipeline *p)
{
    static const char *const names[] = {"sonde_self_symbol_file_openings", "sonde_self_symbol_index_builds",
                                        "sonde_self_unwind_cache_builds", "sonde_self_objects_open"};
    _cleanup_(metric_set_freep) struct metric_set *set = NULL;
    if (metric_set_new(&set) < 0)
        return;
    pipeline_metrics(p, &(struct losses){0}, set);
    for (size_t i = 0; i < metric_set_families(set); i++)
        for (size_t k = 0; k < array_size(names); k++)
            if (strcmp(metric_set_family(set, i).name, names[k]) == 0)
                fprintf(stderr, "%s %.0f\n", names[k], metric_set_family(set, i).points[0].value);
}

static int run(struct replay *r, const char *wire, uint64_t memory_bytes)
{
    struct attach_report report = {0};
    struct losses losses;
    struct pipeline_options options = {
        .memory_bytes = memory_bytes ? memory_bytes : 1ull << 30, .replay = wire, .cache_entries = r->entries};
    struct pipeline_sink sink = {.context = r, .sample = take_sample};
    _cleanup_(pipeline_freep) struct pipeline *pipeline = NULL;
    _cleanup_buf_ struct buf out = {0};
    int error = pipeline_new(&options, &sink, &report, &pipeline);
    if (error < 0)
        return error;
    r->pipeline = pipeline;
    while ((error = pipeline_turn(pipeline)) >= 0)
        ;
    if (error == -ENODATA)
        error = exporter_folded.write(r->profile, &out);
    if (error < 0)
        return error;
    print_cache_stats(pipeline);
    pipeline_losses(pipeline, &losses);
    fwrite(out.data, 1, out.size, stdout);
    for (int i = 0; i < LOSS_COUNT; i++)
        if (losses.count[i])
            printf("# %s %llu\n", loss_name(i), (unsigned long long)losses.count[i]);
    return 0;
}

int main(int argc, char **argv)
{
    struct replay r = {.every = argc >= 4 ? strtoul(argv[3], NULL, 10) : 0,
                       .entries = argc >= 5 ? strtoul(argv[4], NULL, 10) : 0,
                       .names = argc >= 6 ? argv + 6 : NULL};
    if (argc < 4 || profile_new(0, &r.profile) < 0 || profile_new(0, &r.sent) < 0)
        return 2;
    if (r.entries) {
        profile_limit_cache(r.profile, (uint32_t)r.entries);
        profile_limit_cache(r.sent, (uint32_t)r.entries);
    }
    int error = run(&r, argv[1], strtoull(argv[2], NULL, 10));
    if (error >= 0 && argc >= 6)
        error = write_packets(r.sent, argv[5]);
    profile_free(r.profile);
    profile_free(r.sent);
    if (error < 0)
        fprintf(stderr, "%s: error %d\n", argv[1], -error);
    return error < 0;
}
