/* Rules about files; see io_rules.h. A rule measures each file: how many operations are of its kind, and how much time
 * they explain at least. The report has the time of all reads of a file and not that of each, so that a rule takes a
 * share of it which the operations of its kind cannot have been faster than. */
#include "diagnose/io/io_rules.h"

#include "base/units.h"
#include "model/io_merge.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define KIB UINT64_C(1024)
#define MIB (1024 * KIB)

/* ---- thresholds ---- */

#define MIN_OPERATIONS 100 /* fewer are no pattern that a change of the program would pay for */
#define MIN_SYNCS      10  /* one sync waits for a device: a few explain a lot */

/* Up to 100 KiB. The next bin ends at 1 MiB, which is the size that the finding recommends. */
#define SMALL_BINS       4
#define RECOMMENDED_SIZE MIB

/* Shares of a file's operations, as drishti-io has them. */
#define SMALL_SHARE     0.10
#define UNALIGNED_SHARE 0.10
#define RANDOM_SHARE    0.20

/* Of larger accesses the transfer takes longer than the seek before it: 20 ms at 200 MB/s, and 10 ms. */
#define RANDOM_MAX_BYTES (4 * MIB)

/* Drishti-io's limit for the metadata of one process; and the share of I/O time that makes it the first thing to
 * change in shorter runs. */
#define METADATA_NS    UINT64_C(30000000000)
#define METADATA_SHARE 0.30

/* Syncs of more data than that are limited by the device's bandwidth rather than by their number: at 1 GB/s it takes
 * 4 ms, as much as a flush of a slow device's cache. */
#define SYNC_BYTES (4 * MIB)

/* What the page cache takes at most: a call is about 1 us and a copy about 0.2 ns per byte; devices take from 50 us on.
 * The distance to both allows for a loaded machine and for read-ahead. */
#define CACHED_NS          10000
#define CACHED_NS_PER_BYTE 1

#define METADATA_HEAVY     "metadata_heavy"

/* ---- what all rules measure ---- */

struct cost {
    uint64_t time_ns;
    uint64_t operations;     /* of the rule's kind */
    uint64_t all_operations; /* of the same direction, of the same files */
    uint64_t bytes;          /* of the rule's operations */
    uint64_t pieces;         /* small_accesses: operations that would do the same */
};

/* The files that a finding of a rule concerns. */
struct affected {
    struct cost cost;                   /* of all of them */
    struct io_report_file all;          /* the sums of their operations */
    const struct io_report_file *worst; /* of the path that costs most, as the process uses it that it costs most */
    uint64_t worst_ns;
    size_t count; /* paths */
};

struct file_rule {
    const char *name, *operation;
    uint64_t min_operations;
    struct cost (*measure)(const struct io_report_file *file); /* time_ns 0: the file has nothing of it */
    void (*put_sentence)(const struct affected *affected, const char *operation, char *out, size_t size);
};

static const struct io_report_accesses *accesses_of(const struct io_report_file *file, bool are_writes)
{
    return are_writes ? &file->writes : &file->reads;
}

static uint64_t subtract(uint64_t a, uint64_t b)
{
    return a > b ? a - b : 0;
}

static uint64_t share_of(uint64_t time_ns, uint64_t part, uint64_t whole)
{
    return whole ? (uint64_t)((double)time_ns * ((double)part / (double)whole)) : 0;
}

/* How much longer the accesses took than the page cache would at most, without the slowest one: a single long wait is
 * no pattern. */
static uint64_t time_beyond_cache(const struct io_report_accesses *a)
{
    const double cached = (double)a->operations * CACHED_NS + (double)a->bytes * CACHED_NS_PER_BYTE;
    const double rest = (double)subtract(a->time.ns, a->slowest_ns);
    return rest > cached ? (uint64_t)(rest - cached) : 0;
}

/* Accesses that have none before them: one for each open. */
static uint64_t first_accesses(const struct io_report_file *file)
{
    const uint64_t opens = file->opens + file->creates;
    return opens ? opens : 1; /* opened before the report began */
}

/* Accesses that began elsewhere than behind the one before, as many as if each had one before it in the report; the
 * first ones behind an open are none.
 * `sequential` includes `consecutive`, as Darshan's. */
static uint64_t count_random(const struct io_report_file *file, const struct io_report_accesses *a)
{
    const uint64_t random = subtract(a->followed, a->sequential + first_accesses(file) - 1);
    return share_of(a->operations, random, a->followed);
}

/* ---- the rules ---- */

/* The bytes that small accesses moved at least, and the time that they took at least: they were no faster per byte than
 * the large ones, and no large one took longer than the slowest of all. */
static struct cost cost_of_small(const struct io_report_accesses *a)
{
    struct cost c = {.all_operations = a->operations};
    uint64_t large = 0, by_bins = 0;
    double large_bytes = 0;
    for (size_t i = 0; i < SMALL_BINS; i++) {
        c.operations += a->sizes[i];
        by_bins += i ? a->sizes[i] * (io_size_bounds[i - 1] + 1) : 0;
    }
    for (size_t i = SMALL_BINS; i < IO_REPORT_SIZES; i++) {
        large += a->sizes[i];
        large_bytes += (double)a->sizes[i] * (double)(i < IO_REPORT_SIZES - 1 ? io_size_bounds[i] : a->bytes);
    }
    c.bytes = large_bytes < (double)a->bytes ? a->bytes - (uint64_t)large_bytes : 0;
    if (c.bytes < by_bins)
        c.bytes = by_bins;
    const uint64_t by_bytes = share_of(a->time.ns, c.bytes, a->bytes);
    const uint64_t by_slowest =
        large == 0 ? a->time.ns : subtract(a->time.ns, (uint64_t)((double)large * (double)a->slowest_ns));
    c.time_ns = by_bytes > by_slowest ? by_bytes : by_slowest;
    return c;
}

static struct cost measure_small(const struct io_report_file *file, bool are_writes)
{
    const struct io_report_accesses *a = accesses_of(file, are_writes);
    struct cost c = cost_of_small(a);
    if ((double)c.operations <= SMALL_SHARE * (double)a->operations)
        return (struct cost){0};
    /* Random accesses cannot be joined, nor can accesses that each read a whole file. */
    const uint64_t joined = subtract(c.operations, count_random(file, a));
    c.time_ns = share_of(c.time_ns, joined, c.operations);
    c.bytes = share_of(c.bytes, joined, c.operations);
    c.operations = joined;
    c.pieces = (c.bytes + RECOMMENDED_SIZE - 1) / RECOMMENDED_SIZE;
    if (c.pieces < first_accesses(file))
        c.pieces = first_accesses(file);
    return c.operations > 2 * c.pieces ? c : (struct cost){0}; /* a read at the end of the file is one of two */
}

static struct cost measure_random(const struct io_report_file *file, bool are_writes)
{
    const struct io_report_accesses *a = accesses_of(file, are_writes);
    struct cost c = {.operations = count_random(file, a), .all_operations = a->operations};
    if ((double)c.operations <= RANDOM_SHARE * (double)a->operations || a->bytes / a->operations >= RANDOM_MAX_BYTES)
        return (struct cost){0};
    if (!time_beyond_cache(a))
        return (struct cost){0}; /* in memory, the order of accesses costs nothing */
    c.time_ns = share_of(a->time.ns, c.operations, a->operations);
    c.bytes = share_of(a->bytes, c.operations, a->operations);
    return c;
}

/* An access that begins where the one before ended has the block they share in the page cache. O_DIRECT has none. */
static struct cost measure_misaligned(const struct io_report_file *file, bool are_writes)
{
    const struct io_report_accesses *a = accesses_of(file, are_writes);
    struct cost c = {.operations = subtract(a->unaligned, file->direct ? 0 : a->consecutive),
                     .all_operations = a->operations};
    if (!file->block_bytes || (double)c.operations <= UNALIGNED_SHARE * (double)a->located || !time_beyond_cache(a))
        return (struct cost){0};
    /* Of the blocks that an access touches, one is more than an aligned access of that size would touch. */
    c.time_ns = share_of(share_of(a->time.ns, c.operations, a->operations), file->block_bytes,
                         a->bytes / a->operations + file->block_bytes);
    c.bytes = share_of(a->bytes, c.operations, a->operations);
    return c;
}

static struct cost measure_small_reads(const struct io_report_file *file)
{
    return measure_small(file, false);
}

static struct cost measure_small_writes(const struct io_report_file *file)
{
    return measure_small(file, true);
}

static struct cost measure_random_reads(const struct io_report_file *file)
{
    return measure_random(file, false);
}

static struct cost measure_random_writes(const struct io_report_file *file)
{
    return measure_random(file, true);
}

static struct cost measure_misaligned_reads(const struct io_report_file *file)
{
    return measure_misaligned(file, false);
}

static struct cost measure_misaligned_writes(const struct io_report_file *file)
{
    return measure_misaligned(file, true);
}

static struct cost measure_metadata(const struct io_report_file *file)
{
    const uint64_t operations = io_file_metadata_operations(file);
    return (struct cost){.time_ns = subtract(file->metadata.ns, file->sync.ns),
                         .operations = operations - file->syncs,
                         .all_operations = operations + file->reads.operations + file->writes.operations};
}

static struct cost measure_sync(const struct io_report_file *file)
{
    return (struct cost){.time_ns = file->sync.ns,
                         .operations = file->syncs,
                         .all_operations = file->syncs + file->writes.operations,
                         .bytes = file->writes.bytes};
}

static struct cost measure_cold_cache(const struct io_report_file *file)
{
    const struct io_report_accesses *a = &file->reads;
    const bool is_in_memory = strcmp(file->file_system, "tmpfs") == 0 || strcmp(file->file_system, "ramfs") == 0;
    if (file->direct || is_in_memory)
        return (struct cost){0};
    return (struct cost){.time_ns = time_beyond_cache(a),
                         .operations = a->operations,
                         .all_operations = a->operations,
                         .bytes = a->bytes};
}

/* ---- what to change ---- */

#define NUMBER_BYTES 32

struct words {
    char operations[NUMBER_BYTES], all_operations[NUMBER_BYTES], time[NUMBER_BYTES], mean[NUMBER_BYTES];
};

static struct words words_of(const struct cost *c)
{
    struct words w;
    units_format_count(c->operations, w.operations, sizeof(w.operations));
    units_format_count(c->all_operations, w.all_operations, sizeof(w.all_operations));
    units_format_duration(c->time_ns, w.time, sizeof(w.time));
    units_format_duration(c->time_ns / c->operations, w.mean, sizeof(w.mean));
    return w;
}

static const char *verb_of(const char *operation)
{
    return strcmp(operation, "read") == 0 ? "Read" : "Write";
}

static void put_small_sentence(const struct affected *f, const char *operation, char *out, size_t size)
{
    const struct words w = words_of(&f->cost);
    char pieces[NUMBER_BYTES];
    snprintf(out, size,
             "%s in larger pieces: %s %ss of at most 100 KiB took %s (%s each); in pieces of 1 MiB they would be about "
             "%s.",
             verb_of(operation), w.operations, operation, w.time, w.mean,
             units_format_count(f->cost.pieces, pieces, sizeof(pieces)));
}

static void put_random_sentence(const struct affected *f, const char *operation, char *out, size_t size)
{
    const struct words w = words_of(&f->cost);
    snprintf(out, size,
             "%s in the order of offsets%s: %s of %s %ss began before the end of the one before and took %s (%s each).",
             verb_of(operation),
             strcmp(operation, "read") == 0 ? ", or announce the reads (POSIX_FADV_WILLNEED)"
                                            : ", or collect writes and sort them",
             w.operations, w.all_operations, operation, w.time, w.mean);
}

static void put_misaligned_sentence(const struct affected *f, const char *operation, char *out, size_t size)
{
    const struct words w = words_of(&f->cost);
    char block[NUMBER_BYTES], mean[NUMBER_BYTES];
    snprintf(out, size,
             "%s at multiples of %s, the block of the file system: %s of %s %ss began within a block, and touched one "
             "more than their %s need.",
             verb_of(operation), units_format_size(f->worst->block_bytes, block, sizeof(block)), w.operations,
             w.all_operations, operation, units_format_size(f->cost.bytes / f->cost.operations, mean, sizeof(mean)));
}

/* The kind of metadata operations that is most frequent decides what to change. */
static void put_metadata_sentence(const struct affected *f, const char *operation, char *out, size_t size)
{
    const struct io_report_file *a = &f->all;
    const struct {
        const char *change, *name;
        uint64_t count;
    } kinds[] = {
        {"Open files once and keep them open", "opens and closes", a->opens + a->closes},
        {"Create fewer, larger files", "creations of files and closes", a->creates + a->closes},
        {"Keep what stat returned instead of asking again", "stats", a->stats},
        {"List folders once and keep the result", "listings of folders", a->lists},
        {"Set the size of files once", "changes of sizes", a->truncates},
        {"Rename and remove fewer files", "other changes and look-ups of names", a->others},
    };
    const struct words w = words_of(&f->cost);
    char count[NUMBER_BYTES];
    size_t most = 0;
    (void)operation;
    for (size_t i = 1; i < array_size(kinds); i++)
        if (kinds[i].count > kinds[most].count)
            most = i;
    snprintf(out, size, "%s: %s of %s metadata operations were %s; all of them took %s (%s each).", kinds[most].change,
             units_format_count(kinds[most].count, count, sizeof(count)), w.operations, kinds[most].name, w.time,
             w.mean);
}

static void put_sync_sentence(const struct affected *f, const char *operation, char *out, size_t size)
{
    const struct words w = words_of(&f->cost);
    const uint64_t bytes = f->cost.bytes / f->cost.operations;
    char each[NUMBER_BYTES];
    (void)operation;
    snprintf(out, size, "%s: %s syncs took %s (%s each), one for every %s written.",
             bytes < SYNC_BYTES ? "Sync less often" : "Sync in a thread of its own, while the program goes on",
             w.operations, w.time, w.mean, units_format_size(bytes, each, sizeof(each)));
}

static void put_cold_cache_sentence(const struct affected *f, const char *operation, char *out, size_t size)
{
    const struct words w = words_of(&f->cost);
    char mean[NUMBER_BYTES];
    (void)operation;
    units_format_duration(f->all.reads.time.ns / f->cost.operations, mean, sizeof(mean));
    snprintf(
        out, size,
        "Read ahead of use (POSIX_FADV_WILLNEED) or copy the files to faster storage first: %s buffered reads took "
        "%s each, %s more than the page cache takes (inferred: the page cache was not observed).",
        w.operations, mean, w.time);
}

/* ---- all rules ---- */

static const struct file_rule rules[] = {
    {"small_accesses", "read", MIN_OPERATIONS, measure_small_reads, put_small_sentence},
    {"small_accesses", "write", MIN_OPERATIONS, measure_small_writes, put_small_sentence},
    {"random_accesses", "read", MIN_OPERATIONS, measure_random_reads, put_random_sentence},
    {"random_accesses", "write", MIN_OPERATIONS, measure_random_writes, put_random_sentence},
    {"misaligned", "read", MIN_OPERATIONS, measure_misaligned_reads, put_misaligned_sentence},
    {"misaligned", "write", MIN_OPERATIONS, measure_misaligned_writes, put_misaligned_sentence},
    {METADATA_HEAVY, "", MIN_OPERATIONS, measure_metadata, put_metadata_sentence},
    {"sync_bound", "", MIN_SYNCS, measure_sync, put_sync_sentence},
    {"cold_cache", "read", MIN_OPERATIONS, measure_cold_cache, put_cold_cache_sentence},
};

static void add_cost(struct cost *sum, const struct cost *c)
{
    sum->time_ns += c->time_ns;
    sum->operations += c->operations;
    sum->all_operations += c->all_operations;
    sum->bytes += c->bytes;
    sum->pieces += c->pieces;
}

/* Measures the files of one name, which several processes may use. */
static void measure_name(const struct file_rule *rule, const struct io_report_file *const *files, size_t count,
                         struct io_observed *observed, struct affected *f)
{
    const struct io_report_file *worst = NULL;
    uint64_t sum_ns = 0, worst_ns = 0;
    for (size_t i = 0; i < count; i++) {
        const struct cost c = rule->measure(files[i]);
        if (!c.time_ns)
            continue;
        add_cost(&f->cost, &c);
        io_merge_add(&f->all, files[i]);
        observed->processes[files[i]->process].explained_ns += c.time_ns;
        sum_ns += c.time_ns;
        if (c.time_ns > worst_ns) {
            worst_ns = c.time_ns;
            worst = files[i];
        }
    }
    f->count += worst != NULL;
    if (sum_ns > f->worst_ns) {
        f->worst_ns = sum_ns;
        f->worst = worst;
    }
}

static struct affected find_affected(const struct file_rule *rule, const struct io_report *report,
                                     const struct io_report_file *const *files, struct io_observed *observed)
{
    struct affected f = {0};
    for (size_t i = 0; i < observed->process_count; i++)
        observed->processes[i].explained_ns = 0;
    for (size_t first = 0, end; first < report->file_count; first = end) {
        for (end = first + 1; end < report->file_count && io_files_have_one_name(files[first], files[end]); end++)
            ;
        measure_name(rule, &files[first], end - first, observed, &f);
    }
    return f;
}

static const struct io_process_use *find_most_explained(const struct io_observed *observed)
{
    const struct io_process_use *most = &observed->processes[0];
    for (size_t i = 1; i < observed->process_count; i++)
        if (observed->processes[i].explained_ns > most->explained_ns)
            most = &observed->processes[i];
    return most;
}

/* Reads and writes of more time than that come first, unless one process spends too long. */
static bool is_little_metadata(const struct io_observed *observed, const struct cost *c)
{
    return find_most_explained(observed)->explained_ns <= METADATA_NS &&
           (double)c->time_ns < METADATA_SHARE * (double)observed->io_ns;
}

static void put_figures(struct io_finding *finding, const struct affected *f)
{
    const struct cost *c = &f->cost;
    io_rules_put_figure(finding, "operations", IO_UNIT_COUNT, c->operations);
    io_rules_put_figure(finding, "all_operations", IO_UNIT_COUNT, c->all_operations);
    io_rules_put_figure(finding, "mean_time", IO_UNIT_NS, c->time_ns / c->operations);
    if (c->bytes)
        io_rules_put_figure(finding, "moved", IO_UNIT_BYTES, c->bytes);
    if (c->pieces)
        io_rules_put_figure(finding, "larger_operations", IO_UNIT_COUNT, c->pieces);
}

static void apply_rule(const struct file_rule *rule, const struct io_report *report,
                       const struct io_report_file *const *files, struct io_observed *observed,
                       struct io_findings *findings)
{
    const struct affected f = find_affected(rule, report, files, observed);
    if (!f.worst || f.cost.operations < rule->min_operations)
        return;
    if (strcmp(rule->name, METADATA_HEAVY) == 0 && is_little_metadata(observed, &f.cost))
        return;
    const struct io_process_use *process = find_most_explained(observed);
    const double of_all = (double)f.cost.time_ns / observed->time_ns,
                 of_process = (double)process->explained_ns / (double)observed->one_ns,
                 share = of_process > of_all ? of_process : of_all;
    if (share < IO_RULE_MIN_SHARE)
        return;
    struct io_finding *finding = io_rules_new_finding(findings, rule->name, rule->operation, f.cost.time_ns, share);
    finding->file = f.worst;
    finding->other_files = f.count - 1;
    finding->process = process->process;
    put_figures(finding, &f);
    io_rules_put_figure(finding, "process_time", IO_UNIT_NS, process->explained_ns);
    rule->put_sentence(&f, rule->operation, finding->sentence, sizeof(finding->sentence));
}

void io_rules_of_files(const struct io_report *report, const struct io_report_file *const *files,
                       struct io_observed *observed, struct io_findings *findings)
{
    for (size_t i = 0; i < array_size(rules); i++)
        apply_rule(&rules[i], report, files, observed, findings);
}
