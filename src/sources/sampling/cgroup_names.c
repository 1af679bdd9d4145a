/* Keeps a sorted copy of the tree of cgroups; see cgroup_names.h. */
#include "sources/sampling/cgroup_names.h"

#include "sources/sampling/cgroup_search.h"

#include <stdlib.h>
#include <string.h>

#define PAUSE_NS 5000000000ull /* between two walks over the tree */

void cgroup_names_clear(struct cgroup_names *n)
{
    for (size_t i = 0; i < n->count; i++)
        free(n->list[i].path);
    free(n->list);
    *n = (struct cgroup_names){.is_v2 = n->is_v2};
}

static int compare_names(const void *a, const void *b)
{
    const struct cgroup_name *one = a, *other = b;
    return one->id < other->id ? -1 : one->id > other->id;
}

static void add_name(void *context, const char *path, uint64_t id)
{
    struct cgroup_names *n = context;
    struct cgroup_name *grown = reallocarray(n->list, n->count + 1, sizeof(*grown));
    char *copy = grown ? strdup(path) : NULL;
    n->list = grown ? grown : n->list;
    if (copy)
        n->list[n->count++] = (struct cgroup_name){.id = id, .path = copy};
}

const char *cgroup_names_find(const struct cgroup_names *n, uint64_t id)
{
    const struct cgroup_name wanted = {.id = id};
    if (id == CGROUP_NAMES_OTHER)
        return "other";
    const struct cgroup_name *found =
        n->list ? bsearch(&wanted, n->list, n->count, sizeof(wanted), compare_names) : NULL;
    return found ? found->path : NULL;
}

bool cgroup_names_refresh(struct cgroup_names *n, const uint64_t *ids, size_t count, uint64_t now_ns)
{
    size_t named = 0;
    while (named < count && cgroup_names_find(n, ids[named]))
        named++;
    if (named == count || (n->read_ns && now_ns - n->read_ns < PAUSE_NS))
        return false;
    cgroup_names_clear(n);
    const bool is_complete = (n->is_v2 ? cgroup_search_each_v2 : cgroup_search_each)(add_name, n) == 0;
    if (n->list)
        qsort(n->list, n->count, sizeof(*n->list), compare_names);
    n->read_ns = now_ns;
    return is_complete;
}
