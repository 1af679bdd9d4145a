/* Finds separate debug files; see debug_files.h. */
#include "resolve/elf/debug_files.h"

#include "base/cleanup.h"
#include "base/hex.h"

#include <elf.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <zlib.h>

#define LINK_BYTES        4096         /* of .gnu_debuglink */
#define CHECKED_BYTES_MAX (4ull << 30) /* of a debug file whose checksum is computed */
#define CHECK_PIECE       (256u << 10)

int debug_files_has_build_id(const struct elf_file *file, const char *build_id)
{
    uint8_t bytes[64];
    char text[2 * sizeof(bytes) + 1];
    size_t count = elf_build_id(file, bytes);
    if (!count)
        return -ENOENT;
    hex_write(bytes, count, text);
    return !strcmp(text, build_id);
}

bool debug_files_has_dwarf(const struct elf_file *file)
{
    static const char *const names[] = {".debug_info", ".zdebug_info"};
    for (size_t i = 0; i < array_size(names); i++) {
        const struct elf_section *s = elf_section(file, names[i]);
        if (s && s->type != SHT_NOBITS && s->size_bytes)
            return true;
    }
    return false;
}

static bool has_wanted(const struct debug_search *search, const struct elf_file *file)
{
    const struct elf_section *s = elf_section(file, ".symtab");
    return search->wants_dwarf ? debug_files_has_dwarf(file) : s && s->type == SHT_SYMTAB;
}

static void set_found_path(const struct debug_search *search, const char *path)
{
    if (search->found_path)
        snprintf(search->found_path, DEBUG_PATH_BYTES, "%s", path);
}

/* The mount namespace that opens a path: ours, or the namespace of the processes that run the file. */
enum view { VIEW_OWN_ROOT, VIEW_PROCESS_ROOT };

static int open_elf(const struct debug_search *search, enum view view, const char *path, struct elf_file **ret)
{
    int (*open_path)(const void *, const char *) =
        view == VIEW_OWN_ROOT ? search->open_in_own_root : search->open_in_process_root;
    _cleanup_close_ int fd = open_path ? open_path(search->context, path) : -ENOENT;
    if (fd < 0)
        return fd;
    int r = elf_open(fd, ret);
    if (r == 0)
        take_fd(&fd);
    return r;
}

static int find_by_build_id(const struct debug_search *search, enum view view, const char *build_id,
                            struct elf_file **ret)
{
    char path[DEBUG_PATH_BYTES];
    if (strlen(build_id) < 4 || strspn(build_id, "0123456789abcdef") != strlen(build_id))
        return -ENOENT;
    if (snprintf(path, sizeof(path), "%s/.build-id/%.2s/%s.debug", search->root, build_id, build_id + 2) >=
        (int)sizeof(path))
        return -ENOENT;
    _cleanup_(elf_file_freep) struct elf_file *found = NULL;
    int r = open_elf(search, view, path, &found);
    if (r < 0)
        return r;
    if (debug_files_has_build_id(found, build_id) != 1 || !has_wanted(search, found))
        return -ENOENT;
    set_found_path(search, path);
    *ret = take_ptr(found);
    return 0;
}

static int checksum(const struct elf_file *f, uint32_t *ret)
{
    const uint64_t size = elf_size(f);
    if (size > CHECKED_BYTES_MAX)
        return -EFBIG;
    _cleanup_free_ uint8_t *piece = malloc(CHECK_PIECE);
    if (!piece)
        return -ENOMEM;
    uLong sum = crc32(0, NULL, 0);
    for (uint64_t at = 0; at < size;) {
        size_t n = size - at < CHECK_PIECE ? (size_t)(size - at) : CHECK_PIECE;
        int r = elf_read(f, at, piece, n);
        if (r < 0)
            return r;
        sum = crc32(sum, piece, (uInt)n);
        at += n;
    }
    *ret = (uint32_t)sum;
    return 0;
}

/* Tries one candidate of a debug link: its build ID must match or, if it has none, its checksum. */
static int try_link(const struct debug_search *search, enum view view, const char *path, const char *build_id,
                    uint32_t sum_wanted, struct elf_file **ret)
{
    _cleanup_(elf_file_freep) struct elf_file *found = NULL;
    int r = open_elf(search, view, path, &found);
    if (r < 0)
        return r;
    int same = *build_id ? debug_files_has_build_id(found, build_id) : -ENOENT;
    if (same == 0 || !has_wanted(search, found))
        return -ENOENT;
    if (same < 0) {
        uint32_t sum;
        r = checksum(found, &sum);
        if (r < 0)
            return r;
        if (sum != sum_wanted)
            return -ENOENT;
    }
    set_found_path(search, path);
    *ret = take_ptr(found);
    return 0;
}

/* .gnu_debuglink: a file name, padded to four bytes, and the CRC-32 of that file. */
static int find_by_link(const struct elf_file *file, const struct debug_search *search, enum view view,
                        const char *build_id, struct elf_file **ret)
{
    const struct elf_section *section = elf_section(file, ".gnu_debuglink");
    _cleanup_free_ void *data = NULL;
    size_t size;
    if (!section || elf_section_data(file, section, LINK_BYTES, &data, &size) < 0)
        return -ENOENT;
    const char *name = data;
    size_t length = strnlen(name, size), sum_at = (length + 4) & ~(size_t)3;
    if (!length || memchr(name, '/', length) || size < 4 || sum_at > size - 4)
        return -ENOENT;
    const uint8_t *sum_bytes = (const uint8_t *)data + sum_at;
    uint32_t sum = sum_bytes[0] | sum_bytes[1] << 8 | sum_bytes[2] << 16 | (uint32_t)sum_bytes[3] << 24;

    const char *slash = strrchr(search->path, '/');
    if (*search->path != '/')
        return -ENOENT;
    int directory_length = slash - search->path;
    for (int i = 0; i < 3; i++) {
        char path[DEBUG_PATH_BYTES];
        int n = i == 0 ? snprintf(path, sizeof(path), "%.*s/%s", directory_length, search->path, name)
                : i == 1
                    ? snprintf(path, sizeof(path), "%.*s/.debug/%s", directory_length, search->path, name)
                    : snprintf(path, sizeof(path), "%s%.*s/%s", search->root, directory_length, search->path, name);
        int r = n < (int)sizeof(path) ? try_link(search, view, path, build_id, sum, ret) : -ENOENT;
        if (r == 0 || r == -EAGAIN)
            return r;
    }
    return -ENOENT;
}

/* From the fetcher. */
static int fetch(const struct debug_search *search, const char *build_id, struct elf_file **ret)
{
    const struct debug_fetcher *fetcher = search->fetcher;
    _cleanup_(elf_file_freep) struct elf_file *found = NULL;
    _cleanup_close_ int fd = fetcher && *build_id ? fetcher->fetch(fetcher->context, build_id) : -ENOENT;
    if (fd < 0)
        return fd;
    int r = elf_open(fd, &found);
    if (r < 0)
        return r;
    take_fd(&fd);
    if (debug_files_has_build_id(found, build_id) != 1 || !has_wanted(search, found))
        return -ENOENT;
    set_found_path(search, "");
    *ret = take_ptr(found);
    return 0;
}

int debug_files_find(const struct elf_file *file, const struct debug_search *search, struct elf_file **ret)
{
    uint8_t bytes[64];
    char build_id[2 * sizeof(bytes) + 1] = "";
    size_t count = elf_build_id(file, bytes);
    hex_write(bytes, count, build_id);
    for (enum view view = VIEW_OWN_ROOT; view <= VIEW_PROCESS_ROOT; view++) {
        int r = find_by_build_id(search, view, count ? build_id : search->build_id, ret);
        if (r < 0 && r != -EAGAIN)
            r = find_by_link(file, search, view, build_id, ret);
        if (r == 0 || r == -EAGAIN)
            return r;
    }
    return fetch(search, count ? build_id : search->build_id, ret);
}

/* By the path in the link; a relative one is relative to the directory of the file with the link. */
static int open_alternative(const struct debug_search *search, enum view view, const char *path, const char *name,
                            const char *build_id, struct elf_file **ret)
{
    char whole[DEBUG_PATH_BYTES];
    const char *slash = strrchr(path, '/');
    const int n = *name == '/' ? snprintf(whole, sizeof(whole), "%s", name)
                  : slash      ? snprintf(whole, sizeof(whole), "%.*s/%s", (int)(slash - path), path, name)
                               : -1;
    _cleanup_(elf_file_freep) struct elf_file *found = NULL;
    int r = n < 0 || n >= (int)sizeof(whole) ? -ENOENT : open_elf(search, view, whole, &found);
    if (r < 0)
        return r;
    if (debug_files_has_build_id(found, build_id) != 1 || !has_wanted(search, found))
        return -ENOENT;
    *ret = take_ptr(found);
    return 0;
}

int debug_files_find_alternative(const struct elf_file *file, const char *path, const struct debug_search *search,
                                 bool *ret_named, struct elf_file **ret)
{
    const struct elf_section *section = elf_section(file, ".gnu_debugaltlink");
    _cleanup_free_ void *data = NULL;
    size_t size;
    *ret_named = section;
    if (!section || elf_section_data(file, section, LINK_BYTES, &data, &size) < 0)
        return -ENOENT;
    const char *name = data;
    const size_t length = strnlen(name, size);
    char build_id[2 * 64 + 1];
    if (!length || length == size || size - length - 1 > 64)
        return -ENOENT;
    hex_write((const uint8_t *)name + length + 1, size - length - 1, build_id);
    for (enum view view = VIEW_OWN_ROOT; view <= VIEW_PROCESS_ROOT; view++) {
        int r = find_by_build_id(search, view, build_id, ret);
        if (r < 0)
            r = open_alternative(search, view, path, name, build_id, ret);
        if (r == 0)
            return 0;
    }
    return fetch(search, build_id, ret);
}
