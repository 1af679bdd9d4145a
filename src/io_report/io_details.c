/* Lists uses and failures; see io_details.h. */
#include "io_report/io_details.h"

#include "base/starts_with.h"
#include "signals/io/io_metrics.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uthash.h>

#define USES_MAX     65536 /* further files of an interval are one; syncs, which are few, may be as many again */
#define FAILURES_MAX 16384 /* further failures of an interval count without file and process */
#define OTHER_FILES  (~0ull)

struct use {
    struct io_use_key key;
    struct io_use sum;
    UT_hash_handle hh;
};

struct failure_key {
    uint64_t mount, file;
    char command[IO_COMMAND_BYTES]; /* of unexpected errors */
    uint32_t error, operation;
};

struct failure {
    struct failure_key key;
    uint64_t count;
    uint32_t process;
    bool is_several;
    UT_hash_handle hh;
};

/* Uses of one command by one operation: `first` is the one with the most. */
struct busy {
    struct use *first;
    size_t files;
    struct io_use sum;
    uint64_t weight;
};

struct io_details {
    struct io_names *names;
    struct io_processes *processes;
    struct use *uses;
    struct failure *failures;
    int error;
};

int io_details_parse_order(const char *text, enum io_order *ret)
{
    static const char *const names[] = {
        [IO_ORDER_TIME] = "time",   [IO_ORDER_BYTES] = "bytes", [IO_ORDER_READ] = "read",
        [IO_ORDER_WRITE] = "write", [IO_ORDER_SYNCS] = "syncs", [IO_ORDER_OPERATIONS] = "operations"};
    for (size_t i = 0; i < array_size(names); i++) {
        if (strcmp(text, names[i]) == 0) {
            *ret = (enum io_order)i;
            return 0;
        }
    }
    return -EINVAL;
}

int io_details_new(struct io_names *names, struct io_processes *processes, struct io_details **ret)
{
    struct io_details *d = calloc(1, sizeof(*d));
    if (!d)
        return -ENOMEM;
    d->names = names;
    d->processes = processes;
    *ret = d;
    return 0;
}

void io_details_clear(struct io_details *d)
{
    struct use *use, *next_use;
    struct failure *failure, *next_failure;
    HASH_ITER (hh, d->uses, use, next_use) {
        HASH_DEL(d->uses, use);
        free(use);
    }
    HASH_ITER (hh, d->failures, failure, next_failure) {
        HASH_DEL(d->failures, failure);
        free(failure);
    }
}

void io_details_free(struct io_details *d)
{
    if (!d)
        return;
    io_details_clear(d);
    free(d);
}

/* ---- sums ---- */

/* NULL: out of memory. */
static struct use *find_use(struct io_details *d, const struct io_use_key *key)
{
    struct io_use_key as = *key;
    struct use *use = NULL;
    HASH_FIND(hh, d->uses, &as, sizeof(as), use);
    if (!use && as.file && HASH_COUNT(d->uses) >= (as.operation == IO_SYNC ? 2 * USES_MAX : USES_MAX)) {
        as.mount = IO_NO_MOUNT;
        as.file = OTHER_FILES;
        HASH_FIND(hh, d->uses, &as, sizeof(as), use);
    }
    if (use || !(use = calloc(1, sizeof(*use))))
        return use;
    use->key = as;
    HASH_ADD(hh, d->uses, key, sizeof(use->key), use);
    return use;
}

static void add_use(struct io_use *to, const struct io_use *from)
{
    to->is_several |= from->is_several || (to->operations && to->process != from->process);
    to->process = from->process;
    to->operations += from->operations;
    to->bytes += from->bytes;
    to->ns += from->ns;
}

static void take_use(void *context, const struct io_use_key *key, const struct io_use *sum)
{
    struct io_details *d = context;
    const struct io_named *mount = key->mount == IO_NO_MOUNT ? NULL : io_names_mount(d->names, key->mount);
    if (mount && mount->is_hidden)
        return;
    struct use *use = find_use(d, key);
    if (use)
        add_use(&use->sum, sum);
    else
        d->error = -ENOMEM;
}

int io_details_take(struct io_details *d)
{
    const struct io_use_reader reader = {.context = d, .take = take_use};
    d->error = 0;
    const int r = io_uses_take(d->names->source, &reader);
    return r < 0 ? r : d->error;
}

static struct failure *find_failure(struct io_details *d, const struct failure_key *key)
{
    struct failure *failure = NULL;
    HASH_FIND(hh, d->failures, key, sizeof(*key), failure);
    if (failure || !(failure = calloc(1, sizeof(*failure))))
        return failure;
    failure->key = *key;
    HASH_ADD(hh, d->failures, key, sizeof(failure->key), failure);
    return failure;
}

/* What Sonde itself tries is its business: files of processes that end, for example. */
static bool is_own(uint32_t process, const char *command)
{
    return process == (uint32_t)getpid() || starts_with(command, "sonde-");
}

/* Cgroups and flags are not distinguished. */
int io_details_add_error(struct io_details *d, const struct io_error_key *key, uint64_t count)
{
    const bool is_named = !io_error_is_expected(key->error) && HASH_COUNT(d->failures) < FAILURES_MAX;
    const uint32_t process = is_named ? key->key.process : 0;
    struct failure_key as = {.error = key->error, .operation = key->key.operation};
    if (is_named) {
        as.mount = key->key.mount;
        as.file = key->key.file;
    }
    if (process)
        snprintf(as.command, sizeof(as.command), "%s", io_processes_command(d->processes, process));
    if (is_own(process, as.command))
        return 0;
    struct failure *failure = find_failure(d, &as);
    if (!failure)
        return -ENOMEM;
    failure->is_several |= failure->count && failure->process != process;
    failure->process = process;
    failure->count += count;
    return 0;
}

/* ---- lists ---- */

static int compare_numbers(uint64_t a, uint64_t b)
{
    return a < b ? -1 : a > b;
}

static uint64_t weight_of(const struct use *use, enum io_order order)
{
    const struct io_use *sum = &use->sum;
    switch (order) {
    case IO_ORDER_TIME:
        return sum->ns;
    case IO_ORDER_OPERATIONS:
        return sum->operations;
    case IO_ORDER_SYNCS:
        return use->key.operation == IO_SYNC ? sum->operations : 0;
    case IO_ORDER_READ:
        return use->key.operation == IO_READ ? sum->bytes : 0;
    case IO_ORDER_WRITE:
        return use->key.operation == IO_WRITE ? sum->bytes : 0;
    default:
        return sum->bytes;
    }
}

/* Whether both are of the same entry. */
static int compare_groups(const struct io_use_key *a, const struct io_use_key *b)
{
    return compare_numbers(a->cgroup_id, b->cgroup_id)
               ?: compare_numbers(a->operation, b->operation) ?: memcmp(a->command, b->command, sizeof(a->command));
}

/* By entry, those with the most first. */
static int compare_uses(const void *left, const void *right, void *order)
{
    const enum io_order by = *(const enum io_order *)order;
    const struct use *a = *(const struct use *const *)left, *b = *(const struct use *const *)right;
    return compare_groups(&a->key, &b->key)
               ?: compare_numbers(weight_of(b, by), weight_of(a, by)) ?: memcmp(&a->key, &b->key, sizeof(a->key));
}

static void keep_busiest(struct busy *kept, size_t *count, size_t max, const struct busy *busy)
{
    size_t at = *count < max ? (*count)++ : max;
    while (at > 0 && kept[at - 1].weight < busy->weight) {
        if (at < max)
            kept[at] = kept[at - 1];
        at--;
    }
    if (at < max)
        kept[at] = *busy;
}

static struct io_busy describe_busy(struct io_details *d, const struct busy *busy, enum io_order order, uint64_t all)
{
    static const struct job other = {.manager = "other"};
    struct use *first = busy->first;
    const struct io_named *cgroup = io_names_cgroup(d->names, first->key.cgroup_id);
    const struct job *job = cgroup ? &cgroup->job : &other;
    first->key.command[sizeof(first->key.command) - 1] = '\0';
    struct io_busy result = {.process = busy->sum.process,
                             .is_several = busy->sum.is_several,
                             .command = first->key.command,
                             .manager = job->manager,
                             .job_id = job->id,
                             .operation = io_metrics_operation(first->key.operation),
                             .operations = busy->sum.operations,
                             .bytes = busy->sum.bytes,
                             .ns = busy->sum.ns,
                             .share = (double)busy->weight / (double)all,
                             .files = first->key.file ? busy->files : 0,
                             .path_ns = first->sum.ns,
                             .path_share = (double)weight_of(first, order) / (double)busy->weight};
    if (!result.is_several && result.process)
        io_processes_script(d->processes, result.process, result.script);
    if (first->key.file == OTHER_FILES)
        snprintf(result.path, sizeof(result.path), "(files beyond the first %u)", USES_MAX);
    else if (first->key.file)
        io_names_file(d->names, first->key.mount, first->key.file, result.path, sizeof(result.path));
    return result;
}

/* All uses, the caller's to free. NULL: out of memory, or there are none. */
static struct use **sort_uses(const struct io_details *d, enum io_order order)
{
    const size_t count = HASH_COUNT(d->uses);
    struct use **sorted = count ? calloc(count, sizeof(struct use *)) : NULL;
    size_t i = 0;
    for (struct use *use = sorted ? d->uses : NULL; use; use = use->hh.next)
        sorted[i++] = use;
    if (sorted)
        qsort_r(sorted, count, sizeof(struct use *), compare_uses, &order);
    return sorted;
}

size_t io_details_busiest(struct io_details *d, enum io_order order, struct io_busy *ret, size_t max)
{
    _cleanup_free_ struct use **uses = sort_uses(d, order);
    const size_t use_count = uses ? HASH_COUNT(d->uses) : 0;
    _cleanup_free_ struct busy *kept = calloc(max + 1, sizeof(*kept));
    size_t count = 0;
    uint64_t all = 0;
    for (size_t i = 0; kept && i < use_count;) {
        struct busy busy = {.first = uses[i]};
        for (; i < use_count && compare_groups(&uses[i]->key, &busy.first->key) == 0; i++) {
            busy.files += uses[i]->key.file != 0;
            busy.weight += weight_of(uses[i], order);
            add_use(&busy.sum, &uses[i]->sum);
        }
        all += busy.weight;
        if (busy.weight)
            keep_busiest(kept, &count, max, &busy);
    }
    for (size_t i = 0; i < count; i++)
        ret[i] = describe_busy(d, &kept[i], order, all);
    return count;
}

static void describe_failing(struct io_details *d, struct failure *f, struct io_failing *ret)
{
    const struct failure_key *key = &f->key;
    struct io_path path;
    const char *error = strerrorname_np((int)key->error);
    *ret = (struct io_failing){.operation = io_metrics_operation((uint8_t)key->operation),
                               .is_expected = io_error_is_expected(key->error),
                               .process = f->process,
                               .is_several = f->is_several,
                               .command = key->command,
                               .count = f->count};
    snprintf(ret->number, sizeof(ret->number), "%u", key->error);
    ret->error = error ? error : ret->number;
    if (key->mount != IO_NO_MOUNT && key->file)
        io_names_file(d->names, key->mount, key->file, ret->path, sizeof(ret->path));
    else if (key->file && io_failed_path(d->names->source, key->file, &path))
        snprintf(ret->path, sizeof(ret->path), "%s", path.text);
}

static int compare_failures(const void *left, const void *right)
{
    const struct failure *a = *(const struct failure *const *)left, *b = *(const struct failure *const *)right;
    return compare_numbers((uint64_t)io_error_is_expected(a->key.error), (uint64_t)io_error_is_expected(b->key.error))
               ?: compare_numbers(b->count, a->count) ?: memcmp(&a->key, &b->key, sizeof(a->key));
}

size_t io_details_failing(struct io_details *d, struct io_failing *ret, size_t max)
{
    const size_t all = HASH_COUNT(d->failures);
    size_t count = 0;
    _cleanup_free_ struct failure **sorted = all ? calloc(all, sizeof(struct failure *)) : NULL;
    for (struct failure *f = sorted ? d->failures : NULL; f; f = f->hh.next)
        sorted[count++] = f;
    if (count)
        qsort(sorted, count, sizeof(struct failure *), compare_failures);
    for (size_t i = 0; i < count && i < max; i++)
        describe_failing(d, sorted[i], &ret[i]);
    return count < max ? count : max;
}
