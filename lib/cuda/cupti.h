/* The parts of NVIDIA's CUPTI that libsonde-cuda uses, as the library's binary interface has them. No header of
 * NVIDIA's is needed to build; tests/e2e/test_cupti_layouts.py compares everything here with those of CUDA 11.8, 12 and
 * 13.
 *
 * The records below are the beginnings of NVIDIA's, which grow with each version; the members here have had the same
 * places since CUDA 11.2. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* What cuptiGetVersion() returns: a count up to CUDA 12.9, from CUDA 13.0 on 130000 and so on. */
#define CUPTI_VERSION_MIN           15     /* CUDA 11.2: the first whose copies have a graph */
#define CUPTI_VERSION_MAX           139999 /* later layouts have not been compared */
#define CUPTI_VERSION_SAFE_FINALIZE 24     /* CUDA 12.6: before, detaching crashed programs with graphs */

enum {
    CUPTI_OK = 0,
    CUPTI_MAX_LIMIT_REACHED = 12,   /* no more records in a buffer */
    CUPTI_MULTIPLE_SUBSCRIBERS = 39 /* another profiler is subscribed */
};

enum { CUPTI_DOMAIN_DRIVER = 1, CUPTI_DOMAIN_RUNTIME = 2 };
enum { CUPTI_SITE_ENTER = 0, CUPTI_SITE_EXIT = 1 };
enum { CUPTI_FLUSH_FORCED = 1 };

/* Kinds of records. */
enum {
    CUPTI_KIND_MEMCPY = 1,
    CUPTI_KIND_MEMSET = 2,
    CUPTI_KIND_CONCURRENT_KERNEL = 10,
    CUPTI_KIND_MEMCPY2 = 22, /* between two GPUs */
};

/* Directions of a copy: host, device, array, peer. */
enum {
    CUPTI_COPY_HTOD = 1,
    CUPTI_COPY_DTOH,
    CUPTI_COPY_HTOA,
    CUPTI_COPY_ATOH,
    CUPTI_COPY_ATOA,
    CUPTI_COPY_ATOD,
    CUPTI_COPY_DTOA,
    CUPTI_COPY_DTOD,
    CUPTI_COPY_HTOH,
    CUPTI_COPY_PTOP,
};

struct cupti_kernel { /* CUPTI_KIND_CONCURRENT_KERNEL */
    uint32_t kind;
    uint32_t configuration[3];
    uint64_t start, end; /* ns; 0: unknown */
    uint64_t completed;
    uint32_t device, context, stream;
    uint32_t launch[9]; /* grid, block, memory */
    uint32_t memory;
    uint32_t correlation;
    int64_t grid;
    const char *name; /* mangled; CUPTI's */
    uint64_t reserved;
    uint64_t queued, submitted;
    uint8_t launch_type[8];
    uint64_t graph_node; /* 0: not of a graph */
    uint32_t shared_memory;
    uint32_t graph;
};

struct cupti_copy { /* CUPTI_KIND_MEMCPY */
    uint32_t kind;
    uint8_t direction, source_kind, target_kind, flags;
    uint64_t bytes;
    uint64_t start, end;
    uint32_t device, context, stream;
    uint32_t correlation;
    uint32_t runtime_correlation;
    uint32_t padding;
    void *reserved;
    uint64_t graph_node;
    uint32_t graph;
};

struct cupti_peer_copy { /* CUPTI_KIND_MEMCPY2 */
    uint32_t kind;
    uint8_t direction, source_kind, target_kind, flags;
    uint64_t bytes;
    uint64_t start, end;
    uint32_t device, context, stream;
    uint32_t source_device, source_context, target_device, target_context;
    uint32_t correlation;
    void *reserved;
    uint64_t graph_node;
    uint32_t graph;
};

struct cupti_set { /* CUPTI_KIND_MEMSET */
    uint32_t kind;
    uint32_t value;
    uint64_t bytes;
    uint64_t start, end;
    uint32_t device, context, stream;
    uint32_t correlation;
    uint16_t flags, memory_kind;
    uint32_t padding;
    void *reserved;
    uint64_t graph_node;
    uint32_t graph;
};

struct cupti_call { /* of a callback */
    uint32_t site;
    const char *function;
    const void *arguments;
    void *result;
    const char *symbol;
    void *context;
    uint32_t context_id;
    uint64_t *data;
    uint32_t correlation;
};

typedef void cupti_on_call(void *user, uint32_t domain, uint32_t call, const struct cupti_call *c);
typedef void cupti_on_request(uint8_t **buffer, size_t *size, size_t *max_records);
typedef void cupti_on_complete(void *context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid_size);

/* X(member, symbol, parameters): every function that is loaded. All return a number of an error. */
#define CUPTI_FUNCTIONS(X)                                                                                             \
    X(version, "cuptiGetVersion", (uint32_t * version))                                                                \
    X(subscribe, "cuptiSubscribe", (void **subscriber, cupti_on_call *call, void *user))                               \
    X(unsubscribe, "cuptiUnsubscribe", (void *subscriber))                                                             \
    X(enable_callback, "cuptiEnableCallback", (uint32_t enable, void *subscriber, uint32_t domain, uint32_t call))     \
    X(register_callbacks, "cuptiActivityRegisterCallbacks",                                                            \
      (cupti_on_request * request, cupti_on_complete * complete))                                                      \
    X(enable, "cuptiActivityEnable", (uint32_t kind))                                                                  \
    X(disable, "cuptiActivityDisable", (uint32_t kind))                                                                \
    X(flush, "cuptiActivityFlushAll", (uint32_t flag))                                                                 \
    X(next, "cuptiActivityGetNextRecord", (uint8_t * buffer, size_t valid_size, void **record))                        \
    X(dropped, "cuptiActivityGetNumDroppedRecords", (void *context, uint32_t stream, size_t *dropped))                 \
    X(finalize, "cuptiFinalize", (void))

struct cupti {
#define X(member, symbol, parameters) int(*member) parameters;
    CUPTI_FUNCTIONS(X)
#undef X
};

/* X(domain, first, last): the calls that start work on a GPU, as ranges of CUPTI's numbers: launches of kernels and
 * graphs, copies, memsets. */
#define CUPTI_LAUNCH_CALLS(X)                                                                                          \
    X(CUPTI_DOMAIN_RUNTIME, 31, 52)                                                                                    \
    X(CUPTI_DOMAIN_RUNTIME, 142, 145)                                                                                  \
    X(CUPTI_DOMAIN_RUNTIME, 160, 163)                                                                                  \
    X(CUPTI_DOMAIN_RUNTIME, 211, 211)                                                                                  \
    X(CUPTI_DOMAIN_RUNTIME, 214, 236)                                                                                  \
    X(CUPTI_DOMAIN_RUNTIME, 243, 246)                                                                                  \
    X(CUPTI_DOMAIN_RUNTIME, 249, 250)                                                                                  \
    X(CUPTI_DOMAIN_RUNTIME, 269, 270)                                                                                  \
    X(CUPTI_DOMAIN_RUNTIME, 272, 272)                                                                                  \
    X(CUPTI_DOMAIN_RUNTIME, 311, 312)                                                                                  \
    X(CUPTI_DOMAIN_RUNTIME, 430, 431)                                                                                  \
    X(CUPTI_DOMAIN_RUNTIME, 482, 485)                                                                                  \
    X(CUPTI_DOMAIN_RUNTIME, 505, 506)                                                                                  \
    X(CUPTI_DOMAIN_RUNTIME, 509, 512)                                                                                  \
    X(CUPTI_DOMAIN_RUNTIME, 554, 557)                                                                                  \
    X(CUPTI_DOMAIN_DRIVER, 216, 216)                                                                                   \
    X(CUPTI_DOMAIN_DRIVER, 218, 218)                                                                                   \
    X(CUPTI_DOMAIN_DRIVER, 220, 220)                                                                                   \
    X(CUPTI_DOMAIN_DRIVER, 222, 222)                                                                                   \
    X(CUPTI_DOMAIN_DRIVER, 224, 224)                                                                                   \
    X(CUPTI_DOMAIN_DRIVER, 226, 226)                                                                                   \
    X(CUPTI_DOMAIN_DRIVER, 248, 254)                                                                                   \
    X(CUPTI_DOMAIN_DRIVER, 276, 293)                                                                                   \
    X(CUPTI_DOMAIN_DRIVER, 305, 307)                                                                                   \
    X(CUPTI_DOMAIN_DRIVER, 318, 321)                                                                                   \
    X(CUPTI_DOMAIN_DRIVER, 397, 416)                                                                                   \
    X(CUPTI_DOMAIN_DRIVER, 418, 433)                                                                                   \
    X(CUPTI_DOMAIN_DRIVER, 442, 442)                                                                                   \
    X(CUPTI_DOMAIN_DRIVER, 477, 478)                                                                                   \
    X(CUPTI_DOMAIN_DRIVER, 480, 480)                                                                                   \
    X(CUPTI_DOMAIN_DRIVER, 514, 515)                                                                                   \
    X(CUPTI_DOMAIN_DRIVER, 652, 653)                                                                                   \
    X(CUPTI_DOMAIN_DRIVER, 776, 779)                                                                                   \
    X(CUPTI_DOMAIN_DRIVER, 796, 799)                                                                                   \
    X(CUPTI_DOMAIN_DRIVER, 837, 840)

/* Of them, those that launch a graph. */
#define CUPTI_RUNTIME_GRAPH_LAUNCH      311
#define CUPTI_RUNTIME_GRAPH_LAUNCH_PTSZ 312
#define CUPTI_DRIVER_GRAPH_LAUNCH       514
#define CUPTI_DRIVER_GRAPH_LAUNCH_PTSZ  515
#define CUPTI_DRIVER_LAUNCH_KERNEL      307
