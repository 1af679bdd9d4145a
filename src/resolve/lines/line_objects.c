/* Files of frames; see line_objects.h. Their objects are referenced as by a mapping, so that descriptors stay open
 * within the limit of all objects. */
#include "resolve/lines/line_objects.h"

#include "resolve/object/object_entry.h"
#include "resolve/object/objects.h"

#include <errno.h>
#include <string.h>
#include <uthash.h>

#define OBJECTS_MAX 8192

struct key { /* no padding: compared as bytes */
    uint64_t path_hash, build_id_hash;
};

struct noted {
    struct key key;
    struct object *object; /* a reference */
    char *path;
    struct noted *next_of_key; /* another path or build ID with the same hash */
    bool disputed;
    UT_hash_handle hh;
};

struct line_objects {
    struct noted *by_key;
    size_t count;
};

int line_objects_new(struct line_objects **ret)
{
    struct line_objects *o = calloc(1, sizeof(*o));
    if (!o)
        return -ENOMEM;
    *ret = o;
    return 0;
}

static void noted_free(struct noted *n)
{
    objects_release(n->object);
    free(n->path);
    free(n);
}

void line_objects_free(struct line_objects *o)
{
    if (!o)
        return;
    struct noted *n, *next;
    HASH_ITER (hh, o->by_key, n, next) {
        HASH_DEL(o->by_key, n);
        for (struct noted *other = n->next_of_key, *following; other; other = following) {
            following = other->next_of_key;
            noted_free(other);
        }
        noted_free(n);
    }
    free(o);
}

/* FNV-1a: only finds candidates. */
static uint64_t hash_of(const char *text)
{
    uint64_t hash = 0xcbf29ce484222325;
    for (; *text; text++)
        hash = (hash ^ (unsigned char)*text) * 0x100000001b3;
    return hash;
}

static struct noted *find(const struct line_objects *o, const struct key *key, const char *path, const char *build_id)
{
    struct noted *n;
    HASH_FIND(hh, o->by_key, key, sizeof(*key), n);
    while (n && (strcmp(n->path, path) != 0 || strcmp(n->object->build_id, build_id) != 0))
        n = n->next_of_key;
    return n;
}

static bool is_same_file(const struct object *a, const struct object *b)
{
    const struct object_identity *x = &object_entry_of(a)->identity, *y = &object_entry_of(b)->identity;
    return a == b || (x->device == y->device && x->inode == y->inode && x->digest == y->digest);
}

void line_objects_note(struct line_objects *o, struct object *object, const char *path)
{
    const struct key key = {hash_of(path), hash_of(object->build_id)};
    struct noted *n = find(o, &key, path, object->build_id), *head;
    if (n) {
        n->disputed |= n->object != object && !is_same_file(n->object, object);
        return;
    }
    if (o->count == OBJECTS_MAX)
        return;
    n = calloc(1, sizeof(*n));
    char *copy = strdup(path);
    if (!n || !copy) {
        free(n);
        free(copy);
        return;
    }
    *n = (struct noted){.key = key, .object = objects_retain(object), .path = copy};
    objects_stay_open(object);
    o->count++;
    HASH_FIND(hh, o->by_key, &key, sizeof(key), head);
    if (head) {
        n->next_of_key = head->next_of_key;
        head->next_of_key = n;
    } else {
        HASH_ADD(hh, o->by_key, key, sizeof(n->key), n);
    }
}

int line_objects_find(const struct line_objects *o, const char *path, const char *build_id, struct object **ret)
{
    const struct key key = {hash_of(path), hash_of(build_id)};
    const struct noted *n = find(o, &key, path, build_id);
    if (!n)
        return -ENOENT;
    if (n->disputed)
        return -EEXIST;
    *ret = n->object;
    return 0;
}
