/* Interned paths of mapped files; see paths.h. */
#include "resolve/proc/paths.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

struct path_entry {
    struct paths *owner;
    UT_hash_handle hh;
    size_t references;
    char text[];
};

static struct path_entry *entry_of(const char *text)
{
    return (struct path_entry *)(text - offsetof(struct path_entry, text));
}

const char *paths_get(struct paths *p, const char *text)
{
    const size_t size = strlen(text);
    struct path_entry *e;
    HASH_FIND(hh, p->by_text, text, size, e);
    if (e)
        return path_retain(e->text);
    e = malloc(sizeof(*e) + size + 1);
    if (!e)
        return NULL;
    e->owner = p;
    e->references = 1;
    memcpy(e->text, text, size + 1);
    HASH_ADD(hh, p->by_text, text, size, e);
    p->bytes += sizeof(*e) + size + 1;
    return e->text;
}

const char *path_retain(const char *text)
{
    if (text)
        entry_of(text)->references++;
    return text;
}

void path_release(const char *text)
{
    struct path_entry *e = text ? entry_of(text) : NULL;
    assert(!e || e->references > 0);
    if (!e || --e->references > 0)
        return;
    e->owner->bytes -= sizeof(*e) + strlen(e->text) + 1;
    HASH_DELETE(hh, e->owner->by_text, e);
    free(e);
}
