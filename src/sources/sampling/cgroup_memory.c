/* Reads files of the memory controller; see cgroup_memory.h. */
#include "sources/sampling/cgroup_memory.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/units.h"
#include "sources/sampling/cgroup_names.h"
#include "sources/sampling/cgroup_search.h"

#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILE_MAX_BYTES 65536
#define NO_LIMIT       (1ull << 60) /* what cgroup v1 shows is above that */

int cgroup_memory_open(void)
{
    return cgroup_search_open_controller("memory");
}

/* `path` is as in /proc/PID/cgroup: relative to the root, which is "/". False: the cgroup has no such file. */
static bool read_file(int root_fd, const char *path, const char *name, struct buf *ret)
{
    char whole[PATH_MAX];
    const char *below = path + (path[0] == '/');
    if (snprintf(whole, sizeof(whole), "%s%s%s", below, below[0] ? "/" : "", name) >= (int)sizeof(whole))
        return false;
    _cleanup_close_ int fd = openat(root_fd, whole, O_RDONLY | O_CLOEXEC);
    return fd >= 0 && buf_read_fd(ret, fd, FILE_MAX_BYTES) >= 0 && ret->size;
}

/* The number after `key` at the begin of a line. cgroup v1 has the sum with the cgroups below as "total_KEY". */
static uint64_t find_number(const char *text, const char *key)
{
    static const char total[] = "total_";
    const size_t bytes = strlen(key);
    uint64_t found = CGROUP_MEMORY_UNKNOWN;
    for (const char *line = text; line && *line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
        const bool is_total = strncmp(line, total, sizeof(total) - 1) == 0;
        const char *at = is_total ? line + sizeof(total) - 1 : line;
        if (strncmp(at, key, bytes) == 0 && at[bytes] == ' ' && (is_total || found == CGROUP_MEMORY_UNKNOWN))
            found = strtoull(at + bytes, NULL, 10);
    }
    return found;
}

/* "some avg10=0.00 avg60=0.00 avg300=0.00 total=1234" */
static uint64_t find_stalled(const char *text)
{
    const char *total = strncmp(text, "some ", 5) == 0 ? strstr(text, " total=") : NULL;
    return total ? strtoull(total + strlen(" total="), NULL, 10) : CGROUP_MEMORY_UNKNOWN;
}

void cgroup_memory_read(int root_fd, const char *path, uint64_t ret[CGROUP_MEMORY_COUNTERS])
{
    static const char *const keys[] = {
        [CGROUP_MEMORY_FAULTS] = "pgfault",
        [CGROUP_MEMORY_MAJOR_FAULTS] = "pgmajfault",
        [CGROUP_MEMORY_REFAULTS_FILE] = "workingset_refault_file",
        [CGROUP_MEMORY_REFAULTS_ANONYMOUS] = "workingset_refault_anon",
    };
    _cleanup_buf_ struct buf stat = {0}, events = {0}, pressure = {0};
    for (size_t i = 0; i < CGROUP_MEMORY_COUNTERS; i++)
        ret[i] = CGROUP_MEMORY_UNKNOWN;
    if (read_file(root_fd, path, "memory.stat", &stat))
        for (size_t i = 0; i <= CGROUP_MEMORY_REFAULTS_ANONYMOUS; i++)
            ret[i] = find_number(stat.data, keys[i]);
    if (read_file(root_fd, path, "memory.events", &events))
        ret[CGROUP_MEMORY_HIGH] = find_number(events.data, "high");
    if (read_file(root_fd, path, "memory.pressure", &pressure))
        ret[CGROUP_MEMORY_STALLED_US] = find_stalled(pressure.data);
}

/* The number after `key`, in cgroup v1 after `key_v1`; 0: neither is there. */
static uint64_t find_either(const char *text, const char *key, const char *key_v1)
{
    uint64_t found = find_number(text, key);
    found = found == CGROUP_MEMORY_UNKNOWN ? find_number(text, key_v1) : found;
    return found == CGROUP_MEMORY_UNKNOWN ? 0 : found;
}

bool cgroup_memory_held(int root_fd, const char *path, struct cgroup_memory_held *ret)
{
    _cleanup_buf_ struct buf stat = {0};
    *ret = (struct cgroup_memory_held){0};
    if (!read_file(root_fd, path, "memory.stat", &stat))
        return false;
    ret->anonymous = find_either(stat.data, "anon", "rss");
    ret->cache = find_either(stat.data, "file", "cache");
    ret->shared = find_either(stat.data, "shmem", "shmem");
    return true;
}

/* ---- limits ---- */

static void lower_limit(int root_fd, const char *path, const char *name, uint64_t *lowest,
                        char out[CGROUP_MEMORY_LIMIT_BYTES])
{
    _cleanup_buf_ struct buf text = {0};
    char size[24];
    uint64_t bytes;
    if (!read_file(root_fd, path, name, &text) || sscanf(text.data, "%" SCNu64, &bytes) != 1 || bytes >= *lowest)
        return;
    *lowest = bytes;
    snprintf(out, CGROUP_MEMORY_LIMIT_BYTES, "%s %s", name, units_format_size(bytes, size, sizeof(size)));
}

const char *cgroup_memory_limit(int root_fd, const char *path, char out[CGROUP_MEMORY_LIMIT_BYTES])
{
    static const char *const names[] = {"memory.high", "memory.max", "memory.limit_in_bytes"};
    uint64_t lowest = NO_LIMIT;
    char at[PATH_MAX];
    out[0] = '\0';
    snprintf(at, sizeof(at), "%s", path);
    for (char *end = at + strlen(at); end; end = strrchr(at, '/')) {
        *end = '\0';
        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
            lower_limit(root_fd, at, names[i], &lowest, out);
    }
    return out;
}

const char *cgroup_memory_text(struct cgroup_names *names, int root_fd, uint64_t id, char out[CGROUP_MEMORY_TEXT_BYTES])
{
    char limit[CGROUP_MEMORY_LIMIT_BYTES] = "";
    cgroup_names_refresh(names, &id, 1, clock_monotonic_ns());
    const char *path = cgroup_names_find(names, id);
    if (path && root_fd >= 0)
        cgroup_memory_limit(root_fd, path, limit);
    snprintf(out, CGROUP_MEMORY_TEXT_BYTES, "%.*s%s%s%s", CGROUP_MEMORY_TEXT_BYTES - CGROUP_MEMORY_LIMIT_BYTES - 4,
             path ?: "", limit[0] ? " (" : "", limit, limit[0] ? ")" : "");
    return out;
}
