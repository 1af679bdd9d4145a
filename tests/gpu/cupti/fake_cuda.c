/* See fake_cuda.h. An execution ends at once, so its record is there when the call returns. */
#include "fake_cuda.h"

#include "fake_cupti.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define KERNEL_BYTES 208 /* of the records of CUDA 12.9 */
#define COPY_BYTES   96
#define SET_BYTES    88
#define EPOCH_NS     1000000

/* An instruction that a uprobe can replace at a low cost: in the functions whose calls are counted. */
#define BEGINS_WITH_NOP __attribute__((patchable_function_entry(1)))

/* What a program made; nothing is freed. */
struct made {
    struct made *before;
};

struct kernel {
    struct made made;
    const char *name;
    uint64_t ns;
};

struct graph {
    struct made made;
    size_t count;
    struct kernel *kernels[];
};

static _Atomic uint32_t calls;
static _Atomic uint64_t gpu_ns = EPOCH_NS;

static struct made *_Atomic last_made;

static void keep(struct made *m)
{
    m->before = atomic_exchange(&last_made, m);
}

void *fake_kernel(const char *name, uint64_t ns)
{
    struct kernel *k = malloc(sizeof(*k));
    *k = (struct kernel){.name = strdup(name), .ns = ns};
    keep(&k->made);
    return k;
}

void *fake_graph(void **kernels, size_t count)
{
    struct graph *g = malloc(sizeof(*g) + count * sizeof(*kernels));
    g->count = count;
    memcpy(g->kernels, kernels, count * sizeof(*kernels));
    keep(&g->made);
    return g;
}

int cuInit(unsigned flags)
{
    const char *path = getenv("CUDA_INJECTION64_PATH");
    void *library = path ? dlopen(path, RTLD_NOW) : NULL;
    int (*initialize)(void) = NULL;
    (void)flags;
    if (library)
        *(void **)&initialize = dlsym(library, "InitializeInjection");
    if (initialize)
        initialize();
    return 0;
}

int cuDriverGetVersion(int *version)
{
    *version = 12090;
    return 0;
}

uint32_t fake_correlation(void)
{
    return calls;
}

static uint32_t begin_call(uint32_t domain, uint32_t call)
{
    const uint32_t correlation = ++calls;
    fake_cupti_call(CUPTI_SITE_ENTER, domain, call, correlation);
    return correlation;
}

static void end_call(uint32_t domain, uint32_t call, uint32_t correlation)
{
    fake_cupti_call(CUPTI_SITE_EXIT, domain, call, correlation);
}

static void add_kernel(const struct kernel *k, uint32_t correlation, uint64_t graph_node, uint64_t start, uint64_t end)
{
    union {
        struct cupti_kernel kernel;
        char bytes[KERNEL_BYTES];
    } r;
    memset(&r, 0xff, sizeof(r));
    r.kernel.kind = CUPTI_KIND_CONCURRENT_KERNEL;
    r.kernel.start = start;
    r.kernel.end = end;
    r.kernel.device = 0;
    r.kernel.correlation = correlation;
    r.kernel.name = k->name;
    r.kernel.graph_node = graph_node;
    fake_cupti_add(&r, sizeof(r));
}

static void run_kernel(const struct kernel *k, uint32_t correlation, uint64_t graph_node)
{
    const uint64_t start = atomic_fetch_add(&gpu_ns, k->ns);
    add_kernel(k, correlation, graph_node, start, start + k->ns);
}

void fake_execution(void *kernel, uint32_t correlation, uint64_t start, uint64_t end)
{
    add_kernel(kernel, correlation, 0, start, end);
}

BEGINS_WITH_NOP int cuLaunchKernel(void *kernel)
{
    const uint32_t correlation = begin_call(CUPTI_DOMAIN_DRIVER, CUPTI_DRIVER_LAUNCH_KERNEL);
    run_kernel(kernel, correlation, 0);
    end_call(CUPTI_DOMAIN_DRIVER, CUPTI_DRIVER_LAUNCH_KERNEL, correlation);
    return 0;
}

int cudaLaunchKernel(void *kernel)
{
    enum { CALL = 211 };
    const uint32_t correlation = begin_call(CUPTI_DOMAIN_RUNTIME, CALL);
    cuLaunchKernel(kernel);
    end_call(CUPTI_DOMAIN_RUNTIME, CALL, correlation);
    return 0;
}

BEGINS_WITH_NOP int cuGraphLaunch(void *graph)
{
    const struct graph *g = graph;
    const uint32_t correlation = begin_call(CUPTI_DOMAIN_DRIVER, CUPTI_DRIVER_GRAPH_LAUNCH);
    for (size_t i = 0; i < g->count; i++)
        run_kernel(g->kernels[i], correlation, i + 1);
    end_call(CUPTI_DOMAIN_DRIVER, CUPTI_DRIVER_GRAPH_LAUNCH, correlation);
    return 0;
}

static int copy(uint32_t call, uint8_t direction, uint64_t ns)
{
    union {
        struct cupti_copy copy;
        char bytes[COPY_BYTES];
    } r;
    const uint32_t correlation = begin_call(CUPTI_DOMAIN_DRIVER, call);
    const uint64_t start = atomic_fetch_add(&gpu_ns, ns);
    memset(&r, 0, sizeof(r));
    r.copy = (struct cupti_copy){.kind = CUPTI_KIND_MEMCPY,
                                 .direction = direction,
                                 .start = start,
                                 .end = start + ns,
                                 .correlation = correlation};
    fake_cupti_add(&r, sizeof(r));
    end_call(CUPTI_DOMAIN_DRIVER, call, correlation);
    return 0;
}

BEGINS_WITH_NOP int cuMemcpyHtoD_v2(uint64_t ns)
{
    return copy(276, CUPTI_COPY_HTOD, ns);
}

BEGINS_WITH_NOP int cuMemcpyDtoH_v2(uint64_t ns)
{
    return copy(278, CUPTI_COPY_DTOH, ns);
}

int cuMemsetD8_v2(uint64_t ns)
{
    enum { CALL = 249 };
    union {
        struct cupti_set set;
        char bytes[SET_BYTES];
    } r;
    const uint32_t correlation = begin_call(CUPTI_DOMAIN_DRIVER, CALL);
    const uint64_t start = atomic_fetch_add(&gpu_ns, ns);
    memset(&r, 0, sizeof(r));
    r.set =
        (struct cupti_set){.kind = CUPTI_KIND_MEMSET, .start = start, .end = start + ns, .correlation = correlation};
    fake_cupti_add(&r, sizeof(r));
    end_call(CUPTI_DOMAIN_DRIVER, CALL, correlation);
    return 0;
}

/* ---- calls without a record ---- */

BEGINS_WITH_NOP int cuMemAlloc_v2(void)
{
    return 0;
}

static int wait_for_gpu(uint64_t ns)
{
    const struct timespec duration = {.tv_sec = (time_t)(ns / 1000000000), .tv_nsec = (long)(ns % 1000000000)};
    return nanosleep(&duration, NULL);
}

BEGINS_WITH_NOP int cuStreamSynchronize(uint64_t ns)
{
    return wait_for_gpu(ns);
}

BEGINS_WITH_NOP int cuStreamSynchronize_ptsz(uint64_t ns)
{
    return wait_for_gpu(ns);
}
