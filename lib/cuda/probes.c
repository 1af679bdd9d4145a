/* The two probe sites. Each has its argument in the register of a first argument, which probes/cpu.bpf.c reads: it
 * needs no parser of operands. */
#include "cuda/probes.h"

#include <sonde/static_probe.h>

#if defined(__x86_64__)
#define ARGUMENT_REGISTER "rdi"
#define ARGUMENT_OPERAND  "8@%%rdi"
#elif defined(__aarch64__)
#define ARGUMENT_REGISTER "x0"
#define ARGUMENT_OPERAND  "8@x0"
#endif

#define FIRE(name, value)                                                                                              \
    do {                                                                                                               \
        register uint64_t argument __asm__(ARGUMENT_REGISTER) = (value);                                               \
        __asm__ volatile(SONDE_SITE_("sonde_cuda", #name, ARGUMENT_OPERAND) : : "r"(argument) : "memory");             \
    } while (0)

bool cuda_probes_wanted(void)
{
    return SONDE_PROBE_ENABLED(sonde_cuda, launch);
}

__attribute__((noinline)) void cuda_probes_launch(uint64_t launch)
{
    if (SONDE_PROBE_ENABLED(sonde_cuda, launch))
        FIRE(launch, launch);
}

__attribute__((noinline)) void cuda_probes_record(const struct record_header *record)
{
    if (SONDE_PROBE_ENABLED(sonde_cuda, record))
        FIRE(record, (uint64_t)(uintptr_t)record);
}
