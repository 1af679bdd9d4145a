/* The parts of a tenant, in the order of their start; see tenant.h. */
#include "server/tenant.h"

#include "base/clock.h"
#include "base/log.h"
#include "server/captures_http.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define SECOND_NS         1000000000ull
#define SEGMENT_MAX_BYTES ((uint64_t)24 << 20)
#define SEGMENT_MAX_ROWS  20000
#define REMEMBER_NS       (3600 * SECOND_NS)
#define KNOWN_ROWS_MAX    ((size_t)1 << 20) /* 16 MiB */
#define REMEMBER_MAX      262144
#define TENANTS           "tenants" /* the directory of all tenants but the default one */

static int make_directory(const char *path)
{
    return mkdir(path, 0700) < 0 && errno != EEXIST ? log_errno(-errno, "cannot make the directory %s", path) : 0;
}

/* The server's directory exists. */
static int find_directory(const char *directory, const char *name, char ret[PATH_MAX])
{
    char all[PATH_MAX];
    if (!name[0])
        return snprintf(ret, PATH_MAX, "%s", directory) >= PATH_MAX ? -ENAMETOOLONG : 0;
    if (snprintf(all, sizeof(all), "%s/" TENANTS, directory) >= PATH_MAX ||
        snprintf(ret, PATH_MAX, "%s/" TENANTS "/%s", directory, name) >= PATH_MAX)
        return log_errno(-ENAMETOOLONG, "the directory of the tenant %s", name);
    return make_directory(all) ?: make_directory(ret);
}

static int open_spool(struct tenant *t, uint64_t max_bytes)
{
    char directory[PATH_MAX + 16];
    snprintf(directory, sizeof(directory), "%s/spool", t->directory);
    const struct spool_options options = {.directory = directory,
                                          .max_bytes = max_bytes,
                                          .segment_max_bytes = SEGMENT_MAX_BYTES,
                                          .segment_max_rows = SEGMENT_MAX_ROWS,
                                          .segment_max_ns = SECOND_NS,
                                          .remember_ns = REMEMBER_NS,
                                          .remember_max = REMEMBER_MAX,
                                          .unix_ns = clock_unix_ns,
                                          .monotonic_ns = clock_monotonic_ns};
    int r = make_directory(directory);
    if (r < 0)
        return r;
    r = spool_open(&options, &t->spool);
    if (r < 0)
        return log_errno(r, "cannot read the spool %s", directory);
    const struct spool_statistics found = spool_statistics(t->spool);
    if (found.segments || found.torn_bytes)
        log_info("the spool has %llu segments of a former run; %llu bytes that were not acknowledged are dropped",
                 (unsigned long long)found.segments, (unsigned long long)found.torn_bytes);
    return 0;
}

static struct engine_options engine_options_of(const struct tenant_options *o, const char *directory)
{
    return (struct engine_options){
        .library = o->library, .directory = directory, .keep_days = o->keep_days, .memory_bytes = o->memory_bytes};
}

static int start_engine(struct tenant *t, const struct tenant_options *o)
{
    const struct engine_options options = engine_options_of(o, t->directory);
    int r = engine_start(&options, &t->engine);
    t->api = (struct api){.engine = t->engine, .keep_days = o->keep_days};
    r = r < 0 ? r : loader_start(t->spool, t->engine, &t->loader);
    return r < 0 ? log_errno(r, "cannot start the engine's threads") : 0;
}

int tenant_open(const struct tenant_options *options, const char *name, struct tenant **ret)
{
    _cleanup_(tenant_freep) struct tenant *t = calloc(1, sizeof(*t));
    if (!t)
        return -ENOMEM;
    snprintf(t->name, sizeof(t->name), "%s", name);
    int r = find_directory(options->directory, name, t->directory)
                ?: open_spool(t, options->spool_bytes)
                ?: start_engine(t, options)
                ?: known_rows_new(KNOWN_ROWS_MAX, &t->known)
                ?: agents_new(OPAMP_AGENTS_MAX, &t->opamp.agents)
                ?: captures_new(&t->opamp.captures);
    if (r < 0)
        return r;
    receiver_init(&t->receiver, t->spool, t->known, options->keep_days, clock_unix_ns);
    t->opamp.receiver = &t->receiver;
    t->opamp.monotonic_ns = clock_monotonic_ns;
    *ret = take_ptr(t);
    return 0;
}

void tenant_free(struct tenant *t)
{
    if (!t)
        return;
    loader_free(t->loader);
    engine_free(t->engine);
    spool_free(t->spool);
    known_rows_free(t->known);
    agents_free(t->opamp.agents);
    captures_free(t->opamp.captures);
    free(t);
}

int tenant_tick(struct tenant *t)
{
    const struct spool_statistics now = spool_statistics(t->spool);
    if (now.refused != t->refused)
        log_warning("the spool of %s is full (%llu bytes): %llu batches were refused and have to be sent again",
                    t->directory, (unsigned long long)now.bytes, (unsigned long long)(now.refused - t->refused));
    t->refused = now.refused;
    captures_http_tick(&t->opamp);
    return engine_is_refused(t->engine) ? -ENOTSUP : 0;
}

static int migrate_directory(const struct tenant_options *o, const char *directory)
{
    const struct engine_options options = engine_options_of(o, directory);
    return engine_migrate(&options);
}

int tenants_migrate(const struct tenant_options *options)
{
    char path[PATH_MAX];
    struct dirent **found;
    int r = migrate_directory(options, options->directory);
    if (r < 0)
        return r;
    snprintf(path, sizeof(path), "%s/" TENANTS, options->directory);
    const int count = scandir(path, &found, NULL, alphasort);
    for (int i = 0; i < count; i++) {
        if (r == 0 && tenant_name_is_valid(found[i]->d_name)) {
            r = find_directory(options->directory, found[i]->d_name, path);
            r = r < 0 ? r : migrate_directory(options, path);
        }
        free(found[i]);
    }
    if (count >= 0)
        free(found);
    return count < 0 && errno != ENOENT ? log_errno(-errno, "cannot read %s", path) : r;
}
