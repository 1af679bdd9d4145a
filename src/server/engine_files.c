/* See engine_files.h. */
#include "server/engine_files.h"

#include "base/cleanup.h"
#include "base/log.h"

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <limits.h>
#include <link.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define PAUSE_NS   100000000
#define PAUSES_MAX 300

#ifdef __x86_64__
#define TYPE_OF_CALL R_X86_64_JUMP_SLOT
#else
#define TYPE_OF_CALL R_AARCH64_JUMP_SLOT
#endif

/* ---- the functions ---- */

/* Finds the path of a file of tables or of their definitions. Other files, such as the engine's status, can lack their
 * contents. */
static bool is_of_tables(int fd, char path[PATH_MAX])
{
    char link[32];
    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    const ssize_t n = readlink(link, path, PATH_MAX - 1);
    path[n > 0 ? n : 0] = '\0';
    return strstr(path, "/store/") || strstr(path, "/metadata/");
}

/* After a call that failed. True: it is to be repeated. False: the library gets the error. */
static bool is_repeated(const char *call, int fd, unsigned *pauses)
{
    const int error = errno;
    char path[PATH_MAX];
    if (error == EINTR || error == EAGAIN || !is_of_tables(fd, path)) {
        errno = error;
        return false;
    }
    if ((error == ENOSPC || error == EDQUOT) && *pauses < PAUSES_MAX) {
        if ((*pauses)++ == 0)
            log_warning("the disk has no space for %s: the engine waits", path);
        nanosleep(&(struct timespec){.tv_nsec = PAUSE_NS}, NULL);
        return true;
    }
    log_error("the engine ends, because %s of %s fails: %s", call, path, strerror(error));
    _exit(1);
}

static ssize_t write_or_wait(int fd, const void *data, size_t size)
{
    ssize_t n;
    for (unsigned pauses = 0; (n = write(fd, data, size)) < 0 && is_repeated("write", fd, &pauses);)
        ;
    return n;
}

static ssize_t pwrite_or_wait(int fd, const void *data, size_t size, off_t at)
{
    ssize_t n;
    for (unsigned pauses = 0; (n = pwrite(fd, data, size, at)) < 0 && is_repeated("pwrite", fd, &pauses);)
        ;
    return n;
}

static ssize_t writev_or_wait(int fd, const struct iovec *parts, int count)
{
    ssize_t n;
    for (unsigned pauses = 0; (n = writev(fd, parts, count)) < 0 && is_repeated("writev", fd, &pauses);)
        ;
    return n;
}

static int fsync_or_end(int fd)
{
    int r;
    for (unsigned pauses = 0; (r = fsync(fd)) < 0 && is_repeated("fsync", fd, &pauses);)
        ;
    return r;
}

static int fdatasync_or_end(int fd)
{
    int r;
    for (unsigned pauses = 0; (r = fdatasync(fd)) < 0 && is_repeated("fdatasync", fd, &pauses);)
        ;
    return r;
}

static const struct {
    const char *name;
    void *function;
} replacements[] = {
    {"write", write_or_wait}, {"pwrite", pwrite_or_wait},      {"writev", writev_or_wait},
    {"fsync", fsync_or_end},  {"fdatasync", fdatasync_or_end},
};

/* ---- the library's table of calls ---- */

struct calls {
    const ElfW(Sym) * symbols;
    const char *names;
    const ElfW(Rela) * entries;
    size_t count;
};

static void find_calls(const struct link_map *map, struct calls *ret)
{
    *ret = (struct calls){0};
    for (const ElfW(Dyn) *d = map->l_ld; d->d_tag != DT_NULL; d++) {
        const void *address = (const void *)d->d_un.d_ptr; /* the loader has relocated it */
        if (d->d_tag == DT_SYMTAB)
            ret->symbols = address;
        else if (d->d_tag == DT_STRTAB)
            ret->names = address;
        else if (d->d_tag == DT_JMPREL)
            ret->entries = address;
        else if (d->d_tag == DT_PLTRELSZ)
            ret->count = d->d_un.d_val / sizeof(*ret->entries);
    }
}

/* The table may be read-only, where the loader has bound all of it. */
static int replace(void **slot, void *function)
{
    const uintptr_t page = (uintptr_t)slot & ~((uintptr_t)sysconf(_SC_PAGESIZE) - 1);
    if (mprotect((void *)page, (uintptr_t)(slot + 1) - page, PROT_READ | PROT_WRITE) < 0)
        return -errno;
    *slot = function;
    return 0;
}

int engine_files_guard(void *library)
{
    struct link_map *map;
    struct calls calls;
    bool has_write = false;
    if (dlinfo(library, RTLD_DI_LINKMAP, &map) != 0)
        return -ENOENT;
    find_calls(map, &calls);
    for (size_t i = 0; calls.symbols && calls.names && calls.entries && i < calls.count; i++) {
        const ElfW(Rela) *entry = &calls.entries[i];
        const char *name = calls.names + calls.symbols[ELF64_R_SYM(entry->r_info)].st_name;
        for (size_t j = 0; j < array_size(replacements); j++) {
            if (ELF64_R_TYPE(entry->r_info) != TYPE_OF_CALL || strcmp(name, replacements[j].name) != 0)
                continue;
            const int r = replace((void **)(map->l_addr + entry->r_offset), replacements[j].function);
            if (r < 0)
                return r;
            has_write |= j == 0;
        }
    }
    return has_write ? 0 : -ENOENT;
}
