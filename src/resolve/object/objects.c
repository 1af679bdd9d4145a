/* Executable files by identity; see object.h and objects.h.
 *
 * An object has up to OBJECT_KEYS_MAX keys in one hash table: its build ID with a digest of the file's headers and
 * probe notes, every path and mount namespace where a record reported that build ID, and every (device, inode,
 * generation) that it was seen under. A build ID is only a claim. It is trusted at a path and mount namespace where
 * the file behind the same claim was opened before, so a file with a false build ID can mislead only about itself.
 * An inode number identifies a file only together with its generation, or while a running process maps the file (the
 * file system cannot reuse it then). /proc/PID/maps and old kernels report no generation: such a key is used only in
 * that case; otherwise the file is opened and compared again. Where the file system has no generations, the opened
 * file is compared by its size and the time of its last change.
 *
 * Threads: the pipeline's, but object_open, _ref and _unref may be called by any (the publisher of unwind tables
 * opens files). `lock` guards reference counts and descriptors. */
#include "resolve/object/objects.h"

#include "resolve/files/file_opener.h"
#include "resolve/object/objects_files.h"
#include "resolve/proc/maps.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/types.h>
#include <utlist.h>

#define OBJECT_KEYS_MAX 256
#define OPEN_TRIES_MAX  8

bool object_sight_of_line(const struct maps_line *line, char *path, struct object_sight *ret)
{
    if (line->path_bytes >= PATH_MAX)
        return false;
    memcpy(path, line->path, line->path_bytes);
    path[maps_path_without_deleted(path, line->path_bytes)] = '\0';
    *ret = (struct object_sight){
        .path = path,
        .device = makedev(line->device_major, line->device_minor),
        .inode = line->inode,
        .start = line->start,
        .end = line->end,
        .by_maps = true,
    };
    return true;
}

int objects_new(size_t max_open, struct objects **ret)
{
    struct objects *o = calloc(1, sizeof(*o));
    if (!o)
        return -ENOMEM;
    int r = file_opener_new(&o->opener);
    if (r < 0) {
        free(o);
        return r;
    }
    struct stat own;
    if (stat("/proc/self/ns/mnt", &own) == 0 && local_mounts_new(&o->mounts) == 0)
        o->own_view = own.st_ino;
    pthread_mutex_init(&o->lock, NULL);
    o->max_open = max_open ? max_open : 1;
    o->max_keys = OBJECT_KEYS_MAX;
    o->next_id = 1;
    *ret = o;
    return 0;
}

void objects_limit(struct objects *o, size_t entries)
{
    o->max_open = entries < o->max_open ? entries : o->max_open;
    o->max_keys = entries < o->max_keys ? entries : o->max_keys;
}

void objects_set_inline(struct objects *o)
{
    o->is_inline = true;
}

struct file_opener *objects_opener(struct objects *o)
{
    return o->opener;
}

static void objects_destroy(struct objects *o)
{
    file_opener_free(o->opener);
    local_mounts_free(o->mounts);
    pthread_mutex_destroy(&o->lock);
    free(o);
}

bool object_path_is_file(const char *path)
{
    if (path[0] != '/')
        return strcmp(path, "[vdso]") == 0;
    /* "/SYSV00000000" is System V shared memory; "/dev/zero" and "/anon_hugepage" are anonymous memory. */
    return path[1] != '/' && strncmp(path, "/SYSV", 5) != 0 && strcmp(path, "/dev/zero") != 0 &&
           strcmp(path, "/anon_hugepage") != 0;
}

static struct object_entry *find_key(struct objects *o, const struct object_key *key)
{
    struct object_key_entry *k;
    HASH_FIND(hh, o->by_key, key, sizeof(*key), k);
    return k ? k->owner : NULL;
}

static void remove_key(struct objects *o, struct object_key_entry *k)
{
    DL_DELETE(k->owner->keys, k);
    k->owner->key_count--;
    HASH_DELETE(hh, o->by_key, k);
    o->bytes -= sizeof(*k);
    free(k);
}

/* Adds a key. If it led to another object, it now leads here: that object's inode has been reused. */
static void add_key(struct objects *o, struct object_entry *e, const struct object_key *key)
{
    struct object_key_entry *k;
    HASH_FIND(hh, o->by_key, key, sizeof(*key), k);
    if (k && k->owner == e)
        return;
    if (k)
        remove_key(o, k);
    if (e->key_count >= o->max_keys)
        remove_key(o, e->keys); /* the object is then found by opening the file again */
    k = calloc(1, sizeof(*k));
    if (!k)
        return;
    k->key = *key;
    k->owner = e;
    HASH_ADD(hh, o->by_key, key, sizeof(k->key), k);
    o->bytes += sizeof(*k);
    DL_APPEND(e->keys, k);
    e->key_count++;
}

static void destroy_entry(struct objects *o, struct object_entry *e)
{
    objects_files_close(o, e);
    while (e->keys)
        remove_key(o, e->keys);
    if (e->seen_path)
        o->bytes -= strlen(e->seen_path) + 1;
    free(e->seen_path);
    o->count--;
    o->bytes -= sizeof(*e) + strlen(e->path) + 1;
    free(e);
}

static struct object_entry *new_entry(struct objects *o, const struct object_sight *sight,
                                      const struct object_identity *id, int fd)
{
    const size_t path_bytes = strlen(sight->path) + 1;
    struct object_entry *e = calloc(1, sizeof(*e) + path_bytes);
    if (!e)
        return NULL;
    memcpy(e->path, sight->path, path_bytes);
    const uint8_t *build_id = fd >= 0 ? id->build_id : sight->build_id;
    const size_t build_id_bytes = fd >= 0 ? id->build_id_bytes : sight->build_id_bytes;
    objects_files_set_build_id(e, build_id, build_id_bytes);
    e->object = (struct object){.id = o->next_id++, .path = e->path, .build_id = e->build_id};
    e->registry = o;
    e->fd = -1;
    if (fd >= 0) {
        e->identity = *id;
    } else { /* the claimed build ID is kept for later attempts */
        e->identity.build_id_bytes = build_id_bytes <= OBJECT_BUILD_ID_MAX ? build_id_bytes : 0;
        if (build_id_bytes)
            memcpy(e->identity.build_id, build_id, e->identity.build_id_bytes);
        o->failed++;
    }
    o->count++;
    o->bytes += sizeof(*e) + path_bytes;
    return e;
}

/* Finds an object by the identity in its mapping, without opening the file. */
static struct object_entry *find_by_sight(struct objects *o, const struct object_sight *sight)
{
    if (object_key_is_build_id(sight->build_id, sight->build_id_bytes)) {
        struct object_key key = object_key_of_place(sight);
        return object_key_is_place(sight->path) ? find_key(o, &key) : NULL;
    }
    if (sight->inode == 0)
        return NULL;
    struct object_key key = object_key_of_inode(sight->device, sight->inode, sight->generation);
    struct object_entry *e = find_key(o, &key);
    return e && (sight->generation || e->live) ? e : NULL;
}

/* Whether the object's file, which no running process maps, is unchanged: the file system has no generations. */
static bool is_same_version(const struct object_entry *e, const struct object_identity *id)
{
    return e->was_open && id->changed_ns && e->identity.changed_ns == id->changed_ns &&
           e->identity.size_bytes == id->size_bytes && e->identity.digest == id->digest;
}

/* Finds an object by its opened file: the same build ID and digest, or the same inode and generation. */
static struct object_entry *find_by_identity(struct objects *o, const struct object_identity *id)
{
    if (object_key_is_build_id(id->build_id, id->build_id_bytes)) {
        struct object_key key = object_key_of_content(id);
        return find_key(o, &key);
    }
    struct object_key key = object_key_of_inode(id->device, id->inode, id->generation);
    struct object_entry *e = find_key(o, &key);
    return e && (id->generation || e->live || is_same_version(e, id)) ? e : NULL;
}

/* Finds an object for a file that cannot be opened (its process has exited, say), by the build ID alone, unless
 * files with different contents claim it. */
static struct object_entry *find_by_build_id(struct objects *o, const struct object_sight *sight)
{
    if (!object_key_is_build_id(sight->build_id, sight->build_id_bytes))
        return NULL;
    struct object_key key = object_key_of_claim(sight->build_id, sight->build_id_bytes);
    struct object_entry *e = find_key(o, &key);
    return e && !e->disputed ? e : NULL;
}

/* Adds the keys of an opened file's build ID: one with the digest, and one without for the first object that claims
 * it. */
static void add_build_id_keys(struct objects *o, struct object_entry *e)
{
    const struct object_identity *id = &e->identity;
    if (!e->was_open || !object_key_is_build_id(id->build_id, id->build_id_bytes))
        return;
    struct object_key content = object_key_of_content(id),
                      claim = object_key_of_claim(id->build_id, id->build_id_bytes);
    if (!find_key(o, &content))
        add_key(o, e, &content);
    struct object_entry *first = find_key(o, &claim);
    if (!first)
        add_key(o, e, &claim);
    else if (first->identity.digest != id->digest)
        first->disputed = e->disputed = true;
}

static void add_keys(struct objects *o, struct object_entry *e, const struct object_sight *sight)
{
    add_build_id_keys(o, e);
    if (object_key_is_build_id(sight->build_id, sight->build_id_bytes) && object_key_is_place(sight->path)) {
        struct object_key key = object_key_of_place(sight);
        add_key(o, e, &key);
    }
    if (sight->inode) {
        struct object_key key = object_key_of_inode(sight->device, sight->inode, sight->generation);
        add_key(o, e, &key);
    }
    if (e->identity.inode) {
        struct object_key key = object_key_of_inode(e->identity.device, e->identity.inode, e->identity.generation);
        add_key(o, e, &key);
    }
}

/* The object of a sight that has no usable key: opens and identifies the file. */
static int get_by_file(struct objects *o, const struct object_sight *sight, struct object_entry **ret)
{
    struct object_identity id = {0};
    _cleanup_close_ int fd = objects_files_open(o, sight, false, &id);
    if (fd == -EMFILE ||
        fd == -ENFILE) { /* too many descriptors: close half of those that can be reopened, and retry */
        for (size_t n = o->open_count / 2 + 1; n > 0 && o->open; n--)
            objects_files_close(o, o->open);
        fd = objects_files_open(o, sight, false, &id);
    }
    struct object_entry *e = fd >= 0 ? find_by_identity(o, &id) : find_by_build_id(o, sight);
    if (e && fd < 0) { /* for this call only: an unverified match is not recorded as a key */
        *ret = e;
        return 0;
    }
    if (!e)
        e = new_entry(o, sight, &id, fd);
    if (!e)
        return -ENOMEM;
    if (fd >= 0 && e->fd < 0) {
        objects_files_take(o, e, &id, take_fd(&fd));
    }
    if (objects_files_is_passing(fd))
        objects_files_back_off(e);
    add_keys(o, e, sight);
    *ret = e;
    return 0;
}

static int get_vdso(struct objects *o, const struct object_sight *sight, struct object_entry **ret)
{
    struct object_key key = object_key_of_vdso();
    struct object_entry *e = find_key(o, &key);
    if (!e) {
        struct object_identity id = {0};
        _cleanup_close_ int fd = objects_files_open(o, sight, true, &id);
        e = new_entry(o, sight, &id, fd);
        if (!e)
            return -ENOMEM;
        e->object.is_vdso = true;
        if (fd >= 0)
            objects_files_take(o, e, &id, take_fd(&fd));
        add_key(o, e, &key);
    }
    *ret = e;
    return 0;
}

static int get_locked(struct objects *o, const struct object_sight *sight, struct object_entry **ret)
{
    const bool is_vdso = sight->path[0] == '[';
    struct object_entry *e = is_vdso ? NULL : find_by_sight(o, sight);
    int r = 0;
    if (!e)
        r = is_vdso ? get_vdso(o, sight, &e) : get_by_file(o, sight, &e);
    if (r < 0)
        return r;
    objects_files_see(o, e, sight);
    if (e->fd < 0 && e->tries < OPEN_TRIES_MAX && objects_files_reopen(o, e) == 0)
        add_keys(o, e, sight);
    if (e->mapped++ == 0) {
        if (e->released_ns)
            DL_DELETE(o->idle, e);
        e->released_ns = 0;
    }
    *ret = e;
    return 0;
}

int objects_get(struct objects *o, const struct object_sight *sight, struct object **ret)
{
    /* 32-bit programs have another vDSO; their code is not resolved. */
    if (!object_path_is_file(sight->path) || (sight->path[0] == '[' && sight->start < ((uint64_t)1 << 32)))
        return -ENOENT;
    pthread_mutex_lock(&o->lock);
    struct object_entry *e = NULL;
    int r = get_locked(o, sight, &e);
    pthread_mutex_unlock(&o->lock);
    if (r == 0)
        *ret = &e->object;
    return r;
}

int objects_place_at_once(struct objects *o, const struct object_sight *sight, struct object_place *ret)
{
    pthread_mutex_lock(&o->lock);
    const int r = o->mounts ? object_file_place_at_once(sight, o->own_view, o->mounts, ret) : -EAGAIN;
    pthread_mutex_unlock(&o->lock);
    return r;
}

struct object *objects_retain(struct object *object)
{
    struct object_entry *e = object_entry_of(object);
    pthread_mutex_lock(&e->registry->lock);
    assert(e->mapped > 0); /* otherwise it would be in the idle list */
    e->mapped++;
    pthread_mutex_unlock(&e->registry->lock);
    return object;
}

void objects_release(struct object *object)
{
    struct object_entry *e = object_entry_of(object);
    struct objects *o = e->registry;
    pthread_mutex_lock(&o->lock);
    assert(e->mapped > 0);
    if (--e->mapped == 0) {
        e->released_ns = o->now_ns ? o->now_ns : 1;
        DL_APPEND(o->idle, e);
    }
    pthread_mutex_unlock(&o->lock);
}

void objects_live(struct object *object, int change)
{
    struct object_entry *e = object_entry_of(object);
    assert(change > 0 || e->live > 0);
    const bool before = e->live > 0;
    e->live += (unsigned)change;
    if (before == (e->live > 0))
        return;
    pthread_mutex_lock(&e->registry->lock);
    objects_files_note_live(e->registry, e);
    pthread_mutex_unlock(&e->registry->lock);
}

void objects_on_unused(struct objects *o, objects_unused *unused, void *context)
{
    o->on_unused = unused;
    o->on_unused_context = context;
}

void objects_stay_open(struct object *object)
{
    object_entry_of(object)->stays_open = true;
}

void objects_trim(struct objects *o, uint64_t now_ns, uint64_t before_ns)
{
    pthread_mutex_lock(&o->lock);
    o->now_ns = now_ns;
    objects_files_close_unused(o, now_ns);
    for (struct object_entry *e = o->idle, *next; e && (e->released_ns < before_ns || before_ns == UINT64_MAX);
         e = next) {
        next = e->next;
        DL_DELETE(o->idle, e);
        objects_files_close(o, e);
        e->released_ns = 0;
        if (e->object.references == 0)
            destroy_entry(o, e);
    }
    pthread_mutex_unlock(&o->lock);
}

void objects_free(struct objects *o)
{
    if (!o)
        return;
    objects_on_unused(o, NULL, NULL); /* its context may be gone */
    objects_trim(o, UINT64_MAX, UINT64_MAX);
    pthread_mutex_lock(&o->lock);
    o->closing = true;
    bool last = o->count == 0;
    pthread_mutex_unlock(&o->lock);
    if (last)
        objects_destroy(o);
}

struct object *object_ref(struct object *object)
{
    struct object_entry *e = object_entry_of(object);
    pthread_mutex_lock(&e->registry->lock);
    object->references++;
    pthread_mutex_unlock(&e->registry->lock);
    return object;
}

struct object *object_unref(struct object *object)
{
    if (!object)
        return NULL;
    struct object_entry *e = object_entry_of(object);
    struct objects *o = e->registry;
    pthread_mutex_lock(&o->lock);
    assert(object->references > 0);
    if (--object->references == 0 && e->mapped == 0 && e->released_ns == 0)
        destroy_entry(o, e);
    bool last = o->closing && o->count == 0;
    pthread_mutex_unlock(&o->lock);
    if (last)
        objects_destroy(o);
    return NULL;
}

void objects_stats(const struct objects *o, struct objects_stats *ret)
{
    *ret = (struct objects_stats){o->count, o->open_count, o->opened, o->failed, o->bytes};
}
