/* Which file stands behind the native frames of a profile: by what a frame says of it, its mapping's path and build id.
 * Kept until the recording has ended, also when all that mapped it has: source lines are looked for only then. Pipeline
 * thread only. */
#pragma once

#include "base/cleanup.h"
#include "resolve/object/objects.h"

struct line_objects;

int line_objects_new(struct line_objects **ret);
/* Before the table of objects goes that they are of. */
void line_objects_free(struct line_objects *o);
DEFINE_FREEP(line_objects)

/* Some frame is of `object`, whose process knows it by `path`. For every frame of every sample: cheap. */
void line_objects_note(struct line_objects *o, struct object *object, const char *path);

/* Borrowed. -ENOENT: nothing was noted of it, or there were too many; -EEXIST: it was said of several files that
 * differ. */
int line_objects_find(const struct line_objects *o, const char *path, const char *build_id, struct object **ret);
