/* Two ring buffers: files that hold an interpreter or are named like one, and programs that hold none; see
 * interpreter_files.h. */
#include "resolve/interpreter/interpreter_files.h"

#include "resolve/object/object_elf.h"
#include "resolve/process/processes.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define FILES_MAX  512
#define OTHERS_MAX 4096 /* a large node has more programs than FILES_MAX */

struct file {
    uint64_t object; /* object id */
    bool is_readable;
    uint64_t text_offset, text_vaddr; /* one pair of file offset and virtual address, for the load bias */
};

struct interpreter_files {
    const struct interpreter_files_of *of;
    size_t count, next;
    struct file files[FILES_MAX];
    size_t other_count, next_other;
    uint64_t others[OTHERS_MAX]; /* object ids of programs without an interpreter */
    uint64_t unsupported;
    _Alignas(8) uint8_t contents[]; /* of->bytes per file, plus a scratch slot at the end for the file being read */
};

int interpreter_files_new(const struct interpreter_files_of *of, struct interpreter_files **ret)
{
    struct interpreter_files *f = calloc(1, sizeof(*f) + (FILES_MAX + 1) * of->bytes);
    if (!f)
        return -ENOMEM;
    f->of = of;
    *ret = f;
    return 0;
}

void interpreter_files_free(struct interpreter_files *f)
{
    free(f);
}

/* Fills `file` and `ret_contents`. On error the file cannot be read at present; nothing is cached. */
static int read_file(struct interpreter_files *f, const struct process_mapping *m, bool is_likely, struct file *file,
                     void *ret_contents)
{
    _cleanup_(elf_file_freep) struct elf_file *elf = NULL;
    int r = object_open_elf(m->object, &elf);
    if (r < 0)
        return r;
    r = f->of->read(elf, is_likely, ret_contents);
    if (r == -ETIMEDOUT || elf_error(elf) == -ETIMEDOUT)
        object_unreadable(m->object); /* never block on its file system again */
    f->unsupported += r == -ENOTSUP;
    file->text_offset = m->file_offset;
    file->is_readable = r == 0 && elf_vaddr_from_offset(elf, m->file_offset, &file->text_vaddr) == 0;
    return elf_error(elf);
}

static bool is_known_other(const struct interpreter_files *f, uint64_t object)
{
    for (size_t i = 0; i < f->other_count; i++)
        if (f->others[i] == object)
            return true;
    return false;
}

static void add_other(struct interpreter_files *f, uint64_t object)
{
    f->others[f->next_other] = object;
    f->next_other = (f->next_other + 1) % OTHERS_MAX;
    if (f->other_count < OTHERS_MAX)
        f->other_count++;
}

/* Index of the mapping's file; reads it if necessary. FILES_MAX: not of interest, without an interpreter, or not
 * readable now. */
static size_t find_or_read(struct interpreter_files *f, const struct process_mapping *m, bool is_program,
                           struct interpreter_files_look *look)
{
    const bool is_likely = m->path && f->of->is_likely(m->path);
    if (!m->object || !m->path || (!is_program && !is_likely))
        return FILES_MAX;
    for (size_t i = 0; i < f->count; i++)
        if (f->files[i].object == m->object->id)
            return i;
    if (is_known_other(f, m->object->id))
        return FILES_MAX;
    if (look->reads == 0) {
        look->is_busy = true;
        return FILES_MAX;
    }
    look->reads--;
    const size_t at = f->next;
    uint8_t *contents = f->contents + FILES_MAX * f->of->bytes;
    struct file file = {.object = m->object->id};
    int r = read_file(f, m, is_likely, &file, contents);
    if (r < 0) {
        look->is_busy |= object_error_is_passing(r);
        return FILES_MAX;
    }
    if (!file.is_readable && !is_likely) {
        add_other(f, file.object);
        return FILES_MAX;
    }
    f->files[at] = file;
    memcpy(f->contents + at * f->of->bytes, contents, f->of->bytes);
    f->next = (at + 1) % FILES_MAX;
    if (f->count < FILES_MAX)
        f->count++;
    return at;
}

bool interpreter_files_find(struct interpreter_files *f, const struct process_mapping *m, bool is_program,
                            struct interpreter_files_look *look, struct interpreter_file *ret)
{
    const size_t at = find_or_read(f, m, is_program, look);
    if (at == FILES_MAX || !f->files[at].is_readable)
        return false;
    const struct file *file = &f->files[at];
    *ret = (struct interpreter_file){
        .contents = f->contents + at * f->of->bytes,
        .bias = m->start - m->file_offset + file->text_offset - file->text_vaddr,
        .object = file->object,
    };
    return true;
}

int interpreter_files_none(const struct interpreter_files_look *look)
{
    return look->is_busy ? -EBUSY : -ENOENT;
}

uint64_t interpreter_files_unsupported(const struct interpreter_files *f)
{
    return f->unsupported;
}
