/* The registry behind objects.h: every executable file that some process maps, found by what a mapping says
 * of it. Private to this room: processes fill it, all others only hold objects. */
#pragma once

#include "base/cleanup.h"
#include "resolve/files/object_sight.h"
#include "resolve/object/objects.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct maps_line;

/* What a line of /proc/PID/maps tells, but for whose it is; `path` (PATH_MAX bytes) becomes the line's and is borrowed
 * by `ret`. False: no file has so long a path. */
bool object_sight_of_line(const struct maps_line *line, char *path, struct object_sight *ret);

struct file_opener;
struct objects;

/* At most `max_open` descriptors are held. */
int objects_new(size_t max_open, struct objects **ret);
/* At most `entries` descriptors, and keys that one object is found by. */
void objects_limit(struct objects *o, size_t entries);
/* Files are opened by this process itself: for records of another day, when none of its processes lives. */
void objects_set_inline(struct objects *o);
/* Who opens files for them, and whatever else may keep one waiting. */
struct file_opener *objects_opener(struct objects *o);
/* Objects that others still hold live on until these let go. */
void objects_free(struct objects *o);
DEFINE_FREEP(objects)

/* Whether a mapping of this name is of a file at all (or of the vdso): "//anon", "[heap]", "anon_inode:..."
 * are not. */
bool object_path_is_file(const char *path);

/* The object of a mapping: the one known, or a new one, which is opened now. Held for the caller, until
 * objects_release; mapped objects keep their file open (within max_open), since as long as somebody maps it
 * nothing is held up by us. -ENOENT: no file. */
int objects_get(struct objects *o, const struct object_sight *sight, struct object **ret);
struct object *objects_retain(struct object *o);
void objects_release(struct object *o);

/* Processes that map an object and are alive. An inode's number without its generation is an identity only as
 * long as one is. */
void objects_live(struct object *o, int change);

/* Closes and forgets what no process has mapped since `before_ns` (UINT64_MAX: whenever that was; `now_ns` becomes the
 * time of what is released next). */
void objects_trim(struct objects *o, uint64_t now_ns, uint64_t before_ns);

struct objects_stats {
    uint64_t objects, open_files, opened, failed; /* held now, held now, ever, ever */
    size_t bytes;
};
void objects_stats(const struct objects *o, struct objects_stats *ret);
