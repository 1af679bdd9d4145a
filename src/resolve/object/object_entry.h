/* An object as the registry keeps it, and the registry: shared by the table (objects.c) and the code that opens its
 * files (objects_files.c). */
#pragma once

#include "resolve/files/object_file.h"
#include "resolve/object/object.h"
#include "resolve/object/object_keys.h"

#include <pthread.h>
#include <uthash.h>

struct object_key_entry {
    struct object_key key;
    struct object_entry *owner;
    struct object_key_entry *prev, *next; /* of the owner's keys, oldest first */
    UT_hash_handle hh;
};

struct object_entry {
    struct object object; /* first: callers hold a pointer to it */
    struct objects *registry;
    struct object_key_entry *keys;
    unsigned key_count;
    unsigned mapped;      /* references by mappings: objects_get and _retain minus objects_release */
    unsigned live;        /* references by processes that have not exited */
    uint64_t released_ns; /* when `mapped` became 0 */
    uint64_t unused_ns;   /* when `live` became 0, or the file was opened after that; 0: live, or not open */
    unsigned sightings;   /* mappings that showed it */
    bool stays_open;      /* its file is read after its processes have exited */
    int fd;               /* -1: not open now; O_PATH for a remote file */
    unsigned tries;       /* failed attempts to open it */
    bool was_open;
    bool disputed;               /* files with other contents claim its build ID too */
    uint64_t retry_ns, pause_ns; /* backoff after a timeout: no attempt before retry_ns */
    struct object_sight seen;    /* where it was seen last, for reopening it; its path is in seen_path */
    char *seen_path;             /* NULL: the object's own path */
    struct object_identity identity;
    struct object_entry *prev, *next;               /* in registry->idle while mapped == 0 */
    struct object_entry *open_prev, *open_next;     /* in registry->open, least recently used first, while fd >= 0 */
    struct object_entry *unused_prev, *unused_next; /* in registry->unused, by unused_ns, while unused_ns > 0 */
    char build_id[2 * OBJECT_BUILD_ID_MAX + 1];
    char path[];
};

struct objects {
    pthread_mutex_t lock;
    struct object_key_entry *by_key;
    struct object_entry
        *idle; /* not mapped, but kept a little longer: short-lived processes map the same files again and again */
    struct object_entry *open;
    struct object_entry *unused; /* their files are open, and no process runs them */
    size_t open_count, max_open, max_keys;
    size_t count, bytes;
    uint64_t next_id, now_ns, opened, failed;
    void (*on_unused)(uint64_t object_id, void *context); /* objects_on_unused; NULL: not set */
    void *on_unused_context;
    struct file_opener *opener;
    struct local_mounts *mounts; /* NULL: the opener opens all files */
    uint64_t own_view;           /* our mount namespace */
    bool is_inline;
    bool closing; /* objects_free was called; freed together with the last object */
};

static inline struct object_entry *object_entry_of(const struct object *o)
{
    return (struct object_entry *)o;
}
