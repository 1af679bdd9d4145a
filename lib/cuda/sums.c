/* Two hash tables with open addressing: the kernels of the window, and the sums since the last report. */
#include "cuda/sums.h"

#include "cuda/probes.h"

#include <stdlib.h>
#include <string.h>

#define KERNEL_SLOTS (2 * SUMS_KERNELS_MAX)
#define SUMS_MAX     2048 /* then they are reported at once */
#define SUM_SLOTS    (2 * SUMS_MAX)
#define MORE_KERNELS "[more kernels]"

struct sum {
    uint64_t count, ns;
};

struct kernel {
    struct sums_work work; /* name: a copy, NULL in an unused slot */
    struct sum unlaunched; /* executions whose launch has no stack */
};

struct launch_sum {
    uint32_t launch, kernel; /* launch 0: an unused slot */
    struct sum sum;
};

struct sums {
    struct kernel kernels[KERNEL_SLOTS + GPU_WORK_COUNT]; /* at the end: further kernels, by kind of work */
    struct launch_sum sums[SUM_SLOTS];
    uint32_t kernel_count, sum_count;
    size_t names_used;
    struct sums_totals totals;
    union {
        struct gpu_sum sum;
        char bytes[GPU_RECORD_MAX_BYTES];
    } record;
    char names[SUMS_NAMES_BYTES];
};

struct sums *sums_new(void)
{
    struct sums *s = calloc(1, sizeof(*s));
    for (uint32_t i = 0; s && i < GPU_WORK_COUNT; i++)
        s->kernels[KERNEL_SLOTS + i].work = (struct sums_work){.kind = (enum gpu_work)i, .name = MORE_KERNELS};
    return s;
}

void sums_free(struct sums *s)
{
    free(s);
}

static uint64_t hash(uint64_t x, uint64_t y)
{
    x = (x ^ (y << 32 | y >> 32)) * 0x9e3779b97f4a7c15u;
    return x ^ (x >> 29);
}

/* A copy of at most GPU_NAME_MAX bytes; NULL: no room. */
static const char *copy_name(struct sums *s, const char *name)
{
    const size_t size = strnlen(name, GPU_NAME_MAX);
    if (size >= sizeof(s->names) - s->names_used)
        return NULL;
    char *copy = memcpy(s->names + s->names_used, name, size);
    s->names_used += size + 1; /* the memory is zeroed */
    return copy;
}

static bool is_kernel(const struct kernel *k, const struct sums_work *work)
{
    return k->work.kind == work->kind && k->work.device == work->device && k->work.is_graph == work->is_graph &&
           strncmp(k->work.name, work->name, GPU_NAME_MAX) == 0;
}

/* By the address of its name, which spares hashing it. The same name at another address is another entry, and equal in
 * the reports. */
static uint32_t find_kernel(struct sums *s, const struct sums_work *work)
{
    const uint64_t key = (uint64_t)work->device << 8 | (uint64_t)work->kind << 1 | work->is_graph;
    uint32_t at = (uint32_t)(hash((uint64_t)(uintptr_t)work->name, key) % KERNEL_SLOTS);
    for (; s->kernels[at].work.name; at = (at + 1) % KERNEL_SLOTS)
        if (is_kernel(&s->kernels[at], work))
            return at;
    const char *name = s->kernel_count < SUMS_KERNELS_MAX ? copy_name(s, work->name) : NULL;
    if (!name) {
        s->totals.unnamed++;
        return (uint32_t)(KERNEL_SLOTS + work->kind);
    }
    s->kernel_count++;
    s->kernels[at].work = *work;
    s->kernels[at].work.name = name;
    return at;
}

static struct launch_sum *find_sum(struct sums *s, uint32_t launch, uint32_t kernel)
{
    uint32_t at = (uint32_t)(hash(launch, kernel) % SUM_SLOTS);
    for (; s->sums[at].launch; at = (at + 1) % SUM_SLOTS)
        if (s->sums[at].launch == launch && s->sums[at].kernel == kernel)
            return &s->sums[at];
    s->sums[at] = (struct launch_sum){.launch = launch, .kernel = kernel};
    s->sum_count++;
    return &s->sums[at];
}

static void add(struct sum *to, struct sum what)
{
    to->count += what.count;
    to->ns += what.ns;
}

void sums_add(struct sums *s, const struct sums_work *work, uint32_t launch, uint64_t ns)
{
    const uint32_t at = find_kernel(s, work);
    struct kernel *k = &s->kernels[at];
    s->totals.executions++;
    if (!launch) {
        add(&k->unlaunched, (struct sum){1, ns});
        return;
    }
    if (s->sum_count == SUMS_MAX)
        sums_report(s, false);
    struct launch_sum *of_launch = find_sum(s, launch, at);
    add(&of_launch->sum, (struct sum){1, ns});
    add(&of_launch->sum, k->unlaunched);
    k->unlaunched = (struct sum){0};
}

static void report(struct sums *s, uint32_t launch, const struct sums_work *work, struct sum sum)
{
    const size_t name_bytes = strlen(work->name), padded = (name_bytes + 7) & ~(size_t)7;
    struct gpu_sum *r = &s->record.sum;
    *r = (struct gpu_sum){.h = {.size_bytes = (uint32_t)(sizeof(*r) + padded), .kind = RECORD_GPU_SUM},
                          .launch = launch,
                          .device = work->device,
                          .count = sum.count,
                          .ns = sum.ns,
                          .work = (uint8_t)work->kind,
                          .is_graph = work->is_graph,
                          .name_bytes = (uint16_t)name_bytes};
    memset(s->record.bytes + sizeof(*r), 0, padded);
    memcpy(s->record.bytes + sizeof(*r), work->name, name_bytes);
    cuda_probes_record(&r->h);
}

void sums_report(struct sums *s, bool all)
{
    for (uint32_t i = 0; s->sum_count && i < SUM_SLOTS; i++)
        if (s->sums[i].launch)
            report(s, s->sums[i].launch, &s->kernels[s->sums[i].kernel].work, s->sums[i].sum);
    if (s->sum_count)
        memset(s->sums, 0, sizeof(s->sums));
    s->sum_count = 0;
    for (uint32_t i = 0; all && i < KERNEL_SLOTS + GPU_WORK_COUNT; i++) {
        struct kernel *k = &s->kernels[i];
        if (k->unlaunched.count)
            report(s, 0, &k->work, k->unlaunched);
        k->unlaunched = (struct sum){0};
    }
}

void sums_totals(const struct sums *s, struct sums_totals *ret)
{
    *ret = s->totals;
}
