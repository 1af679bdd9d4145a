/* Dynamic USDT probes: a program defines them at run time, and bpftrace, perf, SystemTap or any libbpf tool
 * attaches to them by name while the program runs. While no tracer is attached, a probe costs one load and one
 * branch, and its arguments are not evaluated.
 *
 *     struct sonde_provider *provider;
 *     struct sonde_probe *enqueued;
 *
 *     if (sonde_provider_new("mlserver", &provider) < 0 ||
 *         sonde_probe_add(provider, "inference_enqueue_req", "str model, u32 queue_len", &enqueued) < 0)
 *         return -1;                       (out of memory, or an invalid name)
 *     sonde_provider_load(provider);       (the result may be ignored: the program works either way)
 *     ...
 *     sonde_probe_fire(enqueued, model->name, queue_length(model));
 *
 * From outside, while it runs:
 *
 *     bpftrace -p PID -e 'usdt:*:mlserver:inference_enqueue_req { printf("%s %d\n", str(arg0), arg1); }'
 *
 * A provider exists from sonde_provider_load to sonde_provider_unload, which suits interpreters and plug-ins. A C
 * program whose probes are known at compile time can write SONDE_PROBE(mlserver, model_loaded, name) instead; that
 * needs neither a provider nor this library (static_probe.h).
 *
 * Threads: sonde_probe_fire and sonde_probe_enabled may be called on any thread at any time, also while the provider
 * is being loaded or unloaded, and in signal handlers. The other functions may be called on any thread too, but no
 * call may use a provider during or after sonde_provider_free.
 *
 * Processes: after fork the child has the same probes, attachable in the child too, and may load, unload and free them
 * independently of the parent. After exec there are none.
 *
 * Errors: functions return 0 or a negative errno value; `ret_*` outputs are untouched on failure.
 *
 * Languages: C (11 and later) and C++ (98 and later), gcc and clang. Linux on x86-64 and arm64; on other CPUs
 * sonde_provider_load fails and everything else works. */
#ifndef SONDE_PROBE_H
#define SONDE_PROBE_H

#include <stdint.h>

#include <sonde/probe_value.h>
#if defined(__x86_64__) || defined(__aarch64__)
#include <sonde/static_probe.h>
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define SONDE_PROBE_ARGUMENTS_MAX 12   /* of one probe: the most that tracers read */
#define SONDE_PROBES_MAX          1024 /* of one provider */
#define SONDE_PROBE_NAME_MAX      63   /* bytes of a provider's, a probe's or an argument's name */

/* A set of probes under one name, opaque. */
struct sonde_provider;

/* A probe, owned by its provider. The members that follow this one are private to the library. */
struct sonde_probe {
    const volatile uint16_t *semaphore; /* never NULL; the value is not 0 while a tracer is attached */
};

/* Creates a provider without probes. Names of providers, probes and arguments are C identifiers, the only form that
 * every tracer accepts. Several providers may share a name, within one process or across processes. -EINVAL: not an
 * identifier of 1 to SONDE_PROBE_NAME_MAX bytes; -ENOMEM. */
int sonde_provider_new(const char *name, struct sonde_provider **ret_provider);

/* Sends the provider's warnings to `warn` instead of standard error; NULL silences them. `text` is one line without a
 * line feed, valid until `warn` returns. `warn` runs on the calling thread and must not call back into the provider. */
void sonde_provider_on_warning(struct sonde_provider *provider, void (*warn)(void *context, const char *text),
                               void *context);

/* Makes the next load write the provider's ELF object into `directory` instead of into memory only; NULL restores
 * memory. The file is DIRECTORY/PROVIDER-BUILDID.so and is shared by all processes with the same probes: by attaching
 * to the file, a tracer attaches to all of them, including those that start later. The file stays when the provider
 * is freed. A file that other users own or may write is not used, nor is a directory on a noexec mount; the object is
 * then kept in memory, and the warning of sonde_provider_load gives the reason. -ENAMETOOLONG; -ENOMEM. */
int sonde_provider_set_directory(struct sonde_provider *provider, const char *directory);

/* Adds a probe. `arguments` declares its arguments in the order of sonde_probe_fire, "TYPE NAME, TYPE NAME", or is
 * "" or NULL. A TYPE is one of
 *
 *     i8 u8 i16 u16 i32 u32 i64 u64    an integer of that many bits, signed or unsigned
 *     ptr                              an address
 *     str                              the address of a NUL-terminated string
 *     f64                              a double, passed as its 64 bits: tracers read no floating-point registers
 *
 * The probe is inactive until the next sonde_provider_load, and valid until its provider is freed.
 * -EINVAL: an invalid name, a duplicate argument name or an unknown type; -E2BIG: too many arguments; -EEXIST: the
 * provider has a probe of this name; -ENOSPC: the provider has SONDE_PROBES_MAX probes; -ENOMEM. A warning states
 * the problem and its position. */
int sonde_probe_add(struct sonde_provider *provider, const char *name, const char *arguments,
                    struct sonde_probe **ret_probe);

/* Makes all probes attachable that are not yet. Probes that are attachable already keep their attached tracers. The
 * result may be ignored: without the permission, the memory or the kernel support, the probes stay inactive, the
 * provider issues one warning in its lifetime, and all functions work as before. With SONDE_PROBES=off in the
 * environment it does nothing and issues no warning: -ECANCELED. -ENOSYS: unsupported CPU architecture; otherwise the
 * kernel's error. */
int sonde_provider_load(struct sonde_provider *provider);

/* Removes all probes from view: tracers can no longer attach, and attached ones receive no more events. The provider
 * can be loaded again. */
void sonde_provider_unload(struct sonde_provider *provider);

/* Unloads and frees the provider with its probes. No thread may be firing them. NULL is allowed. */
void sonde_provider_free(struct sonde_provider *provider);

/* Whether a tracer is attached. Costs two loads and a branch (the semaphore's address is not known at compile time). */
static inline int sonde_probe_enabled(const struct sonde_probe *probe)
{
    uint16_t count = __atomic_load_n(__atomic_load_n(&probe->semaphore, __ATOMIC_ACQUIRE), __ATOMIC_RELAXED);
    return __builtin_expect(count != 0, 0) != 0;
}

/* Fires `probe` with up to 12 arguments, which are evaluated only while a tracer is attached. An argument is
 * converted to its declared type as by C assignment; missing ones are 0, excess ones are dropped. Strings must stay
 * valid until this returns. */
#define sonde_probe_fire(probe, ...)                                                                                   \
    do {                                                                                                               \
        const struct sonde_probe *sonde_probe_ = (probe);                                                              \
        if (sonde_probe_enabled(sonde_probe_)) {                                                                       \
            const struct sonde_value sonde_values_[] = {SONDE_VALUES_(0, ##__VA_ARGS__)};                              \
            sonde_probe_fire_values(sonde_probe_, (unsigned)(sizeof(sonde_values_) / sizeof(*sonde_values_)) - 1,      \
                                    sonde_values_ + 1);                                                                \
        }                                                                                                              \
    } while (0)

/* Called by the macro; for callers that know the arguments only at run time. */
void sonde_probe_fire_values(const struct sonde_probe *probe, unsigned count, const struct sonde_value *values);

#ifdef __cplusplus
}
#endif

#endif
