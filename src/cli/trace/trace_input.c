/* Resolves and reads the FILE argument of `sonde trace`; see trace_input.h. */
#include "cli/trace/trace_input.h"

#include "base/log.h"
#include "cli/trace/trace_progress.h"
#include "trace/import/triton_file.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <string.h>

#define PROGRESS_RECORDS 4096 /* records between progress updates */

/* ---- which files ---- */

static int add_path(struct trace_input *input, const char *path)
{
    char **paths = realloc(input->paths, (input->count + 1) * sizeof(*paths));
    if (!paths)
        return -ENOMEM;
    input->paths = paths;
    paths[input->count] = strdup(path);
    return paths[input->count] ? (int)!++input->count : -ENOMEM;
}

void trace_input_clear(struct trace_input *input)
{
    for (size_t i = 0; i < input->count; i++)
        free(input->paths[i]);
    free(input->paths);
    *input = (struct trace_input){0};
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
static void drop_duplicates(struct trace_input *input, size_t prefix)
{
    size_t kept = 0;
    for (size_t i = 0; i < input->count; i++) {
        if (kept > 0 && rotation_number(input->paths[i], prefix) == rotation_number(input->paths[kept - 1], prefix)) {
            log_warning("trace: %s is not read: %s has the same number", input->paths[i], input->paths[kept - 1]);
            free(input->paths[i]);
        } else {
            input->paths[kept++] = input->paths[i];
        }
    }
    input->count = kept;
}

static int find_rotated_set(const char *argument, struct trace_input *input)
{
    const char *slash = strrchr(argument, '/'), *name = slash ? slash + 1 : argument;
    size_t name_size = strlen(name), prefix = strlen(argument);
    char directory[PATH_MAX], path[PATH_MAX];
    if (snprintf(directory, sizeof(directory), "%.*s", slash ? (int)(name - argument) : 1, slash ? argument : ".") >=
        (int)sizeof(directory))
        return -ENAMETOOLONG;
    DIR *dir = opendir(directory);
    int r = dir ? 0 : -errno;
    for (const struct dirent *d; r == 0 && (d = readdir(dir));) {
        if (strncmp(d->d_name, name, name_size) != 0 || rotation_number(d->d_name, name_size) < 0)
            continue;
        if (input->count == TRACE_INPUT_FILES_MAX ||
            snprintf(path, sizeof(path), "%s%s", argument, d->d_name + name_size) >= (int)sizeof(path))
            r = -E2BIG;
        else
            r = add_path(input, path);
    }
    if (dir)
        closedir(dir);
    if (r == 0 && input->count == 0)
        r = -ENOENT;
    if (r == 0) {
        qsort_r(input->paths, input->count, sizeof(*input->paths), by_number, &prefix);
        drop_duplicates(input, prefix);
    }
    for (size_t i = 0; r == 0 && i + 1 < input->count; i++)
        if (rotation_number(input->paths[i + 1], prefix) > rotation_number(input->paths[i], prefix) + 1)
            log_warning("trace: files of the set are missing between %s and %s", input->paths[i], input->paths[i + 1]);
    return r;
}

int trace_input_find(const char *argument, struct trace_input *ret)
{
    _cleanup_(trace_input_clear) struct trace_input input = {.argument = argument};
    int r = strcmp(argument, "-") == 0 || access(argument, F_OK) == 0 ? add_path(&input, argument)
                                                                      : find_rotated_set(argument, &input);
    if (r == -ENOENT)
        log_error("trace: neither %s nor %s.0 exists", argument, argument);
    else if (r < 0)
        log_errno(r, "trace: %s cannot be read", argument);
    if (r < 0)
        return r;
    *ret = input;
    input = (struct trace_input){0};
    return 0;
}

/* ---- reading ---- */

/* Logs the skipped content. Returns 1 when objects were malformed or the file could not be read to its end. */
static int log_report(const char *path, const struct triton_report *r)
{
    if (r->bad)
        log_error("trace: %s: skipped %llu malformed bytes at %llu places, the first at byte %llu: %s", path,
                  (unsigned long long)r->bad_bytes, (unsigned long long)r->bad, (unsigned long long)r->first_bad,
                  r->first_reason);
    if (r->odd)
        log_warning(
            "trace: %s: %llu objects have bytes in strings that JSON does not allow, the first object at byte %llu; they are kept",
            path, (unsigned long long)r->odd, (unsigned long long)r->first_odd);
    if (r->error == -EBADMSG)
        log_error("trace: %s: the compressed data is damaged after %llu decompressed bytes", path,
                  (unsigned long long)r->bytes);
    else if (r->error < 0 && r->error != -ENODATA)
        log_errno(r->error, "trace: %s cannot be read past byte %llu", path, (unsigned long long)r->bytes);
    if (r->is_cut)
        log_warning("trace: %s is truncated: read up to byte %llu of %llu", path, (unsigned long long)r->cut,
                    (unsigned long long)r->bytes);
    return r->bad || (r->error < 0 && r->error != -ENODATA);
}

int trace_input_read(const char *path, void *context, int (*take)(void *context, const struct triton_record *record))
{
    _cleanup_(triton_file_freep) struct triton_file *file = NULL;
    struct triton_record record;
    struct trace_progress progress = trace_progress_begin();
    int r = triton_file_open(path, &file);
    if (r < 0)
        return log_errno(r, "trace: %s cannot be read", path);
    unsigned records = 0;
    while ((r = triton_file_next(file, &record)) > 0) {
        r = take(context, &record);
        if (r != 0)
            break;
        if (++records % PROGRESS_RECORDS == 0)
            trace_progress_update(&progress, path, triton_file_position(file), triton_file_size(file));
    }
    trace_progress_end(&progress);
    if (r > 0) /* the callback stopped early: the rest of the file is not validated */
        return 0;
    if (r == -EILSEQ)
        log_error(
            "trace: %s is not a Triton trace file: it does not start with '[' (sonde trace convert --format triton converts OTLP spans to one)",
            path);
    else if (r < 0)
        log_errno(r, "trace: %s cannot be read", path);
    return r < 0 ? (r == -EINVAL ? -EIO : r) : log_report(path, triton_file_report(file));
}
