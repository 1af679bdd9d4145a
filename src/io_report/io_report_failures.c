/* Sums failures; see io_report_failures.h. */
#include "io_report/io_report_failures.h"

#include "signals/io/io_metrics.h"
#include "sources/io/io_path.h"
#include "sources/io/io_uses.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

#define FAILURES_MAX 10000
#define NUMBER_BYTES 12

struct failure {
    struct io_error_key key;
    struct io_failure sum;
    char *path;                /* of `sum`; of a call that names one: from the beginning */
    char number[NUMBER_BYTES]; /* of an error without a name */
    UT_hash_handle hh;
};

struct io_report_failures {
    void *source;
    struct failure *failures;
    struct io_failure *list;
};

int io_report_failures_new(void *io_source, struct io_report_failures **ret)
{
    struct io_report_failures *f = calloc(1, sizeof(*f));
    if (!f)
        return -ENOMEM;
    f->source = io_source;
    *ret = f;
    return 0;
}

void io_report_failures_free(struct io_report_failures *f)
{
    struct failure *failure, *next;
    if (!f)
        return;
    HASH_ITER (hh, f->failures, failure, next) {
        HASH_DEL(f->failures, failure);
        free(failure->path);
        free(failure);
    }
    free(f->list);
    free(f);
}

static struct failure *look_up(const struct io_report_failures *f, const struct io_error_key *key)
{
    struct failure *found = NULL;
    HASH_FIND(hh, f->failures, key, sizeof(*key), found);
    return found;
}

static struct failure *add_failure(struct io_report_failures *f, const struct io_error_key *key)
{
    struct io_path path;
    struct failure *added = calloc(1, sizeof(*added));
    if (!added)
        return NULL;
    added->key = *key;
    const char *error = strerrorname_np((int)key->error);
    snprintf(added->number, sizeof(added->number), "%u", key->error);
    added->sum = (struct io_failure){.error = error ? error : added->number,
                                     .operation = io_metrics_operation(key->key.operation),
                                     .is_expected = io_error_is_expected(key->error)};
    if (key->key.mount == IO_NO_MOUNT && key->key.file && io_failed_path(f->source, key->key.file, &path))
        added->path = strdup(path.text);
    HASH_ADD(hh, f->failures, key, sizeof(added->key), added);
    return added;
}

int io_report_failures_add(struct io_report_failures *f, const struct io_error_key *key, uint64_t count)
{
    struct io_error_key as = *key;
    as.key.flags = 0;
    struct failure *found = look_up(f, &as);
    if (!found && HASH_COUNT(f->failures) >= FAILURES_MAX) {
        as.key.mount = as.key.file = as.key.process = 0;
        found = look_up(f, &as);
    }
    if (!found)
        found = add_failure(f, &as);
    if (!found)
        return -ENOMEM;
    found->sum.count += count;
    return 0;
}

static int unexpected_first(const void *left, const void *right)
{
    const struct io_failure *a = left, *b = right;
    if (a->is_expected != b->is_expected)
        return a->is_expected ? 1 : -1;
    if (a->count != b->count)
        return a->count > b->count ? -1 : 1;
    return strcmp(a->path, b->path);
}

int io_report_failures_list(struct io_report_failures *f, const struct io_report_namer *namer,
                            const struct io_failure **ret, size_t *ret_count)
{
    char path[2 * IO_PATH_BYTES];
    size_t count = 0;
    free(f->list);
    f->list = calloc(HASH_COUNT(f->failures) + 1, sizeof(*f->list));
    if (!f->list)
        return -ENOMEM;
    for (struct failure *at = f->failures; at; at = at->hh.next) {
        path[0] = '\0';
        if (at->key.key.mount != IO_NO_MOUNT)
            namer->file(namer->context, &at->key.key, path, sizeof(path));
        if (!at->path && !(at->path = strdup(path)))
            return -ENOMEM;
        at->sum.path = at->path;
        at->sum.process = namer->process(namer->context, at->key.key.process);
        f->list[count++] = at->sum;
    }
    qsort(f->list, count, sizeof(*f->list), unexpected_first);
    *ret = f->list;
    *ret_count = count;
    return 0;
}
