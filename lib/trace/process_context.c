/* Publishes as OTEP 4719 specifies: header and payload in a private mapping of a memfd named OTEL_CTX, which is not
 * inherited by fork. Readers check the publication time before and after copying; it is written last. */
#include "process_context.h"

#include "../otlp/fields.h"
#include "attributes.h"
#include "clock.h"
#include "config.h"
#include "protobuf.h"

#include <assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#ifndef PR_SET_VMA
#define PR_SET_VMA           0x53564d41
#define PR_SET_VMA_ANON_NAME 0
#endif
#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 8U
#endif

#define PAYLOAD_MAX 65536 /* the limit of OpenTelemetry's reader */

static const char name[] = "OTEL_CTX";

struct header {
    char signature[8];
    uint32_t version, payload_size;
    _Atomic uint64_t published_ns; /* CLOCK_BOOTTIME; 0: being written */
    uint64_t payload;
};
static_assert(sizeof(struct header) == 32, "the layout");

atomic_uint trace_process_context_generation;
atomic_bool trace_process_context_published;

static struct trace_text payload; /* kept for child processes */
static struct header *mapped;     /* in the process of that generation */
static size_t mapped_size;

static bool other_context_exists(void)
{
    char line[512];
    bool found = false;
    FILE *maps = fopen("/proc/self/maps", "re");
    while (maps && !found && fgets(line, sizeof(line), maps))
        found = strstr(line, name) != NULL;
    if (maps)
        fclose(maps);
    return found;
}

static void *map_memory(size_t size, bool *ret_named)
{
    unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
    int fd = memfd_create(name, flags | MFD_NOEXEC_SEAL);
    fd = fd < 0 ? memfd_create(name, flags) : fd;
    *ret_named = fd >= 0 && ftruncate(fd, (off_t)size) == 0;
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | (*ret_named ? 0 : MAP_ANONYMOUS),
                        *ret_named ? fd : -1, 0);
    if (fd >= 0)
        close(fd);
    return memory;
}

static void fill_header(struct header *h)
{
    memcpy(h + 1, payload.data, payload.size);
    memcpy(h->signature, name, sizeof(h->signature));
    h->version = 2;
    h->payload_size = (uint32_t)payload.size;
    h->payload = (uintptr_t)(h + 1);
    atomic_store_explicit(&h->published_ns, trace_read_clock_ns(CLOCK_BOOTTIME), memory_order_release);
}

static bool publish(void)
{
    bool named;
    size_t size = sizeof(*mapped) + payload.size;
    if (payload.failed || payload.size == 0 || other_context_exists())
        return false;
    struct header *h = map_memory(size, &named);
    if (h == MAP_FAILED)
        return false;
    if (madvise(h, size, MADV_DONTFORK) == 0) {
        fill_header(h);
        named |= prctl(PR_SET_VMA, PR_SET_VMA_ANON_NAME, h, size, name) == 0;
        if (named) {
            mapped = h;
            mapped_size = size;
            return true;
        }
    }
    munmap(h, size);
    return false;
}

#define TEXT(string) .text = (string), .size = sizeof(string) - 1

/* Encodes ProcessContext: the resource of spans, in the mode that has one, and how to read thread contexts
 * (thread_context.c). `config` NULL: without the resource. */
static void encode(struct trace_text *out, const struct sonde_trace_config *config)
{
    static const struct trace_attributes threads = {
        .list = {{.key = "threadlocal.schema_version", .kind = TRACE_ATTRIBUTE_TEXT, TEXT("tlsdesc_v1_dev")},
                 {.key = "threadlocal.attribute_key_map", .kind = TRACE_ATTRIBUTE_TEXTS, TEXT("triton.model_name")}},
        .count = 2};
    size_t resource = trace_protobuf_open(out, PROCESS_CONTEXT_RESOURCE);
    if (config && config->mode == TRACE_MODE_OPENTELEMETRY)
        trace_resource_put_protobuf(out, RESOURCE_ATTRIBUTES, config, NULL);
    trace_protobuf_close(out, resource);
    trace_attributes_put_protobuf(out, PROCESS_CONTEXT_ATTRIBUTES, &threads);
}

void trace_process_context_publish(const struct sonde_trace_config *config)
{
    encode(&payload, config);
    if (payload.size > PAYLOAD_MAX) {
        trace_text_free(&payload);
        encode(&payload, NULL);
    }
    atomic_store_explicit(&trace_process_context_published, publish(), memory_order_relaxed);
    atomic_store_explicit(&trace_process_context_generation, trace_generation_now(), memory_order_release);
}

/* With several threads the first publishes; the others continue without a context. */
void trace_process_context_renew(void)
{
    unsigned before = atomic_load_explicit(&trace_process_context_generation, memory_order_relaxed);
    if (before == trace_generation_now() ||
        !atomic_compare_exchange_strong(&trace_process_context_generation, &before, trace_generation_now()))
        return;
    atomic_store_explicit(&trace_process_context_published, false, memory_order_relaxed);
    atomic_store_explicit(&trace_process_context_published, publish(), memory_order_relaxed);
}

void trace_process_context_withdraw(void)
{
    bool own = atomic_load_explicit(&trace_process_context_generation, memory_order_relaxed) == trace_generation_now();
    if (own && atomic_load_explicit(&trace_process_context_published, memory_order_relaxed))
        munmap(mapped, mapped_size);
    atomic_store_explicit(&trace_process_context_published, false, memory_order_relaxed);
    trace_text_free(&payload);
}
