/* Opens files with DWARF; see line_files.h. */
#include "resolve/lines/line_files.h"

#include "resolve/elf/debug_files.h"
#include "resolve/object/object_elf.h"
#include "resolve/remote/remote_file.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>

#define COPY_PIECE (256u << 10)
#define DEBUG_ROOT "/usr/lib/debug"

static int open_in_own_root(const void *object, const char *path)
{
    return object_open_in_own_root(object, path);
}

static int open_in_process_root(const void *object, const char *path)
{
    return object_open_in_process_root(object, path);
}

static int copy_range(const struct elf_file *file, int to, uint64_t offset, uint64_t size, uint64_t *left)
{
    _cleanup_free_ char *piece = malloc(COPY_PIECE);
    if (!piece)
        return -ENOMEM;
    if (offset > elf_size(file) || size > elf_size(file) - offset) /* left to libdw to report */
        return 0;
    if (size > *left)
        return -EFBIG;
    *left -= size;
    while (size) {
        const size_t n = size < COPY_PIECE ? (size_t)size : COPY_PIECE;
        int r = elf_read(file, offset, piece, n);
        if (r < 0)
            return r;
        if (pwrite(to, piece, n, (off_t)offset) != (ssize_t)n)
            return -ENOSPC;
        offset += n;
        size -= n;
    }
    return 0;
}

static bool is_dwarf_section(const struct elf_section *s)
{
    static const char *const names[] = {".debug_", ".zdebug_", ".gnu_debugaltlink", ".shstrtab"};
    bool wanted = false;
    for (size_t i = 0; i < array_size(names); i++)
        wanted |= strncmp(s->name, names[i], strlen(names[i])) == 0;
    return wanted && s->type != SHT_NOBITS;
}

/* Copies only the DWARF sections into a sparse memfd of the same size, so that file offsets stay valid. */
static int copy_dwarf(const struct elf_file *file, uint64_t copy_max)
{
    Elf64_Ehdr header;
    const struct elf_section *sections;
    const size_t count = elf_sections(file, &sections);
    uint64_t left = copy_max;
    _cleanup_close_ int copy = memfd_create("sonde-lines", MFD_CLOEXEC);
    if (copy < 0 || ftruncate(copy, (off_t)elf_size(file)) < 0)
        return -errno;
    int r = elf_read(file, 0, &header, sizeof(header));
    if (r == 0)
        r = copy_range(file, copy, 0, sizeof(header), &left);
    if (r == 0)
        r = copy_range(file, copy, header.e_phoff, (uint64_t)header.e_phnum * header.e_phentsize, &left);
    if (r == 0)
        r = copy_range(file, copy, header.e_shoff, (uint64_t)count * header.e_shentsize, &left);
    for (size_t i = 0; r == 0 && i < count; i++)
        if (is_dwarf_section(&sections[i]))
            r = copy_range(file, copy, sections[i].offset, sections[i].size_bytes, &left);
    return r < 0 ? r : take_fd(&copy);
}

/* A descriptor whose reads never block. */
static int nonblocking_descriptor(const struct elf_file *file, uint64_t copy_max)
{
    if (remote_file_is(elf_descriptor(file)))
        return copy_dwarf(file, copy_max);
    const int fd = fcntl(elf_descriptor(file), F_DUPFD_CLOEXEC, 3);
    return fd < 0 ? -errno : fd;
}

static int open_object(const struct object *object, struct elf_file **ret)
{
    int r = object_open_elf(object, ret);
    return r == -ENOEXEC ? -ENODATA : r;
}

static int open_with_alternative(const struct elf_file *file, const char *path, const struct debug_search *search,
                                 uint64_t copy_max, struct line_files *ret)
{
    _cleanup_(elf_file_freep) struct elf_file *alternative = NULL;
    struct line_files files = {.fd = nonblocking_descriptor(file, copy_max), .alt_fd = -1};
    if (files.fd < 0)
        return files.fd;
    if (debug_files_find_alternative(file, path, search, &files.misses_alternative, &alternative) == 0) {
        files.alt_fd = nonblocking_descriptor(alternative, copy_max);
        files.misses_alternative = files.alt_fd < 0;
    }
    *ret = files;
    return 0;
}

int line_files_open(const struct object *object, const char *debug_root, const struct debug_fetcher *fetcher,
                    uint64_t copy_max, struct line_files *ret)
{
    char debug_path[DEBUG_PATH_BYTES] = "";
    _cleanup_(elf_file_freep) struct elf_file *own = NULL;
    _cleanup_(elf_file_freep) struct elf_file *debug = NULL;
    struct debug_search search = {.path = object->path,
                                  .build_id = object->build_id,
                                  .root = debug_root ? debug_root : DEBUG_ROOT,
                                  .wants_dwarf = true,
                                  .found_path = debug_path,
                                  .open_in_own_root = open_in_own_root,
                                  .open_in_process_root = open_in_process_root,
                                  .context = object,
                                  .fetcher = fetcher};
    int r = open_object(object, &own);
    if (r < 0)
        return r;
    if (debug_files_has_dwarf(own))
        return open_with_alternative(own, object->path, &search, copy_max, ret);
    r = debug_files_find(own, &search, &debug);
    if (r < 0)
        return r == -EAGAIN || r == -ECANCELED ? r : -ENODATA;
    search.found_path = NULL;
    return open_with_alternative(debug, debug_path, &search, copy_max, ret);
}

int line_files_open_split(const struct object *object, const char *path, uint64_t copy_max)
{
    if (path[0] != '/')
        return -ENOENT;
    int fd = object_open_in_process_root(object, path);
    if (fd < 0)
        fd = object_open_in_own_root(object, path);
    if (fd < 0)
        return fd;
    _cleanup_(elf_file_freep) struct elf_file *file = NULL;
    int r = elf_open(fd, &file);
    if (r < 0) {
        close(fd);
        return -ENOENT;
    }
    const struct elf_section *split = elf_section(file, ".debug_info.dwo");
    return split && split->type != SHT_NOBITS ? nonblocking_descriptor(file, copy_max) : -ENOENT;
}

bool line_files_has_package(const struct object *object)
{
    char path[DEBUG_PATH_BYTES];
    _cleanup_close_ int fd = -1;
    if (snprintf(path, sizeof(path), "%s.dwp", object->path) < (int)sizeof(path))
        fd = line_files_open_split(object, path, LINE_FILES_COPY_MAX);
    return fd >= 0;
}
