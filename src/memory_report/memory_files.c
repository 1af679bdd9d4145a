/* See memory_files.h. cachestat(2) counts the pages of a file (Linux 6.5). Before, the file is mapped and mincore(2)
 * lists them, which costs time by the size of the file and is therefore limited. */
#include "memory_report/memory_files.h"

#include "base/buf.h"
#include "base/starts_with.h"
#include "resolve/proc/maps.h"
#include "resolve/proc/proc_files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SYS_CACHESTAT     451 /* of all architectures */
#define MAPS_MAX_BYTES    (8u << 20)
#define OPEN_MAX          65536          /* descriptors of a process */
#define MINCORE_STEP      (256ull << 20) /* of a file at a time */
#define MINCORE_MAX_BYTES (1ull << 40)   /* of all files */
#define SLOTS             (2 * MEMORY_FILES_MAX)

struct cachestat_range { /* ABI */
    uint64_t offset, bytes;
};

struct cachestat { /* ABI; in pages */
    uint64_t cached, dirty, writeback, evicted, recently_evicted;
};

struct memory_files {
    struct memory_file *list;
    size_t count, unmeasured;
    uint32_t *slots; /* index in `list`, plus 1; 0: empty */
    uint64_t mincore_bytes;
    bool has_no_cachestat;
};

int memory_files_new(struct memory_files **ret)
{
    _cleanup_(memory_files_freep) struct memory_files *f = calloc(1, sizeof(*f));
    if (!f)
        return -ENOMEM;
    f->list = calloc(MEMORY_FILES_MAX, sizeof(*f->list));
    f->slots = calloc(SLOTS, sizeof(*f->slots));
    if (!f->list || !f->slots)
        return -ENOMEM;
    *ret = take_ptr(f);
    return 0;
}

void memory_files_free(struct memory_files *f)
{
    if (!f)
        return;
    for (size_t i = 0; i < f->count; i++)
        free(f->list[i].path);
    free(f->list);
    free(f->slots);
    free(f);
}

/* ---- measuring ---- */

static int measure_by_mincore(struct memory_files *f, int fd, struct memory_file *file)
{
    const uint64_t page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);
    _cleanup_free_ unsigned char *pages = malloc(MINCORE_STEP / page_bytes);
    if (!pages)
        return -ENOMEM;
    if (file->size > MINCORE_MAX_BYTES - f->mincore_bytes)
        return -EFBIG;
    f->mincore_bytes += file->size;
    file->dirty = MEMORY_UNKNOWN;
    for (uint64_t at = 0; at < file->size; at += MINCORE_STEP) {
        const size_t bytes = (size_t)(file->size - at < MINCORE_STEP ? file->size - at : MINCORE_STEP);
        const size_t count = (bytes + page_bytes - 1) / page_bytes;
        void *mapped = mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, (off_t)at);
        if (mapped == MAP_FAILED)
            return -errno;
        const int r = mincore(mapped, bytes, pages) < 0 ? -errno : 0;
        munmap(mapped, bytes);
        if (r < 0)
            return r;
        for (size_t i = 0; i < count; i++)
            file->cached += pages[i] & 1 ? page_bytes : 0;
    }
    return 0;
}

static int measure_file(struct memory_files *f, int fd, struct memory_file *file)
{
    const struct cachestat_range whole = {0};
    const uint64_t page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);
    struct cachestat found;
    if (!f->has_no_cachestat && syscall(SYS_CACHESTAT, fd, &whole, &found, 0) == 0) {
        file->cached = found.cached * page_bytes;
        file->dirty = found.dirty * page_bytes;
        return 0;
    }
    if (!f->has_no_cachestat && errno != ENOSYS)
        return -errno;
    f->has_no_cachestat = true;
    return measure_by_mincore(f, fd, file);
}

/* ---- the table ---- */

/* The file, or the place for it; NULL: the table is full. */
static uint32_t *find_slot(const struct memory_files *f, uint64_t device, uint64_t inode)
{
    uint64_t at = (inode * 0x9e3779b97f4a7c15ull ^ device * 0xc2b2ae3d27d4eb4full) >> 32;
    for (;; at++) {
        uint32_t *slot = &f->slots[at % SLOTS];
        const struct memory_file *file = *slot ? &f->list[*slot - 1] : NULL;
        if (!file || (file->device == device && file->inode == inode))
            return file || f->count < MEMORY_FILES_MAX ? slot : NULL;
    }
}

static void note_process(struct memory_file *file, uint32_t pid)
{
    if (!pid || file->pid == pid)
        return;
    file->pid = file->processes ? file->pid : pid;
    file->processes++;
}

/* `name` is opened; `path` is shown. Both files that are open and files of a folder pass here. */
static void add_file(struct memory_files *f, const char *name, const char *path, uint32_t pid)
{
    struct stat status;
    if (stat(name, &status) < 0 || !S_ISREG(status.st_mode))
        return;
    uint32_t *slot = find_slot(f, status.st_dev, status.st_ino);
    if (slot && *slot) {
        note_process(&f->list[*slot - 1], pid);
        return;
    }
    if (!slot) {
        f->unmeasured++;
        return;
    }
    _cleanup_close_ int fd = open(name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    struct memory_file file = {
        .path = strdup(path), .device = status.st_dev, .inode = status.st_ino, .size = (uint64_t)status.st_size};
    if (!file.path)
        return;
    if (fd < 0 || measure_file(f, fd, &file) < 0) {
        file.cached = 0;
        f->unmeasured++; /* it stays in the table, so that the next process with it does not try again */
    }
    note_process(&file, pid);
    f->list[f->count++] = file;
    *slot = (uint32_t)f->count;
}

/* ---- processes ---- */

static void add_open_files(struct memory_files *f, uint32_t pid)
{
    char folder[32], name[PATH_MAX], path[PATH_MAX];
    snprintf(folder, sizeof(folder), "/proc/%" PRIu32 "/fd", pid);
    DIR *fds = opendir(folder);
    if (!fds)
        return;
    size_t seen = 0;
    for (const struct dirent *d; seen < OPEN_MAX && (d = readdir(fds)); seen++) {
        snprintf(name, sizeof(name), "%s/%s", folder, d->d_name);
        const ssize_t bytes = readlink(name, path, sizeof(path) - 1);
        if (bytes <= 0 || path[0] != '/')
            continue; /* a socket, a pipe */
        path[bytes] = '\0';
        if (!starts_with(path, "/proc/") && !starts_with(path, "/sys/"))
            add_file(f, name, path, pid);
    }
    closedir(fds);
}

static void add_mapped_files(struct memory_files *f, uint32_t pid)
{
    _cleanup_buf_ struct buf text = {0};
    _cleanup_close_ int proc_fd = proc_open(pid);
    char name[96], path[PATH_MAX];
    struct maps_line line;
    uint64_t last_inode = 0;
    if (proc_fd < 0 || proc_read(proc_fd, "maps", MAPS_MAX_BYTES, &text) < 0)
        return;
    for (struct cursor at = cursor_make(text.data, text.size); maps_next(&at, &line);) {
        const bool is_file = line.inode && line.path_bytes && line.path[0] == '/' && line.path_bytes < sizeof(path);
        if (!is_file || line.inode == last_inode)
            continue; /* the next segment of the same file */
        last_inode = line.inode;
        snprintf(name, sizeof(name), "/proc/%" PRIu32 "/map_files/%" PRIx64 "-%" PRIx64, pid, line.start, line.end);
        snprintf(path, sizeof(path), "%.*s", (int)line.path_bytes, line.path);
        add_file(f, name, path, pid);
    }
}

void memory_files_add_process(struct memory_files *f, uint32_t pid)
{
    add_open_files(f, pid);
    add_mapped_files(f, pid);
}

/* ---- folders ---- */

int memory_files_add_path(struct memory_files *f, const char *path)
{
    _cleanup_free_ char *root = strdup(path);
    if (!root)
        return -ENOMEM;
    if (access(path, F_OK) < 0)
        return -errno;
    FTS *walk = fts_open((char *[]){root, NULL}, FTS_PHYSICAL | FTS_NOCHDIR | FTS_XDEV, NULL);
    if (!walk)
        return -errno;
    for (const FTSENT *entry; f->count < MEMORY_FILES_MAX && (entry = fts_read(walk));)
        if (entry->fts_info == FTS_F)
            add_file(f, entry->fts_path, entry->fts_path, 0);
    fts_close(walk);
    return 0;
}

void memory_files_report(struct memory_files *f, struct memory_report *ret)
{
    ret->files = f->list;
    ret->file_count = f->count;
    ret->unmeasured_files = f->unmeasured;
    ret->is_by_mincore = f->has_no_cachestat;
}
