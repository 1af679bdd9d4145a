/* Finds the files of a rotated set; see triton_files.h. */
#include "trace/import/triton_files.h"

#include "base/cleanup.h"
#include "base/log.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int add_path(struct triton_files *files, const char *path)
{
    char **paths = realloc(files->paths, (files->count + 1) * sizeof(*paths));
    if (!paths)
        return -ENOMEM;
    files->paths = paths;
    paths[files->count] = strdup(path);
    return paths[files->count] ? (int)!++files->count : -ENOMEM;
}

void triton_files_clear(struct triton_files *files)
{
    for (size_t i = 0; i < files->count; i++)
        free(files->paths[i]);
    free(files->paths);
    *files = (struct triton_files){0};
}

/* Of "NAME.17" and "NAME.17.gz" and "NAME.17.zst": 17, or -1. */
static long rotation_number(const char *path, size_t prefix)
{
    char *end;
    if (path[prefix] != '.' || path[prefix + 1] < '0' || path[prefix + 1] > '9')
        return -1;
    errno = 0;
    long number = strtol(path + prefix + 1, &end, 10);
    return errno || (*end && strcmp(end, ".gz") != 0 && strcmp(end, ".zst") != 0) ? -1 : number;
}

static int by_number(const void *a, const void *b, void *prefix)
{
    const char *x = *(char *const *)a, *y = *(char *const *)b;
    long p = rotation_number(x, *(size_t *)prefix), q = rotation_number(y, *(size_t *)prefix);
    return p != q ? (p < q ? -1 : 1) : strcmp(x, y);
}

/* A plain file and its compressed copy can coexist while the log is rotated: only the first is read. */
static void drop_duplicates(struct triton_files *files, size_t prefix)
{
    size_t kept = 0;
    for (size_t i = 0; i < files->count; i++) {
        if (kept > 0 && rotation_number(files->paths[i], prefix) == rotation_number(files->paths[kept - 1], prefix)) {
            log_warning("trace: %s is not read: %s has the same number", files->paths[i], files->paths[kept - 1]);
            free(files->paths[i]);
        } else {
            files->paths[kept++] = files->paths[i];
        }
    }
    files->count = kept;
}

/* `common`: what the names of the files begin with. */
static int find_rotated_set(const char *common, struct triton_files *files)
{
    const char *slash = strrchr(common, '/'), *name = slash ? slash + 1 : common;
    size_t name_size = strlen(name), prefix = strlen(common);
    char directory[PATH_MAX], path[PATH_MAX];
    if (snprintf(directory, sizeof(directory), "%.*s", slash ? (int)(name - common) : 1, slash ? common : ".") >=
        (int)sizeof(directory))
        return -ENAMETOOLONG;
    DIR *dir = opendir(directory);
    int r = dir ? 0 : -errno;
    for (const struct dirent *d; r == 0 && (d = readdir(dir));) {
        if (strncmp(d->d_name, name, name_size) != 0 || rotation_number(d->d_name, name_size) < 0)
            continue;
        if (files->count == TRITON_FILES_MAX ||
            snprintf(path, sizeof(path), "%s%s", common, d->d_name + name_size) >= (int)sizeof(path))
            r = -E2BIG;
        else
            r = add_path(files, path);
    }
    if (dir)
        closedir(dir);
    if (r == 0 && files->count == 0)
        r = -ENOENT;
    if (r == 0) {
        qsort_r(files->paths, files->count, sizeof(*files->paths), by_number, &prefix);
        drop_duplicates(files, prefix);
    }
    for (size_t i = 0; r == 0 && i + 1 < files->count; i++)
        if (rotation_number(files->paths[i + 1], prefix) > rotation_number(files->paths[i], prefix) + 1)
            log_warning("trace: files of the set are missing between %s and %s", files->paths[i], files->paths[i + 1]);
    return r;
}

int triton_files_find(const char *path, struct triton_files *ret)
{
    _cleanup_(triton_files_clear) struct triton_files files = {0};
    const int r =
        strcmp(path, "-") == 0 || access(path, F_OK) == 0 ? add_path(&files, path) : find_rotated_set(path, &files);
    if (r < 0)
        return r;
    *ret = files;
    files = (struct triton_files){0};
    return 0;
}
