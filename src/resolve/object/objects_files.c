/* The files of objects; see objects_files.h. */
#include "resolve/object/objects_files.h"

#include "base/clock.h"
#include "base/hex.h"
#include "resolve/files/file_opener.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <utlist.h>

#define PAUSE_NS     1000000000ull
#define PAUSE_MAX_NS (64 * PAUSE_NS)
/* Where programs are compiled and run, each file runs once and is soon replaced. The last process to close a deleted
 * file pays for freeing its pages and blocks: such a file is closed before it is replaced. */
#define UNUSED_OPEN_NS 250000000ull

int objects_files_open(struct objects *o, const struct object_sight *sight, bool is_vdso, struct object_identity *ret)
{
    if (is_vdso)
        return object_file_open_vdso(ret);
    if (o->is_inline)
        return object_file_open(sight, ret);
    const int fd = o->mounts ? object_file_open_at_once(sight, o->own_view, o->mounts, ret) : -EAGAIN;
    return fd == -EAGAIN ? file_opener_sight(o->opener, sight, ret) : fd;
}

bool objects_files_is_passing(int error)
{
    return error == -ETIMEDOUT || error == -EAGAIN;
}

static bool is_backed_off(const struct object_entry *e)
{
    return e->retry_ns && clock_monotonic_ns() < e->retry_ns;
}

void objects_files_back_off(struct object_entry *e)
{
    e->retry_ns = clock_monotonic_ns() + PAUSE_NS;
}

void objects_files_set_build_id(struct object_entry *e, const uint8_t *build_id, size_t bytes)
{
    hex_write(build_id, bytes < OBJECT_BUILD_ID_MAX ? bytes : OBJECT_BUILD_ID_MAX, e->build_id);
}

/* Sets the identity of an object that was created without its file. */
static void learn_identity(struct object_entry *e, const struct object_identity *id)
{
    if (e->was_open)
        return;
    e->identity = *id;
    if (!e->build_id[0])
        objects_files_set_build_id(e, id->build_id, id->build_id_bytes);
    e->object.is_anonymous = !id->is_elf && strncmp(e->path, "/memfd:", 7) == 0;
}

static void forget_unused(struct objects *o, struct object_entry *e)
{
    if (e->unused_ns)
        DL_DELETE2(o->unused, e, unused_prev, unused_next);
    e->unused_ns = 0;
}

void objects_files_note_live(struct objects *o, struct object_entry *e)
{
    forget_unused(o, e);
    if (e->live > 0 || e->fd < 0)
        return;
    e->unused_ns = o->now_ns ? o->now_ns : 1;
    DL_APPEND2(o->unused, e, unused_prev, unused_next);
}

void objects_files_close(struct objects *o, struct object_entry *e)
{
    if (e->fd < 0)
        return;
    close(e->fd);
    e->fd = -1;
    forget_unused(o, e);
    DL_DELETE2(o->open, e, open_prev, open_next);
    o->open_count--;
}

void objects_files_close_unused(struct objects *o, uint64_t now_ns)
{
    for (struct object_entry *e; (e = o->unused) && now_ns >= e->unused_ns + UNUSED_OPEN_NS;) {
        forget_unused(o, e);
        if (e->sightings > 1 || e->stays_open)
            continue;
        objects_files_close(o, e);
        if (o->on_unused)
            o->on_unused(e->object.id, o->on_unused_context);
    }
}

void objects_files_take(struct objects *o, struct object_entry *e, const struct object_identity *id, int fd)
{
    learn_identity(e, id);
    e->identity.thread_context = id->thread_context;
    e->object.thread_context = e->identity.thread_context.kind ? &e->identity.thread_context : NULL;
    e->identity.go_labels = id->go_labels;
    e->object.go_labels = e->identity.go_labels.layout.kind ? &e->identity.go_labels : NULL;
    e->identity.is_remote = id->is_remote;
    e->identity.mount_id = id->mount_id;
    while (o->open_count >= o->max_open)
        objects_files_close(o, o->open);
    e->fd = fd;
    e->was_open = true;
    e->tries = 0;
    DL_APPEND2(o->open, e, open_prev, open_next);
    o->open_count++;
    o->opened++;
    objects_files_note_live(o, e);
}

static const char *seen_path(const struct object_entry *e)
{
    return e->seen_path ? e->seen_path : e->path;
}

static void set_seen_path(struct objects *o, struct object_entry *e, const char *path)
{
    if (strcmp(path, seen_path(e)) == 0)
        return;
    if (e->seen_path)
        o->bytes -= strlen(e->seen_path) + 1;
    free(e->seen_path);
    e->seen_path = strcmp(path, e->path) == 0 ? NULL : strdup(path);
    if (e->seen_path)
        o->bytes += strlen(e->seen_path) + 1;
}

void objects_files_see(struct objects *o, struct object_entry *e, const struct object_sight *sight)
{
    set_seen_path(o, e, sight->path);
    e->sightings++;
    e->seen = *sight;
    e->seen.path = NULL;
    e->seen.build_id = NULL;
    e->seen.build_id_bytes = 0;
    e->seen.by_maps = false;
}

/* The reopened file must have the identity that it had before. */
static int reopen_at(struct objects *o, struct object_entry *e, const char *path, struct object_identity *ret)
{
    struct object_sight sight = e->seen;
    sight.path = path;
    sight.build_id = e->identity.build_id;
    sight.build_id_bytes = e->identity.build_id_bytes;
    if (!sight.inode) {
        sight.device = e->identity.device;
        sight.inode = e->identity.inode;
        sight.generation = e->identity.generation;
    }
    _cleanup_close_ int fd = objects_files_open(o, &sight, e->object.is_vdso, ret);
    if (fd >= 0 && e->was_open && e->identity.digest != ret->digest)
        return -ENOENT; /* another file that claims the same build ID */
    return take_fd(&fd);
}

/* Copies of a file share one object, and any of them may have been removed. */
int objects_files_reopen(struct objects *o, struct object_entry *e)
{
    struct object_identity id;
    if (is_backed_off(e))
        return -ETIMEDOUT;
    int fd = reopen_at(o, e, seen_path(e), &id);
    if (fd < 0 && !objects_files_is_passing(fd) && e->seen_path)
        fd = reopen_at(o, e, e->path, &id);
    if (fd < 0) {
        e->tries += !objects_files_is_passing(fd);
        e->retry_ns = 0;
        if (objects_files_is_passing(fd))
            objects_files_back_off(e);
        o->failed++;
        return fd;
    }
    objects_files_take(o, e, &id, fd);
    return 0;
}

int object_open(const struct object *object)
{
    struct object_entry *e = object_entry_of(object);
    struct objects *o = e->registry;
    pthread_mutex_lock(&o->lock);
    int r = is_backed_off(e) ? -ETIMEDOUT : e->fd < 0 ? objects_files_reopen(o, e) : 0;
    const struct object_identity identity = e->identity;
    if (r == 0) {
        DL_DELETE2(o->open, e, open_prev, open_next); /* to the end: most recently used */
        DL_APPEND2(o->open, e, open_prev, open_next);
        r = fcntl(e->fd, F_DUPFD_CLOEXEC, 3);
        if (r < 0)
            r = errno == EMFILE ? -EAGAIN : -errno;
        if (e->mapped == 0 &&
            e->released_ns == 0) /* unmapped: an open descriptor of ours must not keep its file system busy */
            objects_files_close(o, e);
    }
    pthread_mutex_unlock(&o->lock);
    if (r >= 0 && identity.is_remote) {
        _cleanup_close_ int path_fd = r;
        r = file_opener_reopen(o->opener, path_fd, &identity);
        if (r == -ETIMEDOUT)
            object_unreadable(object);
    }
    return r == -EMFILE || r == -ENFILE ? -EAGAIN : r;
}

void object_unreadable(const struct object *object)
{
    struct object_entry *e = object_entry_of(object);
    pthread_mutex_lock(&e->registry->lock);
    if (is_backed_off(e)) { /* another thread has reported it already */
        pthread_mutex_unlock(&e->registry->lock);
        return;
    }
    e->pause_ns = e->pause_ns ? e->pause_ns * 2 : PAUSE_NS;
    if (e->pause_ns > PAUSE_MAX_NS)
        e->pause_ns = PAUSE_MAX_NS;
    e->retry_ns = clock_monotonic_ns() + e->pause_ns;
    const uint64_t mount_id = e->identity.mount_id;
    pthread_mutex_unlock(&e->registry->lock);
    file_opener_report_timeout(e->registry->opener, mount_id);
}

int object_open_in_process_root(const struct object *object, const char *path)
{
    const struct object_entry *e = object_entry_of(object);
    pthread_mutex_lock(&e->registry->lock);
    struct object_sight sight = e->seen;
    pthread_mutex_unlock(&e->registry->lock);
    struct objects *o = e->registry;
    return o->is_inline ? object_file_open_in_process_root(&sight, path)
                        : file_opener_in_process_root(o->opener, &sight, path);
}

int object_open_in_own_root(const struct object *object, const char *path)
{
    struct objects *o = object_entry_of(object)->registry;
    return o->is_inline ? object_file_open_in_own_root(path) : file_opener_in_own_root(o->opener, path);
}
