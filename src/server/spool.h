/* Batches that senders have been promised, until the engine has them: files of a directory.
 *
 * A batch is acknowledged when it has been synced to disk. Batches that arrive together share one sync (group commit).
 * They are appended to a segment, which is closed when it has enough rows or is old enough, and is not changed any
 * more from then on: a segment is what the engine takes at once. When the engine has a segment, only the keys of its
 * batches are kept, to recognise a sender's retry. docs/decisions/0040-the-centre.md says why.
 *
 * Of one process: the caller holds a lock on the directory. Thread-safe. */
#pragma once

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/cursor.h"
#include "server/recent_keys.h"

#include <stdint.h>

struct spool;

struct spool_options {
    const char *directory; /* exists; absolute */
    uint64_t max_bytes;    /* of all segments: beyond it no batch is accepted */
    uint64_t segment_max_bytes;
    uint32_t segment_max_rows;
    uint64_t segment_max_ns; /* age */
    uint64_t remember_ns;    /* how long a retry is recognised */
    size_t remember_max;     /* and among how many batches */
    uint64_t (*unix_ns)(void);
    uint64_t (*monotonic_ns)(void); /* of ages: the other may be set back */
};

struct spool_batch {
    struct batch_key key;
    uint32_t rows;
    const void *data;
    size_t size;
};

struct spool_segment {
    uint64_t number; /* also the time when it was begun, in Unix nanoseconds; no two segments have the same */
    uint64_t bytes;
    uint32_t rows; /* if the disk lost batches, more than those that can be read have */
};

struct spool_statistics {
    uint64_t bytes;            /* of segments, those set aside included */
    uint64_t segments;         /* that the engine does not have yet */
    uint64_t set_aside;        /* segments that the engine refuses */
    uint64_t batches, repeats; /* accepted since the start, and retries among those */
    uint64_t refused;          /* batches without space */
    uint64_t torn_bytes;       /* found at the start behind the last whole batch of a segment */
};

/* Recovers what a former process left. 0 or -errno. */
int spool_open(const struct spool_options *options, struct spool **ret);
/* Batches stay on disk. No other thread may use the spool any more. */
void spool_free(struct spool *s);
DEFINE_FREEP(spool)

/* Appends a batch and waits until it is on disk. 0: it is; 1: it had been accepted before. -ENOSPC: the spool, or the
 * disk, is full; another -errno: it cannot be written. After an error the batch is not stored. */
int spool_append(struct spool *s, const struct spool_batch *batch);

/* To be called several times a second, by the thread that empties the spool: closes a segment that is old enough, and
 * forgets old keys. */
void spool_tick(struct spool *s);
/* Closes the present segment whatever its age. */
void spool_flush(struct spool *s);

/* Returns the oldest closed segment in `ret`. -EAGAIN: no segment is closed. */
int spool_oldest(struct spool *s, struct spool_segment *ret);
/* Appends the contents of a segment to `out`, to be read by spool_next_batch. 0 or -errno. */
int spool_read(struct spool *s, const struct spool_segment *segment, struct buf *out);
/* The next batch in the contents of a segment, borrowed from it. False at the end, or where the rest is damaged. */
bool spool_next_batch(struct cursor *contents, struct spool_batch *ret);

/* Durably keeps with a segment what is known before it is inserted for the first time. 0 or -errno. */
int spool_begin_insertion(struct spool *s, const struct spool_segment *segment, const void *data, size_t size);
/* Appends that to `out`. 0; -ENOENT: the insertion was not begun; another -errno. */
int spool_read_begun(struct spool *s, const struct spool_segment *segment, struct buf *out);

/* The engine has the segment: it is deleted, and its keys are kept. 0 or -errno: it is still there. */
int spool_remove(struct spool *s, const struct spool_segment *segment);
/* The engine refuses the segment: it is kept in a file of its own (NUMBER.refused) that is not read again. */
int spool_set_aside(struct spool *s, const struct spool_segment *segment);

struct spool_statistics spool_statistics(struct spool *s);
