/* See process_context.h, and process_context.proto, resource.proto and common.proto of opentelemetry-proto.
 * Attributes that the node determines for every process are not taken from the process. An attribute that is
 * incomplete is dropped, never truncated: a truncated name would be a different name. */
#include "resolve/process/process_context.h"

#include "base/cleanup.h"
#include "base/protobuf.h"
#include "base/utf8.h"
#include "lib/otlp/fields.h"
#include "model/resource.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PAIRS_MAX 64

struct pair {
    char key[RESOURCE_KEY_BYTES];
    char value[RESOURCE_VALUE_BYTES + 1]; /* as in an attribute line: a TAB before an integer */
};

struct pairs {
    struct pair list[PAIRS_MAX];
    size_t count;
    unsigned left_out;
};

/* Copies a complete UTF-8 string of less than `size` bytes without control characters; false otherwise. */
static bool copy_text(const struct cursor *from, char *to, size_t size)
{
    if (from->size >= size || !from->data || memchr(from->data, '\0', from->size))
        return false;
    memcpy(to, from->data, from->size);
    to[from->size] = '\0';
    for (const char *at = to; *at;) {
        const size_t n = utf8_length(at);
        const unsigned char first = (unsigned char)at[0], second = (unsigned char)at[1];
        if (n == 0 || first < 0x20 || first == 0x7f || (first == 0xC2 && second < 0xA0))
            return false;
        at += n;
    }
    return true;
}

/* Converts to the form of an attribute line. `ret_whole` false: a type or value that is not kept. Returns false for
 * a malformed message. */
static bool read_value(struct cursor c, char ret[RESOURCE_VALUE_BYTES + 1], bool *ret_whole)
{
    struct protobuf_field f;
    *ret_whole = false;
    while (protobuf_next_field(&c, &f)) {
        if (f.number == ANY_VALUE_STRING) {
            *ret_whole = copy_text(&f.inside, ret, RESOURCE_VALUE_BYTES) && ret[0];
        } else if (f.number == ANY_VALUE_INT) {
            snprintf(ret, RESOURCE_VALUE_BYTES, "\t%" PRId64, (int64_t)f.value);
            *ret_whole = true;
        } else {
            *ret_whole = false;
        }
    }
    return !c.failed;
}

static bool is_known(const struct pairs *pairs, const char *key)
{
    for (size_t i = 0; i < pairs->count; i++)
        if (strcmp(pairs->list[i].key, key) == 0)
            return true;
    return false;
}

static bool read_pair(struct cursor c, struct pairs *pairs)
{
    struct protobuf_field f;
    struct pair pair = {0};
    bool has_key = false, has_value = false, good = true;
    while (good && protobuf_next_field(&c, &f)) {
        if (f.number == KEY_VALUE_KEY)
            has_key = copy_text(&f.inside, pair.key, sizeof(pair.key)) && pair.key[0];
        else if (f.number == KEY_VALUE_VALUE)
            good = read_value(f.inside, pair.value, &has_value);
    }
    if (!good || c.failed)
        return false;
    if (has_key && resource_is_of_node(pair.key))
        return true;
    if (!has_key || !has_value || pairs->count == PAIRS_MAX || is_known(pairs, pair.key))
        pairs->left_out++;
    else
        pairs->list[pairs->count++] = pair;
    return true;
}

static bool read_resource(struct cursor c, struct pairs *pairs)
{
    struct protobuf_field f;
    while (protobuf_next_field(&c, &f))
        if (f.number == RESOURCE_ATTRIBUTES && !read_pair(f.inside, pairs))
            return false;
    return !c.failed;
}

static bool read_context(struct cursor c, struct pairs *pairs)
{
    struct protobuf_field f;
    while (protobuf_next_field(&c, &f))
        if (f.number == PROCESS_CONTEXT_RESOURCE && !read_resource(f.inside, pairs))
            return false;
    return !c.failed;
}

static int compare_pairs(const void *left, const void *right)
{
    return strcmp(((const struct pair *)left)->key, ((const struct pair *)right)->key);
}

static char *service_field(struct identity_service *s, const char *key)
{
    return strcmp(key, "service.name") == 0        ? s->name
           : strcmp(key, "service.namespace") == 0 ? s->namespace
           : strcmp(key, "service.version") == 0   ? s->version
                                                   : NULL;
}

static void store_attribute(struct process_context *to, const struct pair *pair, size_t *size)
{
    char *field = service_field(&to->service, pair->key);
    const size_t value_bytes = strlen(pair->value), bytes = strlen(pair->key) + value_bytes + 2;
    if (field && pair->value[0] != '\t' && value_bytes < IDENTITY_SERVICE_BYTES) {
        memcpy(field, pair->value, value_bytes + 1);
    } else if (field || *size + bytes >= sizeof(to->attributes)) {
        to->left_out++;
    } else {
        snprintf(to->attributes + *size, sizeof(to->attributes) - *size, "%s\t%s\n", pair->key, pair->value);
        *size += bytes;
    }
}

int process_context_parse(const void *payload, size_t size, struct process_context *ret)
{
    _cleanup_free_ struct pairs *pairs = calloc(1, sizeof(*pairs));
    if (!pairs)
        return -ENOMEM;
    if (!read_context(cursor_make(payload, size), pairs))
        return -EBADMSG;
    qsort(pairs->list, pairs->count, sizeof(pairs->list[0]), compare_pairs);
    size_t at = 0;
    *ret = (struct process_context){.left_out = pairs->left_out};
    for (size_t i = 0; i < pairs->count; i++)
        store_attribute(ret, &pairs->list[i], &at);
    return 0;
}
