/* Names native frames; see native_frames.h. A return address is looked up one byte earlier, at the call. */
#include "resolve/sample/native_frames.h"

#include "resolve/jit/jit.h"
#include "resolve/lines/line_objects.h"
#include "resolve/process/process.h"
#include "resolve/symbols/symbols.h"

#include <linux/types.h>

#include "probes/unwind/stack.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Memory for the strings of one sample: strings of `symbols` are valid only until its next lookup. */
#define STRING_CHUNK_BYTES 16384
#define STRINGS_MAX_BYTES  (4 << 20)

struct string_chunk {
    struct string_chunk *next;
    size_t used, capacity;
    char data[];
};

/* Frees all chunks of strings but one of the usual size, which is kept, empty, for the next sample. */
void native_frames_reset(struct native_frames *n)
{
    struct string_chunk *kept = NULL;
    for (struct string_chunk *c = n->strings, *next; c; c = next) {
        next = c->next;
        if (!kept && c->capacity == STRING_CHUNK_BYTES)
            kept = c;
        else
            free(c);
    }
    if (kept)
        *kept = (struct string_chunk){.capacity = kept->capacity};
    n->strings = kept;
    n->string_bytes = kept ? kept->capacity : 0;
    n->unanswered = 0;
}

void native_frames_clear(struct native_frames *n)
{
    native_frames_reset(n);
    free(n->strings);
    n->strings = NULL;
}

/* Returns "" if there is no memory: the frame has no name, which the caller counts. */
static const char *copy_string(struct native_frames *n, const char *text)
{
    const size_t size = strlen(text) + 1;
    if (size == 1)
        return "";
    struct string_chunk *c = n->strings;
    if (!c || c->capacity - c->used < size) {
        size_t capacity = size > STRING_CHUNK_BYTES ? size : STRING_CHUNK_BYTES;
        if (n->string_bytes + capacity > STRINGS_MAX_BYTES)
            return "";
        c = malloc(sizeof(*c) + capacity);
        if (!c)
            return "";
        *c = (struct string_chunk){.next = n->strings, .capacity = capacity};
        n->strings = c;
        n->string_bytes += capacity;
    }
    char *copy = c->data + c->used;
    memcpy(copy, text, size);
    c->used += size;
    return copy;
}

/* Names JIT code. A function of a runtime gets no address, so that it is the same frame in every process, wherever
 * its code is. */
static void name_jit_code(struct native_frames *n, const struct process *process, struct frame *frame)
{
    struct jit_name name;
    if (!n->jits || jits_find(n->jits, process, frame->address, &name) < 0)
        return;
    frame->kind = name.kind;
    frame->function = copy_string(n, name.function);
    frame->file = copy_string(n, name.file);
    frame->line = name.line;
    frame->is_first_line = true;
    if (name.kind == FRAME_NATIVE)
        return;
    frame->mapping = "";
    frame->address = 0;
}

static void name_frame(struct native_frames *n, const struct process *process, uint64_t address, struct frame *ret)
{
    *ret = frame_of_text(FRAME_NATIVE, "");
    ret->address = address & ~FRAME_EXACT;
    if (!(address & FRAME_EXACT) && ret->address)
        ret->address--;
    const struct process_mapping *m = process ? process_mapping_find(process, ret->address) : NULL;
    if (!m)
        return;
    if (!m->object || m->object->is_anonymous) { /* the latter: a memfd, which .NET maps twice for JIT code */
        ret->mapping = m->object ? m->path : "[anon]";
        name_jit_code(n, process, ret);
        return;
    }
    struct symbol symbol = {.function = "", .system_name = ""};
    n->unanswered +=
        symbols_find(n->symbols, m->object, ret->address - m->start + m->file_offset, &symbol) == -ETIMEDOUT;
    ret->function = copy_string(n, symbol.function);
    ret->system_name = copy_string(n, symbol.system_name);
    ret->mapping = m->path;
    ret->build_id = m->object->build_id;
    ret->address = symbol.address;
    ret->object = m->object;
    if (n->line_objects)
        line_objects_note(n->line_objects, m->object, m->path);
}

void native_frames_name(struct native_frames *n, const struct process *process, const uint64_t *addresses, size_t count,
                        struct frame *ret)
{
    for (size_t i = 0; i < count; i++)
        name_frame(n, process, addresses[i], &ret[i]);
}
