/* The builder thread and its ring of jobs; see unwind_builder.h. Finished tables are bounded in bytes as well: the
 * thread pauses until the pipeline takes them. */
#include "pipeline/unwind_builder.h"

#include "base/clock.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

#define QUEUE_MAX      64 /* each holds an open descriptor */
#define DONE_MAX_BYTES ((size_t)8 << 20)

struct job {
    int fd; /* -1 when done */
    struct unwind_built built;
};

struct unwind_builder {
    pthread_t thread;
    bool thread_runs;
    pthread_mutex_t lock; /* protects all members below */
    pthread_cond_t changed;
    bool stop;
    struct job jobs[QUEUE_MAX]; /* a ring buffer: finished jobs, then (from `done_count` on) pending ones */
    size_t first, count, done_count;
    size_t done_bytes;
    struct unwind_builder_stats stats;
};

static size_t table_bytes(const struct unwind_table *t)
{
    return t ? t->value_count * UNWIND_VALUE_BYTES : 0;
}

static int build(int fd, struct unwind_table **ret)
{
    _cleanup_(elf_file_freep) struct elf_file *f = NULL;
    int r = elf_open(fd, &f);
    if (r < 0) {
        close(fd);
        return r;
    }
    r = cfi_build(f, ret);
    if (elf_error(f) < 0) { /* the table may be incomplete */
        unwind_table_free(take_ptr(*ret));
        r = elf_error(f);
    }
    return r;
}

static bool has_work(const struct unwind_builder *b)
{
    return b->done_count < b->count && (b->done_bytes < DONE_MAX_BYTES || b->done_count == 0);
}

static void *builder_thread(void *arg)
{
    struct unwind_builder *b = arg;
    pthread_mutex_lock(&b->lock);
    while (!b->stop) {
        if (!has_work(b)) {
            pthread_cond_wait(&b->changed, &b->lock);
            continue;
        }
        int fd = take_fd(&b->jobs[(b->first + b->done_count) % QUEUE_MAX].fd);
        pthread_mutex_unlock(&b->lock);

        struct unwind_table *table = NULL;
        const uint64_t start_ns = clock_thread_cpu_ns();
        int error = build(fd, &table);
        const uint64_t cpu_ns = clock_thread_cpu_ns() - start_ns;

        pthread_mutex_lock(&b->lock);
        struct job *job = &b->jobs[(b->first + b->done_count) % QUEUE_MAX]; /* the same job: jobs are processed in
                                                                             * order */
        job->built.table = table;
        job->built.error = error;
        job->built.cpu_ns = cpu_ns;
        b->done_count++;
        b->done_bytes += table_bytes(table);
        b->stats.build_ns += cpu_ns;
        b->stats.built += error == 0;
        b->stats.failed += error < 0;
    }
    pthread_mutex_unlock(&b->lock);
    return NULL;
}

int unwind_builder_new(struct unwind_builder **ret)
{
    _cleanup_(unwind_builder_freep) struct unwind_builder *b = calloc(1, sizeof(*b));
    if (!b)
        return -ENOMEM;
    pthread_mutex_init(&b->lock, NULL);
    pthread_cond_init(&b->changed, NULL);
    int r = pthread_create(&b->thread, NULL, builder_thread, b);
    if (r)
        return -r;
    b->thread_runs = true;
    (void)pthread_setname_np(b->thread, "unwind-builder");
    *ret = take_ptr(b);
    return 0;
}

void unwind_builder_free(struct unwind_builder *b)
{
    if (!b)
        return;
    if (b->thread_runs) {
        pthread_mutex_lock(&b->lock);
        b->stop = true;
        pthread_cond_signal(&b->changed);
        pthread_mutex_unlock(&b->lock);
        pthread_join(b->thread, NULL);
    }
    for (size_t i = 0; i < b->count; i++) {
        struct job *job = &b->jobs[(b->first + i) % QUEUE_MAX];
        closep(&job->fd);
        unwind_table_free(job->built.table);
    }
    pthread_cond_destroy(&b->changed);
    pthread_mutex_destroy(&b->lock);
    free(b);
}

bool unwind_builder_add(struct unwind_builder *b, uint64_t object_id, int fd)
{
    _cleanup_close_ int owned = fd;
    pthread_mutex_lock(&b->lock);
    bool fits = b->count < QUEUE_MAX;
    if (fits) {
        b->jobs[(b->first + b->count) % QUEUE_MAX] = (struct job){.built.object_id = object_id, .fd = take_fd(&owned)};
        b->count++;
        pthread_cond_signal(&b->changed);
    } else {
        b->stats.dropped++;
    }
    pthread_mutex_unlock(&b->lock);
    return fits;
}

bool unwind_builder_take(struct unwind_builder *b, struct unwind_built *ret)
{
    pthread_mutex_lock(&b->lock);
    bool any = b->done_count > 0;
    if (any) {
        *ret = b->jobs[b->first].built;
        b->done_bytes -= table_bytes(ret->table);
        b->first = (b->first + 1) % QUEUE_MAX;
        b->count--;
        b->done_count--;
        pthread_cond_signal(&b->changed);
    }
    pthread_mutex_unlock(&b->lock);
    return any;
}

void unwind_builder_stats(struct unwind_builder *b, struct unwind_builder_stats *ret)
{
    pthread_mutex_lock(&b->lock);
    *ret = b->stats;
    ret->queued = b->count - b->done_count;
    pthread_mutex_unlock(&b->lock);
}
