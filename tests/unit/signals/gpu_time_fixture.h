/* Records of `sonde record --gpu`, and fakes in place of the resolver (by the linker's --wrap): a launch's frames are
 * named by their addresses. */
#pragma once

#include "resolve/sample/samples.h"

#include "probes/gpu_time.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define IN_LIBRARY 1 /* addresses of frames in the libraries that observe a launch */
#define IN_CUPTI   2

struct fake_launch {
    struct stack_record record;
    uint64_t frames[4];
};

/* Of `count` frames, leaf first. */
static inline struct fake_launch fake_launch(uint32_t pid, uint64_t number, const uint64_t *frames, uint16_t count)
{
    struct fake_launch l = {
        .record = {.h = {.kind = RECORD_GPU_LAUNCH, .time_ns = 1000, .pid = pid, .tid = pid}, .user_frames = count}};
    l.record.h.size_bytes = (uint32_t)(sizeof(l.record) + count * sizeof(*frames));
    l.record.sample.value = number;
    for (uint16_t i = 0; i < count; i++)
        l.frames[i] = frames[i];
    return l;
}

struct fake_sum {
    struct gpu_sum sum;
    char name[GPU_NAME_MAX + 1];
};

/* Two executions in 100 ns. */
static inline struct fake_sum fake_sum(uint32_t pid, uint32_t launch, const char *name)
{
    struct fake_sum s = {.sum = {.h = {.kind = RECORD_GPU_SUM, .time_ns = 2000, .pid = pid, .tid = pid + 1},
                                 .launch = launch,
                                 .count = 2,
                                 .ns = 100,
                                 .name_bytes = (uint16_t)strlen(name)}};
    s.sum.h.size_bytes = (uint32_t)(sizeof(s.sum) + ((s.sum.name_bytes + 7u) & ~7u));
    memcpy(s.name, name, s.sum.name_bytes);
    return s;
}

/* ---- the resolver ---- */

static struct {
    struct sample_label labels[GO_LABELS_MAX]; /* of each sample */
    size_t label_count;
    int demangle_error;
    unsigned demangled; /* calls */
} fake_resolver;

int __wrap_sample_resolve(struct sample_resolver *r, const struct stack_record *record, struct losses *losses,
                          struct sample *ret);
int __wrap_sample_resolve(struct sample_resolver *r, const struct stack_record *record, struct losses *losses,
                          struct sample *ret)
{
    static struct frame frames[4];
    static char names[4][16];
    static struct resource resource;
    (void)r, (void)losses;
    for (size_t i = 0; i < record->user_frames; i++) {
        snprintf(names[i], sizeof(names[i]), "f%llu", (unsigned long long)record->data[i]);
        frames[i] = (struct frame){.kind = FRAME_NATIVE,
                                   .function = names[i],
                                   .system_name = "",
                                   .file = "",
                                   .mapping = record->data[i] == IN_LIBRARY ? "/usr/lib/sonde/libsonde-cuda.so"
                                              : record->data[i] == IN_CUPTI ? "/opt/libcupti.so.12"
                                                                            : "/usr/bin/program",
                                   .build_id = ""};
    }
    resource = resource_unknown;
    resource.pid = record->h.pid;
    *ret = (struct sample){.type = &sample_type_cpu,
                           .time_ns = record->h.time_ns,
                           .tid = record->h.tid,
                           .thread_name = "",
                           .resource = &resource,
                           .frames = frames,
                           .frame_count = record->user_frames,
                           .labels = fake_resolver.labels,
                           .label_count = fake_resolver.label_count};
    return 0;
}

int __wrap_sample_demangle(struct sample_resolver *r, const char *symbol, char out[DEMANGLED_MAX]);
int __wrap_sample_demangle(struct sample_resolver *r, const char *symbol, char out[DEMANGLED_MAX])
{
    (void)r;
    fake_resolver.demangled++;
    if (fake_resolver.demangle_error)
        return fake_resolver.demangle_error;
    snprintf(out, DEMANGLED_MAX, "readable %s", symbol);
    return 0;
}

/* A sample as text: "PID: FRAME;... xCOUNT NS KEY=VALUE ...", leaf first. */
static inline void describe_sample(const struct sample *s, char *out, size_t size)
{
    size_t used = (size_t)snprintf(out, size, "%u: ", s->resource ? s->resource->pid : 0);
    for (size_t i = 0; i < s->frame_count && used < size; i++)
        used += (size_t)snprintf(out + used, size - used, "%s%s", i ? ";" : "", s->frames[i].function);
    if (used < size)
        used += (size_t)snprintf(out + used, size - used, " x%llu %llu", (unsigned long long)s->count,
                                 (unsigned long long)s->value);
    for (size_t i = 0; i < s->label_count && used < size; i++)
        used += (size_t)snprintf(out + used, size - used, " %s=%s", s->labels[i].key, s->labels[i].value);
}
