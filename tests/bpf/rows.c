/* Reads /proc/PID/maps and builds an unwind table for every file; slow and simple. */
#include "rows.h"

#include "base/cleanup.h"
#include "resolve/unwind/cfi.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>

static int open_vdso(pid_t pid, uint64_t start, uint64_t end)
{
    _cleanup_free_ void *data = malloc(end - start);
    struct iovec local = {data, end - start}, remote = {(void *)start, end - start};
    _cleanup_close_ int fd = memfd_create("vdso", MFD_CLOEXEC);

    if (!data || fd < 0 || process_vm_readv(pid, &local, 1, &remote, 1, 0) != (ssize_t)(end - start))
        return -EIO;
    if (write(fd, data, end - start) != (ssize_t)(end - start))
        return -EIO;
    return take_fd(&fd);
}

static uint32_t put_file(struct unwind_tables *tables, pid_t pid, const struct unwind_mapping *m, const char *path)
{
    _cleanup_(unwind_table_freep) struct unwind_table *table = NULL;
    _cleanup_(elf_file_freep) struct elf_file *elf = NULL;
    _cleanup_close_ int fd = -1;
    uint32_t object;

    if (strcmp(path, "[vdso]") == 0)
        fd = open_vdso(pid, m->start, m->end);
    else
        fd = path[0] == '/' ? open(path, O_RDONLY | O_CLOEXEC) : -ENOENT;
    if (fd < 0 || elf_open(fd, &elf) < 0)
        return UNWIND_OBJECT_NO_CODE;
    (void)take_fd(&fd);
    if (cfi_build(elf, &table) < 0)
        return UNWIND_OBJECT_NO_CODE;
    if (unwind_tables_put_object(tables, table->values, table->value_count, &object) < 0)
        return UNWIND_OBJECT_NO_CODE;
    return object;
}

int unwind_load_process_mappings(struct unwind_tables *tables, pid_t pid, struct loaded_mappings *ret)
{
    struct unwind_mapping *mappings = ret->mappings;
    _cleanup_fclose_ FILE *maps = NULL;
    char path[64], line[4096], file[4096];
    size_t count = 0;
    int r;

    snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
    maps = fopen(path, "re");
    if (!maps)
        return -errno;
    while (fgets(line, sizeof(line), maps) && count < LOADED_MAPPINGS_MAX) {
        struct unwind_mapping m;
        char permissions[8];

        file[0] = 0;
        if (sscanf(line, "%lx-%lx %7s %lx %*s %*s %4095[^\n]", &m.start, &m.end, permissions, &m.file_offset, file) < 4)
            return -EBADMSG;
        if (permissions[2] != 'x')
            continue;
        m.object = put_file(tables, pid, &m, file);
        mappings[count++] = m;
    }
    r = unwind_tables_put_process(tables, (uint32_t)pid, mappings, count, NULL);
    if (r < 0)
        return r;
    r = unwind_tables_settle(tables);
    ret->count = count;
    return r < 0 ? r : (int)count;
}

int unwind_load_process(struct unwind_tables *tables, pid_t pid)
{
    struct loaded_mappings loaded;

    return unwind_load_process_mappings(tables, pid, &loaded);
}
