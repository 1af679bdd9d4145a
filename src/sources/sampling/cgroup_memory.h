/* Reads the limits of cgroups' memory, and the kernel's counters of that memory. Uses the hierarchy of cgroup v1 that
 * has the memory controller; without one, that of cgroup v2. Not thread-safe. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cgroup_names;

/* Of a cgroup with those below it. */
enum cgroup_memory_counter {
    CGROUP_MEMORY_FAULTS,
    CGROUP_MEMORY_MAJOR_FAULTS,
    CGROUP_MEMORY_REFAULTS_FILE,
    CGROUP_MEMORY_REFAULTS_ANONYMOUS,
    CGROUP_MEMORY_HIGH,       /* times that memory.high was exceeded; cgroup v2 */
    CGROUP_MEMORY_STALLED_US, /* PSI: a thread at least was short of memory; cgroup v2 */
    CGROUP_MEMORY_COUNTERS,
};

#define CGROUP_MEMORY_UNKNOWN UINT64_MAX

/* Opens the hierarchy's root; the caller closes the descriptor. -ENOENT: none is mounted; or the errno of opening it.
 */
int cgroup_memory_open(void);

/* Reads the counters of the cgroup at `path`, as in /proc/PID/cgroup; those that this kernel or hierarchy does not have
 * are CGROUP_MEMORY_UNKNOWN. */
void cgroup_memory_read(int root_fd, const char *path, uint64_t ret[CGROUP_MEMORY_COUNTERS]);

/* Memory of a cgroup with those below it, in bytes. */
struct cgroup_memory_held {
    uint64_t anonymous;
    uint64_t cache;  /* pages of files, also of a tmpfs */
    uint64_t shared; /* of the cache: shared memory and tmpfs */
};

/* False: there is no such cgroup; `ret` is then zeros. */
bool cgroup_memory_held(int root_fd, const char *path, struct cgroup_memory_held *ret);

#define CGROUP_MEMORY_LIMIT_BYTES 48

/* Writes the lowest limit of the cgroup at `path` and of those around it: "memory.high 128 MiB"; "" without one.
 * Returns `out`. */
const char *cgroup_memory_limit(int root_fd, const char *path, char out[CGROUP_MEMORY_LIMIT_BYTES]);

#define CGROUP_MEMORY_TEXT_BYTES 192

/* Writes the cgroup with its limit: "/docker/4f5d (memory.high 128 MiB)"; "" if its path is not known. Reads the tree
 * again for an ID that is new. Returns `out`. */
const char *cgroup_memory_text(struct cgroup_names *names, int root_fd, uint64_t id,
                               char out[CGROUP_MEMORY_TEXT_BYTES]);
