/* The cgroups of a container or pod; see cgroup_search.h. */
#include "sources/sampling/cgroup_search.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/mounts.h"
#include "sources/sampling/task_filters.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define CONTAINER_ID_DIGITS 64
#define DIRECTORIES_MAX     100000
#define DEPTH_MAX           64
#define POD_UID_MIN         32 /* of a static pod; 36 with dashes */
#define ROOT_BYTES          512
#define NEVER_MATCHES       UINT8_MAX /* as a depth: names are not compared with this entry */

static size_t hexadecimal_digits(const char *text)
{
    return strspn(text, "0123456789abcdef");
}

int cgroup_name_matches(const char *name, const char *container_id)
{
    for (const char *at = name; (at = strstr(at, container_id)); at++)
        if ((at == name || !isxdigit((unsigned char)at[-1])) && hexadecimal_digits(at) == CONTAINER_ID_DIGITS)
            return 1;
    return 0;
}

/* Finds the mount point of a v1 controller's hierarchy or, with controller NULL, of cgroup v2. */
static int find_mount(const char *mountinfo, const char *controller, char *ret, size_t size)
{
    struct mount m;
    while (mounts_next(&mountinfo, &m)) {
        if (!mounts_text_is(&m.type, controller ? "cgroup" : "cgroup2") || m.point.size >= size ||
            (controller && !mounts_has_option(&m, controller)))
            continue;
        memcpy(ret, m.point.at, m.point.size);
        ret[m.point.size] = '\0';
        return 0;
    }
    return -ENOENT;
}

/* Matches directory names such as "pod0b1d3c5e-1111-..." and "kubepods-burstable-pod0b1d3c5e_1111_....slice". */
int cgroup_name_is_of_pod(const char *name, const char *pod_uid)
{
    for (const char *at = name; (at = strstr(at, "pod")); at++) {
        const char *digits = at + 3, *wanted = pod_uid;
        for (; *wanted && (*digits == *wanted || (*wanted == '-' && *digits == '_')); digits++)
            wanted++;
        if (!*wanted && !isxdigit((unsigned char)*digits))
            return 1;
    }
    return 0;
}

struct search {
    const struct cgroup_wanted *wanted;
    size_t count;
    uint8_t *inside; /* per wanted entry: depth, from 1, of the matching cgroup that contains the current directory; 0:
                        none */
    void (*found)(void *context, size_t wanted, uint64_t id);
    void *context;
    size_t seen;
};

static bool is_container_id(const char *text)
{
    const size_t digits = strlen(text);
    return digits >= 4 && digits <= CONTAINER_ID_DIGITS && hexadecimal_digits(text) == digits;
}

static bool is_pod_uid(const char *text)
{
    return strlen(text) >= POD_UID_MIN && strspn(text, "0123456789abcdef-") == strlen(text);
}

static bool is_valid_text(const struct cgroup_wanted *wanted)
{
    return wanted->kind == CGROUP_OF_POD ? is_pod_uid(wanted->text) : is_container_id(wanted->text);
}

static bool name_matches(const struct cgroup_wanted *wanted, const char *name)
{
    return wanted->kind == CGROUP_OF_POD ? cgroup_name_is_of_pod(name, wanted->text)
                                         : cgroup_name_matches(name, wanted->text);
}

static void search_below(struct search *s, int fd, unsigned depth);

/* The cgroup of a pod may contain that of another wanted entry: its container. */
static void visit_directory(struct search *s, int parent, const struct dirent *entry, unsigned depth)
{
    size_t outside = 0;
    for (size_t i = 0; i < s->count; i++) {
        if (!s->inside[i] && name_matches(&s->wanted[i], entry->d_name)) {
            s->found(s->context, i,
                     entry->d_ino); /* a cgroup's ID is its directory's inode number; it includes everything below */
            s->inside[i] = (uint8_t)(depth + 1);
        }
        outside += !s->inside[i];
    }
    int below = outside && depth < DEPTH_MAX
                    ? openat(parent, entry->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
                    : -1;
    if (below >= 0)
        search_below(s, below, depth + 1);
    for (size_t i = 0; i < s->count; i++)
        if (s->inside[i] == depth + 1)
            s->inside[i] = 0;
}

/* Descends into directories only, by d_type: a cgroup has dozens of files. */
static void search_below(struct search *s, int fd, unsigned depth)
{
    DIR *directory = fdopendir(fd);
    if (!directory) {
        close(fd);
        return;
    }
    for (struct dirent *entry; s->seen < DIRECTORIES_MAX && (entry = readdir(directory));) {
        if (entry->d_type != DT_DIR || strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        s->seen++;
        visit_directory(s, dirfd(directory), entry, depth);
    }
    closedir(directory);
}

/* Finds the mount point of the hierarchy whose IDs the BPF programs report. */
static int find_root(char *ret, size_t size)
{
    _cleanup_buf_ struct buf mountinfo = {0};
    int r = buf_read_file(&mountinfo, "/proc/self/mountinfo", MOUNTS_MAX_BYTES);
    if (r < 0)
        return r;
    const char *text = mountinfo.data ? mountinfo.data : "";
    return find_mount(text, task_filters_pick_controller(text), ret, size);
}

/* Likewise of the hierarchy with this controller of cgroup v1 or, with NULL, of cgroup v2. */
static int find_root_of(const char *controller, char *ret, size_t size)
{
    _cleanup_buf_ struct buf mountinfo = {0};
    const int r = buf_read_file(&mountinfo, "/proc/self/mountinfo", MOUNTS_MAX_BYTES);
    return r < 0 ? r : find_mount(mountinfo.data ? mountinfo.data : "", controller, ret, size);
}

int cgroup_search(const struct cgroup_wanted *wanted, size_t count,
                  void (*found)(void *context, size_t wanted, uint64_t id), void *context)
{
    char root[ROOT_BYTES];
    _cleanup_free_ uint8_t *inside = calloc(count + 1, 1);
    struct search s = {.wanted = wanted, .count = count, .inside = inside, .found = found, .context = context};
    if (!inside)
        return -ENOMEM;
    for (size_t i = 0; i < count; i++)
        inside[i] = is_valid_text(&wanted[i]) ? 0 : NEVER_MATCHES;
    int r = find_root(root, sizeof(root));
    if (r < 0)
        return r;
    int fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    search_below(&s, fd, 0);
    return 0;
}

struct ids {
    uint64_t *list;
    size_t count, max;
};

static void take_id(void *context, size_t wanted, uint64_t id)
{
    struct ids *ids = context;
    (void)wanted;
    if (ids->count < ids->max)
        ids->list[ids->count++] = id;
}

static int search_one(struct cgroup_wanted wanted, uint64_t *ret_ids, size_t max)
{
    struct ids ids = {.list = ret_ids, .max = max};
    if (!is_valid_text(&wanted))
        return -EINVAL;
    int r = cgroup_search(&wanted, 1, take_id, &ids);
    return r < 0 ? r : (int)ids.count;
}

int cgroup_search_container(const char *container_id, uint64_t *ret_ids, size_t max)
{
    return search_one((struct cgroup_wanted){CGROUP_OF_CONTAINER, container_id}, ret_ids, max);
}

int cgroup_search_pod(const char *pod_uid, uint64_t *ret_ids, size_t max)
{
    return search_one((struct cgroup_wanted){CGROUP_OF_POD, pod_uid}, ret_ids, max);
}

static bool has_parent_component(const char *path)
{
    for (const char *at = path; (at = strstr(at, "..")); at += 2)
        if ((at == path || at[-1] == '/') && (!at[2] || at[2] == '/'))
            return true;
    return false;
}

static int open_directory(const char *path)
{
    const int fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

int cgroup_search_open(void)
{
    char root[ROOT_BYTES];
    const int r = find_root(root, sizeof(root));
    return r < 0 ? r : open_directory(root);
}

int cgroup_search_open_controller(const char *controller)
{
    char root[ROOT_BYTES];
    int r = find_root_of(controller, root, sizeof(root));
    if (r == -ENOENT)
        r = find_root_of(NULL, root, sizeof(root));
    return r < 0 ? r : open_directory(root);
}

int cgroup_search_path(const char *path, uint64_t *ret_id)
{
    char root[ROOT_BYTES], whole[ROOT_BYTES + 4096];
    struct stat st;
    if (has_parent_component(path) || strlen(path) >= 4096)
        return -EINVAL;
    int r = find_root(root, sizeof(root));
    if (r < 0)
        return r;
    snprintf(whole, sizeof(whole), "%s/%s", root, path);
    if (lstat(whole, &st) < 0)
        return errno == ENOENT || errno == ENOTDIR ? -ESRCH : -errno;
    if (!S_ISDIR(st.st_mode))
        return -ESRCH;
    *ret_id = st.st_ino;
    return 0;
}

static int walk_tree(char *root, void (*found)(void *context, const char *path, uint64_t id), void *context)
{
    FTS *tree = fts_open((char *[]){root, NULL}, FTS_PHYSICAL | FTS_NOCHDIR | FTS_XDEV, NULL);
    if (!tree)
        return -errno;
    const size_t root_bytes = strlen(root);
    size_t seen = 0;
    for (FTSENT *entry; seen < DIRECTORIES_MAX && (entry = fts_read(tree));) {
        if (entry->fts_info != FTS_D || entry->fts_pathlen < root_bytes)
            continue;
        const char *path = entry->fts_path + root_bytes;
        found(context, *path ? path : "/", entry->fts_statp->st_ino);
        seen++;
    }
    fts_close(tree);
    return 0;
}

int cgroup_search_each(void (*found)(void *context, const char *path, uint64_t id), void *context)
{
    char root[ROOT_BYTES];
    const int r = find_root(root, sizeof(root));
    return r < 0 ? r : walk_tree(root, found, context);
}

int cgroup_search_each_v2(void (*found)(void *context, const char *path, uint64_t id), void *context)
{
    char root[ROOT_BYTES];
    const int r = find_root_of(NULL, root, sizeof(root));
    return r < 0 ? r : walk_tree(root, found, context);
}
