/* Rows of counters; see io_rows.h. */
#include "io_report/io_rows.h"

#include "base/clock.h"
#include "signals/io/io_names.h"
#include "sources/io/io.h"
#include "sources/io/io_counters.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { READS, DIRECT_READS, WRITES, SYNCS, OTHERS, KINDS };

#define IDLE_NS  60000000000ull
#define SHORT_ID 12 /* of a container's ID, as container tools show it */

struct row {
    char *key; /* the fields, each with a newline behind it; of a process only its number */
    char *fields[IO_FIELDS];
    struct io_counters before[KINDS], now[KINDS];
    struct io_counters past[KINDS]; /* of keys that are no longer in the kernel's table; a part of `now` */
    uint64_t unexpected_errors;     /* in the last interval */
    bool is_unattributed;
    bool is_of_ended; /* of processes that had ended before they had a row of their own */
    size_t processes; /* such ones, in the last interval */
    UT_hash_handle hh;
};

struct io_rows {
    unsigned fields;
    struct io_names names;
    struct io_processes processes;
    struct io_details *details;
    struct row *rows;
    size_t counted, seen;       /* keys in the last round, and in this one */
    bool is_listed;             /* the interval has ended, and the next one has not begun */
    uint64_t before_ns, now_ns; /* when the last round, and the present one, began */
    int error;
};

static const char *const field_names[IO_FIELDS] = {"job", "container", "mount", "process", "file"};

const char *io_rows_field_name(enum io_field field)
{
    return field_names[field];
}

int io_rows_parse_fields(const char *text, unsigned *ret_fields)
{
    unsigned fields = 0;
    for (const char *at = text; *at || at == text;) {
        const size_t size = strcspn(at, ",");
        unsigned field = 0;
        while (field < IO_FIELDS && (strlen(field_names[field]) != size || strncmp(field_names[field], at, size) != 0))
            field++;
        if (field == IO_FIELDS)
            return -EINVAL;
        fields |= 1u << field;
        at += size + (at[size] == ',');
    }
    *ret_fields = fields;
    return 0;
}

int io_rows_new(void *source, unsigned fields, struct io_rows **ret)
{
    struct io_rows *r = calloc(1, sizeof(*r));
    if (!r)
        return -ENOMEM;
    r->fields = fields;
    r->names.source = r->processes.source = source;
    if (io_details_new(&r->names, &r->processes, &r->details) < 0) {
        free(r);
        return -ENOMEM;
    }
    *ret = r;
    return 0;
}

static void free_row(struct row *row)
{
    for (size_t i = 0; i < IO_FIELDS; i++)
        free(row->fields[i]);
    free(row->key);
    free(row);
}

void io_rows_free(struct io_rows *r)
{
    struct row *row, *next;
    if (!r)
        return;
    HASH_ITER (hh, r->rows, row, next) {
        HASH_DEL(r->rows, row);
        free_row(row);
    }
    io_details_free(r->details);
    io_processes_clear(&r->processes);
    io_names_clear(&r->names);
    free(r);
}

uint64_t io_rows_interval_ns(const struct io_rows *r)
{
    return r->now_ns > r->before_ns ? r->now_ns - r->before_ns : 1;
}

struct io_details *io_rows_details(const struct io_rows *r)
{
    return r->details;
}

/* ---- fields ---- */

static bool is_unattributed(const struct io_rows *r, const struct io_key *key)
{
    return key->cgroup_id == IO_OTHER || (r->fields & 1u << IO_FIELD_PROCESS && !key->process) ||
           (r->fields & 1u << IO_FIELD_FILE && !key->file && key->mount != IO_NO_MOUNT);
}

static void describe_job(const struct job *job, char *ret, size_t size)
{
    if (strcmp(job->manager, "none") == 0)
        snprintf(ret, size, "%s", job->id);
    else
        snprintf(ret, size, "%s %.*s", job->manager, strcmp(job->id, job->container_id) == 0 ? SHORT_ID : INT_MAX,
                 job->id);
}

/* All fields but IO_FIELD_PROCESS. */
static void describe(struct io_rows *r, const struct io_key *key, const struct io_named *cgroup,
                     const struct io_named *mount, enum io_field field, char *ret, size_t size)
{
    if (key->cgroup_id == IO_OTHER || !cgroup)
        snprintf(ret, size, "%s", IO_NOT_ATTRIBUTED);
    else if (field == IO_FIELD_JOB)
        describe_job(&cgroup->job, ret, size);
    else if (field == IO_FIELD_CONTAINER)
        snprintf(ret, size, "%.*s", SHORT_ID, cgroup->job.container_id[0] ? cgroup->job.container_id : "-");
    else if (!mount)
        snprintf(ret, size, "%s", IO_BY_PATH);
    else if (field == IO_FIELD_MOUNT)
        snprintf(ret, size, "%s (%s)", mount->path, mount->type);
    else if (!key->file)
        snprintf(ret, size, "%s", IO_NOT_ATTRIBUTED);
    else
        io_names_file(&r->names, key->mount, key->file, ret, size);
}

static void describe_process(struct io_rows *r, uint32_t process, char *ret, size_t size)
{
    char script[IO_SCRIPT_BYTES];
    if (!process) {
        snprintf(ret, size, "%s", IO_NOT_ATTRIBUTED);
        return;
    }
    io_processes_script(&r->processes, process, script);
    snprintf(ret, size, "%u %s%s%s", process, io_processes_command(&r->processes, process), script[0] ? " " : "",
             script);
}

/* ---- a round ---- */

static struct row *new_row(struct io_rows *r, const char *key, char fields[IO_FIELDS][IO_FIELD_BYTES])
{
    struct row *row = calloc(1, sizeof(*row));
    if (!row)
        return NULL;
    row->key = strdup(key);
    bool is_whole = row->key != NULL;
    for (size_t i = 0; i < IO_FIELDS; i++) {
        row->fields[i] = r->fields & 1u << i ? strdup(fields[i]) : NULL;
        is_whole &= row->fields[i] || !(r->fields & 1u << i);
    }
    if (!is_whole) {
        free_row(row);
        return NULL;
    }
    HASH_ADD_KEYPTR(hh, r->rows, row->key, strlen(row->key), row);
    return row;
}

/* NULL: no such row. `ret_key` has room for all fields, each with a newline. */
static struct row *look_up_row(const struct io_rows *r, char fields[IO_FIELDS][IO_FIELD_BYTES], char *ret_key,
                               size_t size)
{
    struct row *row = NULL;
    size_t length = 0;
    ret_key[0] = '\0';
    for (size_t i = 0; i < IO_FIELDS; i++)
        if (r->fields & 1u << i)
            length += (size_t)snprintf(ret_key + length, size - length, "%s\n", fields[i]);
    HASH_FIND_STR(r->rows, ret_key, row);
    return row;
}

/* "8123 dd (ended)"; of several processes "git (412 ended)". */
static void name_ended(struct io_rows *r, struct row *row, uint32_t process)
{
    char *text = NULL;
    if (!io_processes_is_first(&r->processes, row, process))
        return;
    const char *command = io_processes_command(&r->processes, process);
    row->processes++;
    const int size = row->processes == 1 ? asprintf(&text, "%u %s (ended)", process, command)
                                         : asprintf(&text, "%s (%zu ended)", command, row->processes);
    if (size < 0)
        return;
    free(row->fields[IO_FIELD_PROCESS]);
    row->fields[IO_FIELD_PROCESS] = text;
}

/* A process keeps its row until it has ended and is idle; one that ends before it has a row shares that of its command.
 */
static struct row *find_row(struct io_rows *r, const struct io_key *key, const struct io_named *cgroup,
                            const struct io_named *mount)
{
    char fields[IO_FIELDS][IO_FIELD_BYTES], all[IO_FIELDS * (IO_FIELD_BYTES + 1) + 1];
    const bool by_process = r->fields & 1u << IO_FIELD_PROCESS;
    char *process = fields[IO_FIELD_PROCESS];
    for (size_t i = 0; i < IO_FIELDS; i++)
        if (r->fields & 1u << i && i != IO_FIELD_PROCESS)
            describe(r, key, cgroup, mount, (enum io_field)i, fields[i], sizeof(fields[i]));
    snprintf(process, IO_FIELD_BYTES, "%u", key->process);
    struct row *row = look_up_row(r, fields, all, sizeof(all));
    const bool is_of_ended = by_process && !row && key->process && io_processes_have_ended(&r->processes, key->process);
    if (is_of_ended) {
        snprintf(process, IO_FIELD_BYTES, "%s (ended)", io_processes_command(&r->processes, key->process));
        row = look_up_row(r, fields, all, sizeof(all));
    } else if (!row && by_process) { /* named once: it may change its name, and end */
        describe_process(r, key->process, process, IO_FIELD_BYTES);
    }
    if (!row && (row = new_row(r, all, fields)))
        row->is_unattributed = is_unattributed(r, key);
    if (row && is_of_ended)
        name_ended(r, row, key->process);
    return row;
}

static bool has_ended(void *context, uint32_t process)
{
    return io_processes_have_ended(&((struct io_rows *)context)->processes, process);
}

/* Entries that may leave the table: the process has ended, or the entry has been idle for a while. */
static bool is_final(void *context, const struct io_key *key, const struct io_counters *c)
{
    struct io_rows *r = context;
    if (key->process && has_ended(r, key->process))
        return true;
    return key->cgroup_id != IO_OTHER && r->counted > io_source_counters_max(r->names.source) / 2 &&
           c->last_ns + IDLE_NS < r->now_ns;
}

static void take(void *context, const struct io_key *key, const struct io_counters *c, bool is_last)
{
    struct io_rows *r = context;
    const struct io_named *cgroup = key->cgroup_id == IO_OTHER ? NULL : io_names_cgroup(&r->names, key->cgroup_id);
    const struct io_named *mount = key->mount == IO_NO_MOUNT ? NULL : io_names_mount(&r->names, key->mount);
    r->seen++;
    if (mount && mount->is_hidden)
        return;
    struct row *row = find_row(r, key, cgroup, mount);
    if (!row) {
        r->error = -ENOMEM;
        return;
    }
    const size_t kind = key->operation == IO_READ    ? (key->flags & IO_IS_DIRECT ? DIRECT_READS : READS)
                        : key->operation == IO_WRITE ? WRITES
                        : key->operation == IO_SYNC  ? SYNCS
                                                     : OTHERS;
    io_counters_add(&row->now[kind], c);
    if (is_last)
        io_counters_add(&row->past[kind], c);
}

static void take_error(void *context, const struct io_error_key *key, uint64_t count, bool is_final)
{
    struct io_rows *r = context;
    const struct io_named *cgroup =
        key->key.cgroup_id == IO_OTHER ? NULL : io_names_cgroup(&r->names, key->key.cgroup_id);
    const struct io_named *mount = key->key.mount == IO_NO_MOUNT ? NULL : io_names_mount(&r->names, key->key.mount);
    (void)is_final;
    if (mount && mount->is_hidden)
        return;
    struct row *row = io_error_is_expected(key->error) ? NULL : find_row(r, &key->key, cgroup, mount);
    if (row)
        row->unexpected_errors += count;
    if (io_details_add_error(r->details, key, count) < 0)
        r->error = -ENOMEM;
}

/* Nothing of it is in the kernel's table any more, and nothing came in the last interval. */
static bool is_over(const struct row *row)
{
    return memcmp(row->now, row->past, sizeof(row->now)) == 0 && memcmp(row->now, row->before, sizeof(row->now)) == 0;
}

/* The first call of an interval. */
static void begin_interval(struct io_rows *r)
{
    struct row *row, *next;
    if (!r->is_listed)
        return;
    HASH_ITER (hh, r->rows, row, next) {
        if (is_over(row)) {
            HASH_DEL(r->rows, row);
            free_row(row);
            continue;
        }
        memcpy(row->before, row->now, sizeof(row->before));
        memcpy(row->now, row->past, sizeof(row->now));
        row->unexpected_errors = row->processes = 0;
    }
    io_details_clear(r->details);
    r->is_listed = false;
    r->error = 0;
}

int io_rows_sweep(struct io_rows *r)
{
    const struct io_reader reader = {.context = r, .take = take, .take_error = take_error, .ends_errors = true};
    begin_interval(r);
    io_processes_clear(&r->processes);
    const int details = io_details_take(r->details);
    const int errors = io_source_read_errors(r->names.source, &reader);
    const int counters =
        r->fields & 1u << IO_FIELD_PROCESS ? io_source_take_ended(r->names.source, &reader, has_ended) : 0;
    return counters ?: errors ?: details ?: r->error;
}

int io_rows_refresh(struct io_rows *r)
{
    const struct io_reader reader = {
        .context = r, .is_final = is_final, .take = take, .take_error = take_error, .ends_errors = true};
    begin_interval(r);
    io_processes_clear(&r->processes);
    r->is_listed = true;
    r->counted = r->seen;
    r->seen = 0;
    r->before_ns = r->now_ns;
    r->now_ns = clock_monotonic_ns();
    io_names_refresh_mounts(&r->names);
    const int details = io_details_take(r->details);
    const int read = io_source_read(r->names.source, &reader);
    io_source_sweep(r->names.source, r->now_ns);
    return read ?: details ?: r->error;
}

/* ---- the list ---- */

/* The upper bound of the bucket that contains the quantile `share` of the operations. */
static uint64_t quantile_ns(const uint64_t durations[IO_BUCKETS], double share)
{
    uint64_t all = 0, seen = 0;
    for (size_t i = 0; i < IO_BUCKETS; i++)
        all += durations[i];
    for (size_t i = 0; i < IO_BUCKETS && all; i++) {
        seen += durations[i];
        if ((double)seen >= share * (double)all)
            return 1ull << (IO_FIRST_BUCKET + i);
    }
    return 0;
}

/* A row of the overflow may have lost to one that got room since. */
static uint64_t gain(uint64_t now, uint64_t before)
{
    return now > before ? now - before : 0;
}

static uint64_t bytes_of(const struct row *row, size_t kind)
{
    return gain(row->now[kind].bytes, row->before[kind].bytes);
}

static uint64_t operations_of(const struct row *row, size_t kind)
{
    return gain(io_counters_operations(&row->now[kind]), io_counters_operations(&row->before[kind]));
}

static struct io_row row_of(const struct row *row, bool counts_misses)
{
    struct io_row result = {
        .read_bytes = bytes_of(row, READS) + bytes_of(row, DIRECT_READS),
        .direct_read_bytes = bytes_of(row, DIRECT_READS),
        .counts_misses = counts_misses,
        .missed_bytes = gain(row->now[READS].missed, row->before[READS].missed),
        .write_bytes = bytes_of(row, WRITES),
        .reads = operations_of(row, READS) + operations_of(row, DIRECT_READS),
        .writes = operations_of(row, WRITES),
        .syncs = operations_of(row, SYNCS),
        .others = operations_of(row, OTHERS),
        .unexpected_errors = row->unexpected_errors,
        .is_unattributed = row->is_unattributed,
    };
    uint64_t durations[IO_BUCKETS] = {0};
    for (size_t kind = 0; kind < KINDS; kind++) {
        result.errors += gain(row->now[kind].errors, row->before[kind].errors);
        result.time_ns += gain(row->now[kind].sum_ns, row->before[kind].sum_ns);
        for (size_t i = 0; i < IO_BUCKETS; i++)
            durations[i] += gain(row->now[kind].durations[i], row->before[kind].durations[i]);
    }
    for (size_t i = 0; i < IO_FIELDS; i++)
        result.fields[i] = row->fields[i];
    result.median_ns = quantile_ns(durations, 0.5);
    result.p99_ns = quantile_ns(durations, 0.99);
    return result;
}

static uint64_t all_operations(const struct io_row *row)
{
    return row->reads + row->writes + row->syncs + row->others;
}

static uint64_t weight_of(const struct io_row *row, enum io_order order)
{
    switch (order) {
    case IO_ORDER_READ:
        return row->read_bytes;
    case IO_ORDER_WRITE:
        return row->write_bytes;
    case IO_ORDER_OPERATIONS:
        return all_operations(row);
    case IO_ORDER_SYNCS:
        return row->syncs;
    case IO_ORDER_TIME:
        return row->time_ns;
    default:
        return row->read_bytes + row->write_bytes;
    }
}

static int greatest_first(const void *a, const void *b, void *order)
{
    const enum io_order by = *(const enum io_order *)order;
    const struct io_row *x = a, *y = b;
    const uint64_t one = weight_of(x, by), other = weight_of(y, by);
    if (one != other)
        return one < other ? 1 : -1;
    return all_operations(x) < all_operations(y) ? 1 : -1;
}

struct io_attribution io_rows_attribution(const struct io_row *rows, size_t count)
{
    struct io_attribution result = {0};
    for (size_t i = 0; i < count; i++) {
        result.operations += all_operations(&rows[i]);
        result.missing += rows[i].is_unattributed ? all_operations(&rows[i]) : 0;
    }
    return result;
}

int io_rows_list(const struct io_rows *r, enum io_order order, struct io_row **ret, size_t *ret_count)
{
    struct io_row *list = calloc(HASH_COUNT(r->rows) + 1, sizeof(*list));
    const bool counts_misses = io_source_counts_misses(r->names.source);
    size_t count = 0;
    if (!list)
        return -ENOMEM;
    for (const struct row *row = r->rows; row; row = row->hh.next) {
        list[count] = row_of(row, counts_misses);
        count += all_operations(&list[count]) > 0;
    }
    qsort_r(list, count, sizeof(*list), greatest_first, &order);
    *ret = list;
    *ret_count = count;
    return 0;
}
