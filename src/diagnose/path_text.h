/* A critical path in words: its segments and, summed up, its components. Pure but for the names it asks for. */
#pragma once

#include "base/cleanup.h"
#include "diagnose/path_segments.h"
#include "model/request.h"

#include <stddef.h>
#include <stdint.h>

#define PATH_THREAD_BYTES     17
#define PATH_DESCRIPTOR_BYTES 64
#define PATH_PEER_BYTES       64

struct path_file_name {
    char name[PATH_DESCRIPTOR_BYTES]; /* "weights.bin"; "": it has none, or it is not known */
    char file_system[16];             /* "ext4"; "": the file is not known */
};

struct path_names {
    void *context;
    /* The name of a thread; "" if it is not known. NULL: never known. */
    void (*thread)(void *context, uint32_t tid, char out[PATH_THREAD_BYTES]);
    /* A file by its key (flight_recorder_file). NULL: never known. */
    void (*file)(void *context, uint64_t key, struct path_file_name *out);
    /* Where CPU samples found the thread in [from, to): "leaf < caller < its caller", at most `max`. Strings are valid
     * until the next sample. Returns their number. NULL: never known. */
    size_t (*samples)(void *context, uint32_t tid, uint64_t from_ns, uint64_t to_ns, const char **ret, size_t max);
    /* Where the thread waited the longest in [from, to), in the same form, and how long of it; NULL: not known. Valid
     * likewise. NULL: never known. */
    const char *(*wait)(void *context, uint32_t tid, uint64_t from_ns, uint64_t to_ns, uint64_t *ret_ns);
    /* What descriptor `fd` of the process is, by its last component ("weights.bin"); "": not known. NULL: never known.
     */
    void (*descriptor)(void *context, uint32_t pid, uint64_t fd, char out[PATH_DESCRIPTOR_BYTES]);
    /* The address of the other end of a socket, by its cookie ("10.0.0.3:5432"); "": not known. NULL: never known. */
    void (*peer)(void *context, uint64_t cookie, char out[PATH_PEER_BYTES]);
};

struct path_text;

/* Of a request that was served last by thread `tid` of process `pid`. The caller frees `*ret`. -ENOMEM. */
int path_text_new(const struct path_segments *path, uint32_t pid, uint32_t tid, const struct path_names *names,
                  struct path_text **ret);
void path_text_free(struct path_text *text);
DEFINE_FREEP(path_text)

/* At most REQUEST_SEGMENTS_MAX; where there are more, short neighbours become one, which has the kind
 * with the most of its time. Valid as long as
 * `text`. */
const struct request_segment *path_text_segments(const struct path_text *text, size_t *ret_count);

/* Writes the components of [from, to), longest first: segments that are alike added up. Of more than `max`, which must
 * be REQUEST_PART_COUNT at least, the shortest ones become one for each kind. -ENOMEM. */
int path_text_parts(const struct path_text *text, uint64_t from_ns, uint64_t to_ns, size_t max,
                    struct request_part *ret, size_t *ret_count);
