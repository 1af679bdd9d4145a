/* CPython's frames: finds where a process keeps its interpreter, registers the code objects that the BPF side describes
 * (struct python_code), and names the frames of samples.
 *
 * A code object's key is its process, its address and a check over its constant part, which also covers the process's
 * start. So an earlier object at the same address, or in another process with the same PID, does not match. A code
 * object costs 44 bytes per process. Its description (names, file, line table; 370 bytes on average) is stored once for
 * all processes, because the workers of a server are forked from one program. At the memory bound the least recently
 * used code object is evicted.
 *
 * Only a process's program and files named like an interpreter are read, once each. */
#include "resolve/interpreter/interpreter.h"

#include "base/cleanup.h"
#include "base/utf8.h"
#include "resolve/interpreter/code_registry.h"
#include "resolve/interpreter/interpreter_files.h"
#include "resolve/interpreter/python_layout.h"
#include "resolve/interpreter/python_lines.h"
#include "resolve/interpreter/python_sleeping.h"
#include "resolve/process/processes.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define LINES_KNOWN 4096
#define UTF8_MAX    4 /* bytes per character */

/* Description of a code object. The line table, the file and the function follow; the latter two with a NUL. */
struct content_head {
    int32_t first_line;
    uint32_t lines_bytes, file_bytes;
    uint16_t instructions; /* offset of the first instruction (struct python_layout) */
    uint8_t lines_kind;    /* enum python_lines */
    uint8_t reserved;
};

struct known_line {
    uint64_t code; /* registered_code.id; 0: empty */
    uint32_t instruction, line;
};

struct pythons {
    struct code_registry *codes;
    struct interpreter_files *files;
    size_t max_lines;
    struct known_line lines[LINES_KNOWN];
    struct {
        struct content_head head;
        uint8_t data[PYTHON_LINES_BYTES + PYTHON_FILE_BYTES * UTF8_MAX + 1 + PYTHON_NAME_BYTES * UTF8_MAX + 1];
    } description; /* description of the record being registered */
};

static void pythons_free(void *self)
{
    struct pythons *p = self;
    if (!p)
        return;
    code_registry_free(p->codes);
    interpreter_files_free(p->files);
    free(p);
}

static void pythons_freep(struct pythons **p)
{
    pythons_free(*p);
}

static int read_layout(const struct elf_file *elf, bool is_likely, void *ret)
{
    return python_layout_read(elf, is_likely, ret);
}

static const struct interpreter_files_of files_of = {sizeof(struct python_file), python_layout_is_likely, read_layout};

static int pythons_open(size_t max_bytes, void **ret_self)
{
    _cleanup_(pythons_freep) struct pythons *p = calloc(1, sizeof(*p));
    if (!p)
        return -ENOMEM;
    int r = code_registry_new(max_bytes, &p->codes) ?: interpreter_files_new(&files_of, &p->files);
    if (r < 0)
        return r;
    p->max_lines = LINES_KNOWN;
    *ret_self = take_ptr(p);
    return 0;
}

static void pythons_limit_cache(void *self, size_t entries)
{
    struct pythons *p = self;
    p->max_lines = entries < LINES_KNOWN ? entries : LINES_KNOWN;
}

static int pythons_layout(void *self, const struct process *process, struct interpreter_layouts *ret)
{
    struct pythons *p = self;
    struct interpreter_files_look look = {.reads = INTERPRETER_FILES_READS};
    for (size_t i = 0; i < process->mapping_count; i++) {
        const struct process_mapping *m = &process->mappings[i];
        struct interpreter_file file;
        if (!interpreter_files_find(p->files, m, i == 0, &look, &file)) /* the lowest mapping is the program */
            continue;
        const struct python_file *python = file.contents;
        ret->python = python->layout;
        ret->python.interpreters += file.bias + python->runtime_vaddr;
        ret->python.text_start = m->start;
        return 0;
    }
    return interpreter_files_none(&look);
}

/* ---- descriptions ---- */

/* Converts the text to NUL-terminated UTF-8; `out` must hold UTF8_MAX bytes per character of `data`, and the NUL.
 * Returns the bytes written. */
static size_t text_to_utf8(const struct python_text *text, const uint8_t *data, size_t data_bytes, char *out)
{
    const unsigned width = python_text_width(text);
    size_t count = width ? data_bytes / width : 0, used = 0;
    if (text->length < count)
        count = text->length;
    for (size_t i = 0; i < count; i++) {
        uint32_t c = 0;
        memcpy(&c, data + i * width, width); /* event records are little-endian */
        used += utf8_put(c, out + used);
    }
    out[used++] = '\0';
    return used;
}

/* Writes the record's description into p->description. Returns its size in bytes. */
static size_t write_description(struct pythons *p, const struct python_code *record)
{
    uint8_t *at = p->description.data;
    memcpy(at, record->lines, record->lines_bytes);
    at += record->lines_bytes;
    const size_t file_bytes = text_to_utf8(&record->file, record->file_data, sizeof(record->file_data), (char *)at);
    at += file_bytes;
    at += text_to_utf8(&record->name, record->name_data, sizeof(record->name_data), (char *)at);
    p->description.head = (struct content_head){.first_line = record->first_line,
                                                .lines_bytes = record->lines_bytes,
                                                .file_bytes = (uint32_t)file_bytes,
                                                .instructions = record->instructions,
                                                .lines_kind = record->lines_kind};
    return (size_t)(at - (uint8_t *)&p->description);
}

/* ---- code objects ---- */

static int pythons_take(void *self, const struct record_header *header)
{
    struct pythons *p = self;
    const struct python_code *record = (const struct python_code *)header;
    if (!python_code_is_sound(record))
        return -EBADMSG;
    const struct missing_code key = {.code = record->code, .pid = record->h.pid, .check = record->check};
    code_registry_put(p->codes, &key, &p->description, write_description(p, record));
    return 0;
}

/* Cached, because the same instructions recur in many samples. */
static uint32_t lookup_line(struct pythons *p, const struct registered_code *c, uint32_t instruction)
{
    const struct content_head *head = (const struct content_head *)c->data;
    struct known_line *known = &p->lines[(c->id * 0x9e3779b9u + instruction) % p->max_lines];
    if (known->code == c->id && known->instruction == instruction)
        return known->line;
    /* An instruction just before the first one is valid; one before the code object is not. */
    const int64_t offset = (int64_t)instruction - head->instructions;
    const uint32_t line = instruction == UINT32_MAX ? 0
                                                    : python_line(head->lines_kind, (const uint8_t *)(head + 1),
                                                                  head->lines_bytes, head->first_line, offset);
    *known = (struct known_line){c->id, instruction, line};
    return line;
}

/* The function is co_qualname (co_name before 3.11), the file co_filename. Line 0: the instruction has none, or the
 * line table was too long for the record. */
static int pythons_find(void *self, uint32_t pid, const struct interpreter_entry *entry, struct interpreted_name *ret)
{
    struct pythons *p = self;
    const struct missing_code key = {.code = entry->code, .pid = pid, .check = entry->check};
    struct registered_code content;
    if (!code_registry_find(p->codes, &key, &content))
        return -ENOENT;
    const struct content_head *head = (const struct content_head *)content.data;
    const char *file = (const char *)(head + 1) + head->lines_bytes;
    *ret = (struct interpreted_name){
        .function = file + head->file_bytes, .file = file, .line = lookup_line(p, &content, entry->instruction)};
    return 0;
}

static int pythons_walk_sleeping(void *self, const struct sleeping_thread *thread, struct stack_record *record)
{
    struct interpreter_layouts layouts = {0};
    const int r = pythons_layout(self, thread->process, &layouts);
    return r < 0 ? r : python_sleeping_append(&layouts.python, thread, pythons_take, self, record);
}

static size_t pythons_missing(void *self, struct missing_code *ret, size_t max)
{
    return code_registry_missing(((struct pythons *)self)->codes, ret, max);
}

/* ---- native functions ---- */

/* Also matches the cold part, which the compiler places elsewhere. */
static bool is_evaluator(const char *function)
{
    static const char name[] = "_PyEval_EvalFrameDefault";
    if (strncmp(function, name, sizeof(name) - 1) != 0)
        return false;
    const char *rest = function + sizeof(name) - 1;
    return *rest == '\0' || strncmp(rest, ".cold", 5) == 0;
}

/* The trampoline that CPython generates for perf (-X perf), named "py::FUNCTION:FILE". It calls the evaluator of that
 * function. */
static bool is_part(const char *function)
{
    return strncmp(function, "py::", 4) == 0;
}

static bool is_without_frame(const char *function)
{
    return strcmp(function, "_Py_CheckFunctionResult") == 0 || strcmp(function, "_Py_CheckRecursiveCall") == 0;
}

static uint64_t pythons_unsupported(const void *self)
{
    return interpreter_files_unsupported(((const struct pythons *)self)->files);
}

static void pythons_metrics(const void *self, struct metric_set *set)
{
    const struct pythons *p = self;
    metric_add(set, "sonde_self_python_code_bytes", METRIC_GAUGE, "bytes",
               "Memory held by names and lines of Python code", (double)(sizeof(*p) + code_registry_bytes(p->codes)),
               METRIC_NO_LABELS);
    metric_add(set, "sonde_self_python_code_evicted", METRIC_COUNTER, "",
               "Python code objects evicted to keep within bounds", (double)code_registry_evicted(p->codes),
               METRIC_NO_LABELS);
    metric_add(set, "sonde_self_python_unsupported", METRIC_COUNTER, "",
               "Executable files with a Python whose frames cannot be read", (double)pythons_unsupported(p),
               METRIC_NO_LABELS);
}

const struct interpreter interpreter_cpython = {
    .name = "Python",
    .frame_kind = FRAME_INTERPRETED,
    .mapping = "[python]",
    .memory_share = 4,
    .record_kind = RECORD_PYTHON_CODE,
    .open = pythons_open,
    .limit_cache = pythons_limit_cache,
    .layout = pythons_layout,
    .walk_sleeping = pythons_walk_sleeping,
    .take = pythons_take,
    .find = pythons_find,
    .is_evaluator = is_evaluator,
    .is_without_frame = is_without_frame,
    .is_part = is_part,
    .missing = pythons_missing,
    .unsupported = pythons_unsupported,
    .metrics = pythons_metrics,
    .free = pythons_free,
};
