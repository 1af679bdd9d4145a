/* Control groups; see cgroups.h and cgroups(7).
 *
 * From an ID to a path: the kernel opens a cgroup by its ID (a kernfs file handle) with one system call. Without the
 * privilege to do so (CAP_DAC_READ_SEARCH) the hierarchy is walked, within bounds. An ID that cannot be opened is
 * the ID of a removed cgroup and is never reused. */
#include "resolve/proc/cgroups.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/mounts.h"
#include "resolve/proc/maps.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <uthash.h>
#include <utlist.h>

#define KERNFS_HANDLE_TYPE 0xfe /* FILEID_KERNFS of linux/exportfs.h: 8 bytes of ID */
#define PATH_MAX_BYTES     4096
#define GONE_IDS           64
#define WALK_MAX_ENTRIES   20000
#define WALK_MAX_DEPTH     24
#define WALK_EVERY_NS      5000000000ULL
#define IDS_PER_ENTRY      4 /* IDs cached per cached path */

struct entry {
    struct cgroup cgroup; /* first: callers hold a pointer to it */
    UT_hash_handle hh;
    struct entry *prev, *next; /* least recently used first */
    char path[];
};

struct id_entry {
    uint64_t id;
    struct cgroup *cgroup; /* a reference */
    UT_hash_handle hh;
};

struct cgroups {
    struct entry *by_path, *used;
    struct id_entry *by_id;
    size_t count, id_count, max_entries, bytes;
    char *id_mount; /* of the hierarchy that the IDs belong to; NULL: none */
    size_t id_mount_bytes;
    int id_fd;
    bool has_v1, may_not_open;
    uint64_t gone[GONE_IDS];
    size_t gone_next;
    uint64_t walked_ns;
};

/* The hierarchy that cgroup IDs belong to: the hierarchy of the first listed controller mounted as v1, else v2. The BPF
 * side makes the same choice (enum cgroup_hierarchy), because IDs of different hierarchies are unrelated. */
static const char *const id_controllers[] = {"memory", "cpuacct", "cpu", "pids", "devices"};

static unsigned rank_of(const struct mount *m)
{
    for (unsigned i = 0; i < array_size(id_controllers); i++)
        if (mounts_has_option(m, id_controllers[i]))
            return i;
    return UINT_MAX;
}

static void read_mount(struct cgroups *c, const struct mount *m, unsigned *best_rank)
{
    unsigned rank = array_size(id_controllers); /* rank of v2 */
    if (mounts_text_is(&m->type, "cgroup")) {
        c->has_v1 = true; /* also a named hierarchy without a controller ("name=systemd"): runtimes use its paths */
        rank = rank_of(m);
    } else if (!mounts_text_is(&m->type, "cgroup2")) {
        return;
    }
    char *copy = rank < *best_rank ? strndup(m->point.at, m->point.size) : NULL;
    if (!copy)
        return;
    free(c->id_mount);
    c->id_mount = copy;
    c->id_mount_bytes = strlen(copy);
    *best_rank = rank;
}

int cgroups_new(const char *mountinfo, size_t max_entries, struct cgroups **ret)
{
    _cleanup_(cgroups_freep) struct cgroups *c = calloc(1, sizeof(*c));
    _cleanup_buf_ struct buf text = {0};
    if (!c)
        return -ENOMEM;
    c->id_fd = -1;
    c->max_entries = max_entries ? max_entries : 1;
    c->bytes = sizeof(*c);
    if (buf_read_file(&text, mountinfo ? mountinfo : "/proc/self/mountinfo", MOUNTS_MAX_BYTES) == 0 && text.size) {
        const char *at = text.data;
        unsigned best_rank = UINT_MAX;
        struct mount m;
        while (mounts_next(&at, &m))
            read_mount(c, &m, &best_rank);
    }
    if (c->id_mount)
        c->id_fd = open(c->id_mount, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    *ret = take_ptr(c);
    return 0;
}

void cgroups_limit(struct cgroups *c, size_t max_entries)
{
    c->max_entries = max_entries < c->max_entries ? max_entries : c->max_entries;
}

const char *cgroups_id_mount(const struct cgroups *c)
{
    return c->id_mount ? c->id_mount : "";
}

struct cgroup *cgroup_ref(struct cgroup *cgroup)
{
    if (cgroup)
        cgroup->references++;
    return cgroup;
}

void cgroup_unref(struct cgroup *cgroup)
{
    assert(!cgroup || cgroup->references > 0);
    if (cgroup && --cgroup->references == 0)
        free(cgroup);
}

static void evict_id(struct cgroups *c, struct id_entry *i)
{
    HASH_DELETE(hh, c->by_id, i);
    cgroup_unref(i->cgroup);
    free(i);
    c->id_count--;
    c->bytes -= sizeof(*i);
}

static void evict_path(struct cgroups *c, struct entry *e)
{
    HASH_DELETE(hh, c->by_path, e);
    DL_DELETE(c->used, e);
    c->count--;
    c->bytes -= sizeof(*e) + strlen(e->path) + 1;
    cgroup_unref(&e->cgroup);
}

void cgroups_free(struct cgroups *c)
{
    if (!c)
        return;
    while (c->by_id)
        evict_id(c, c->by_id);
    while (c->used)
        evict_path(c, c->used);
    if (c->id_fd >= 0)
        close(c->id_fd);
    free(c->id_mount);
    free(c);
}

static struct cgroup *cgroup_by_path(struct cgroups *c, const char *path, size_t size)
{
    struct entry *e;
    if (size == 0 || size > PATH_MAX_BYTES)
        return NULL;
    HASH_FIND(hh, c->by_path, path, size, e);
    if (e) {
        DL_DELETE(c->used, e);
        DL_APPEND(c->used, e);
        return cgroup_ref(&e->cgroup);
    }
    while (c->count >= c->max_entries)
        evict_path(c, c->used);
    e = calloc(1, sizeof(*e) + size + 1);
    if (!e)
        return NULL;
    memcpy(e->path, path, size);
    e->cgroup.path = e->path;
    e->cgroup.references = 1; /* the cache's */
    identity_from_cgroup(e->path, &e->cgroup.identity);
    if (!identity_service_of_unit(e->cgroup.identity.systemd_unit, e->cgroup.service, sizeof(e->cgroup.service)))
        e->cgroup.service[0] = '\0';
    HASH_ADD(hh, c->by_path, path, size, e);
    DL_APPEND(c->used, e);
    c->count++;
    c->bytes += sizeof(*e) + size + 1;
    return cgroup_ref(&e->cgroup);
}

const char *cgroup_choose_path(const char *text, size_t size, size_t *ret_size)
{
    const char *best = NULL;
    size_t best_size = 0;
    unsigned best_weight = 0;
    for (const char *at = text, *end = text + size; at < end;) {
        const char *feed = memchr(at, '\n', (size_t)(end - at));
        const char *line_end = feed ? feed : end;
        const char *first = memchr(at, ':', (size_t)(line_end - at));
        const char *second = first ? memchr(first + 1, ':', (size_t)(line_end - first - 1)) : NULL;
        const bool unified = second == at + 2 && at[0] == '0';
        const bool systemd = second && second - first == 13 && memcmp(first, ":name=systemd", 13) == 0;
        at = feed ? feed + 1 : end;
        size_t n = second ? (size_t)(line_end - second - 1) : 0;
        if (n == 0 || n > PATH_MAX_BYTES || second[1] != '/')
            continue;
        char path[PATH_MAX_BYTES + 1];
        memcpy(path, second + 1, n);
        path[n] = '\0';
        struct identity identity;
        identity_from_cgroup(path, &identity);
        unsigned weight = identity_weight(&identity) * 16 + (n > 1 ? 8 : 0) + (unified ? 3 : systemd ? 2 : 1);
        if (weight > best_weight) {
            best = second + 1;
            best_size = n;
            best_weight = weight;
        }
    }
    *ret_size = best_size;
    return best;
}

struct cgroup *cgroups_by_text(struct cgroups *c, const char *text, size_t size)
{
    size_t path_size;
    const char *path = cgroup_choose_path(text, size, &path_size);
    return path ? cgroup_by_path(c, path, path_size) : NULL;
}

bool cgroups_is_unified(const struct cgroups *c)
{
    return c->id_mount && !c->has_v1;
}

/* The cgroup of an open directory, by its path below the mount. */
static struct cgroup *cgroup_by_fd(struct cgroups *c, int fd)
{
    char self[40], path[PATH_MAX_BYTES];
    snprintf(self, sizeof(self), "/proc/self/fd/%d", fd);
    ssize_t n = readlink(self, path, sizeof(path));
    if (n <= 0 || n == (ssize_t)sizeof(path))
        return NULL;
    if ((size_t)n < c->id_mount_bytes || memcmp(path, c->id_mount, c->id_mount_bytes) != 0)
        return NULL;
    const size_t size = maps_path_without_deleted(path, (size_t)n) - c->id_mount_bytes;
    return size == 0 ? cgroup_by_path(c, "/", 1) : cgroup_by_path(c, path + c->id_mount_bytes, size);
}

static struct cgroup *open_by_id(struct cgroups *c, uint64_t id)
{
    union {
        struct file_handle handle;
        char space[sizeof(struct file_handle) + sizeof(id)];
    } h = {.handle = {.handle_bytes = sizeof(id), .handle_type = KERNFS_HANDLE_TYPE}};
    memcpy(h.handle.f_handle, &id, sizeof(id));
    _cleanup_close_ int fd = open_by_handle_at(c->id_fd, &h.handle, O_PATH | O_CLOEXEC);
    if (fd < 0) {
        c->may_not_open = errno == EPERM || errno == EOPNOTSUPP || errno == ENOSYS;
        return NULL;
    }
    return cgroup_by_fd(c, fd);
}

/* Searches below `fd` for the directory whose inode number is the ID (equal in kernfs). Takes `fd`. */
static struct cgroup *walk_for_id(struct cgroups *c, int fd, uint64_t id, int depth, unsigned *left)
{
    struct stat st;
    if (fstat(fd, &st) == 0 && st.st_ino == id) {
        struct cgroup *found = cgroup_by_fd(c, fd);
        close(fd);
        return found;
    }
    DIR *dir = fdopendir(fd);
    if (!dir) {
        close(fd);
        return NULL;
    }
    struct cgroup *found = NULL;
    struct dirent *d;
    while (!found && depth > 0 && (d = readdir(dir)) && *left > 0) {
        if (d->d_type != DT_DIR || d->d_name[0] == '.')
            continue;
        (*left)--;
        int child = openat(dirfd(dir), d->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (child >= 0)
            found = walk_for_id(c, child, id, depth - 1, left);
    }
    closedir(dir);
    return found;
}

static struct cgroup *find_cgroup_by_id(struct cgroups *c, uint64_t id, bool *ret_gone)
{
    struct cgroup *found = c->may_not_open ? NULL : open_by_id(c, id);
    *ret_gone = !found && !c->may_not_open;
    const uint64_t now_ns = clock_monotonic_ns();
    if (found || !c->may_not_open || (c->walked_ns && now_ns - c->walked_ns < WALK_EVERY_NS))
        return found;
    c->walked_ns = now_ns;
    unsigned left = WALK_MAX_ENTRIES;
    int fd = open(c->id_mount, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 ? NULL : walk_for_id(c, fd, id, WALK_MAX_DEPTH, &left);
}

struct cgroup *cgroups_by_id(struct cgroups *c, uint64_t id)
{
    struct id_entry *i;
    if (id == 0 || c->id_fd < 0)
        return NULL;
    HASH_FIND(hh, c->by_id, &id, sizeof(id), i);
    if (i)
        return cgroup_ref(i->cgroup);
    for (size_t g = 0; g < GONE_IDS; g++)
        if (c->gone[g] == id)
            return NULL;
    bool gone;
    struct cgroup *found = find_cgroup_by_id(c, id, &gone);
    if (gone) {
        c->gone[c->gone_next++ % GONE_IDS] = id;
        return NULL;
    }
    i = found ? malloc(sizeof(*i)) : NULL;
    if (!i)
        return found;
    while (c->id_count >= c->max_entries * IDS_PER_ENTRY)
        evict_id(c, c->by_id); /* the oldest: uthash keeps insertion order */
    *i = (struct id_entry){.id = id, .cgroup = cgroup_ref(found)};
    HASH_ADD(hh, c->by_id, id, sizeof(i->id), i);
    c->id_count++;
    c->bytes += sizeof(*i);
    return found;
}

size_t cgroups_bytes(const struct cgroups *c)
{
    return c->bytes;
}
