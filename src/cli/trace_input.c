/* The FILE of `sonde trace`; see trace_input.h. */
#include "cli/trace_input.h"

#include "base/log.h"
#include "cli/trace_progress.h"
#include "import/triton_file.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <string.h>

#define PROGRESS_RECORDS 4096 /* between looks at the clock */

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
static long number_of(const char *path, size_t prefix)
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
    long p = number_of(x, *(size_t *)prefix), q = number_of(y, *(size_t *)prefix);
    return p != q ? (p < q ? -1 : 1) : strcmp(x, y);
}

/* A file beside itself packed is one, caught in between. */
static void drop_doubles(struct trace_input *input, size_t prefix)
{
    size_t kept = 0;
    for (size_t i = 0; i < input->count; i++) {
        if (kept > 0 && number_of(input->paths[i], prefix) == number_of(input->paths[kept - 1], prefix)) {
            log_warning("trace: %s is not read: %s has the same number", input->paths[i], input->paths[kept - 1]);
            free(input->paths[i]);
        } else {
            input->paths[kept++] = input->paths[i];
        }
    }
    input->count = kept;
}

static int find_set(const char *argument, struct trace_input *input)
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
        if (strncmp(d->d_name, name, name_size) != 0 || number_of(d->d_name, name_size) < 0)
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
        drop_doubles(input, prefix);
    }
    for (size_t i = 0; r == 0 && i + 1 < input->count; i++)
        if (number_of(input->paths[i + 1], prefix) > number_of(input->paths[i], prefix) + 1)
            log_warning("trace: after %s comes %s: what is between them is missing", input->paths[i],
                        input->paths[i + 1]);
    return r;
}

int trace_input_find(const char *argument, struct trace_input *ret)
{
    _cleanup_(trace_input_clear) struct trace_input input = {.argument = argument};
    int r = strcmp(argument, "-") == 0 || access(argument, F_OK) == 0 ? add_path(&input, argument)
                                                                      : find_set(argument, &input);
    if (r == -ENOENT)
        log_error("trace: there is neither %s nor %s.0", argument, argument);
    else if (r < 0)
        log_errno(r, "trace: %s cannot be read", argument);
    if (r < 0)
        return r;
    *ret = input;
    input = (struct trace_input){0};
    return 0;
}

/* ---- reading ---- */

/* 1 when something made no sense or could not be read to its end. */
static int tell_report(const char *path, const struct triton_report *r)
{
    if (r->bad)
        log_error("trace: %s: left out %llu bytes at %llu places that made no sense, the first at byte %llu: %s", path,
                  (unsigned long long)r->bad_bytes, (unsigned long long)r->bad, (unsigned long long)r->first_bad,
                  r->first_reason);
    if (r->odd)
        log_warning(
            "trace: %s: %llu objects hold bytes in their texts that JSON does not allow, the first begins at byte %llu; they are kept",
            path, (unsigned long long)r->odd, (unsigned long long)r->first_odd);
    if (r->error == -EBADMSG)
        log_error("trace: %s: what it is packed with is broken behind %llu unpacked bytes", path,
                  (unsigned long long)r->bytes);
    else if (r->error < 0 && r->error != -ENODATA)
        log_errno(r->error, "trace: %s cannot be read behind byte %llu", path, (unsigned long long)r->bytes);
    if (r->is_cut)
        log_warning("trace: %s is cut off: read up to byte %llu of %llu", path, (unsigned long long)r->cut,
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
            trace_progress_tell(&progress, path, triton_file_position(file), triton_file_size(file));
    }
    trace_progress_end(&progress);
    if (r > 0) /* it has what it wanted: the rest of the file was not looked at */
        return 0;
    if (r == -EILSEQ)
        log_error(
            "trace: %s is no trace of Triton: an array of objects is expected, and it does not begin with '[' (OpenTelemetry's spans: sonde trace convert --format triton makes one of them)",
            path);
    else if (r < 0)
        log_errno(r, "trace: reading %s", path);
    return r < 0 ? (r == -EINVAL ? -EIO : r) : tell_report(path, triton_file_report(file));
}
