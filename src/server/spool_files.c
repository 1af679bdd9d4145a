/* Files of a spool; see spool_files.h. */
#include "server/spool_files.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#define MAGIC             0x314c5053u /* "SPL1" */
#define SEGMENT_MAX_BYTES ((size_t)1 << 30)

struct batch_header { /* little-endian, like all machines that Sonde runs on */
    uint32_t magic, size, rows, reserved;
    uint8_t key[16];
    uint64_t checksum; /* of the header before it and the data */
};
static_assert(sizeof(struct batch_header) == 40, "part of the format");

static const char *const endings[] = {
    [SPOOL_SEGMENT] = ".segment", [SPOOL_KEYS] = ".keys", [SPOOL_REFUSED] = ".refused", [SPOOL_BEGUN] = ".begun"};
#define UNFINISHED_NAME "unfinished"

const char *spool_file_name(char out[SPOOL_NAME_BYTES], uint64_t number, enum spool_file_kind kind)
{
    snprintf(out, SPOOL_NAME_BYTES, "%016" PRIx64 "%s", number, endings[kind]);
    return out;
}

/* ---- the directory ---- */

struct named_file {
    uint64_t number;
    enum spool_file_kind kind;
};

static bool parse_name(const char *name, struct named_file *ret)
{
    char exact[SPOOL_NAME_BYTES];
    ret->number = strtoull(name, NULL, 16);
    for (ret->kind = SPOOL_SEGMENT; ret->kind < array_size(endings); ret->kind++)
        if (strcmp(name, spool_file_name(exact, ret->number, ret->kind)) == 0)
            return true;
    return false;
}

static int compare_files(const void *a, const void *b)
{
    const struct named_file *x = a, *y = b;
    return x->number < y->number ? -1 : x->number > y->number ? 1 : (int)x->kind - (int)y->kind;
}

static int collect_files(DIR *entries, struct buf *files)
{
    struct named_file file;
    errno = 0;
    for (struct dirent *e; (e = readdir(entries)) != NULL; errno = 0)
        if (parse_name(e->d_name, &file))
            buf_append(files, &file, sizeof(file));
    return errno ? -errno : buf_error(files);
}

int spool_files_list(int directory, int (*each)(void *context, uint64_t number, enum spool_file_kind kind),
                     void *context)
{
    _cleanup_buf_ struct buf files = {0};
    unlinkat(directory, UNFINISHED_NAME, 0);
    const int fd = openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *entries = fd < 0 ? NULL : fdopendir(fd);
    if (!entries) {
        const int r = -errno;
        if (fd >= 0)
            close(fd);
        return r;
    }
    int r = collect_files(entries, &files);
    closedir(entries);
    const struct named_file *file = (const struct named_file *)(const void *)files.data;
    const size_t count = files.size / sizeof(*file);
    if (count)
        qsort(files.data, count, sizeof(*file), compare_files);
    for (size_t i = 0; r == 0 && i < count; i++)
        r = each(context, file[i].number, file[i].kind);
    return r;
}

int spool_file_read(int directory, uint64_t number, enum spool_file_kind kind, struct buf *out)
{
    char name[SPOOL_NAME_BYTES];
    _cleanup_close_ int fd = openat(directory, spool_file_name(name, number, kind), O_RDONLY | O_CLOEXEC);
    return fd < 0 ? -errno : buf_read_fd(out, fd, SEGMENT_MAX_BYTES);
}

int spool_write_all(int fd, const void *data, size_t size)
{
    for (const char *at = data; size;) {
        const ssize_t n = write(fd, at, size);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        at += n;
        size -= (size_t)n;
    }
    return 0;
}

int spool_file_write(int directory, uint64_t number, enum spool_file_kind kind, const void *data, size_t size)
{
    char name[SPOOL_NAME_BYTES];
    _cleanup_close_ int fd = openat(directory, UNFINISHED_NAME, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    const int r = fd < 0 ? -errno : spool_write_all(fd, data, size);
    if (r < 0)
        return r;
    return fdatasync(fd) < 0 ||
                   renameat(directory, UNFINISHED_NAME, directory, spool_file_name(name, number, kind)) < 0 ||
                   fsync(directory) < 0
               ? -errno
               : 0;
}

bool spool_files_have_segment(int directory, uint64_t number)
{
    char name[SPOOL_NAME_BYTES];
    return faccessat(directory, spool_file_name(name, number, SPOOL_SEGMENT), F_OK, 0) == 0 ||
           faccessat(directory, spool_file_name(name, number, SPOOL_REFUSED), F_OK, 0) == 0;
}

/* ---- batches in a segment ---- */

static uint64_t checksum_of(const struct batch_header *header, const void *data)
{
    return XXH3_64bits_withSeed(data, header->size, XXH3_64bits(header, offsetof(struct batch_header, checksum)));
}

size_t spool_batch_bytes(size_t data_size)
{
    return sizeof(struct batch_header) + data_size;
}

int spool_batch_write(struct buf *out, const struct spool_batch *batch)
{
    struct batch_header header = {.magic = MAGIC, .size = (uint32_t)batch->size, .rows = batch->rows};
    memcpy(header.key, batch->key.bytes, sizeof(header.key));
    header.checksum = checksum_of(&header, batch->data);
    buf_append(out, &header, sizeof(header));
    return buf_append(out, batch->data, batch->size);
}

bool spool_next_batch(struct cursor *contents, struct spool_batch *ret)
{
    struct batch_header header;
    struct cursor c = *contents;
    const void *bytes = cursor_left(&c) ? cursor_bytes(&c, sizeof(header)) : NULL;
    if (!bytes)
        return false;
    memcpy(&header, bytes, sizeof(header));
    const void *data = header.magic == MAGIC ? cursor_bytes(&c, header.size) : NULL;
    if (!data || header.checksum != checksum_of(&header, data))
        return false;
    *ret = (struct spool_batch){.rows = header.rows, .data = data, .size = header.size};
    memcpy(ret->key.bytes, header.key, sizeof(header.key));
    *contents = c;
    return true;
}

bool spool_find_batch(struct cursor *contents, struct spool_batch *ret)
{
    const uint32_t magic = MAGIC;
    while (!spool_next_batch(contents, ret)) {
        const size_t from = contents->position + 1;
        const uint8_t *found =
            from < contents->size ? memmem(contents->data + from, contents->size - from, &magic, sizeof(magic)) : NULL;
        if (!found)
            return false;
        contents->position = (size_t)(found - contents->data);
    }
    return true;
}

/* ---- the end of a segment ---- */

static int write_keys(int directory, uint64_t number)
{
    _cleanup_buf_ struct buf contents = {0}, keys = {0};
    struct spool_batch batch;
    int r = spool_file_read(directory, number, SPOOL_SEGMENT, &contents);
    struct cursor c = cursor_make(contents.data, contents.size);
    while (r == 0 && spool_next_batch(&c, &batch))
        r = buf_append(&keys, batch.key.bytes, sizeof(batch.key.bytes));
    return r < 0 ? r : spool_file_write(directory, number, SPOOL_KEYS, keys.data, keys.size);
}

int spool_files_keep_keys(int directory, uint64_t number)
{
    char name[SPOOL_NAME_BYTES];
    const int r = write_keys(directory, number);
    if (r < 0)
        return r;
    if (unlinkat(directory, spool_file_name(name, number, SPOOL_SEGMENT), 0) < 0)
        return -errno;
    unlinkat(directory, spool_file_name(name, number, SPOOL_BEGUN), 0);
    return 0;
}

int spool_files_set_aside(int directory, uint64_t number)
{
    char name[SPOOL_NAME_BYTES], refused[SPOOL_NAME_BYTES];
    const int r = write_keys(directory, number);
    if (r < 0)
        return r;
    return renameat(directory, spool_file_name(name, number, SPOOL_SEGMENT), directory,
                    spool_file_name(refused, number, SPOOL_REFUSED)) < 0
               ? -errno
               : 0;
}
