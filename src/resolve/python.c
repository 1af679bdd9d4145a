/* Names of CPython's frames; see python.h.
 *
 * A code object is known by its process, its address and a check of its unchanging part, which is made of the process's beginning
 * too: what was at the same address before, or in another process of the same number, is not taken for it. The oldest is
 * forgotten when there is no room. Of files, only those that are named like an interpreter are looked into, once each. */
#include "resolve/python.h"

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
#define READS_MAX   4 /* files, for one process at a time */
#define LINES_KNOWN 4096
#define MISSING_MAX 256
#define UTF8_MAX    4 /* bytes of a character */

struct code {
    struct python_missing key;
    UT_hash_handle hh;
    uint64_t id; /* never used again */
    size_t bytes;
    int32_t first_line;
    uint32_t instructions; /* where they begin in the code object */
    uint32_t lines_bytes;
    const char *function, *file; /* in `data`, as are the lines at its beginning */
    uint8_t data[];
};

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
    struct code *codes; /* in order of telling */
    size_t bytes, max_bytes;
    uint64_t next_id;
    size_t missing_count;
    struct python_missing missing[MISSING_MAX];
    size_t file_count, next_file;
    struct file files[FILES_MAX];
    struct known_line lines[LINES_KNOWN];
    char file_text[PYTHON_FILE_BYTES * UTF8_MAX + 1], name_text[PYTHON_NAME_BYTES * UTF8_MAX + 1];
    struct {
        uint64_t told, forgotten, unknown, unsupported;
    } count;
};

int pythons_new(size_t max_bytes, struct pythons **ret)
{
    struct pythons *p = calloc(1, sizeof(*p));
    if (!p)
        return -ENOMEM;
    p->max_bytes = max_bytes;
    *ret = p;
    return 0;
}

static void forget(struct pythons *p, struct code *c)
{
    HASH_DEL(p->codes, c);
    p->bytes -= c->bytes;
    free(c);
}

void pythons_free(struct pythons *p)
{
    if (!p)
        return;
    while (p->codes)
        forget(p, p->codes);
    free(p);
}

/* ---- files ---- */

static bool read_file(struct pythons *p, const struct process_mapping *m, struct file *file)
{
    _cleanup_(elf_file_freep) struct elf_file *elf = NULL;
    _cleanup_close_ int fd = object_open(m->object);
    int r = fd < 0 ? fd : elf_open(fd, &elf);
    if (r == 0) {
        take_fd(&fd);
        r = python_layout_read(elf, &file->python);
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

/* NULL: no interpreter. A file that was not read yet is, if `reads` are left. */
static const struct file *file_of(struct pythons *p, const struct process_mapping *m, unsigned *reads)
{
    if (!m->object || !m->path || !python_layout_is_likely(m->path))
        return NULL;
    for (size_t i = 0; i < p->file_count; i++)
        if (p->files[i].object == m->object->id)
            return p->files[i].is_readable ? &p->files[i] : NULL;
    if (*reads == 0)
        return NULL;
    --*reads;
    struct file file = {.object = m->object->id};
    if (!read_file(p, m, &file)) /* at present: asked again with the next change of the process */
        return NULL;
    struct file *place = &p->files[p->next_file];
    p->next_file = (p->next_file + 1) % FILES_MAX;
    if (p->file_count < FILES_MAX)
        p->file_count++;
    *place = file;
    return file.is_readable ? place : NULL;
}

/* Of honest processes an executable and a library at most; a hostile one may map thousands of what is named like one. */
bool pythons_layout(struct pythons *p, const struct process *process, struct python_layout *ret)
{
    unsigned reads = READS_MAX;
    for (size_t i = 0; i < process->mapping_count; i++) {
        const struct process_mapping *m = &process->mappings[i];
        const struct file *file = file_of(p, m, &reads);
        if (!file)
            continue;
        const uint64_t bias = m->start - m->file_offset + file->text_offset - file->text_vaddr;
        *ret = file->python.layout;
        ret->interpreters += bias + file->python.runtime_vaddr;
        ret->text_start = m->start;
        return true;
    }
    return false;
}

/* ---- code objects ---- */


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

void pythons_take(struct pythons *p, const struct python_code *record)
{
    const struct python_missing key = {.code = record->code, .pid = record->h.pid, .check = record->check};
    struct code *c;
    HASH_FIND(hh, p->codes, &key, sizeof(key), c);
    if (c) /* told once more */
        forget(p, c);
    const size_t file_bytes = convert(&record->file, record->file_data, sizeof(record->file_data), p->file_text);
    const size_t name_bytes = convert(&record->name, record->name_data, sizeof(record->name_data), p->name_text);
    const size_t bytes = sizeof(*c) + record->lines_bytes + file_bytes + name_bytes;
    while (p->codes && p->bytes + bytes > p->max_bytes) {
        forget(p, p->codes);
        p->count.forgotten++;
    }
    c = malloc(bytes);
    if (!c)
        return;
    *c = (struct code){.key = key,
                       .id = ++p->next_id,
                       .bytes = bytes,
                       .first_line = record->first_line,
                       .instructions = record->instructions,
                       .lines_bytes = record->lines_bytes};
    char *at = (char *)c->data + record->lines_bytes;
    memcpy(c->data, record->lines, record->lines_bytes);
    c->file = memcpy(at, p->file_text, file_bytes);
    c->function = memcpy(at + file_bytes, p->name_text, name_bytes);
    HASH_ADD(hh, p->codes, key, sizeof(c->key), c);
    if (!c->hh.tbl) {
        free(c);
        return;
    }
    p->bytes += bytes;
    p->count.told++;
}

/* Decoded once for an instruction that is met again and again. */
static uint32_t line_of(struct pythons *p, const struct code *c, uint32_t instruction)
{
    struct known_line *known = &p->lines[(c->id * 0x9e3779b9u + instruction) % LINES_KNOWN];
    if (known->code == c->id && known->instruction == instruction)
        return known->line;
    /* An instruction just before the first is one behind the object's beginning, too; what is further off is none. */
    const int64_t offset = (int64_t)instruction - c->instructions;
    const uint32_t line = instruction == UINT32_MAX ? 0 : python_line(c->data, c->lines_bytes, c->first_line, offset);
    *known = (struct known_line){c->id, instruction, line};
    return line;
}

int pythons_find(struct pythons *p, uint32_t pid, const struct python_entry *entry, struct python_name *ret)
{
    const struct python_missing key = {.code = entry->code, .pid = pid, .check = entry->check};
    struct code *c;
    HASH_FIND(hh, p->codes, &key, sizeof(key), c);
    if (!c) {
        if (entry->check && p->missing_count < MISSING_MAX) /* else it could not be read */
            p->missing[p->missing_count++] = key;
        p->count.unknown++;
        return -ENOENT;
    }
    *ret = (struct python_name){c->function, c->file, line_of(p, c, entry->instruction)};
    return 0;
}

size_t pythons_missing(struct pythons *p, struct python_missing *ret, size_t max)
{
    const size_t count = p->missing_count < max ? p->missing_count : max;
    memcpy(ret, p->missing, count * sizeof(*ret));
    p->missing_count = 0;
    return count;
}

void pythons_metrics(const struct pythons *p, struct metric_set *set)
{
    metric_add(set, "sonde_self_python_code_bytes", METRIC_GAUGE, "bytes", "Memory held by names and lines of Python code",
               (double)(p->bytes + sizeof(*p)), METRIC_NO_LABELS);
    metric_add(set, "sonde_self_python_code_forgotten", METRIC_COUNTER, "",
               "Python code objects forgotten to keep within bounds", (double)p->count.forgotten, METRIC_NO_LABELS);
    metric_add(set, "sonde_self_python_unsupported", METRIC_COUNTER, "",
               "Executable files with a Python whose frames cannot be read", (double)p->count.unsupported,
               METRIC_NO_LABELS);
}
