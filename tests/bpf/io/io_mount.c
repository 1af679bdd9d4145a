/* A mount and the counters of its operations; see io_mount.h. */
#include "io_mount.h"

#include "io_nfs.h"

#include "sources/io/io_path.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cmocka.h>

struct io_mount io_mount_begin(void *source)
{
    struct io_mount m = {
        .path = "/tmp/sonde-io-XXXXXX", .type = io_nfs_exported() ? "nfs4" : "tmpfs", .source = source};
    assert_non_null(mkdtemp(m.path));
    if (io_nfs_exported())
        assert_int_equal(io_nfs_mount(strrchr(m.path, '/') + 1, m.path), 0);
    else
        assert_int_equal(mount("sonde-io", m.path, "tmpfs", 0, "size=64m"), 0);
    return m;
}

void io_mount_end(struct io_mount *m)
{
    if (io_nfs_exported()) /* which ends its mounts */
        return;
    umount2(m->path, MNT_DETACH);
    rmdir(m->path);
}

const char *io_mount_file(const struct io_mount *m, const char *name)
{
    static char paths[4][PATH_MAX];
    static unsigned next;
    char *path = paths[next++ % 4];
    snprintf(path, PATH_MAX, "%s/%s", m->path, name);
    return path;
}

struct counting {
    const struct io_mount *m;
    uint8_t operation, flags;
    bool by_flags;
    int error;
    uint64_t errors;
    struct io_counted counted;
};

static bool is_wanted(const struct counting *c, const struct io_key *key)
{
    struct io_name name;
    char path[IO_NAMES_BYTES];
    if (key->mount == IO_NO_MOUNT || (c->operation != IO_OPERATIONS && key->operation != c->operation) ||
        (c->by_flags && !(key->flags & c->flags)) || !io_source_mount(c->m->source, key->mount, &name))
        return false;
    io_path_format(&name, path, sizeof(path));
    return !name.is_hidden && strcmp(path, c->m->path) == 0 && strcmp(name.type, c->m->type) == 0;
}

static void add(void *context, const struct io_key *key, const struct io_counters *counters, bool is_final)
{
    struct counting *c = context;
    (void)is_final;
    if (!is_wanted(c, key))
        return;
    c->counted.bytes += counters->bytes;
    c->counted.errors += counters->errors;
    c->counted.untimed += counters->untimed;
    c->counted.operations += counters->untimed;
    c->counted.sum_ns += counters->sum_ns;
    for (size_t i = 0; i < IO_BUCKETS; i++)
        c->counted.operations += counters->durations[i];
    for (size_t i = 0; i < IO_SIZES; i++)
        c->counted.sizes[i] += counters->sizes[i];
}

static void add_error(void *context, const struct io_error_key *key, uint64_t count, bool is_final)
{
    struct counting *c = context;
    (void)is_final;
    if ((int)key->error == c->error && is_wanted(c, &key->key))
        c->errors += count;
}

static bool keep(void *context, const struct io_key *key, const struct io_counters *counters)
{
    (void)context, (void)key, (void)counters;
    return false;
}

static void count(struct counting *c)
{
    const struct io_reader reader = {.context = c, .is_final = keep, .take = add, .take_error = add_error};
    assert_int_equal(io_source_read(c->m->source, &reader), 0);
}

struct io_counted io_mount_counted(const struct io_mount *m, uint8_t operation)
{
    struct counting c = {.m = m, .operation = operation};
    count(&c);
    return c.counted;
}

struct io_counted io_mount_flagged(const struct io_mount *m, uint8_t operation, uint8_t flags)
{
    struct counting c = {.m = m, .operation = operation, .flags = flags, .by_flags = true};
    count(&c);
    return c.counted;
}

uint64_t io_mount_errors(const struct io_mount *m, uint8_t operation, int error)
{
    struct counting c = {.m = m, .operation = operation, .error = error};
    count(&c);
    return c.errors;
}

void io_mount_expect(const struct io_mount *m, uint8_t operation, uint64_t operations, uint64_t bytes)
{
    const struct io_counted counted = io_mount_counted(m, operation);
    if (counted.operations != operations || counted.bytes != bytes)
        fail_msg("operation %u: %llu of %llu bytes were counted, not %llu of %llu", operation,
                 (unsigned long long)counted.operations, (unsigned long long)counted.bytes,
                 (unsigned long long)operations, (unsigned long long)bytes);
}
