/* Simulated attachment to the trace probes: for test programs linked with
 * -Wl,--wrap=sonde_probe_add,--wrap=sonde_provider_load. The semaphores are the program's own, so that an agent on the
 * same machine does not find the probes and change how requests are traced. */
#pragma once

#include <sonde/probe.h>

#include <stdbool.h>
#include <stddef.h>

/* In the order of the semaphores. */
enum { HEARD_REQUEST_START, HEARD_REQUEST_END, HEARD_THREAD_ENTER, HEARD_THREAD_LEAVE, HEARD_PROBES };

static struct sonde_probe *attached_probes[HEARD_PROBES];
static size_t attached_count;
static _Alignas(8) uint16_t attached_semaphores[HEARD_PROBES];
static bool attached_really; /* the test uses the real probes */

int __real_sonde_probe_add(struct sonde_provider *provider, const char *name, const char *arguments,
                           struct sonde_probe **ret_probe);
int __wrap_sonde_probe_add(struct sonde_provider *provider, const char *name, const char *arguments,
                           struct sonde_probe **ret_probe);
int __real_sonde_provider_load(struct sonde_provider *provider);
int __wrap_sonde_provider_load(struct sonde_provider *provider);

int __wrap_sonde_probe_add(struct sonde_provider *provider, const char *name, const char *arguments,
                           struct sonde_probe **ret_probe)
{
    int r = __real_sonde_probe_add(provider, name, arguments, ret_probe);
    if (r == 0)
        attached_probes[attached_count++ % HEARD_PROBES] = *ret_probe;
    return r;
}

int __wrap_sonde_provider_load(struct sonde_provider *provider)
{
    if (attached_really)
        return __real_sonde_provider_load(provider);
    for (size_t i = 0; i < HEARD_PROBES; i++) {
        attached_semaphores[i] = 0;
        __atomic_store_n(&attached_probes[i]->semaphore, &attached_semaphores[i], __ATOMIC_RELEASE);
    }
    return 0;
}

/* As the kernel does. */
static inline void attach_to(int probe, int by)
{
    __atomic_add_fetch((uint16_t *)(uintptr_t)attached_probes[probe]->semaphore, (uint16_t)by, __ATOMIC_RELAXED);
}
