/* How objects.h keeps what it knows: shared by the table (objects.c) and what opens its files
 * (objects_files.c). */
#pragma once

#include "resolve/files/object_file.h"
#include "resolve/object/object_keys.h"
#include "resolve/object/objects_table.h"

#include <pthread.h>
#include <uthash.h>

struct object_key_entry {
    struct object_key key;
    struct object_entry *owner;
    struct object_key_entry *prev, *next; /* of the owner's, oldest first */
    UT_hash_handle hh;
};

struct object_entry {
    struct object object; /* first: callers hold a pointer to it */
    struct objects *home;
    struct object_key_entry *keys;
    unsigned key_count;
    unsigned mapped;      /* mappings that hold it; objects_get and _retain minus objects_release */
    unsigned live;        /* of processes that have not exited */
    uint64_t released_ns; /* when `mapped` became 0 */
    int fd;               /* -1: not open now; O_PATH where identity.is_far */
    unsigned tries;       /* to open it, in vain */
    bool was_open;
    bool disputed;               /* other contents claim its build id too */
    uint64_t retry_ns, pause_ns; /* not to be tried before: it did not answer */
    struct object_sight seen;    /* where it was seen last, for opening it again; without its path, which is: */
    char *seen_path;             /* NULL: the object's own */
    struct object_identity identity;
    struct object_entry *prev, *next;           /* in home->idle while mapped == 0 */
    struct object_entry *open_prev, *open_next; /* in home->open, least recently used first, while fd >= 0 */
    char build_id[2 * OBJECT_BUILD_ID_MAX + 1];
    char path[];
};

struct objects {
    pthread_mutex_t lock;
    struct object_key_entry *by_key;
    struct object_entry *idle; /* not mapped, kept a little longer: a storm of short-lived processes maps the
                                  same files again and again */
    struct object_entry *open;
    size_t open_count, max_open, max_keys;
    size_t count, bytes;
    uint64_t next_id, now_ns, opened, failed;
    struct file_opener *opener;
    bool is_inline;
    bool closing; /* objects_free was called; goes when the last object does */
};

static inline struct object_entry *object_entry_of(const struct object *o)
{
    return (struct object_entry *)o;
}

/* objects_files.c; the caller holds the lock.
 *
 * A descriptor of the file of a sight, and what that says of itself; or -errno. */
int objects_files_open(struct objects *o, const struct object_sight *sight, bool is_vdso, struct object_identity *ret);
/* The object's file is there: takes `fd`. */
void objects_files_take(struct objects *o, struct object_entry *e, const struct object_identity *id, int fd);
void objects_files_close(struct objects *o, struct object_entry *e);
/* Opens it again where it was seen last, or first. */
int objects_files_reopen(struct objects *o, struct object_entry *e);
/* From now on it was seen last there. */
void objects_files_see(struct objects *o, struct object_entry *e, const struct object_sight *sight);
/* Not to be tried for a moment. */
void objects_files_rest(struct object_entry *e);
/* The file is none the worse for it. */
bool objects_files_is_passing(int error);
void objects_files_set_build_id(struct object_entry *e, const uint8_t *build_id, size_t bytes);
