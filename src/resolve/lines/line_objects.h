/* The file of each native frame in a profile, by the frame's mapping path and build ID. Kept until the recording
 * ends, even when all processes that mapped a file have exited: source lines are looked up only then. Pipeline
 * thread only. */
#pragma once

#include "base/cleanup.h"
#include "resolve/object/object.h"

struct line_objects;

/* The caller frees `*ret`. -ENOMEM. */
int line_objects_new(struct line_objects **ret);
/* Must be called before the table of objects is freed. */
void line_objects_free(struct line_objects *o);
DEFINE_FREEP(line_objects)

/* Records that frames belong to `object`, which the process knows as `path`. Called for every frame of every sample,
 * so it is cheap. */
void line_objects_note(struct line_objects *o, struct object *object, const char *path);

/* Borrowed. -ENOENT: nothing was recorded, or there were too many; -EEXIST: several files that differ have this path
 * and build ID. */
int line_objects_find(const struct line_objects *o, const char *path, const char *build_id, struct object **ret);
