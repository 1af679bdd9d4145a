/* Rows of counters; see io_rows.h. */
#include "cli/io_rows.h"

#include "base/clock.h"
#include "signals/io/io_names.h"
#include "sources/io/io.h"
#include "sources/io/io_counters.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
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
    UT_hash_handle hh;
};

struct io_rows {
    unsigned fields;
    struct io_names names;
    struct io_details *details;
    struct row *rows;
    size_t counted, seen;       /* keys in the last round, and in this one */
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
    r->names.source = source;
    if (io_details_new(&r->names, &r->details) < 0) {
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

static void describe_process(uint32_t pid, char *ret, size_t size)
{
    char path[32], comm[32] = "";
    snprintf(path, sizeof(path), "/proc/%u/comm", pid);
    FILE *f = fopen(path, "re");
    if (f && !fgets(comm, sizeof(comm), f))
        comm[0] = '\0';
    if (f)
        fclose(f);
    comm[strcspn(comm, "\n")] = '\0';
    snprintf(ret, size, "%u %s", pid, comm[0] ? comm : "(ended)");
}

static void describe(struct io_rows *r, const struct io_key *key, const struct io_named *cgroup,
                     const struct io_named *mount, enum io_field field, char *ret, size_t size)
{
    static const struct job other = {.manager = "other"};
    const struct job *job = cgroup ? &cgroup->job : &other;
    switch (field) {
    case IO_FIELD_JOB:
        snprintf(ret, size, "%s %.*s", job->manager, strcmp(job->id, job->container_id) == 0 ? SHORT_ID : INT_MAX,
                 job->id);
        break;
    case IO_FIELD_CONTAINER:
        snprintf(ret, size, "%.*s", SHORT_ID, job->container_id[0] ? job->container_id : "-");
        break;
    case IO_FIELD_MOUNT:
        if (mount)
            snprintf(ret, size, "%s (%s)", mount->path, mount->type);
        else
            snprintf(ret, size, "%s", key->cgroup_id == IO_OTHER ? "unknown" : "(calls that name a path)");
        break;
    default:
        io_names_file(&r->names, key->mount, key->file, ret, size);
    }
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

static struct row *find_row(struct io_rows *r, const struct io_key *key, const struct io_named *cgroup,
                            const struct io_named *mount)
{
    char fields[IO_FIELDS][IO_FIELD_BYTES], all[IO_FIELDS * (IO_FIELD_BYTES + 1) + 1] = "";
    size_t size = 0;
    struct row *row = NULL;
    for (size_t i = 0; i < IO_FIELDS; i++) {
        if (!(r->fields & 1u << i))
            continue;
        if (i == IO_FIELD_PROCESS) /* named once: it may change its name, and end */
            snprintf(fields[i], sizeof(fields[i]), "%u", key->process);
        else
            describe(r, key, cgroup, mount, (enum io_field)i, fields[i], sizeof(fields[i]));
        size += (size_t)snprintf(all + size, sizeof(all) - size, "%s\n", fields[i]);
    }
    HASH_FIND_STR(r->rows, all, row);
    if (row)
        return row;
    describe_process(key->process, fields[IO_FIELD_PROCESS], sizeof(fields[IO_FIELD_PROCESS]));
    return new_row(r, all, fields);
}

/* Entries that may leave the table: the process has ended, or the entry has been idle for a while. */
static bool is_final(void *context, const struct io_key *key, const struct io_counters *c)
{
    const struct io_rows *r = context;
    if (key->process && kill((pid_t)key->process, 0) < 0 && errno == ESRCH)
        return true;
    return key->cgroup_id != IO_OTHER && r->counted > IO_MAX_COUNTERS / 2 && c->last_ns + IDLE_NS < r->now_ns;
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

int io_rows_refresh(struct io_rows *r)
{
    const struct io_reader reader = {
        .context = r, .is_final = is_final, .take = take, .take_error = take_error, .ends_errors = true};
    struct row *row, *next;
    r->error = 0;
    r->counted = r->seen;
    r->seen = 0;
    r->before_ns = r->now_ns;
    r->now_ns = clock_monotonic_ns();
    io_names_refresh_mounts(&r->names);
    HASH_ITER (hh, r->rows, row, next) {
        if (is_over(row)) {
            HASH_DEL(r->rows, row);
            free_row(row);
            continue;
        }
        memcpy(row->before, row->now, sizeof(row->before));
        memcpy(row->now, row->past, sizeof(row->now));
        row->unexpected_errors = 0;
    }
    const int details = io_details_refresh(r->details);
    const int read = io_source_read(r->names.source, &reader);
    io_source_sweep(r->names.source, r->now_ns);
    return read < 0 ? read : details < 0 ? details : r->error;
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
