/* Executable files by identity; see objects.h and objects_table.h.
 *
 * One object has up to OBJECT_KEYS_MAX keys in one hash table: its build id with a digest of the file's
 * headers, every path and mount namespace where a record told of that build id, and every (device, inode,
 * generation) that it was seen under. A build id is what a file claims: it is believed where the same claim
 * was looked at before, so that who lies is taken for somebody else only by itself. An inode's number is one
 * only together with its generation, or while a process that maps it lives (the file system cannot give it to
 * another file as long as it is mapped): /proc/PID/maps and old kernels tell no generation, so such a key is
 * asked only then, and otherwise the file is looked at again.
 *
 * Threads: the pipeline's, but object_open, _ref and _unref may be called by any (the publisher of unwinding
 * rows opens files); `lock` guards reference counts and descriptors. */
#include "resolve/objects.h"

#include "base/clock.h"
#include "resolve/file_opener.h"
#include "resolve/object_file.h"
#include "resolve/object_keys.h"
#include "resolve/objects_table.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/types.h>
#include <uthash.h>
#include <utlist.h>

#define OBJECT_KEYS_MAX 256
#define OPEN_TRIES_MAX  8
#define PAUSE_NS        1000000000ull
#define PAUSE_MAX_NS    (64 * PAUSE_NS)

struct key_entry {
    struct object_key key;
    struct entry *owner;
    struct key_entry *prev, *next; /* of the owner's, oldest first */
    UT_hash_handle hh;
};

struct entry {
    struct object object; /* first: callers hold a pointer to it */
    struct objects *home;
    struct key_entry *keys;
    unsigned key_count;
    unsigned mapped;      /* mappings that hold it; objects_get and _retain minus objects_release */
    unsigned live;        /* of processes that have not exited */
    uint64_t released_ns; /* when `mapped` became 0 */
    int fd;               /* -1: not open now; O_PATH where identity.is_far */
    unsigned tries;       /* to open it, in vain */
    bool was_open;
    bool disputed;               /* other contents claim its build id too */
    uint64_t retry_ns, pause_ns; /* not to be tried before: it did not answer */
    struct object_sight seen;    /* where it was seen last, for opening it again; `path` is the object's */
    struct object_identity identity;
    struct entry *prev, *next;           /* in home->idle while mapped == 0 */
    struct entry *open_prev, *open_next; /* in home->open, least recently used first, while fd >= 0 */
    char build_id[2 * OBJECT_BUILD_ID_MAX + 1];
    char path[];
};

struct objects {
    pthread_mutex_t lock;
    struct key_entry *by_key;
    struct entry *idle; /* not mapped, kept a little longer: a storm of short-lived processes maps the same
                           files again and again */
    struct entry *open;
    size_t open_count, max_open;
    size_t count, bytes;
    uint64_t next_id, now_ns, opened, failed;
    struct file_opener *opener;
    bool is_inline;
    bool closing; /* objects_free was called; goes when the last object does */
};

static struct entry *entry_of(const struct object *o)
{
    return (struct entry *)o;
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
    pthread_mutex_init(&o->lock, NULL);
    o->max_open = max_open ? max_open : 1;
    o->next_id = 1;
    *ret = o;
    return 0;
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
    pthread_mutex_destroy(&o->lock);
    free(o);
}

bool object_path_is_file(const char *path)
{
    if (path[0] != '/')
        return strcmp(path, "[vdso]") == 0;
    /* "/SYSV00000000" is shared memory of System V; "/dev/zero" and "/anon_hugepage" are anonymous memory. */
    return path[1] != '/' && strncmp(path, "/SYSV", 5) != 0 && strcmp(path, "/dev/zero") != 0 &&
           strcmp(path, "/anon_hugepage") != 0;
}

static struct entry *find_key(struct objects *o, const struct object_key *key)
{
    struct key_entry *k;
    HASH_FIND(hh, o->by_key, key, sizeof(*key), k);
    return k ? k->owner : NULL;
}

static void forget_key(struct objects *o, struct key_entry *k)
{
    DL_DELETE(k->owner->keys, k);
    k->owner->key_count--;
    HASH_DELETE(hh, o->by_key, k);
    o->bytes -= sizeof(*k);
    free(k);
}

/* A key that led elsewhere leads here from now on: the older object was of a file whose inode has been used
 * again. */
static void add_key(struct objects *o, struct entry *e, const struct object_key *key)
{
    struct key_entry *k;
    HASH_FIND(hh, o->by_key, key, sizeof(*key), k);
    if (k && k->owner == e)
        return;
    if (k)
        forget_key(o, k);
    if (e->key_count == OBJECT_KEYS_MAX)
        forget_key(o, e->keys); /* it will be found by looking at the file */
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

static void close_entry(struct objects *o, struct entry *e)
{
    if (e->fd < 0)
        return;
    close(e->fd);
    e->fd = -1;
    DL_DELETE2(o->open, e, open_prev, open_next);
    o->open_count--;
}

/* Takes `fd`. */
static void keep_open(struct objects *o, struct entry *e, int fd)
{
    while (o->open_count >= o->max_open)
        close_entry(o, o->open);
    e->fd = fd;
    e->was_open = true;
    e->tries = 0;
    DL_APPEND2(o->open, e, open_prev, open_next);
    o->open_count++;
    o->opened++;
}

static void destroy_entry(struct objects *o, struct entry *e)
{
    close_entry(o, e);
    while (e->keys)
        forget_key(o, e->keys);
    o->count--;
    o->bytes -= sizeof(*e) + strlen(e->path) + 1;
    free(e);
}

static int open_sight(struct objects *o, const struct object_sight *sight, bool is_vdso,
                      struct object_identity *ret)
{
    if (is_vdso)
        return object_file_open_vdso(ret);
    return o->is_inline ? object_file_open(sight, ret) : file_opener_sight(o->opener, sight, ret);
}

static bool is_passing(int error)
{
    return error == -ETIMEDOUT || error == -EAGAIN;
}

static bool is_resting(const struct entry *e)
{
    return e->retry_ns && clock_monotonic_ns() < e->retry_ns;
}

static void write_build_id(struct entry *e, const uint8_t *build_id, size_t bytes)
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < bytes && i < OBJECT_BUILD_ID_MAX; i++) {
        e->build_id[2 * i] = digits[build_id[i] >> 4];
        e->build_id[2 * i + 1] = digits[build_id[i] & 15];
    }
}

/* The file of an object that was made without it. */
static void learn_identity(struct entry *e, const struct object_identity *id)
{
    if (e->was_open)
        return;
    e->identity = *id;
    if (!e->build_id[0])
        write_build_id(e, id->build_id, id->build_id_bytes);
    e->object.is_anonymous = !id->is_elf && strncmp(e->path, "/memfd:", 7) == 0;
}

/* Opens the file of an object again where it was seen last. What comes out must be what it was. */
static int reopen(struct objects *o, struct entry *e)
{
    struct object_sight sight = e->seen;
    sight.path = e->path;
    sight.build_id = e->identity.build_id;
    sight.build_id_bytes = e->identity.build_id_bytes;
    if (!sight.inode) {
        sight.device = e->identity.device;
        sight.inode = e->identity.inode;
        sight.generation = e->identity.generation;
    }
    struct object_identity id;
    if (is_resting(e))
        return -ETIMEDOUT;
    int fd = open_sight(o, &sight, e->object.is_vdso, &id);
    if (fd < 0) {
        e->tries += !is_passing(fd);
        e->retry_ns = is_passing(fd) ? clock_monotonic_ns() + PAUSE_NS : 0;
        o->failed++;
        return fd;
    }
    if (e->was_open && e->identity.digest != id.digest) { /* another one that claims the same build id */
        close(fd);
        e->tries++;
        return -ENOENT;
    }
    learn_identity(e, &id);
    e->identity.is_far = id.is_far;
    e->identity.mount_id = id.mount_id;
    keep_open(o, e, fd);
    return 0;
}

static struct entry *new_entry(struct objects *o, const struct object_sight *sight,
                               const struct object_identity *id, int fd)
{
    const size_t path_bytes = strlen(sight->path) + 1;
    struct entry *e = calloc(1, sizeof(*e) + path_bytes);
    if (!e)
        return NULL;
    memcpy(e->path, sight->path, path_bytes);
    const uint8_t *build_id = fd >= 0 ? id->build_id : sight->build_id;
    const size_t build_id_bytes = fd >= 0 ? id->build_id_bytes : sight->build_id_bytes;
    write_build_id(e, build_id, build_id_bytes);
    e->object = (struct object){.id = o->next_id++, .path = e->path, .build_id = e->build_id};
    e->home = o;
    e->fd = -1;
    if (fd >= 0) {
        e->identity = *id;
    } else { /* what was told is kept, for trying again */
        e->identity.build_id_bytes = build_id_bytes <= OBJECT_BUILD_ID_MAX ? build_id_bytes : 0;
        if (build_id_bytes)
            memcpy(e->identity.build_id, build_id, e->identity.build_id_bytes);
        o->failed++;
    }
    o->count++;
    o->bytes += sizeof(*e) + path_bytes;
    return e;
}

/* By what the sight itself tells, without looking at the file. */
static struct entry *find_told(struct objects *o, const struct object_sight *sight)
{
    if (object_key_is_build_id(sight->build_id, sight->build_id_bytes)) {
        struct object_key key = object_key_of_place(sight);
        return find_key(o, &key);
    }
    if (sight->inode == 0)
        return NULL;
    struct object_key key = object_key_of_inode(sight->device, sight->inode, sight->generation);
    struct entry *e = find_key(o, &key);
    return e && (sight->generation || e->live) ? e : NULL;
}

/* By the file: the same build id and digest, or the same inode and generation. */
static struct entry *find_opened(struct objects *o, const struct object_identity *id)
{
    if (object_key_is_build_id(id->build_id, id->build_id_bytes)) {
        struct object_key key = object_key_of_content(id);
        return find_key(o, &key);
    }
    struct object_key key = object_key_of_inode(id->device, id->inode, id->generation);
    struct entry *e = find_key(o, &key);
    return e && (id->generation || e->live) ? e : NULL;
}

static void remember_sight(struct entry *e, const struct object_sight *sight)
{
    e->seen = *sight;
    e->seen.path = NULL;
    e->seen.build_id = NULL;
    e->seen.build_id_bytes = 0;
    e->seen.by_maps = false;
}

/* A file that cannot be looked at (its process has gone, say) is the one that is known by its build id,
 * unless several claim that. */
static struct entry *find_claimed(struct objects *o, const struct object_sight *sight)
{
    if (!object_key_is_build_id(sight->build_id, sight->build_id_bytes))
        return NULL;
    struct object_key key = object_key_of_claim(sight->build_id, sight->build_id_bytes);
    struct entry *e = find_key(o, &key);
    return e && !e->disputed ? e : NULL;
}

/* The build id of an opened file, once for its contents and once, for the first that claims it, alone. */
static void add_build_id_keys(struct objects *o, struct entry *e)
{
    const struct object_identity *id = &e->identity;
    if (!e->was_open || !object_key_is_build_id(id->build_id, id->build_id_bytes))
        return;
    struct object_key content = object_key_of_content(id),
                      claim = object_key_of_claim(id->build_id, id->build_id_bytes);
    if (!find_key(o, &content))
        add_key(o, e, &content);
    struct entry *first = find_key(o, &claim);
    if (!first)
        add_key(o, e, &claim);
    else if (first->identity.digest != id->digest)
        first->disputed = e->disputed = true;
}

static void add_keys(struct objects *o, struct entry *e, const struct object_sight *sight)
{
    add_build_id_keys(o, e);
    if (object_key_is_build_id(sight->build_id, sight->build_id_bytes)) {
        struct object_key key = object_key_of_place(sight);
        add_key(o, e, &key);
    }
    if (sight->inode) {
        struct object_key key = object_key_of_inode(sight->device, sight->inode, sight->generation);
        add_key(o, e, &key);
    }
    if (e->identity.inode) {
        struct object_key key =
            object_key_of_inode(e->identity.device, e->identity.inode, e->identity.generation);
        add_key(o, e, &key);
    }
}

/* The object of a sight that is not known by what it tells. */
static int get_by_file(struct objects *o, const struct object_sight *sight, struct entry **ret)
{
    struct object_identity id = {0};
    _cleanup_close_ int fd = open_sight(o, sight, false, &id);
    if (fd == -EMFILE || fd == -ENFILE) { /* give back what can be opened again, and try once more */
        for (size_t n = o->open_count / 2 + 1; n > 0 && o->open; n--)
            close_entry(o, o->open);
        fd = open_sight(o, sight, false, &id);
    }
    struct entry *e = fd >= 0 ? find_opened(o, &id) : find_claimed(o, sight);
    if (e && fd < 0) { /* this time; what was not looked at is not remembered */
        *ret = e;
        return 0;
    }
    if (!e)
        e = new_entry(o, sight, &id, fd);
    if (!e)
        return -ENOMEM;
    if (fd >= 0 && e->fd < 0) {
        learn_identity(e, &id);
        e->identity.is_far = id.is_far;
        e->identity.mount_id = id.mount_id;
        keep_open(o, e, take_fd(&fd));
    }
    if (is_passing(fd))
        e->retry_ns = clock_monotonic_ns() + PAUSE_NS;
    add_keys(o, e, sight);
    *ret = e;
    return 0;
}

static int get_vdso(struct objects *o, const struct object_sight *sight, struct entry **ret)
{
    struct object_key key = object_key_of_vdso();
    struct entry *e = find_key(o, &key);
    if (!e) {
        struct object_identity id = {0};
        _cleanup_close_ int fd = open_sight(o, sight, true, &id);
        e = new_entry(o, sight, &id, fd);
        if (!e)
            return -ENOMEM;
        e->object.is_vdso = true;
        if (fd >= 0)
            keep_open(o, e, take_fd(&fd));
        add_key(o, e, &key);
    }
    *ret = e;
    return 0;
}

static int get_locked(struct objects *o, const struct object_sight *sight, struct entry **ret)
{
    const bool is_vdso = sight->path[0] == '[';
    struct entry *e = is_vdso ? NULL : find_told(o, sight);
    int r = 0;
    if (!e)
        r = is_vdso ? get_vdso(o, sight, &e) : get_by_file(o, sight, &e);
    if (r < 0)
        return r;
    remember_sight(e, sight);
    if (e->fd < 0 && e->tries < OPEN_TRIES_MAX && reopen(o, e) == 0)
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
    /* 32-bit programs have another vdso; their code is not looked at. */
    if (!object_path_is_file(sight->path) || (sight->path[0] == '[' && sight->start < ((uint64_t)1 << 32)))
        return -ENOENT;
    pthread_mutex_lock(&o->lock);
    struct entry *e = NULL;
    int r = get_locked(o, sight, &e);
    pthread_mutex_unlock(&o->lock);
    if (r == 0)
        *ret = &e->object;
    return r;
}

struct object *objects_retain(struct object *object)
{
    struct entry *e = entry_of(object);
    pthread_mutex_lock(&e->home->lock);
    e->mapped++; /* was held before, so it is not idle */
    pthread_mutex_unlock(&e->home->lock);
    return object;
}

void objects_release(struct object *object)
{
    struct entry *e = entry_of(object);
    struct objects *o = e->home;
    pthread_mutex_lock(&o->lock);
    if (--e->mapped == 0) {
        e->released_ns = o->now_ns ? o->now_ns : 1;
        DL_APPEND(o->idle, e);
    }
    pthread_mutex_unlock(&o->lock);
}

void objects_live(struct object *object, int change)
{
    entry_of(object)->live += (unsigned)change;
}

void objects_trim(struct objects *o, uint64_t now_ns, uint64_t before_ns)
{
    pthread_mutex_lock(&o->lock);
    o->now_ns = now_ns;
    for (struct entry *e = o->idle, *next; e && e->released_ns < before_ns; e = next) {
        next = e->next;
        DL_DELETE(o->idle, e);
        close_entry(o, e);
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
    objects_trim(o, UINT64_MAX, UINT64_MAX);
    pthread_mutex_lock(&o->lock);
    o->closing = true;
    bool last = o->count == 0;
    pthread_mutex_unlock(&o->lock);
    if (last)
        objects_destroy(o);
}

int object_open(const struct object *object)
{
    struct entry *e = entry_of(object);
    struct objects *o = e->home;
    pthread_mutex_lock(&o->lock);
    int r = is_resting(e) ? -ETIMEDOUT : e->fd < 0 ? reopen(o, e) : 0;
    const struct object_identity identity = e->identity;
    if (r == 0) {
        DL_DELETE2(o->open, e, open_prev, open_next); /* to the end: used last */
        DL_APPEND2(o->open, e, open_prev, open_next);
        r = fcntl(e->fd, F_DUPFD_CLOEXEC, 3);
        if (r < 0)
            r = errno == EMFILE ? -EAGAIN : -errno;
        if (e->mapped == 0 &&
            e->released_ns == 0) /* nobody maps it: nothing of ours may hold up its file system */
            close_entry(o, e);
    }
    pthread_mutex_unlock(&o->lock);
    if (r >= 0 && identity.is_far) {
        _cleanup_close_ int far = r;
        r = file_opener_again(o->opener, far, &identity);
        if (r == -ETIMEDOUT)
            object_unreadable(object);
    }
    return r == -EMFILE || r == -ENFILE ? -EAGAIN : r;
}

void object_unreadable(const struct object *object)
{
    struct entry *e = entry_of(object);
    pthread_mutex_lock(&e->home->lock);
    e->pause_ns = e->pause_ns ? e->pause_ns * 2 : PAUSE_NS;
    if (e->pause_ns > PAUSE_MAX_NS)
        e->pause_ns = PAUSE_MAX_NS;
    e->retry_ns = clock_monotonic_ns() + e->pause_ns;
    const uint64_t mount_id = e->identity.mount_id;
    pthread_mutex_unlock(&e->home->lock);
    file_opener_blame(e->home->opener, mount_id);
}

int object_open_beside(const struct object *object, const char *path)
{
    const struct entry *e = entry_of(object);
    pthread_mutex_lock(&e->home->lock);
    struct object_sight sight = e->seen;
    pthread_mutex_unlock(&e->home->lock);
    struct objects *o = e->home;
    return o->is_inline ? object_file_open_beside(&sight, path) : file_opener_beside(o->opener, &sight, path);
}

int object_open_ours(const struct object *object, const char *path)
{
    struct objects *o = entry_of(object)->home;
    return o->is_inline ? object_file_open_ours(path) : file_opener_ours(o->opener, path);
}

struct object *object_ref(struct object *object)
{
    struct entry *e = entry_of(object);
    pthread_mutex_lock(&e->home->lock);
    object->references++;
    pthread_mutex_unlock(&e->home->lock);
    return object;
}

struct object *object_unref(struct object *object)
{
    if (!object)
        return NULL;
    struct entry *e = entry_of(object);
    struct objects *o = e->home;
    pthread_mutex_lock(&o->lock);
    if (--object->references == 0 && e->mapped == 0 && e->released_ns == 0)
        destroy_entry(o, e);
    bool last = o->closing && o->count == 0;
    pthread_mutex_unlock(&o->lock);
    if (last)
        objects_destroy(o);
    return NULL;
}

void objects_figures(const struct objects *o, struct objects_figures *ret)
{
    *ret = (struct objects_figures){o->count, o->open_count, o->opened, o->failed, o->bytes};
}
