/* The cgroups of a container; see cgroup_search.h. */
#include "sources/cgroup_search.h"

#include "base/buf.h"
#include "base/mounts.h"
#include "sources/cpu_filters.h"

#include <ctype.h>
#include <errno.h>
#include <fts.h>
#include <string.h>
#include <sys/stat.h>

#define CONTAINER_ID_DIGITS 64
#define DIRECTORIES_MAX     100000

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

/* The mount point of the hierarchy in use: of a v1 controller, or (NULL) of cgroup v2. */
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

static int search(char *root, const char *container_id, uint64_t *ret_ids, size_t max)
{
    char *roots[] = {root, NULL};
    FTS *tree = fts_open(roots, FTS_PHYSICAL | FTS_XDEV | FTS_NOCHDIR, NULL);
    if (!tree)
        return -errno;
    size_t count = 0, seen = 0;
    for (FTSENT *entry; count < max && seen < DIRECTORIES_MAX && (entry = fts_read(tree));) {
        if (entry->fts_info != FTS_D)
            continue;
        seen++;
        if (!cgroup_name_matches(entry->fts_name, container_id))
            continue;
        ret_ids[count++] = entry->fts_statp->st_ino; /* a cgroup's id is its directory's inode number */
        fts_set(tree, entry, FTS_SKIP);              /* what is below is asked for with it */
    }
    fts_close(tree);
    return (int)count;
}

int cgroup_search_container(const char *container_id, uint64_t *ret_ids, size_t max)
{
    size_t digits = strlen(container_id);
    if (digits < 4 || digits > CONTAINER_ID_DIGITS || hexadecimal_digits(container_id) != digits)
        return -EINVAL;
    _cleanup_buf_ struct buf mountinfo = {0};
    int r = buf_read_file(&mountinfo, "/proc/self/mountinfo", MOUNTS_MAX_BYTES);
    if (r < 0)
        return r;
    char root[512];
    const char *text = mountinfo.data ? mountinfo.data : "";
    r = find_mount(text, cpu_filters_pick_controller(text), root, sizeof(root));
    return r < 0 ? r : search(root, container_id, ret_ids, max);
}
