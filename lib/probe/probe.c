/* Providers and their probes: the public API of libsonde's dynamic USDT probes.
 *
 * Each load puts the probes that are in no ELF object yet into one further object. Probes and objects keep their
 * addresses until their provider is freed, because firing threads read them without a lock. */
#include <sonde/probe.h>

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "../export.h"
#include "../switch.h"
#include "file.h"
#include "image.h"
#include "object.h"

struct probe {
    struct sonde_probe public; /* must be first: the public pointer is cast to struct probe */
    struct sonde_provider *provider;
    struct loaded *home;         /* NULL: never loaded; stored after stub */
    uintptr_t stub;              /* probe_stub or probe_long_stub */
    uint16_t inactive_semaphore; /* semaphore until the first load, always 0 */
    struct probe_arguments arguments;
    char name[SONDE_PROBE_NAME_MAX + 1];
};

/* One ELF object: `count` probes of the provider, from index `first`. */
struct loaded {
    struct loaded *next;
    size_t first, count;
    struct probe_object object;
};

struct sonde_provider {
    pid_t owner; /* process id of the lock holder; 0: unlocked */
    struct probe *probes[SONDE_PROBES_MAX];
    size_t count;
    struct loaded *loaded;
    char *directory;
    void (*warn)(void *context, const char *text);
    void *warn_context;
    int warned_of_loading, warned_of_directory;
    char name[SONDE_PROBE_NAME_MAX + 1];
};

/* A lock that fork cannot leave locked for ever. If the owner is another process, its thread does not exist in this
 * one, and the lock may be taken. Half-done work of that thread is harmless: everything is linked in by a single
 * store after it is complete. */
static int try_lock(struct sonde_provider *provider)
{
    pid_t self = getpid(), owner = 0;
    while (!__atomic_compare_exchange_n(&provider->owner, &owner, self, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
        if (owner == self)
            return 0;
    return 1;
}

static void lock(struct sonde_provider *provider)
{
    while (!try_lock(provider))
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

static void unlock(struct sonde_provider *provider)
{
    __atomic_store_n(&provider->owner, 0, __ATOMIC_RELEASE);
}

static void warn_on_stderr(void *context, const char *text)
{
    (void)context;
    dprintf(STDERR_FILENO, "%s\n", text);
}

static void __attribute__((format(printf, 2, 3))) warn(struct sonde_provider *provider, const char *format, ...)
{
    char text[512];
    va_list arguments;
    int used = snprintf(text, sizeof(text), "sonde: probes of %s: ", provider->name);
    va_start(arguments, format);
    vsnprintf(text + used, sizeof(text) - (size_t)used, format, arguments);
    va_end(arguments);
    for (char *c = text; *c; c++)
        *c = (unsigned char)*c < ' ' ? '?' : *c;
    if (provider->warn)
        provider->warn(provider->warn_context, text);
}

SONDE_EXPORT int sonde_provider_new(const char *name, struct sonde_provider **ret_provider)
{
    if (!probe_name_is_good(name))
        return -EINVAL;
    struct sonde_provider *provider = calloc(1, sizeof(*provider));
    if (!provider)
        return -ENOMEM;
    memcpy(provider->name, name, strlen(name));
    provider->warn = warn_on_stderr;
    *ret_provider = provider;
    return 0;
}

SONDE_EXPORT void sonde_provider_on_warning(struct sonde_provider *provider,
                                            void (*warn_with)(void *context, const char *text), void *context)
{
    lock(provider);
    provider->warn = warn_with;
    provider->warn_context = context;
    unlock(provider);
}

SONDE_EXPORT int sonde_provider_set_directory(struct sonde_provider *provider, const char *directory)
{
    char *copy = NULL;
    if (directory) {
        if (strlen(directory) >= PATH_MAX)
            return -ENAMETOOLONG;
        copy = strdup(directory);
        if (!copy)
            return -ENOMEM;
    }
    lock(provider);
    char *before = provider->directory;
    provider->directory = copy;
    unlock(provider);
    free(before);
    return 0;
}

static int has_probe(const struct sonde_provider *provider, const char *name)
{
    for (size_t i = 0; i < provider->count; i++)
        if (strcmp(provider->probes[i]->name, name) == 0)
            return 1;
    return 0;
}

static int add_probe(struct sonde_provider *provider, const char *name, const struct probe_arguments *arguments,
                     struct probe **ret_probe)
{
    if (has_probe(provider, name))
        return -EEXIST;
    if (provider->count == SONDE_PROBES_MAX)
        return -ENOSPC;
    struct probe *probe = calloc(1, sizeof(*probe));
    if (!probe)
        return -ENOMEM;
    probe->public.semaphore = &probe->inactive_semaphore;
    probe->provider = provider;
    probe->arguments = *arguments;
    memcpy(probe->name, name, strlen(name));
    provider->probes[provider->count] = probe;
    provider->count++;
    *ret_probe = probe;
    return 0;
}

SONDE_EXPORT int sonde_probe_add(struct sonde_provider *provider, const char *name, const char *arguments,
                                 struct sonde_probe **ret_probe)
{
    struct probe_arguments parsed;
    struct probe *probe;
    const char *bad = NULL;
    lock(provider);
    int r = probe_name_is_good(name) ? probe_arguments_parse(arguments, &parsed, &bad) : -EINVAL;
    if (r == 0)
        r = add_probe(provider, name, &parsed, &probe);
    if (bad)
        warn(provider,
             "%s is not added: its arguments are wrong at \"%.32s\" (TYPE NAME, ..., up to %d, each name once)", name,
             bad, SONDE_PROBE_ARGUMENTS_MAX);
    else if (r == -EINVAL)
        warn(provider, "\"%.32s\" is not added: names are C identifiers of up to %d bytes", name, SONDE_PROBE_NAME_MAX);
    else if (r < 0)
        warn(provider, "%s is not added: %s", name, strerror(-r));
    unlock(provider);
    if (r == 0)
        *ret_probe = &probe->public;
    return r;
}

static const char *noexec(const char *directory)
{
    struct statvfs status;
    return statvfs(directory, &status) == 0 && status.f_flag & ST_NOEXEC ? " (it is mounted noexec)" : "";
}

/* Maps a file of the configured directory if it can be created and executed, otherwise a memfd. */
static int load_object(struct sonde_provider *provider, struct probe_object *object, const struct probe_image *image)
{
    int fd, r;
    if (provider->directory) {
        fd = probe_file_in_directory(provider->directory, provider->name, image);
        r = fd < 0 ? fd : probe_object_load(object, image, fd);
        if (r == 0)
            return 0;
        if (!provider->warned_of_directory)
            warn(provider, "no file in %s: %s%s; in memory instead", provider->directory, strerror(-r),
                 noexec(provider->directory));
        provider->warned_of_directory = 1;
    }
    fd = probe_file_in_memory(provider->name, image);
    return fd < 0 ? fd : probe_object_load(object, image, fd);
}

static int load_probes(struct sonde_provider *provider, struct loaded *loaded)
{
    struct probe_image_entry *entries = calloc(loaded->count, sizeof(*entries));
    struct probe_image image;
    if (!entries)
        return -ENOMEM;
    for (size_t i = 0; i < loaded->count; i++) {
        const struct probe *probe = provider->probes[loaded->first + i];
        entries[i] = (struct probe_image_entry){probe->name, &probe->arguments};
    }
    int r = probe_image_make(provider->name, entries, loaded->count, probe_site_choose(), (size_t)sysconf(_SC_PAGESIZE),
                             &image);
    free(entries);
    if (r < 0)
        return r;
    r = load_object(provider, &loaded->object, &image);
    for (size_t i = 0; r == 0 && i < loaded->count; i++) {
        struct probe *probe = provider->probes[loaded->first + i];
        const uint8_t *stub = loaded->object.place + image.stubs_offset + i * PROBE_STUB_SIZE;
        void *semaphore = loaded->object.place + image.semaphores_offset + i * sizeof(uint16_t);
        __atomic_store_n(&probe->stub, (uintptr_t)stub, __ATOMIC_RELAXED);
        __atomic_store_n(&probe->home, loaded, __ATOMIC_RELEASE);
        __atomic_store_n(&probe->public.semaphore, semaphore, __ATOMIC_RELEASE);
    }
    probe_image_done(&image);
    return r;
}

/* Loads the probes that have never been loaded, if any, as one further object. */
static int load_new(struct sonde_provider *provider)
{
    size_t first = provider->loaded ? provider->loaded->first + provider->loaded->count : 0;
    if (first == provider->count)
        return 0;
    struct loaded *loaded = calloc(1, sizeof(*loaded));
    if (!loaded)
        return -ENOMEM;
    *loaded =
        (struct loaded){.next = provider->loaded, .first = first, .count = provider->count - first, .object.fd = -1};
    int r = load_probes(provider, loaded);
    if (r < 0)
        free(loaded);
    else
        provider->loaded = loaded;
    return r;
}

SONDE_EXPORT int sonde_provider_load(struct sonde_provider *provider)
{
    int r = probe_site_machine() == 0 ? -ENOSYS : 0;
    if (sonde_switched_off())
        return -ECANCELED; /* requested by the user: no warning */
    lock(provider);
    for (struct loaded *loaded = provider->loaded; r == 0 && loaded; loaded = loaded->next)
        if (loaded->object.fd < 0)
            r = load_probes(provider, loaded);
    if (r == 0)
        r = load_new(provider);
    if (r < 0 && !provider->warned_of_loading) {
        provider->warned_of_loading = 1;
        warn(provider, "cannot be loaded, and stay silent: %s", strerror(-r));
    }
    unlock(provider);
    return r;
}

SONDE_EXPORT void sonde_provider_unload(struct sonde_provider *provider)
{
    lock(provider);
    for (struct loaded *loaded = provider->loaded; loaded; loaded = loaded->next)
        probe_object_unload(&loaded->object);
    unlock(provider);
}

SONDE_EXPORT void sonde_provider_free(struct sonde_provider *provider)
{
    if (!provider)
        return;
    for (struct loaded *loaded = provider->loaded, *next; loaded; loaded = next) {
        next = loaded->next;
        probe_object_done(&loaded->object);
        free(loaded);
    }
    for (size_t i = 0; i < provider->count; i++)
        free(provider->probes[i]);
    free(provider->directory);
    free(provider);
}

/* Renews the mapping at the first firing after a fork. If another thread holds the lock (possibly the code that a
 * signal handler interrupted), this firing is dropped rather than delayed. Returns whether the stub may be called. */
static int renew_object(struct probe *probe, struct loaded *home)
{
    if (!try_lock(probe->provider))
        return 0;
    if (!probe_object_is_ours(&home->object))
        probe_object_renew(&home->object);
    unlock(probe->provider);
    return sonde_probe_enabled(&probe->public) && probe_object_is_ours(&home->object);
}

SONDE_EXPORT void sonde_probe_fire_values(const struct sonde_probe *public, unsigned count,
                                          const struct sonde_value *values)
{
    struct probe *probe = (struct probe *)(uintptr_t) public;
    struct loaded *home = __atomic_load_n(&probe->home, __ATOMIC_ACQUIRE);
    if (!home || (!probe_object_is_ours(&home->object) && !renew_object(probe, home)))
        return;
    uint64_t a[SONDE_PROBE_ARGUMENTS_MAX] = {0};
    const struct probe_arguments *declared = &probe->arguments;
    for (unsigned i = 0; i < count && i < declared->count; i++)
        a[i] = probe_arguments_bits(declared, i, &values[i]);
    uintptr_t stub = __atomic_load_n(&probe->stub, __ATOMIC_RELAXED);
    if (declared->count <= 6)
        ((probe_stub)stub)(a[0], a[1], a[2], a[3], a[4], a[5]);
    else
        ((probe_long_stub)stub)(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10], a[11]);
}
