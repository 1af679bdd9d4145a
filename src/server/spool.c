/* The spool: group commit, segments, retries. See spool.h. */
#include "server/spool.h"

#include "server/spool_files.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#define GROUP_MAX_BYTES   ((size_t)8 << 20)
#define GROUP_MAX_BATCHES 1024

/* Batches that are written and synced together. Freed by the last thread that waits for it. */
struct group {
    struct buf data;
    struct batch_key keys[GROUP_MAX_BATCHES];
    size_t count;
    uint32_t rows;
    unsigned waiting;
    bool is_done;
    int error;
};

struct spool {
    struct spool_options o;
    int directory;
    pthread_mutex_t lock; /* of all that follows */
    pthread_cond_t changed;
    struct group *filling;    /* takes batches; NULL: none yet */
    struct group *committing; /* one thread writes it, without the lock; NULL: none */
    int fd;                   /* of `present`; -1: no segment is open. Both belong to that thread */
    struct spool_segment present;
    uint64_t present_since_ns; /* monotonic */
    struct buf closed;         /* struct spool_segment, oldest first */
    struct buf key_files;      /* uint64_t, oldest first */
    struct recent_keys *known; /* of batches on disk */
    uint64_t last_number, filling_bytes, closed_bytes;
    struct spool_statistics statistics;
};

/* ---- lists ---- */

static size_t count_of(const struct buf *list, size_t element)
{
    return list->size / element;
}

static void remove_first(struct buf *list, size_t element)
{
    list->size -= element;
    memmove(list->data, list->data + element, list->size);
}

static uint64_t bytes_held(const struct spool *s)
{
    return s->closed_bytes + s->present.bytes + s->filling_bytes + (s->committing ? s->committing->data.size : 0);
}

/* ---- segments ---- */

static int close_segment(struct spool *s)
{
    if (s->fd < 0)
        return 0;
    close(take_fd(&s->fd));
    const struct spool_segment segment = s->present;
    s->present = (struct spool_segment){0};
    if (!segment.bytes) {
        char name[SPOOL_NAME_BYTES];
        unlinkat(s->directory, spool_file_name(name, segment.number, SPOOL_SEGMENT), 0);
        return 0;
    }
    s->closed_bytes += segment.bytes;
    return buf_append(&s->closed, &segment, sizeof(segment));
}

static uint64_t next_number(struct spool *s)
{
    const uint64_t now_ns = s->o.unix_ns();
    s->last_number = now_ns > s->last_number ? now_ns : s->last_number + 1;
    return s->last_number;
}

static int begin_segment(struct spool *s, uint64_t number)
{
    char name[SPOOL_NAME_BYTES];
    _cleanup_close_ int fd = openat(s->directory, spool_file_name(name, number, SPOOL_SEGMENT),
                                    O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0600);
    if (fd < 0 || fsync(s->directory) < 0)
        return -errno;
    s->fd = take_fd(&fd);
    return 0;
}

static bool has_space(const struct spool *s, const struct group *g)
{
    return !s->present.bytes || (s->present.bytes + g->data.size <= s->o.segment_max_bytes &&
                                 s->present.rows + g->rows <= s->o.segment_max_rows);
}

static bool is_old(const struct spool *s)
{
    return s->present.bytes && s->o.monotonic_ns() - s->present_since_ns >= s->o.segment_max_ns;
}

/* ---- group commit ---- */

static int write_group(struct spool *s, const struct group *g, uint64_t number)
{
    int r = s->fd < 0 ? begin_segment(s, number) : 0;
    r = r < 0 ? r : spool_write_all(s->fd, g->data.data, g->data.size);
    return r < 0 ? r : fdatasync(s->fd) < 0 ? -errno : 0;
}

/* What a failed write has left must not be read after a restart: the senders were answered that it is not stored. The
 * segment takes no further batch, because a failed sync leaves the state of its pages unknown. */
static void abandon_segment(struct spool *s)
{
    if (s->fd >= 0 && ftruncate(s->fd, (off_t)s->present.bytes) == 0)
        fdatasync(s->fd);
}

/* Called with the lock, which it gives up while it writes. */
static void commit(struct spool *s)
{
    struct group *g = s->committing = s->filling;
    s->filling = NULL;
    s->filling_bytes = 0;
    int r = buf_error(&g->data);
    if (r == 0 && s->fd >= 0 && (is_old(s) || !has_space(s, g)))
        r = close_segment(s);
    if (r == 0 && s->fd < 0) {
        s->present = (struct spool_segment){.number = next_number(s)};
        s->present_since_ns = s->o.monotonic_ns();
    }
    pthread_mutex_unlock(&s->lock);
    if (r == 0) {
        r = write_group(s, g, s->present.number);
        if (r < 0)
            abandon_segment(s);
    }
    pthread_mutex_lock(&s->lock);
    if (r == 0) {
        s->present.bytes += g->data.size;
        s->present.rows += g->rows;
        s->statistics.batches += g->count;
        for (size_t i = 0; i < g->count; i++)
            recent_keys_add(s->known, &g->keys[i], s->present.number);
    } else {
        close_segment(s);
    }
    s->committing = NULL;
    g->error = r == -EDQUOT || r == -EFBIG ? -ENOSPC : r;
    g->is_done = true;
    pthread_cond_broadcast(&s->changed);
}

static bool group_has(const struct group *g, const struct batch_key *key)
{
    for (size_t i = 0; g && i < g->count; i++)
        if (memcmp(&g->keys[i], key, sizeof(*key)) == 0)
            return true;
    return false;
}

static int add_to_group(struct spool *s, const struct spool_batch *batch)
{
    if (!s->filling && !(s->filling = calloc(1, sizeof(*s->filling))))
        return -ENOMEM;
    struct group *g = s->filling;
    g->keys[g->count++] = batch->key;
    g->rows += batch->rows;
    spool_batch_write(&g->data, batch); /* an error sticks in the buffer */
    s->filling_bytes = g->data.size;
    return 0;
}

static bool group_is_full(const struct group *g, size_t more_bytes)
{
    return g && (g->count == GROUP_MAX_BATCHES || g->data.size + more_bytes > GROUP_MAX_BYTES);
}

/* The first thread of a group that finds no other group being written writes it for all. */
static int wait_for_group(struct spool *s, struct group *g)
{
    g->waiting++;
    while (!g->is_done)
        if (g == s->filling && !s->committing)
            commit(s);
        else
            pthread_cond_wait(&s->changed, &s->lock);
    const int r = g->error;
    if (--g->waiting == 0) {
        buf_clear(&g->data);
        free(g);
    }
    return r;
}

static int append_locked(struct spool *s, const struct spool_batch *batch)
{
    const size_t size = spool_batch_bytes(batch->size);
    for (;;) {
        if (recent_keys_has(s->known, &batch->key)) {
            s->statistics.repeats++;
            return 1;
        }
        struct group *same = group_has(s->filling, &batch->key)      ? s->filling
                             : group_has(s->committing, &batch->key) ? s->committing
                                                                     : NULL;
        if (same) {
            s->statistics.repeats++;
            return wait_for_group(s, same) ?: 1;
        }
        if (bytes_held(s) + size > s->o.max_bytes) {
            s->statistics.refused++;
            return -ENOSPC;
        }
        if (!group_is_full(s->filling, size))
            break;
        if (s->committing)
            pthread_cond_wait(&s->changed, &s->lock);
        else
            commit(s);
    }
    const int r = add_to_group(s, batch);
    return r < 0 ? r : wait_for_group(s, s->filling);
}

int spool_append(struct spool *s, const struct spool_batch *batch)
{
    pthread_mutex_lock(&s->lock);
    const int r = append_locked(s, batch);
    pthread_mutex_unlock(&s->lock);
    return r;
}

/* ---- emptying ---- */

static void forget_old_keys(struct spool *s)
{
    const uint64_t now_ns = s->o.unix_ns();
    char name[SPOOL_NAME_BYTES];
    if (now_ns > s->o.remember_ns)
        recent_keys_forget(s->known, now_ns - s->o.remember_ns);
    const uint64_t oldest_ns = recent_keys_oldest_ns(s->known);
    for (uint64_t number; s->key_files.size; remove_first(&s->key_files, sizeof(number))) {
        memcpy(&number, s->key_files.data, sizeof(number));
        if (number >= oldest_ns)
            return;
        unlinkat(s->directory, spool_file_name(name, number, SPOOL_KEYS), 0);
    }
}

void spool_tick(struct spool *s)
{
    pthread_mutex_lock(&s->lock);
    if (!s->committing && is_old(s))
        close_segment(s);
    forget_old_keys(s);
    pthread_mutex_unlock(&s->lock);
}

void spool_flush(struct spool *s)
{
    pthread_mutex_lock(&s->lock);
    while (s->committing)
        pthread_cond_wait(&s->changed, &s->lock);
    close_segment(s);
    pthread_mutex_unlock(&s->lock);
}

int spool_oldest(struct spool *s, struct spool_segment *ret)
{
    pthread_mutex_lock(&s->lock);
    const bool found = s->closed.size;
    if (found)
        memcpy(ret, s->closed.data, sizeof(*ret));
    pthread_mutex_unlock(&s->lock);
    return found ? 0 : -EAGAIN;
}

int spool_read(struct spool *s, const struct spool_segment *segment, struct buf *out)
{
    return spool_file_read(s->directory, segment->number, SPOOL_SEGMENT, out);
}

int spool_begin_insertion(struct spool *s, const struct spool_segment *segment, const void *data, size_t size)
{
    return spool_file_write(s->directory, segment->number, SPOOL_BEGUN, data, size);
}

int spool_read_begun(struct spool *s, const struct spool_segment *segment, struct buf *out)
{
    return spool_file_read(s->directory, segment->number, SPOOL_BEGUN, out);
}

/* The segment is the oldest one, because only the thread that empties the spool removes any. */
static void forget_segment(struct spool *s, const struct spool_segment *segment, bool is_kept)
{
    pthread_mutex_lock(&s->lock);
    remove_first(&s->closed, sizeof(*segment));
    if (is_kept)
        s->statistics.set_aside++;
    else
        s->closed_bytes -= segment->bytes;
    buf_append(&s->key_files, &segment->number, sizeof(segment->number));
    pthread_mutex_unlock(&s->lock);
}

int spool_remove(struct spool *s, const struct spool_segment *segment)
{
    const int r = spool_files_keep_keys(s->directory, segment->number);
    if (r == 0)
        forget_segment(s, segment, false);
    return r;
}

int spool_set_aside(struct spool *s, const struct spool_segment *segment)
{
    const int r = spool_files_set_aside(s->directory, segment->number);
    if (r == 0)
        forget_segment(s, segment, true);
    return r;
}

struct spool_statistics spool_statistics(struct spool *s)
{
    pthread_mutex_lock(&s->lock);
    struct spool_statistics statistics = s->statistics;
    statistics.bytes = bytes_held(s);
    statistics.segments = count_of(&s->closed, sizeof(struct spool_segment)) + (s->present.bytes != 0);
    pthread_mutex_unlock(&s->lock);
    return statistics;
}

/* ---- start ---- */

static void learn_key(struct spool *s, const struct batch_key *key, uint64_t number)
{
    if (!recent_keys_has(s->known, key))
        recent_keys_add(s->known, key, number);
}

/* A crash leaves a torn last batch, which was not acknowledged. A whole batch behind a damaged place shows that the
 * disk lost acknowledged batches: its rows are counted, so that the loader finds that the segment lacks rows, and keeps
 * it. */
static void recover_rest(struct spool *s, const struct buf *contents, struct spool_segment *segment)
{
    struct cursor c = cursor_make(contents->data, contents->size);
    struct spool_batch batch;
    bool is_damaged = false;
    for (c.position = segment->bytes; spool_find_batch(&c, &batch); is_damaged = true)
        segment->rows += batch.rows;
    if (is_damaged)
        segment->bytes = contents->size;
    else
        s->statistics.torn_bytes += contents->size - segment->bytes;
}

static int recover_segment(struct spool *s, uint64_t number)
{
    _cleanup_buf_ struct buf contents = {0};
    struct spool_segment segment = {.number = number};
    struct spool_batch batch;
    char name[SPOOL_NAME_BYTES];
    int r = spool_file_read(s->directory, number, SPOOL_SEGMENT, &contents);
    if (r < 0)
        return r;
    for (struct cursor c = cursor_make(contents.data, contents.size); spool_next_batch(&c, &batch);) {
        learn_key(s, &batch.key, number);
        segment.rows += batch.rows;
        segment.bytes = c.position;
    }
    recover_rest(s, &contents, &segment);
    if (!segment.bytes)
        return unlinkat(s->directory, spool_file_name(name, number, SPOOL_SEGMENT), 0) < 0 ? -errno : 0;
    s->closed_bytes += segment.bytes;
    return buf_append(&s->closed, &segment, sizeof(segment));
}

static int recover_keys(struct spool *s, uint64_t number)
{
    _cleanup_buf_ struct buf keys = {0};
    struct batch_key key;
    int r = spool_file_read(s->directory, number, SPOOL_KEYS, &keys);
    for (size_t at = 0; r == 0 && at + sizeof(key) <= keys.size; at += sizeof(key)) {
        memcpy(&key, keys.data + at, sizeof(key));
        learn_key(s, &key, number);
    }
    return r < 0 ? r : buf_append(&s->key_files, &number, sizeof(number));
}

static int recover_refused(struct spool *s, uint64_t number)
{
    _cleanup_buf_ struct buf contents = {0};
    const int r = spool_file_read(s->directory, number, SPOOL_REFUSED, &contents);
    s->closed_bytes += contents.size;
    s->statistics.set_aside++;
    return r;
}

static int recover_file(void *context, uint64_t number, enum spool_file_kind kind)
{
    struct spool *s = context;
    char name[SPOOL_NAME_BYTES];
    s->last_number = number;
    switch (kind) {
    case SPOOL_SEGMENT:
        return recover_segment(s, number);
    case SPOOL_KEYS:
        return recover_keys(s, number);
    case SPOOL_REFUSED:
        return recover_refused(s, number);
    case SPOOL_BEGUN:
        if (!spool_files_have_segment(s->directory, number))
            unlinkat(s->directory, spool_file_name(name, number, SPOOL_BEGUN), 0);
        return 0;
    }
    return 0;
}

int spool_open(const struct spool_options *options, struct spool **ret)
{
    struct spool *s = calloc(1, sizeof(*s));
    if (!s)
        return -ENOMEM;
    s->o = *options;
    s->fd = -1;
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->changed, NULL);
    s->directory = open(options->directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int r = s->directory < 0 ? -errno : recent_keys_new(options->remember_max, &s->known);
    r = r < 0 ? r : spool_files_list(s->directory, recover_file, s);
    if (r < 0) {
        spool_free(s);
        return r;
    }
    *ret = s;
    return 0;
}

void spool_free(struct spool *s)
{
    if (!s)
        return;
    closep(&s->fd);
    closep(&s->directory);
    buf_clear(&s->closed);
    buf_clear(&s->key_files);
    recent_keys_free(s->known);
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->lock);
    free(s);
}
