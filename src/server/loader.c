/* From the spool into the engine; see loader.h. */
#include "server/loader.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/signal_mask.h"
#include "server/batch.h"
#include "server/spool_files.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

#define TICK_NS  100000000ull
#define RETRY_NS 1000000000ull
/* Of one segment: then it is set aside. Queries, which have ENGINE_QUERY_S, can take the memory that an insertion
 * needs, so that its lack counts less than refusals and ends of the engine. */
#define FAILURES_MAX   60
#define REFUSAL_COUNTS 12

struct loader {
    struct spool *spool;
    struct engine *engine;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool ends;
    uint64_t failed_segment; /* and how often it failed; of the thread */
    unsigned failures;       /* their weights */
};

/* ---- one segment ---- */

static int put_rows(int files[TABLE_COUNT], enum table table, struct cursor rows)
{
    if (files[table] < 0)
        files[table] = memfd_create(table_name(table), MFD_CLOEXEC);
    return files[table] < 0 ? -errno : spool_write_all(files[table], rows.data, rows.size);
}

/* Sorts the rows of a segment by table into files in memory. */
static int sort_rows(const struct buf *contents, int files[TABLE_COUNT], uint32_t *ret_count)
{
    *ret_count = 0;
    struct cursor c = cursor_make(contents->data, contents->size), rows;
    struct spool_batch batch;
    enum table table;
    int r = 0;
    for (; r == 0 && spool_next_batch(&c, &batch); *ret_count += batch.rows)
        for (struct cursor data = cursor_make(batch.data, batch.size); r == 0 && batch_next_rows(&data, &table, &rows);)
            r = put_rows(files, table, rows);
    return r;
}

/* The numbers of the last insertions into the tables before the first attempt to insert the segment. An earlier
 * version, which has made that attempt, may have had fewer tables: the others have no rows of the segment. */
static int find_blocks_before(struct loader *l, const struct spool_segment *segment, uint64_t ret[TABLE_COUNT],
                              struct buf *why)
{
    const size_t size = TABLE_COUNT * sizeof(*ret);
    _cleanup_buf_ struct buf begun = {0};
    const int r = spool_read_begun(l->spool, segment, &begun);
    if (r == -ENOENT)
        return engine_last_blocks(l->engine, ret, why) ?: spool_begin_insertion(l->spool, segment, ret, size);
    if (r < 0)
        return r;
    memset(ret, 0xff, size);
    memcpy(ret, begun.data, begun.size < size ? begun.size : size);
    return 0;
}

/* Inserts the rows of a segment that can be read, and counts them. Errors as engine_insert's. */
static int insert_segment(struct loader *l, const struct spool_segment *segment, uint32_t *ret_count, struct buf *why)
{
    _cleanup_buf_ struct buf contents = {0};
    uint64_t blocks[TABLE_COUNT];
    int files[TABLE_COUNT];
    memset(files, -1, sizeof(files));
    int r = find_blocks_before(l, segment, blocks, why)
                ?: spool_read(l->spool, segment, &contents)
                ?: sort_rows(&contents, files, ret_count);
    buf_clear(&contents);
    for (enum table table = 0; table < TABLE_COUNT; table++) {
        if (r == 0 && files[table] >= 0)
            r = engine_insert(l->engine, table, blocks[table], files[table], why);
        closep(&files[table]);
    }
    return r;
}

/* ---- failures ---- */

/* What a failure counts. 0: its reason goes away. The rows are fine, and the spool refuses more when it is full. */
static unsigned weight_of(int error, const char *why)
{
    static const char *const passing[] = {"NOT_ENOUGH_SPACE", "No space left", "CANNOT_WRITE", "TOO_MANY_PARTS"};
    for (size_t i = 0; error == -EPROTO && i < array_size(passing); i++)
        if (strstr(why, passing[i]))
            return 0;
    if (error == -EPROTO && strstr(why, "MEMORY_LIMIT"))
        return 1;
    return error == -EPROTO || error == -EPIPE || error == -ETIMEDOUT ? REFUSAL_COUNTS : 0;
}

static void count_failure(struct loader *l, const struct spool_segment *segment, int error, const char *why)
{
    if (l->failed_segment != segment->number) {
        l->failed_segment = segment->number;
        l->failures = 0;
    }
    if (l->failures == 0)
        log_warning("segment %016" PRIx64 " cannot be inserted yet: %s", segment->number,
                    why[0] ? why : strerror(-error));
    const unsigned weight = weight_of(error, why);
    l->failures += weight;
    if (!weight || l->failures < FAILURES_MAX)
        return;
    const int r = spool_set_aside(l->spool, segment);
    if (r == 0)
        log_error("segment %016" PRIx64 " is set aside in the spool (.refused): the engine cannot insert it: %s",
                  segment->number, why[0] ? why : strerror(-error));
    else
        log_errno(r, "segment %016" PRIx64 " cannot be set aside", segment->number);
}

/* ---- the thread ---- */

/* True: the loader is to end. */
static bool wait_ns(struct loader *l, uint64_t ns)
{
    const struct timespec until = clock_timespec_of(clock_monotonic_ns() + ns);
    pthread_mutex_lock(&l->lock);
    while (!l->ends && pthread_cond_timedwait(&l->changed, &l->lock, &until) == 0)
        ;
    const bool ends = l->ends;
    pthread_mutex_unlock(&l->lock);
    return ends;
}

static void load_one(struct loader *l, const struct spool_segment *segment, bool *ret_failed)
{
    _cleanup_buf_ struct buf why = {0};
    uint32_t count = 0;
    int r = insert_segment(l, segment, &count, &why);
    *ret_failed = r < 0;
    if (r < 0) {
        buf_putc(&why, '\0');
        count_failure(l, segment, r, why.data ? why.data : "");
        return;
    }
    if (count < segment->rows)
        log_error("segment %016" PRIx64 " was damaged on disk: %u of its %u rows are lost; it is kept as .refused",
                  segment->number, segment->rows - count, segment->rows);
    r = count < segment->rows ? spool_set_aside(l->spool, segment) : spool_remove(l->spool, segment);
    *ret_failed = r < 0;
    if (r < 0)
        log_errno(r, "segment %016" PRIx64 " is inserted but cannot be removed", segment->number);
}

static void *load(void *loader)
{
    struct loader *l = loader;
    struct spool_segment segment;
    for (bool failed = false, more = false; !wait_ns(l, failed ? RETRY_NS : more ? 0 : TICK_NS);) {
        spool_tick(l->spool);
        failed = false;
        more = spool_oldest(l->spool, &segment) == 0;
        if (more)
            load_one(l, &segment, &failed);
    }
    return NULL;
}

int loader_start(struct spool *spool, struct engine *engine, struct loader **ret)
{
    struct loader *l = calloc(1, sizeof(*l));
    if (!l)
        return -ENOMEM;
    l->spool = spool;
    l->engine = engine;
    pthread_mutex_init(&l->lock, NULL);
    clock_cond_init(&l->changed);
    const int r = signal_mask_create_thread(&l->thread, load, l);
    if (r < 0) {
        free(l);
        return r;
    }
    *ret = l;
    return 0;
}

void loader_free(struct loader *l)
{
    if (!l)
        return;
    pthread_mutex_lock(&l->lock);
    l->ends = true;
    pthread_cond_broadcast(&l->changed);
    pthread_mutex_unlock(&l->lock);
    pthread_join(l->thread, NULL);
    pthread_cond_destroy(&l->changed);
    pthread_mutex_destroy(&l->lock);
    free(l);
}
