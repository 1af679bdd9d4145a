/* Notices that a file has changed; see file_watch.h. */
#include "base/file_watch.h"

#include <string.h>
#include <sys/stat.h>

static struct file_version read_version(const char *path)
{
    struct stat st;
    if (!path || stat(path, &st) < 0)
        return (struct file_version){0};
    return (struct file_version){.device = st.st_dev,
                                 .inode = st.st_ino,
                                 .size = (uint64_t)st.st_size,
                                 .changed_ns = (uint64_t)st.st_ctim.tv_sec * 1000000000 + (uint64_t)st.st_ctim.tv_nsec};
}

static bool is_same(const struct file_version *a, const struct file_version *b)
{
    return memcmp(a, b, sizeof(*a)) == 0;
}

void file_watch_start(struct file_watch *w, const char *path)
{
    w->read = w->seen = read_version(path);
}

bool file_watch_has_changed(struct file_watch *w, const char *path)
{
    const struct file_version now = read_version(path);
    const bool is_settled = is_same(&now, &w->seen);
    w->seen = now;
    if (is_same(&now, &w->read) || !is_settled)
        return false;
    w->read = now;
    return true;
}
