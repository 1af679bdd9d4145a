/* The files of objects: opened, kept open within a bound, closed, and reopened wherever they were seen. The caller
 * holds the lock of the registry. */
#pragma once

#include "resolve/object/object_entry.h"

/* A descriptor of the file of a sight, and the file's identity; or -errno. */
int objects_files_open(struct objects *o, const struct object_sight *sight, bool is_vdso, struct object_identity *ret);
/* Takes `fd`, the object's opened file. */
void objects_files_take(struct objects *o, struct object_entry *e, const struct object_identity *id, int fd);
void objects_files_close(struct objects *o, struct object_entry *e);
/* Closes the files of programs that ran once and exited a moment before `now_ns`. */
void objects_files_close_unused(struct objects *o, uint64_t now_ns);
/* Whether a process runs the object has changed. */
void objects_files_note_live(struct objects *o, struct object_entry *e);
/* Reopens the file where it was seen last, or else where it was seen first. Returns 0 or -errno. */
int objects_files_reopen(struct objects *o, struct object_entry *e);
/* Records where the object was seen last. */
void objects_files_see(struct objects *o, struct object_entry *e, const struct object_sight *sight);
/* Starts a backoff: the file is not opened for a moment. */
void objects_files_back_off(struct object_entry *e);
/* True when the error is temporary and does not count against the file. */
bool objects_files_is_passing(int error);
void objects_files_set_build_id(struct object_entry *e, const uint8_t *build_id, size_t bytes);
