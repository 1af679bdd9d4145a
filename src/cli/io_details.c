/* Lists uses and failures; see io_details.h. */
#include "cli/io_details.h"

#include "signals/io/io_metrics.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct use {
    struct io_key key;
    struct io_use use;
};

struct failures {
    struct io_error_key key;
    uint64_t count;
};

/* Uses of one process and operation: `first` is the one with the most time. */
struct busy {
    size_t first, count;
    uint64_t operations, ns;
};

struct io_details {
    struct io_names *names;
    struct use *uses;
    size_t use_count, use_room;
    struct failures *failures;
    size_t failure_count, failure_room;
    int error;
};

int io_details_new(struct io_names *names, struct io_details **ret)
{
    struct io_details *d = calloc(1, sizeof(*d));
    if (!d)
        return -ENOMEM;
    d->names = names;
    *ret = d;
    return 0;
}

void io_details_free(struct io_details *d)
{
    if (!d)
        return;
    free(d->uses);
    free(d->failures);
    free(d);
}

/* Makes room for one more element. */
static int make_room(void **array, size_t count, size_t *room, size_t size)
{
    if (count < *room)
        return 0;
    const size_t wanted = *room ? 2 * *room : 256;
    void *grown = reallocarray(*array, wanted, size);
    if (!grown)
        return -ENOMEM;
    *array = grown;
    *room = wanted;
    return 0;
}

static void take_use(void *context, const struct io_key *key, const struct io_use *use)
{
    struct io_details *d = context;
    const struct io_named *mount = key->mount == IO_NO_MOUNT ? NULL : io_names_mount(d->names, key->mount);
    if (mount && mount->is_hidden)
        return;
    if (make_room((void **)&d->uses, d->use_count, &d->use_room, sizeof(*d->uses)) < 0) {
        d->error = -ENOMEM;
        return;
    }
    struct use *u = &d->uses[d->use_count++];
    *u = (struct use){*key, *use};
    u->use.command[sizeof(u->use.command) - 1] = '\0';
}

static int compare_numbers(uint64_t a, uint64_t b)
{
    return a < b ? -1 : a > b;
}

/* By process and operation, those with the most time first. */
static int compare_uses(const void *left, const void *right)
{
    const struct use *a = left, *b = right;
    return compare_numbers(a->key.process, b->key.process)
               ?: compare_numbers(a->key.operation, b->key.operation) ?: compare_numbers(b->use.ns, a->use.ns);
}

static int compare_failures(const void *left, const void *right)
{
    const struct failures *a = left, *b = right;
    return compare_numbers((uint64_t)io_error_is_expected(a->key.error), (uint64_t)io_error_is_expected(b->key.error))
               ?: compare_numbers(b->count, a->count) ?: memcmp(&a->key, &b->key, sizeof(a->key));
}

int io_details_refresh(struct io_details *d)
{
    const struct io_use_reader reader = {.context = d, .take = take_use};
    d->use_count = d->failure_count = 0;
    d->error = 0;
    const int r = io_uses_take(d->names->source, &reader);
    if (d->use_count)
        qsort(d->uses, d->use_count, sizeof(*d->uses), compare_uses);
    return r < 0 ? r : d->error;
}

/* Cgroups and flags are not told apart. */
int io_details_add_error(struct io_details *d, const struct io_error_key *key, uint64_t count)
{
    struct io_error_key as = *key;
    as.key.flags = 0;
    as.key.cgroup_id = 0;
    if (io_error_is_expected(key->error))
        as.key.mount = as.key.file = as.key.process = 0;
    for (size_t i = 0; i < d->failure_count; i++) {
        if (memcmp(&d->failures[i].key, &as, sizeof(as)) == 0) {
            d->failures[i].count += count;
            return 0;
        }
    }
    if (make_room((void **)&d->failures, d->failure_count, &d->failure_room, sizeof(*d->failures)) < 0)
        return -ENOMEM;
    d->failures[d->failure_count++] = (struct failures){as, count};
    return 0;
}

/* ---- lists ---- */

static void keep_busiest(struct busy *kept, size_t *count, size_t max, const struct busy *busy)
{
    size_t at = *count < max ? (*count)++ : max;
    while (at > 0 && kept[at - 1].ns < busy->ns) {
        if (at < max)
            kept[at] = kept[at - 1];
        at--;
    }
    if (at < max)
        kept[at] = *busy;
}

static struct io_busy describe_busy(struct io_details *d, const struct busy *busy)
{
    static const struct job other = {.manager = "other"};
    const struct use *first = &d->uses[busy->first];
    const struct io_named *cgroup = io_names_cgroup(d->names, first->key.cgroup_id);
    const struct job *job = cgroup ? &cgroup->job : &other;
    struct io_busy result = {.process = first->key.process,
                             .command = first->use.command,
                             .manager = job->manager,
                             .job_id = job->id,
                             .operation = io_metrics_operation(first->key.operation),
                             .operations = busy->operations,
                             .ns = busy->ns,
                             .files = first->key.file ? busy->count : 0,
                             .path_ns = first->use.ns};
    if (first->key.file)
        io_names_file(d->names, first->key.mount, first->key.file, result.path, sizeof(result.path));
    return result;
}

size_t io_details_busiest(struct io_details *d, struct io_busy *ret, size_t max)
{
    struct busy *kept = calloc(max + 1, sizeof(*kept));
    size_t count = 0;
    for (size_t i = 0; kept && i < d->use_count;) {
        struct busy busy = {.first = i};
        for (; i < d->use_count && d->uses[i].key.process == d->uses[busy.first].key.process &&
               d->uses[i].key.operation == d->uses[busy.first].key.operation;
             i++) {
            busy.count++;
            busy.operations += d->uses[i].use.operations;
            busy.ns += d->uses[i].use.ns;
        }
        keep_busiest(kept, &count, max, &busy);
    }
    for (size_t i = 0; i < count; i++)
        ret[i] = describe_busy(d, &kept[i]);
    free(kept);
    return count;
}

/* The process's name, by what else it did in this round; "": it did nothing else. */
static const char *command_of(const struct io_details *d, uint32_t process)
{
    for (size_t i = 0; i < d->use_count; i++)
        if (d->uses[i].key.process == process && d->uses[i].use.command[0])
            return d->uses[i].use.command;
    return "";
}

static void describe_failing(struct io_details *d, const struct failures *f, struct io_failing *ret)
{
    const struct io_key *key = &f->key.key;
    struct io_path path;
    const char *error = strerrorname_np((int)f->key.error);
    *ret = (struct io_failing){.operation = io_metrics_operation(key->operation),
                               .is_expected = io_error_is_expected(f->key.error),
                               .process = key->process,
                               .command = key->process ? command_of(d, key->process) : "",
                               .count = f->count};
    snprintf(ret->number, sizeof(ret->number), "%u", f->key.error);
    ret->error = error ? error : ret->number;
    if (key->mount != IO_NO_MOUNT && key->file)
        io_names_file(d->names, key->mount, key->file, ret->path, sizeof(ret->path));
    else if (key->file && io_failed_path(d->names->source, key->file, &path))
        snprintf(ret->path, sizeof(ret->path), "%s", path.text);
}

size_t io_details_failing(struct io_details *d, struct io_failing *ret, size_t max)
{
    const size_t count = d->failure_count < max ? d->failure_count : max;
    if (count)
        qsort(d->failures, d->failure_count, sizeof(*d->failures), compare_failures);
    for (size_t i = 0; i < count; i++)
        describe_failing(d, &d->failures[i], &ret[i]);
    return count;
}
