/* See memory_cgroups.h. */
#include "memory_report/memory_cgroups.h"

#include "base/cleanup.h"
#include "sources/sampling/cgroup_search.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct cgroup_list {
    int root_fd;
    struct memory_cgroup *list;
    size_t count;
};

static void add_cgroup(void *context, const char *path, uint64_t id)
{
    struct cgroup_list *c = context;
    struct memory_cgroup *next = &c->list[c->count];
    (void)id;
    if (c->count == MEMORY_CGROUPS_MAX || !cgroup_memory_held(c->root_fd, path, &next->held))
        return;
    next->path = strdup(path);
    c->count += next->path != NULL;
}

static int compare_paths(const void *a, const void *b)
{
    return strcmp(((const struct memory_cgroup *)a)->path, ((const struct memory_cgroup *)b)->path);
}

static struct memory_cgroup *find_cgroup(const struct cgroup_list *c, char *path)
{
    const struct memory_cgroup wanted = {.path = path};
    return bsearch(&wanted, c->list, c->count, sizeof(wanted), compare_paths);
}

/* Returns the nearest ancestor of `path` in the list; NULL if the list has no ancestor. */
static struct memory_cgroup *find_parent(const struct cgroup_list *c, const char *path)
{
    _cleanup_free_ char *at = strdup(path);
    struct memory_cgroup *found = NULL;
    char *slash;
    if (!at || strcmp(path, "/") == 0)
        return NULL;
    while (!found && (slash = strrchr(at, '/'))) {
        const bool is_root = slash == at;
        slash[is_root] = '\0';
        found = find_cgroup(c, at);
        if (is_root)
            break;
    }
    return found;
}

/* The numbers of the kernel are read one after the other, so that they do not fit together to the byte. */
static void subtract(uint64_t *from, uint64_t value)
{
    *from = *from > value ? *from - value : 0;
}

/* What the kernel counts for a cgroup includes those below: each takes its memory off the one around it. */
static int leave_own(struct cgroup_list *c)
{
    _cleanup_free_ struct cgroup_memory_held *whole = calloc(c->count + 1, sizeof(*whole));
    if (!whole)
        return -ENOMEM;
    for (size_t i = 0; i < c->count; i++)
        whole[i] = c->list[i].held;
    for (size_t i = 0; i < c->count; i++) {
        struct memory_cgroup *parent = find_parent(c, c->list[i].path);
        if (!parent)
            continue;
        subtract(&parent->held.anonymous, whole[i].anonymous);
        subtract(&parent->held.cache, whole[i].cache);
        subtract(&parent->held.shared, whole[i].shared);
    }
    return 0;
}

int memory_cgroups_read(struct memory_cgroup **ret, size_t *ret_count)
{
    _cleanup_close_ int root_fd = cgroup_memory_open();
    struct cgroup_list c = {.root_fd = root_fd};
    if (root_fd < 0)
        return root_fd;
    c.list = calloc(MEMORY_CGROUPS_MAX + 1, sizeof(*c.list));
    if (!c.list)
        return -ENOMEM;
    int r = cgroup_search_each(add_cgroup, &c);
    qsort(c.list, c.count, sizeof(*c.list), compare_paths);
    r = r ?: leave_own(&c);
    if (r < 0) {
        memory_cgroups_free(c.list, c.count);
        return r;
    }
    *ret = c.list;
    *ret_count = c.count;
    return 0;
}

void memory_cgroups_free(struct memory_cgroup *list, size_t count)
{
    for (size_t i = 0; i < count; i++)
        free(list[i].path);
    free(list);
}
