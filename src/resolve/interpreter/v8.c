/* V8's frames: finds processes that hold a V8 with debugger metadata (v8_layout.h), registers the functions that the
 * BPF side describes (struct v8_code), and names the frames of samples as --perf-basic-prof does (jit_name.h): by the
 * function's name, or the one that V8 infers from an assignment, or "(anonymous:LINE)" without either; with the script
 * and the line where the function begins.
 *
 * Only a process's program and files named like node's library are read, once each. */
#include "resolve/interpreter/interpreter.h"

#include "base/cleanup.h"
#include "base/utf8.h"
#include "resolve/elf/elf.h"
#include "resolve/interpreter/code_registry.h"
#include "resolve/interpreter/interpreter_files.h"
#include "resolve/interpreter/v8_layout.h"
#include "resolve/process/processes.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define UTF8_MAX 3 /* UTF-8 bytes per Latin-1 or UTF-16 code unit */

struct v8s {
    struct code_registry *codes;
    struct interpreter_files *files;
    struct {
        uint32_t line, file_bytes;
        char texts[(V8_FILE_BYTES + V8_NAME_BYTES) * UTF8_MAX + 2]; /* file, then function, each with a NUL */
    } content;                                                      /* description of the record being registered */
};

static void v8s_free(void *self)
{
    struct v8s *v = self;
    if (!v)
        return;
    code_registry_free(v->codes);
    interpreter_files_free(v->files);
    free(v);
}

static void v8s_freep(struct v8s **v)
{
    v8s_free(*v);
}

static int read_layout(const struct elf_file *elf, bool is_likely, void *ret)
{
    (void)is_likely;
    return elf_size(elf) < V8_FILE_MIN_BYTES ? -ENOENT : v8_layout_read(elf, ret);
}

static const struct interpreter_files_of files_of = {sizeof(struct v8_layout), v8_layout_is_likely, read_layout};

static int v8s_open(size_t max_bytes, void **ret_self)
{
    _cleanup_(v8s_freep) struct v8s *v = calloc(1, sizeof(*v));
    if (!v)
        return -ENOMEM;
    int r = code_registry_new(max_bytes, &v->codes) ?: interpreter_files_new(&files_of, &v->files);
    if (r < 0)
        return r;
    *ret_self = take_ptr(v);
    return 0;
}

static int v8s_layout(void *self, const struct process *process, struct interpreter_layouts *ret)
{
    struct v8s *v = self;
    struct interpreter_files_look look = {.reads = INTERPRETER_FILES_READS};
    for (size_t i = 0; i < process->mapping_count; i++) {
        struct interpreter_file file;
        if (!interpreter_files_find(v->files, &process->mappings[i], i == 0, &look,
                                    &file)) /* the lowest mapping is the program */
            continue;
        ret->v8 = *(const struct v8_layout *)file.contents;
        ret->runtime = INTERPRETER_V8;
        return 0;
    }
    return interpreter_files_none(&look);
}

/* ---- functions ---- */

static uint32_t code_unit_at(const uint8_t *data, size_t i, unsigned width)
{
    return width == 1 ? data[i] : (uint32_t)data[2 * i] | (uint32_t)data[2 * i + 1] << 8;
}

/* Converts the text to NUL-terminated UTF-8; `out` must be large enough. Returns the bytes written. */
static size_t text_to_utf8(const struct v8_text *text, const uint8_t *data, char *out)
{
    size_t used = 0;
    for (size_t i = 0; i < text->length && text->width; i++) {
        uint32_t c = code_unit_at(data, i, text->width);
        const uint32_t low =
            c >= 0xd800 && c < 0xdc00 && i + 1 < text->length ? code_unit_at(data, i + 1, text->width) : 0;
        if (low >= 0xdc00 && low < 0xe000) {
            c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
            i++;
        }
        used += utf8_put(c, out + used);
    }
    out[used++] = '\0';
    return used;
}

/* A name that could not be read is stored as "": the frame stays unnamed, and is counted. */
static int v8s_take(void *self, const struct record_header *header)
{
    struct v8s *v = self;
    const struct v8_code *record = (const struct v8_code *)header;
    if (!v8_code_is_sound(record))
        return -EBADMSG;
    const struct missing_code key = {.code = record->code, .pid = record->h.pid, .check = record->check};
    v->content.file_bytes = (uint32_t)text_to_utf8(&record->file, record->file_data, v->content.texts);
    v->content.line = v->content.texts[0] ? record->line : 0;
    char *name = v->content.texts + v->content.file_bytes;
    size_t name_bytes = text_to_utf8(&record->name, record->name_data, name);
    if (record->name.width && !name[0])
        name_bytes = (size_t)snprintf(name, V8_NAME_BYTES, "(anonymous:%" PRIu32 ")", v->content.line) + 1;
    code_registry_put(v->codes, &key, &v->content,
                      offsetof(typeof(v->content), texts) + v->content.file_bytes + name_bytes);
    return 0;
}

static int v8s_find(void *self, uint32_t pid, const struct interpreter_entry *entry, struct interpreted_name *ret)
{
    struct v8s *v = self;
    const struct missing_code key = {.code = entry->code, .pid = pid, .check = entry->check};
    struct registered_code found;
    if (!code_registry_find(v->codes, &key, &found))
        return -ENOENT;
    const typeof(v->content) *content = (const void *)found.data;
    const char *function = content->texts + content->file_bytes;
    if (!function[0])
        return -ENOENT;
    *ret = (struct interpreted_name){
        .function = function, .file = content->texts, .line = content->line, .is_first_line = true};
    return 0;
}

static size_t v8s_missing(void *self, struct missing_code *ret, size_t max)
{
    return code_registry_missing(((struct v8s *)self)->codes, ret, max);
}

/* The function that enters the bytecode interpreter; as a caller it shares the frame of the JavaScript function. */
static bool is_evaluator(const char *function)
{
    return strcmp(function, "Builtins_InterpreterEntryTrampoline") == 0;
}

/* Bytecode handlers, which run in their function's frame or in a small one of their own. */
static bool is_part(const char *function)
{
    static const char begin[] = "Builtins_", end[] = "Handler";
    const size_t n = strlen(function);
    return n > sizeof(begin) + sizeof(end) && strncmp(function, begin, sizeof(begin) - 1) == 0 &&
           strcmp(function + n - (sizeof(end) - 1), end) == 0;
}

static uint64_t v8s_unsupported(const void *self)
{
    return interpreter_files_unsupported(((const struct v8s *)self)->files);
}

static void v8s_metrics(const void *self, struct metric_set *set)
{
    const struct v8s *v = self;
    metric_add(set, "sonde_self_v8_code_bytes", METRIC_GAUGE, "bytes", "Memory held by names of JavaScript functions",
               (double)(sizeof(*v) + code_registry_bytes(v->codes)), METRIC_NO_LABELS);
    metric_add(set, "sonde_self_v8_code_evicted", METRIC_COUNTER, "",
               "JavaScript functions evicted to keep within bounds", (double)code_registry_evicted(v->codes),
               METRIC_NO_LABELS);
    metric_add(set, "sonde_self_v8_unsupported", METRIC_COUNTER, "",
               "Executable files with a V8 whose frames cannot be read", (double)v8s_unsupported(v), METRIC_NO_LABELS);
}

const struct interpreter interpreter_v8 = {
    .name = "Node (V8)",
    .frame_kind = FRAME_V8JS,
    .mapping = "[v8]",
    .memory_share = 4,
    .record_kind = RECORD_V8_CODE,
    .open = v8s_open,
    .layout = v8s_layout,
    .take = v8s_take,
    .find = v8s_find,
    .is_evaluator = is_evaluator,
    .is_part = is_part,
    .missing = v8s_missing,
    .unsupported = v8s_unsupported,
    .metrics = v8s_metrics,
    .free = v8s_free,
};
