/* See pods.h, and api.proto of kubernetes' cri-api, version v1.
 *
 * Names are restricted to the characters that Kubernetes allows: letters, digits and "-._", in label keys also "/". Any
 * other name is left out. Therefore a line of attributes cannot be split in two, and no string needs escaping anywhere.
 */
#include "resolve/process/pods.h"

#include "base/buf.h"
#include "base/protobuf.h"

#include <assert.h>
#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

enum { LIST_ITEMS = 1 }; /* in both replies */
enum { SANDBOX_ID = 1, SANDBOX_METADATA = 2, SANDBOX_STATE = 3, SANDBOX_LABELS = 5 };
enum { SANDBOX_METADATA_NAME = 1, SANDBOX_METADATA_UID = 2, SANDBOX_METADATA_NAMESPACE = 3 };
enum { CONTAINER_ID = 1, CONTAINER_SANDBOX_ID = 2, CONTAINER_METADATA = 3 };
enum { CONTAINER_METADATA_NAME = 1 };
enum { LABEL_KEY = 1, LABEL_VALUE = 2 };
enum { STATE_READY = 0 };

#define ID_BYTES     65 /* 64 hexadecimal digits */
#define UID_BYTES    40
#define NAME_BYTES   254
#define VALUE_BYTES  64 /* of a label; names of namespaces and containers are not longer */
#define LABEL_PREFIX "k8s.pod.label."

struct pod_entry {
    struct pod pod; /* first: callers hold a pointer to it */
    UT_hash_handle hh;
    char text[]; /* storage of all its strings */
};

struct container_entry { /* or a sandbox, whose processes belong to the pod but to no container */
    UT_hash_handle hh;
    const struct pod_entry *pod;
    char id[ID_BYTES];
    char attributes[];
};

struct pods {
    atomic_uint references;
    struct pod_entry *by_uid;
    struct container_entry *by_id;
    size_t bytes;
    unsigned left_out;
};

struct label_keys {
    char keys[PODS_LABELS_MAX][PODS_KEY_BYTES];
    size_t count;
};

/* ---- strings ---- */

static bool is_name(const char *text, size_t size, const char *besides)
{
    for (size_t i = 0; i < size; i++) {
        const char c = text[i];
        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || (c && strchr(besides, c))))
            return false;
    }
    return true;
}

/* False, and an empty `to`, when the text is not a name or does not fit. */
static bool copy_name(const struct cursor *from, char *to, size_t size, const char *besides)
{
    to[0] = '\0';
    if (from->size >= size || !is_name((const char *)from->data, from->size, besides))
        return false;
    if (from->size)
        memcpy(to, from->data, from->size);
    to[from->size] = '\0';
    return true;
}

static bool copy_id(const struct cursor *from, char to[ID_BYTES])
{
    if (!copy_name(from, to, ID_BYTES, "") || from->size != ID_BYTES - 1 ||
        strspn(to, "0123456789abcdef") != ID_BYTES - 1)
        to[0] = '\0';
    return to[0];
}

/* The part before the next comma; false at the end of the list. */
static bool next_part(const char **list, struct cursor *ret)
{
    const size_t size = strcspn(*list, ",");
    if (!**list)
        return false;
    *ret = cursor_make(*list, size);
    *list += size + ((*list)[size] == ',');
    return true;
}

static bool read_keys(const char *text, struct label_keys *ret)
{
    struct cursor part;
    const size_t size = strlen(text);
    ret->count = 0;
    if (size && text[size - 1] == ',')
        return false;
    while (next_part(&text, &part))
        if (ret->count == PODS_LABELS_MAX || !part.size ||
            !copy_name(&part, ret->keys[ret->count++], PODS_KEY_BYTES, "-._/"))
            return false;
    return true;
}

bool pods_check_keys(const char *keys)
{
    struct label_keys read;
    return read_keys(keys, &read);
}

/* ---- parsing ---- */

struct sandbox {
    char id[ID_BYTES], uid[UID_BYTES], namespace[VALUE_BYTES], name[NAME_BYTES];
    char values[PODS_LABELS_MAX][VALUE_BYTES];
    bool has_value[PODS_LABELS_MAX];
    uint64_t state;
};

static bool read_sandbox_metadata(struct cursor c, struct sandbox *s)
{
    struct protobuf_field f;
    while (protobuf_next_field(&c, &f)) {
        if (f.number == SANDBOX_METADATA_NAME)
            copy_name(&f.inside, s->name, sizeof(s->name), "-._");
        else if (f.number == SANDBOX_METADATA_UID)
            copy_name(&f.inside, s->uid, sizeof(s->uid), "-");
        else if (f.number == SANDBOX_METADATA_NAMESPACE)
            copy_name(&f.inside, s->namespace, sizeof(s->namespace), "-._");
    }
    return !c.failed;
}

static bool read_label(struct cursor c, const struct label_keys *wanted, struct sandbox *s)
{
    struct protobuf_field f;
    struct cursor key = {0}, value = {0};
    while (protobuf_next_field(&c, &f))
        *(f.number == LABEL_KEY ? &key : f.number == LABEL_VALUE ? &value : &(struct cursor){0}) = f.inside;
    for (size_t i = 0; i < wanted->count && !c.failed; i++)
        if (cursor_is(key, wanted->keys[i]))
            s->has_value[i] = copy_name(&value, s->values[i], VALUE_BYTES, "-._");
    return !c.failed;
}

static bool read_sandbox(struct cursor c, const struct label_keys *wanted, struct sandbox *ret)
{
    struct protobuf_field f;
    bool good = true;
    *ret = (struct sandbox){0};
    while (good && protobuf_next_field(&c, &f)) {
        if (f.number == SANDBOX_ID)
            copy_id(&f.inside, ret->id);
        else if (f.number == SANDBOX_METADATA)
            good = read_sandbox_metadata(f.inside, ret);
        else if (f.number == SANDBOX_STATE)
            ret->state = f.value;
        else if (f.number == SANDBOX_LABELS)
            good = read_label(f.inside, wanted, ret);
    }
    return good && !c.failed;
}

struct container {
    char id[ID_BYTES], sandbox_id[ID_BYTES], name[VALUE_BYTES];
};

static bool read_container(struct cursor c, struct container *ret)
{
    struct protobuf_field f, inner;
    *ret = (struct container){0};
    while (protobuf_next_field(&c, &f)) {
        if (f.number == CONTAINER_ID)
            copy_id(&f.inside, ret->id);
        else if (f.number == CONTAINER_SANDBOX_ID)
            copy_id(&f.inside, ret->sandbox_id);
        else if (f.number == CONTAINER_METADATA) {
            while (protobuf_next_field(&f.inside, &inner))
                if (inner.number == CONTAINER_METADATA_NAME)
                    copy_name(&inner.inside, ret->name, sizeof(ret->name), "-._");
            c.failed |= f.inside.failed;
        }
    }
    return !c.failed;
}

/* ---- storing ---- */

static bool reserve_bytes(struct pods *pods, size_t bytes)
{
    if (pods->bytes + bytes > PODS_MAX_BYTES)
        return false;
    pods->bytes += bytes;
    return true;
}

static struct pod_entry *find_pod(const struct pods *pods, const char *uid)
{
    struct pod_entry *e;
    HASH_FIND_STR(pods->by_uid, uid, e);
    return e;
}

static struct container_entry *find_container(const struct pods *pods, const char *id)
{
    struct container_entry *e;
    HASH_FIND_STR(pods->by_id, id, e);
    return e;
}

static int add_pod_entry(struct pods *pods, const struct sandbox *s, const struct label_keys *wanted,
                         struct pod_entry **ret)
{
    _cleanup_buf_ struct buf lines = {0};
    buf_printf(&lines, "k8s.namespace.name\t%s\nk8s.pod.name\t%s\n", s->namespace, s->name);
    for (size_t i = 0; i < wanted->count; i++)
        if (s->has_value[i])
            buf_printf(&lines, LABEL_PREFIX "%s\t%s\n", wanted->keys[i], s->values[i]);
    if (buf_error(&lines) < 0)
        return -ENOMEM;
    const char *const strings[] = {s->uid, s->namespace, s->name, lines.data};
    size_t bytes = 0;
    for (size_t i = 0; i < array_size(strings); i++)
        bytes += strlen(strings[i]) + 1;
    if (HASH_COUNT(pods->by_uid) >= PODS_MAX || !reserve_bytes(pods, sizeof(struct pod_entry) + bytes))
        return -ENOSPC;
    struct pod_entry *e = calloc(1, sizeof(*e) + bytes);
    if (!e)
        return -ENOMEM;
    const char **const to[] = {&e->pod.uid, &e->pod.namespace, &e->pod.name, &e->pod.attributes};
    char *at = e->text;
    for (size_t i = 0; i < array_size(strings); i++) {
        *to[i] = at;
        at = stpcpy(at, strings[i]) + 1;
    }
    HASH_ADD_KEYPTR(hh, pods->by_uid, e->pod.uid, strlen(e->pod.uid), e);
    if (!e->hh.tbl) {
        free(e);
        return -ENOMEM;
    }
    *ret = e;
    return 0;
}

/* `name` "": the sandbox itself. */
static int add_container_entry(struct pods *pods, const char *id, const struct pod_entry *pod, const char *name)
{
    const size_t bytes = sizeof(struct container_entry) + strlen(pod->pod.attributes) +
                         strlen("k8s.container.name\t\n") + strlen(name) + 1;
    if (HASH_COUNT(pods->by_id) >= PODS_CONTAINERS_MAX || !reserve_bytes(pods, bytes))
        return -ENOSPC;
    struct container_entry *e = calloc(1, bytes);
    if (!e)
        return -ENOMEM;
    e->pod = pod;
    memcpy(e->id, id, ID_BYTES);
    char *at = stpcpy(e->attributes, pod->pod.attributes);
    if (name[0])
        snprintf(at, bytes - (size_t)((char *)at - (char *)e), "k8s.container.name\t%s\n", name);
    HASH_ADD_STR(pods->by_id, id, e);
    if (!e->hh.tbl) {
        free(e);
        return -ENOMEM;
    }
    return 0;
}

/* A pod may have had several sandboxes; one of them is ready. */
static int add_sandbox(struct pods *pods, const struct sandbox *s, const struct label_keys *wanted)
{
    struct pod_entry *pod = find_pod(pods, s->uid);
    if (!s->id[0] || !s->uid[0] || !s->namespace[0] || !s->name[0] || find_container(pods, s->id))
        return -ENOSPC;
    int r = pod ? 0 : add_pod_entry(pods, s, wanted, &pod);
    if (r == 0)
        pod->pod.is_ready |= s->state == STATE_READY;
    return r < 0 ? r : add_container_entry(pods, s->id, pod, "");
}

static int add_container(struct pods *pods, const struct container *c)
{
    const struct container_entry *sandbox = find_container(pods, c->sandbox_id);
    if (!c->id[0] || !c->name[0] || !sandbox || find_container(pods, c->id))
        return -ENOSPC;
    return add_container_entry(pods, c->id, sandbox->pod, c->name);
}

static int read_sandboxes(struct pods *pods, struct cursor c, const struct label_keys *wanted)
{
    struct protobuf_field f;
    struct sandbox s;
    while (protobuf_next_field(&c, &f)) {
        if (f.number != LIST_ITEMS)
            continue;
        if (!read_sandbox(f.inside, wanted, &s))
            return -EBADMSG;
        int r = add_sandbox(pods, &s, wanted);
        if (r == -ENOMEM)
            return r;
        pods->left_out += r < 0;
    }
    return c.failed ? -EBADMSG : 0;
}

static int read_containers(struct pods *pods, struct cursor c)
{
    struct protobuf_field f;
    struct container container;
    while (protobuf_next_field(&c, &f)) {
        if (f.number != LIST_ITEMS)
            continue;
        if (!read_container(f.inside, &container))
            return -EBADMSG;
        int r = add_container(pods, &container);
        if (r == -ENOMEM)
            return r;
        pods->left_out += r < 0;
    }
    return c.failed ? -EBADMSG : 0;
}

int pods_read(const struct pods_replies *replies, const char *label_keys, struct pods **ret)
{
    struct label_keys wanted;
    struct pods *pods = calloc(1, sizeof(*pods));
    if (!pods)
        return -ENOMEM;
    atomic_init(&pods->references, 1);
    int r = read_keys(label_keys, &wanted) ? 0 : -EINVAL;
    if (r == 0)
        r = read_sandboxes(pods, cursor_make(replies->sandboxes, replies->sandboxes_size), &wanted);
    if (r == 0)
        r = read_containers(pods, cursor_make(replies->containers, replies->containers_size));
    if (r < 0)
        pods_unref(pods);
    else
        *ret = pods;
    return r;
}

struct pods *pods_ref(struct pods *pods)
{
    if (pods)
        atomic_fetch_add(&pods->references, 1);
    return pods;
}

void pods_unref(struct pods *pods)
{
    struct container_entry *container, *next_container;
    struct pod_entry *pod, *next_pod;
    const unsigned references = pods ? atomic_fetch_sub(&pods->references, 1) : 2;
    assert(references > 0);
    if (references > 1)
        return;
    HASH_ITER (hh, pods->by_id, container, next_container) {
        HASH_DEL(pods->by_id, container);
        free(container);
    }
    HASH_ITER (hh, pods->by_uid, pod, next_pod) {
        HASH_DEL(pods->by_uid, pod);
        free(pod);
    }
    free(pods);
}

/* ---- lookup ---- */

size_t pods_count(const struct pods *pods)
{
    return HASH_COUNT(pods->by_uid);
}

unsigned pods_left_out(const struct pods *pods)
{
    return pods->left_out;
}

const struct pod *pods_next(const struct pods *pods, const struct pod *before)
{
    const struct pod_entry *next = before ? ((const struct pod_entry *)before)->hh.next : pods->by_uid;
    return next ? &next->pod : NULL;
}

const char *pods_find(const struct pods *pods, const char *container_id, const char *pod_uid, bool *ret_is_whole)
{
    const struct container_entry *container = find_container(pods, container_id);
    const struct pod_entry *pod = container || !pod_uid[0] ? NULL : find_pod(pods, pod_uid);
    *ret_is_whole = container;
    return container ? container->attributes : pod ? pod->pod.attributes : NULL;
}

/* ---- selection ---- */

/* Parses "KEY=VALUE". */
static bool read_pair(const struct cursor *part, char key[PODS_KEY_BYTES], char value[VALUE_BYTES])
{
    const char *text = (const char *)part->data, *equals = memchr(text, '=', part->size);
    if (!equals)
        return false;
    const struct cursor name = cursor_make(text, (size_t)(equals - text)),
                        rest = cursor_make(equals + 1, part->size - name.size - 1);
    return name.size && copy_name(&name, key, PODS_KEY_BYTES, "-._/") && copy_name(&rest, value, VALUE_BYTES, "-._");
}

static bool check_labels(const char *text)
{
    char key[PODS_KEY_BYTES], value[VALUE_BYTES];
    struct cursor part;
    const size_t size = strlen(text);
    if (!size || text[size - 1] == ',')
        return false;
    while (next_part(&text, &part))
        if (!read_pair(&part, key, value))
            return false;
    return true;
}

static bool check_name(const char *text)
{
    const char *slash = strchr(text, '/');
    return slash && slash > text && slash[1] && is_name(text, (size_t)(slash - text), "-._") &&
           is_name(slash + 1, strlen(slash + 1), "-._");
}

bool pod_choice_check(enum pod_choice_kind kind, const char *text)
{
    return kind == POD_CHOICE_NAME ? check_name(text) : check_labels(text);
}

static bool has_label(const struct pod *pod, const char *key, const char *value)
{
    char line[sizeof(LABEL_PREFIX) + PODS_KEY_BYTES + VALUE_BYTES + 4];
    snprintf(line, sizeof(line), "\n" LABEL_PREFIX "%s\t%s\n", key, value);
    return strstr(pod->attributes, line); /* the leading line feed is safe: a label is never the first line */
}

bool pod_is_chosen(const struct pod *pod, enum pod_choice_kind kind, const char *text)
{
    char key[PODS_KEY_BYTES], value[VALUE_BYTES];
    struct cursor part;
    if (kind == POD_CHOICE_NAME) {
        const size_t size = strlen(pod->namespace);
        return strncmp(text, pod->namespace, size) == 0 && text[size] == '/' && strcmp(text + size + 1, pod->name) == 0;
    }
    while (next_part(&text, &part))
        if (!read_pair(&part, key, value) || !has_label(pod, key, value))
            return false;
    return true;
}

static bool has_key(const char *keys, const char *key)
{
    struct cursor part;
    while (next_part(&keys, &part))
        if (cursor_is(part, key))
            return true;
    return false;
}

bool pod_choice_add_keys(const char *labels, char *keys, size_t size)
{
    char key[PODS_KEY_BYTES], value[VALUE_BYTES];
    struct cursor part;
    while (next_part(&labels, &part)) {
        const size_t used = strlen(keys);
        if (!read_pair(&part, key, value))
            return false;
        if (!has_key(keys, key) &&
            (size_t)snprintf(keys + used, size - used, "%s%s", used ? "," : "", key) >= size - used)
            return false;
    }
    return pods_check_keys(keys);
}
