/* Two rounds of files, those that hold an interpreter or are named like one, and programs that do not; see
 * interpreter_files.h. */
#include "resolve/interpreter/interpreter_files.h"

#include "resolve/object/object_elf.h"
#include "resolve/process/processes.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define FILES_MAX  512
#define OTHERS_MAX 4096 /* on a large node there are more programs than there is room for in the files */

struct file {
    uint64_t object; /* its id */
    bool is_readable;
    uint64_t text_offset, text_vaddr; /* a place in its code */
};

struct interpreter_files {
    const struct interpreter_files_of *of;
    size_t count, next;
    struct file files[FILES_MAX];
    size_t other_count, next_other;
    uint64_t others[OTHERS_MAX]; /* ids of programs that hold none */
    uint64_t unsupported;
    _Alignas(8) uint8_t told[]; /* of->bytes a file, and behind them of the one that is read */
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

/* An error: it cannot be read at present. */
static int read_file(struct interpreter_files *f, const struct process_mapping *m, bool is_likely, struct file *file,
                     void *ret_told)
{
    _cleanup_(elf_file_freep) struct elf_file *elf = NULL;
    int r = object_open_elf(m->object, &elf);
    if (r < 0)
        return r;
    r = f->of->read(elf, is_likely, ret_told);
    if (r == -ETIMEDOUT || elf_error(elf) == -ETIMEDOUT)
        object_unreadable(m->object); /* nobody waits for its file system again */
    f->unsupported += r == -ENOTSUP;
    file->text_offset = m->file_offset;
    file->is_readable = r == 0 && elf_vaddr_from_offset(elf, m->file_offset, &file->text_vaddr) == 0;
    return elf_error(elf);
}

static bool is_other(const struct interpreter_files *f, uint64_t object)
{
    for (size_t i = 0; i < f->other_count; i++)
        if (f->others[i] == object)
            return true;
    return false;
}

static void put_other(struct interpreter_files *f, uint64_t object)
{
    f->others[f->next_other] = object;
    f->next_other = (f->next_other + 1) % OTHERS_MAX;
    if (f->other_count < OTHERS_MAX)
        f->other_count++;
}

/* Its number, or FILES_MAX: it is not known, and is not to be. */
static size_t number_of(struct interpreter_files *f, const struct process_mapping *m, bool is_program,
                        struct interpreter_files_look *look)
{
    const bool is_likely = m->path && f->of->is_likely(m->path);
    if (!m->object || !m->path || (!is_program && !is_likely))
        return FILES_MAX;
    for (size_t i = 0; i < f->count; i++)
        if (f->files[i].object == m->object->id)
            return i;
    if (is_other(f, m->object->id))
        return FILES_MAX;
    if (look->reads == 0) {
        look->is_busy = true;
        return FILES_MAX;
    }
    look->reads--;
    const size_t at = f->next;
    uint8_t *told = f->told + FILES_MAX * f->of->bytes;
    struct file file = {.object = m->object->id};
    int r = read_file(f, m, is_likely, &file, told);
    if (r < 0) {
        look->is_busy |= object_error_is_passing(r);
        return FILES_MAX;
    }
    if (!file.is_readable && !is_likely) {
        put_other(f, file.object);
        return FILES_MAX;
    }
    f->files[at] = file;
    memcpy(f->told + at * f->of->bytes, told, f->of->bytes);
    f->next = (at + 1) % FILES_MAX;
    if (f->count < FILES_MAX)
        f->count++;
    return at;
}

bool interpreter_files_find(struct interpreter_files *f, const struct process_mapping *m, bool is_program,
                            struct interpreter_files_look *look, struct interpreter_file *ret)
{
    const size_t at = number_of(f, m, is_program, look);
    if (at == FILES_MAX || !f->files[at].is_readable)
        return false;
    const struct file *file = &f->files[at];
    *ret = (struct interpreter_file){
        .told = f->told + at * f->of->bytes,
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
