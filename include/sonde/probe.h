/* Native probes: places in a program that bpftrace, perf, SystemTap or anything on libbpf attaches to by name
 * while the program runs. Until somebody does, a place costs one load and one branch, and its arguments are
 * not computed.
 *
 *     struct sonde_provider *provider;
 *     struct sonde_probe *enqueued;
 *
 *     if (sonde_provider_new("mlserver", &provider) < 0 ||
 *         sonde_probe_add(provider, "inference_enqueue_req", "str model, u32 queue_len", &enqueued) < 0)
 *         return -1;                       (no memory, or a name that is none)
 *     sonde_provider_load(provider);       (whatever it returns: the program may go on)
 *     ...
 *     sonde_probe_fire(enqueued, model->name, queue_length(model));
 *
 * and outside, while it runs:
 *
 *     bpftrace -p PID -e 'usdt:*:mlserver:inference_enqueue_req { printf("%s %d\n", str(arg0), arg1); }'
 *
 * Providers made like this exist from their loading to their unloading, which suits interpreters and
 * plug-ins. A C program that knows its probes when it is compiled can write SONDE_PROBE(mlserver,
 * model_loaded, name) and needs neither provider nor library (static_probe.h).
 *
 * Threads: sonde_probe_fire and sonde_probe_enabled may be called by any thread at any time, also while the
 * provider is loaded or unloaded, and in signal handlers. The other functions may be called by any thread
 * too; the one that frees a provider must be the last to use it.
 *
 * Processes: after fork the child has the same probes, visible in it too, and may load, unload and free them
 * for itself. After exec there are none.
 *
 * Errors: functions return 0 or a negative errno value; what they hand back through `ret_*` is untouched on
 * failure.
 *
 * Languages: C (11 and later) and C++ (98 and later), gcc and clang. Linux on x86-64 and arm64; elsewhere
 * nothing can be loaded, and all else works. */
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

#define SONDE_PROBE_ARGUMENTS_MAX 12   /* of one probe: what consumers read */
#define SONDE_PROBES_MAX          1024 /* of one provider */
#define SONDE_PROBE_NAME_MAX      63   /* bytes of a provider's, a probe's or an argument's name */

/* A set of probes under one name, opaque. */
struct sonde_provider;

/* A probe; its provider owns it. Only the library looks at what lies behind this member. */
struct sonde_probe {
    const volatile uint16_t *semaphore; /* never NULL; not 0 there: somebody is attached */
};

/* Makes a provider without probes. Names of providers, probes and arguments are C identifiers, because those
 * are what every consumer takes. Several providers may have one name, in one process or in several.
 * -EINVAL: not an identifier of 1 to SONDE_PROBE_NAME_MAX bytes; -ENOMEM. */
int sonde_provider_new(const char *name, struct sonde_provider **ret_provider);

/* Sends the provider's warnings to `warn` instead of standard error; NULL silences them. `text` is one line
 * without a line feed and lives until `warn` returns; `warn` runs in the thread that called, and must not
 * call back into the provider. */
void sonde_provider_on_warning(struct sonde_provider *provider, void (*warn)(void *context, const char *text),
                               void *context);

/* Has the next loading write its object into `directory` instead of into memory only; NULL: into memory
 * again. The file is DIRECTORY/PROVIDER-BUILDID.so, shared by all processes with the same probes: a consumer
 * attaches to all of them, those that start later too, by attaching to the file. It stays when the provider
 * is gone. A file there that is not ours, or that others may write, is not used, nor is a directory that is
 * mounted noexec; then it is memory, and the warning of sonde_provider_load says why. -ENAMETOOLONG; -ENOMEM. */
int sonde_provider_set_directory(struct sonde_provider *provider, const char *directory);

/* Adds a probe. `arguments` declares them in the order in which they are fired, "TYPE NAME, TYPE NAME", or is
 * "" or NULL. A TYPE is one of
 *
 *     i8 u8 i16 u16 i32 u32 i64 u64    an integer of that many bits, signed or unsigned
 *     ptr                              an address
 *     str                              the address of a string that ends with NUL
 *     f64                              a double, as its 64 bits: consumers read no registers of doubles
 *
 * The probe is silent until the next sonde_provider_load. It lives until its provider is freed.
 * -EINVAL: a name that is no identifier, an argument's that stands there twice, a type that is none of
 * these; -E2BIG: too many arguments; -EEXIST: the provider has a probe of this name; -ENOSPC: it has
 * SONDE_PROBES_MAX; -ENOMEM. A warning says what was wrong and where. */
int sonde_probe_add(struct sonde_provider *provider, const char *name, const char *arguments,
                    struct sonde_probe **ret_probe);

/* Makes all probes visible that are not yet. Probes that are visible already stay as they are, with whoever
 * is attached. A program may ignore what it returns: without the rights, the memory or the kernel for it, the
 * probes stay silent, one warning is given for the life of the provider, and everything can be called as
 * before. With SONDE_PROBES=off in the environment nothing is tried and nothing warned of: -ECANCELED.
 * -ENOSYS: not on this kind of CPU; otherwise what the kernel said. */
int sonde_provider_load(struct sonde_provider *provider);

/* Takes all probes back: nobody sees them or can attach, and whoever was attached hears no more. They can be
 * loaded again. */
void sonde_provider_unload(struct sonde_provider *provider);

/* Unloads and frees the provider with its probes. No thread may be firing them. NULL is taken. */
void sonde_provider_free(struct sonde_provider *provider);

/* Whether anybody is attached. One load and a branch (two loads: where the count lies is not known when the
 * program is compiled). */
static inline int sonde_probe_enabled(const struct sonde_probe *probe)
{
    uint16_t count = __atomic_load_n(__atomic_load_n(&probe->semaphore, __ATOMIC_ACQUIRE), __ATOMIC_RELAXED);
    return __builtin_expect(count != 0, 0) != 0;
}

/* Fires `probe` with up to 12 arguments, which are evaluated only when somebody is attached. An argument is
 * converted to the type that was declared for it as C converts on assignment; missing ones are 0, further
 * ones are dropped. Strings must live until this returns. */
#define sonde_probe_fire(probe, ...)                                                                                   \
    do {                                                                                                               \
        const struct sonde_probe *sonde_probe_ = (probe);                                                              \
        if (sonde_probe_enabled(sonde_probe_)) {                                                                       \
            const struct sonde_value sonde_values_[] = {SONDE_VALUES_(0, ##__VA_ARGS__)};                              \
            sonde_probe_fire_values(sonde_probe_, (unsigned)(sizeof(sonde_values_) / sizeof(*sonde_values_)) - 1,      \
                                    sonde_values_ + 1);                                                                \
        }                                                                                                              \
    } while (0)

/* What the macro calls; for callers that know the arguments only at run time. */
void sonde_probe_fire_values(const struct sonde_probe *probe, unsigned count, const struct sonde_value *values);

#ifdef __cplusplus
}
#endif

#endif
