/* Reads goroutine labels; see sample_labels.h. Go keeps labels in a map, without order; they are sorted by key so that
 * equal sets compare equal. */
#include "resolve/sample/sample_labels.h"

#include "base/utf8.h"

#include "probes/unwind/stack.h"

#include <string.h>

#define ELLIPSIS       "\xE2\x80\xA6"
#define SEQUENCE_BYTES 4 /* maximum length in UTF-8 */

/* The size without an incomplete UTF-8 sequence at the end. */
static size_t size_without_partial_sequence(const char *text, size_t size)
{
    for (size_t back = 1; back <= size && back < SEQUENCE_BYTES; back++) {
        const unsigned char byte = (unsigned char)text[size - back];
        if ((byte & 0xc0) == 0x80)
            continue;
        return byte >= 0xc0 && !utf8_length(text + size - back) ? size - back : size;
    }
    return size;
}

/* Converts to NUL-terminated UTF-8. `from` has `capacity` bytes; `bytes` is the original length. `to` must hold 3 *
 * capacity bytes and an ellipsis. */
static void copy_text(const __u8 *from, __u32 bytes, size_t capacity, char *to)
{
    char text[GO_LABEL_VALUE_BYTES + 1];
    size_t size = bytes < capacity ? bytes : capacity;
    memcpy(text, from, size);
    text[size] = '\0';
    if (bytes > capacity)
        text[size_without_partial_sequence(text, size)] = '\0';
    for (const char *c = text; *c;) {
        const size_t length = utf8_length(c);
        memcpy(to, length ? c : UTF8_REPLACEMENT, length ? length : sizeof(UTF8_REPLACEMENT) - 1);
        to += length ? length : sizeof(UTF8_REPLACEMENT) - 1;
        c += length ? length : 1;
    }
    memcpy(to, bytes > capacity ? ELLIPSIS : "", bytes > capacity ? sizeof(ELLIPSIS) : 1);
}

void sample_labels_read(const struct stack_record *record, struct sample_labels *ret)
{
    const struct go_label *labels = stack_record_labels(record);
    ret->count = 0;
    for (size_t i = 0; i < record->labels; i++) {
        const struct sample_label label = {ret->keys[i], ret->values[i]};
        copy_text(labels[i].key, labels[i].key_bytes, sizeof(labels[i].key), ret->keys[i]);
        copy_text(labels[i].value, labels[i].value_bytes, sizeof(labels[i].value), ret->values[i]);
        size_t at = ret->count;
        while (at > 0 && strcmp(ret->at[at - 1].key, label.key) > 0)
            at--;
        if (!label.key[0] || (at > 0 && strcmp(ret->at[at - 1].key, label.key) == 0))
            continue;
        memmove(&ret->at[at + 1], &ret->at[at], (ret->count - at) * sizeof(*ret->at));
        ret->at[at] = label;
        ret->count++;
    }
}
