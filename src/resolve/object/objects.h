/* The registry of objects (object.h): every executable file that some process maps, found by the identity that a
 * mapping shows of it. Private to src/resolve: only processes.h fills it, other code holds objects. */
#pragma once

#include "base/cleanup.h"
#include "resolve/files/object_sight.h"
#include "resolve/object/object.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct maps_line;

/* Fills a sight from a line of /proc/PID/maps, except for the process IDs. `path` (PATH_MAX bytes) receives the
 * path, which `ret` borrows. False: the path is too long for any file. */
bool object_sight_of_line(const struct maps_line *line, char *path, struct object_sight *ret);

struct file_opener;
struct object_place;
struct objects;

/* At most `max_open` descriptors are held. Returns 0 or -errno. */
int objects_new(size_t max_open, struct objects **ret);
/* Lowers the limits on open descriptors and on keys per object to `entries`. */
void objects_limit(struct objects *o, size_t entries);
/* Lets this process open the files itself, without the helper: for replayed recordings, whose processes no longer
 * exist. */
void objects_set_inline(struct objects *o);
/* The client of the file helper that the registry uses, for other reads that may block. Borrowed. */
struct file_opener *objects_opener(struct objects *o);
/* Objects that are still referenced stay valid until they are released. */
void objects_free(struct objects *o);
DEFINE_FREEP(objects)

/* True when a mapping of this name is of a file or of the vDSO: "//anon", "[heap]", "anon_inode:..." are not. */
bool object_path_is_file(const char *path);

/* The object of a mapping: a known one, or a new one whose file is opened now. The reference is released with
 * objects_release. Mapped objects keep their file open (within max_open): while a process maps it, the descriptor
 * does not keep the file system busy any longer than the mapping does. A file that cannot be opened has an object, too.
 * -ENOENT: not a file; -ENOMEM. */
int objects_get(struct objects *o, const struct object_sight *sight, struct object **ret);
/* As object_file_place_at_once. */
int objects_place_at_once(struct objects *o, const struct object_sight *sight, struct object_place *ret);
/* Another reference to an object that is mapped already; returns it. Each is released once. */
struct object *objects_retain(struct object *o);
void objects_release(struct object *o);

/* Adjusts the number of running processes that map the object by +1 or -1; it must not become negative. An inode number
 * without its generation identifies the file only while that number is not 0. */
void objects_live(struct object *o, int change);

/* `unused` is called by objects_trim for each object whose file it closes although the object remains: other open
 * descriptors of the file should be closed, too. It must not call functions of this header. objects_free
 * does not call it. */
typedef void objects_unused(uint64_t object_id, void *context);
void objects_on_unused(struct objects *o, objects_unused *unused, void *context);
/* The object's file is read after its processes have exited: it stays open (within max_open) while it is mapped. */
void objects_stay_open(struct object *o);

/* Closes and forgets the objects that no process has mapped since `before_ns` (UINT64_MAX: all unmapped ones).
 * `now_ns` becomes the release time of objects released from now on. Also closes the file of each object
 * that a single mapping showed, a quarter of a second after its last process has exited. */
void objects_trim(struct objects *o, uint64_t now_ns, uint64_t before_ns);

struct objects_stats {
    uint64_t objects, open_files, opened, failed; /* currently, currently, total, total */
    size_t bytes;
};
void objects_stats(const struct objects *o, struct objects_stats *ret);
