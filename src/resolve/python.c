/* CPython's frames: finds where a process keeps its interpreter, takes in what the kernel half tells of code objects (struct python_code),
 * and names the frames that samples carry.
 *
 * A code object is known by its process, its address and a check of its unchanging part, which is made of the process's beginning
 * too: what was at the same address before, or in another process of the same number, is not taken for it. What it says of itself
 * (its content) is held once for all that say the same, byte by byte: the workers of a server are forked from one program. When there
 * is no room, what was told or found least recently is forgotten. Of files, only a process's program and those that are named like an
 * interpreter are looked into, once each. A code object of a process costs 44 bytes; what it says (370 bytes on average), once for all processes where it
 * says the same. */
#include "resolve/interpreter.h"

#include "base/cleanup.h"
#include "resolve/elf.h"
#include "resolve/processes.h"
#include "resolve/python_layout.h"
#include "resolve/python_lines.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#define FILES_MAX   512
#define OTHERS_MAX  4096
#define READS_MAX   4 /* files, for one process at a time */
#define LINES_KNOWN 4096
#define MISSING_MAX 1024
#define UTF8_MAX    4 /* bytes of a character */

/* Of a code object, with `data` behind it: its lines, then its file and its function, each with a NUL. */
struct content_head {
    int32_t first_line;
    uint32_t lines_bytes, file_bytes;
    uint16_t instructions; /* where they begin (struct python_layout) */
    uint8_t lines_kind;    /* enum python_lines */
    uint8_t reserved;
};

struct content {
    UT_hash_handle hh;
    uint64_t id;              /* never used again */
    size_t codes;             /* that say this */
    struct content_head head; /* with the data: the key */
    uint8_t data[];
};
#define CONTENT_OVERHEAD 32 /* of the allocator, and of the table that it is in */

struct code {
    struct missing_code key;
    struct content *content;
    uint32_t next;         /* in the same place; of one that is free: the next free one; 0: none */
    uint32_t older, newer; /* by use. Of codes[0], which is no code object: the newest, the oldest */
};
#define CODE_BYTES (sizeof(struct code) + sizeof(uint32_t)) /* with its place */
#define CODES_MAX  (16 << 20)

struct file {
    uint64_t object; /* its id */
    bool is_readable;
    struct python_file python;
    uint64_t text_offset, text_vaddr; /* a place in its code */
};

struct known_line {
    uint64_t code; /* its id; 0: none */
    uint32_t instruction, line;
};

struct pythons {
    struct code *codes; /* the first of all is none */
    uint32_t *places;   /* as many as codes at most: the first code of each; 0: none */
    uint32_t max_codes, made_codes, free_code;
    struct content *contents;
    size_t content_bytes, max_content_bytes;
    uint64_t next_id;
    size_t missing_count;
    struct missing_code missing[MISSING_MAX];
    size_t file_count, next_file;
    struct file files[FILES_MAX]; /* interpreters, and what is named like one */
    size_t other_count, next_other;
    uint64_t others[OTHERS_MAX];  /* ids of programs that are none: on a large node more than there is room for in the files */
    size_t max_lines;
    struct known_line lines[LINES_KNOWN];
    struct {
        struct content_head head;
        uint8_t data[PYTHON_LINES_BYTES + PYTHON_FILE_BYTES * UTF8_MAX + 1 + PYTHON_NAME_BYTES * UTF8_MAX + 1];
    } told; /* at present */
    struct {
        uint64_t forgotten, unsupported;
    } count;
};

static size_t content_bytes(size_t key_bytes)
{
    return CONTENT_OVERHEAD + offsetof(struct content, head) + key_bytes;
}

static void content_free(struct pythons *p, struct content *c)
{
    HASH_DEL(p->contents, c);
    p->content_bytes -= content_bytes(c->hh.keylen);
    free(c);
}

static void pythons_free(void *self)
{
    struct pythons *p = self;
    if (!p)
        return;
    while (p->contents)
        content_free(p, p->contents);
    free(p->codes);
    free(p->places);
    free(p);
}

static void pythons_freep(struct pythons **p)
{
    pythons_free(*p);
}

/* Five eighths of the memory for the codes: of a server's workers each has all of them. The pages of what was never needed are none. */
static int pythons_open(size_t max_bytes, void **ret_self)
{
    _cleanup_(pythons_freep) struct pythons *p = calloc(1, sizeof(*p));
    if (!p)
        return -ENOMEM;
    const size_t max_codes = max_bytes / 8 * 5 / CODE_BYTES;
    p->max_codes = max_codes < 1 ? 1 : max_codes < CODES_MAX ? (uint32_t)max_codes : CODES_MAX;
    p->max_content_bytes = max_bytes / 8 * 3;
    p->max_lines = LINES_KNOWN;
    p->codes = calloc((size_t)p->max_codes + 1, sizeof(*p->codes));
    p->places = calloc(p->max_codes, sizeof(*p->places));
    if (!p->codes || !p->places)
        return -ENOMEM;
    *ret_self = take_ptr(p);
    return 0;
}

static void pythons_limit_cache(void *self, size_t entries)
{
    struct pythons *p = self;
    p->max_lines = entries < LINES_KNOWN ? entries : LINES_KNOWN;
}

/* ---- files ---- */

static bool read_file(struct pythons *p, const struct process_mapping *m, bool is_likely, struct file *file)
{
    _cleanup_(elf_file_freep) struct elf_file *elf = NULL;
    _cleanup_close_ int fd = object_open(m->object);
    if (fd < 0)
        return false;
    int r = elf_open(fd, &elf);
    if (r == 0) {
        take_fd(&fd);
        r = python_layout_read(elf, is_likely, &file->python);
    }
    if (r == -ETIMEDOUT || (elf && elf_error(elf) == -ETIMEDOUT))
        object_unreadable(m->object); /* nobody waits for its file system again */
    if (!elf)
        return false;
    p->count.unsupported += r == -ENOTSUP;
    file->text_offset = m->file_offset;
    file->is_readable = r == 0 && elf_vaddr_from_offset(elf, m->file_offset, &file->text_vaddr) == 0;
    return elf_error(elf) == 0;
}

static bool is_other(const struct pythons *p, uint64_t object)
{
    for (size_t i = 0; i < p->other_count; i++)
        if (p->others[i] == object)
            return true;
    return false;
}

static void put_other(struct pythons *p, uint64_t object)
{
    p->others[p->next_other] = object;
    p->next_other = (p->next_other + 1) % OTHERS_MAX;
    if (p->other_count < OTHERS_MAX)
        p->other_count++;
}

/* NULL: no interpreter. A file that was not read yet is, if `reads` are left. */
static const struct file *file_of(struct pythons *p, const struct process_mapping *m, bool is_program, unsigned *reads)
{
    const bool is_likely = m->path && python_layout_is_likely(m->path);
    if (!m->object || !m->path || (!is_program && !is_likely))
        return NULL;
    for (size_t i = 0; i < p->file_count; i++)
        if (p->files[i].object == m->object->id)
            return p->files[i].is_readable ? &p->files[i] : NULL;
    if (*reads == 0 || is_other(p, m->object->id))
        return NULL;
    --*reads;
    struct file file = {.object = m->object->id};
    if (!read_file(p, m, is_likely, &file)) /* at present: asked again with the next change of the process */
        return NULL;
    if (!file.is_readable && !is_likely) {
        put_other(p, file.object);
        return NULL;
    }
    struct file *place = &p->files[p->next_file];
    p->next_file = (p->next_file + 1) % FILES_MAX;
    if (p->file_count < FILES_MAX)
        p->file_count++;
    *place = file;
    return file.is_readable ? place : NULL;
}

/* Of honest processes an executable and a library at most; a hostile one may map thousands of what is named like one. */
static bool pythons_layout(void *self, const struct process *process, struct interpreter_layouts *ret)
{
    struct pythons *p = self;
    unsigned reads = READS_MAX;
    for (size_t i = 0; i < process->mapping_count; i++) {
        const struct process_mapping *m = &process->mappings[i];
        const struct file *file = file_of(p, m, i == 0, &reads); /* what lies lowest is the program */
        if (!file)
            continue;
        const uint64_t bias = m->start - m->file_offset + file->text_offset - file->text_vaddr;
        ret->python = file->python.layout;
        ret->python.interpreters += bias + file->python.runtime_vaddr;
        ret->python.text_start = m->start;
        return true;
    }
    return false;
}

/* ---- contents ---- */

static size_t put_utf8(uint32_t c, char *out)
{
    if (c < 0x20 || c == 0x7f) /* no newline of a name makes two lines of an output */
        c = '?';
    if (c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
        c = 0xfffd;
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    if (c < 0x800) {
        out[0] = (char)(0xc0 | c >> 6);
        out[1] = (char)(0x80 | (c & 63));
        return 2;
    }
    if (c < 0x10000) {
        out[0] = (char)(0xe0 | c >> 12);
        out[1] = (char)(0x80 | (c >> 6 & 63));
        out[2] = (char)(0x80 | (c & 63));
        return 3;
    }
    out[0] = (char)(0xf0 | c >> 18);
    out[1] = (char)(0x80 | (c >> 12 & 63));
    out[2] = (char)(0x80 | (c >> 6 & 63));
    out[3] = (char)(0x80 | (c & 63));
    return 4;
}

/* The text as UTF-8 with its NUL into `out`, which has room for `room` characters; how many bytes. */
static size_t convert(const struct python_text *text, const uint8_t *data, size_t data_bytes, char *out)
{
    const unsigned width = python_text_width(text);
    size_t count = width ? data_bytes / width : 0, used = 0;
    if (text->length < count)
        count = text->length;
    for (size_t i = 0; i < count; i++) {
        uint32_t c = 0;
        memcpy(&c, data + i * width, width); /* little-endian, as all that is on the wire */
        used += put_utf8(c, out + used);
    }
    out[used++] = '\0';
    return used;
}

/* What the record says into p->told; how many bytes. */
static size_t take_content(struct pythons *p, const struct python_code *record)
{
    uint8_t *at = p->told.data;
    memcpy(at, record->lines, record->lines_bytes);
    at += record->lines_bytes;
    const size_t file_bytes = convert(&record->file, record->file_data, sizeof(record->file_data), (char *)at);
    at += file_bytes;
    at += convert(&record->name, record->name_data, sizeof(record->name_data), (char *)at);
    p->told.head = (struct content_head){.first_line = record->first_line,
                                         .lines_bytes = record->lines_bytes,
                                         .file_bytes = (uint32_t)file_bytes,
                                         .instructions = record->instructions,
                                         .lines_kind = record->lines_kind};
    return (size_t)(at - (uint8_t *)&p->told);
}

/* Of p->told; NULL: memory is out. */
static struct content *content_new(struct pythons *p, size_t bytes)
{
    const size_t before = offsetof(struct content, head);
    struct content *c = malloc(before + bytes);
    if (!c)
        return NULL;
    memset(c, 0, before);
    c->id = ++p->next_id;
    memcpy((char *)c + before, &p->told, bytes);
    HASH_ADD_KEYPTR(hh, p->contents, (char *)c + before, bytes, c);
    if (!c->hh.tbl) {
        free(c);
        return NULL;
    }
    p->content_bytes += content_bytes(c->hh.keylen);
    return c;
}

static void content_release(struct pythons *p, struct content *c)
{
    if (--c->codes == 0)
        content_free(p, c);
}

/* ---- code objects ---- */

/* Where the number of the code stands, or would: 0 there: it is not known. */
static uint32_t *find(struct pythons *p, const struct missing_code *key)
{
    const uint64_t hash = python_told_hash(key->pid, key->code, key->check);
    uint32_t *at = &p->places[(hash >> 32) % p->max_codes];
    while (*at && memcmp(&p->codes[*at].key, key, sizeof(*key)) != 0)
        at = &p->codes[*at].next;
    return at;
}

static void take_out_of_order(struct pythons *p, const struct code *c)
{
    p->codes[c->older].newer = c->newer;
    p->codes[c->newer].older = c->older;
}

static void put_newest(struct pythons *p, struct code *c)
{
    struct code *ends = &p->codes[0];
    const uint32_t number = (uint32_t)(c - ends);
    c->older = ends->older;
    c->newer = 0;
    p->codes[c->older].newer = number;
    ends->older = number;
}

static void forget(struct pythons *p, uint32_t *at)
{
    const uint32_t number = *at;
    struct code *c = &p->codes[number];
    *at = c->next;
    take_out_of_order(p, c);
    content_release(p, c->content);
    c->next = p->free_code;
    p->free_code = number;
}

/* What there is no room for in the list is asked for when it is met. */
static void note_missing(struct pythons *p, const struct missing_code *key)
{
    if (p->missing_count < MISSING_MAX)
        p->missing[p->missing_count++] = *key;
}

static void forget_oldest(struct pythons *p)
{
    const struct missing_code key = p->codes[p->codes[0].newer].key;
    forget(p, find(p, &key));
    note_missing(p, &key);
    p->count.forgotten++;
}

/* With room for it; NULL: memory is out. */
static struct content *content_of(struct pythons *p, const struct python_code *record)
{
    const size_t bytes = take_content(p, record);
    struct content *c;
    HASH_FIND(hh, p->contents, &p->told, bytes, c);
    if (c)
        return c;
    while (p->codes[0].newer && p->content_bytes + content_bytes(bytes) > p->max_content_bytes)
        forget_oldest(p);
    return content_new(p, bytes);
}

/* One that is free, with room made for it. */
static struct code *code_new(struct pythons *p)
{
    if (!p->free_code && p->made_codes < p->max_codes)
        return &p->codes[++p->made_codes];
    if (!p->free_code)
        forget_oldest(p);
    struct code *c = &p->codes[p->free_code];
    p->free_code = c->next;
    return c;
}

static int pythons_take(void *self, const struct wire_header *header)
{
    struct pythons *p = self;
    const struct python_code *record = (const struct python_code *)header;
    if (!python_code_is_sound(record))
        return -EBADMSG;
    const struct missing_code key = {.code = record->code, .pid = record->h.pid, .check = record->check};
    struct content *content = content_of(p, record);
    if (!content) /* memory is out: told again when it is met */
        return 0;
    content->codes++; /* first: it is to stay while room is made */
    uint32_t *at = find(p, &key);
    if (*at) /* told once more */
        forget(p, at);
    struct code *c = code_new(p);
    at = find(p, &key); /* room was made */
    *c = (struct code){.key = key, .content = content};
    *at = (uint32_t)(c - p->codes);
    put_newest(p, c);
    return 0;
}

/* Decoded once for an instruction that is met again and again. */
static uint32_t line_of(struct pythons *p, const struct content *c, uint32_t instruction)
{
    const struct content_head *head = &c->head;
    struct known_line *known = &p->lines[(c->id * 0x9e3779b9u + instruction) % p->max_lines];
    if (known->code == c->id && known->instruction == instruction)
        return known->line;
    /* An instruction just before the first is one behind the object's beginning, too; what is further off is none. */
    const int64_t offset = (int64_t)instruction - head->instructions;
    const uint32_t line =
        instruction == UINT32_MAX ? 0 : python_line(head->lines_kind, c->data, head->lines_bytes, head->first_line, offset);
    *known = (struct known_line){c->id, instruction, line};
    return line;
}

/* The function is its co_qualname (before 3.11 co_name), the file its co_filename. A line of 0: the instruction has none, or its table is too
 * long to be told. */
static int pythons_find(void *self, uint32_t pid, const struct python_entry *entry, struct interpreted_name *ret)
{
    struct pythons *p = self;
    const struct missing_code key = {.code = entry->code, .pid = pid, .check = entry->check};
    const uint32_t number = *find(p, &key);
    if (!number) {
        if (entry->check) /* else it could not be read */
            note_missing(p, &key);
        return -ENOENT;
    }
    struct code *code = &p->codes[number];
    take_out_of_order(p, code);
    put_newest(p, code);
    const struct content *c = code->content;
    const char *file = (const char *)c->data + c->head.lines_bytes;
    *ret = (struct interpreted_name){file + c->head.file_bytes, file, line_of(p, c, entry->instruction)};
    return 0;
}

static size_t pythons_missing(void *self, struct missing_code *ret, size_t max)
{
    struct pythons *p = self;
    const size_t count = p->missing_count < max ? p->missing_count : max;
    p->missing_count -= count;
    memcpy(ret, &p->missing[p->missing_count], count * sizeof(*ret));
    return count;
}

/* ---- native functions ---- */

/* Also the part of it that the compiler put elsewhere. */
static bool is_evaluator(const char *function)
{
    static const char name[] = "_PyEval_EvalFrameDefault";
    if (strncmp(function, name, sizeof(name) - 1) != 0)
        return false;
    const char *rest = function + sizeof(name) - 1;
    return *rest == '\0' || strncmp(rest, ".cold", 5) == 0;
}

static bool is_without_frame(const char *function)
{
    return strcmp(function, "_Py_CheckFunctionResult") == 0 || strcmp(function, "_Py_CheckRecursiveCall") == 0;
}

static void pythons_metrics(const void *self, struct metric_set *set)
{
    const struct pythons *p = self;
    metric_add(set, "sonde_self_python_code_bytes", METRIC_GAUGE, "bytes", "Memory held by names and lines of Python code",
               (double)(sizeof(*p) + p->made_codes * CODE_BYTES + p->content_bytes), METRIC_NO_LABELS);
    metric_add(set, "sonde_self_python_code_forgotten", METRIC_COUNTER, "",
               "Python code objects forgotten to keep within bounds", (double)p->count.forgotten, METRIC_NO_LABELS);
    metric_add(set, "sonde_self_python_unsupported", METRIC_COUNTER, "",
               "Executable files with a Python whose frames cannot be read", (double)p->count.unsupported,
               METRIC_NO_LABELS);
}

const struct interpreter interpreter_cpython = {
    .frame_kind = FRAME_INTERPRETED,
    .mapping = "[python]",
    .record_kind = WIRE_PYTHON_CODE,
    .open = pythons_open,
    .limit_cache = pythons_limit_cache,
    .layout = pythons_layout,
    .take = pythons_take,
    .find = pythons_find,
    .is_evaluator = is_evaluator,
    .is_without_frame = is_without_frame,
    .missing = pythons_missing,
    .metrics = pythons_metrics,
    .free = pythons_free,
};
