/* Names by ID; see io_names.h. */
#include "signals/io/io_names.h"

#include "sources/io/io.h"
#include "sources/io/io_path.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static void clear(struct io_named **table)
{
    struct io_named *n, *next;
    HASH_ITER (hh, *table, n, next) {
        HASH_DEL(*table, n);
        free(n);
    }
}

void io_names_clear(struct io_names *n)
{
    clear(&n->cgroups);
    clear(&n->mounts);
}

static void set_name(struct io_named *named, const struct io_name *name)
{
    named->is_hidden = name->is_hidden;
    named->is_cut = name->is_cut;
    if (name->is_detached)
        snprintf(named->path, sizeof(named->path), "(unmounted)");
    else
        io_path_format(name, named->path, sizeof(named->path));
    snprintf(named->type, sizeof(named->type), "%.*s", (int)sizeof(name->type) - 1, name->type);
}

static struct io_named *find(struct io_named **table, uint64_t id, void *source,
                             bool (*read)(void *source, uint64_t id, struct io_name *ret))
{
    struct io_named *found = NULL;
    struct io_name name;
    HASH_FIND(hh, *table, &id, sizeof(id), found);
    if (found || !read(source, id, &name))
        return found;
    found = calloc(1, sizeof(*found));
    if (!found)
        return NULL;
    found->id = id;
    set_name(found, &name);
    HASH_ADD(hh, *table, id, sizeof(found->id), found);
    return found;
}

void io_named_join(const struct io_named *mount, const char *below, bool is_outside, char *ret, size_t size)
{
    const bool is_root = strcmp(mount->path, "/") == 0, is_mount_point = strcmp(below, "/") == 0;
    if (is_outside)
        snprintf(ret, size, "%s:%s", mount->type, below);
    else
        snprintf(ret, size, "%s%s", is_root ? "" : mount->path, is_mount_point && !is_root ? "" : below);
}

void io_names_file(struct io_names *n, uint64_t mount_id, uint64_t file, char *ret, size_t size)
{
    const struct io_named *mount = mount_id == IO_NO_MOUNT ? NULL : io_names_mount(n, mount_id);
    const struct io_file_key key = {mount_id, file};
    struct io_name name;
    char below[IO_PATH_BYTES];
    if (!file || !mount) {
        snprintf(ret, size, "(calls that name a path)");
    } else if (!io_source_file(n->source, &key, &name)) {
        snprintf(ret, size, "a file of %s", mount->path);
    } else {
        io_path_format(&name, below, sizeof(below));
        io_named_join(mount, below, name.is_outside, ret, size);
    }
}

void io_names_refresh_mounts(struct io_names *n)
{
    struct io_name name;
    for (struct io_named *mount = n->mounts; mount; mount = mount->hh.next)
        if (io_source_mount(n->source, mount->id, &name))
            set_name(mount, &name);
}

struct io_named *io_names_cgroup(struct io_names *n, uint64_t id)
{
    struct io_named *cgroup = find(&n->cgroups, id, n->source, io_source_cgroup);
    if (cgroup && !cgroup->job.manager)
        job_from_cgroup(cgroup->path, &cgroup->job);
    return cgroup;
}

/* A path that lacks names cannot be checked. */
void io_names_find_gone(struct io_names *n, int root)
{
    struct stat status;
    for (struct io_named *cgroup = n->cgroups; cgroup; cgroup = cgroup->hh.next) {
        if (cgroup->is_cut)
            continue;
        const char *path = cgroup->path[1] ? cgroup->path + 1 : ".";
        if (fstatat(root, path, &status, AT_SYMLINK_NOFOLLOW) < 0)
            cgroup->is_gone |= errno == ENOENT;
        else
            cgroup->is_gone |= status.st_ino != (cgroup->id & ~IO_BLOCK_CGROUP);
    }
}

struct io_named *io_names_mount(struct io_names *n, uint64_t id)
{
    return find(&n->mounts, id, n->source, io_source_mount);
}

void io_names_forget_cgroup(struct io_names *n, struct io_named *cgroup)
{
    io_source_forget_cgroup(n->source, cgroup->id);
    HASH_DEL(n->cgroups, cgroup);
    free(cgroup);
}

void io_names_forget_mount(struct io_names *n, struct io_named *mount)
{
    io_source_forget_mount(n->source, mount->id);
    HASH_DEL(n->mounts, mount);
    free(mount);
}
