/* Maps ELF objects. The kernel installs uprobes in private executable file mappings, and semaphores in private
 * writable ones. Both mappings replace the previous ones atomically, so another thread sees either the old or the
 * new. */
#include "object.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static int fd_is_own(const struct probe_object *object)
{
    struct stat status;
    return object->fd >= 0 && fstat(object->fd, &status) == 0 && status.st_dev == object->device &&
           status.st_ino == object->inode;
}

/* A program that closes all unknown descriptors may have closed this one, and the number may have been reused. */
static void close_own(struct probe_object *object)
{
    if (fd_is_own(object))
        close(object->fd);
    object->fd = -1;
}

/* The bare system call: a race detector treats mmap as a write to every byte, but other threads may keep reading
 * here. */
static int map_fixed(uint8_t *place, size_t size, int protection, int fd, size_t offset)
{
    int flags = MAP_PRIVATE | MAP_FIXED | (fd < 0 ? MAP_ANONYMOUS : 0);
    return syscall(SYS_mmap, place, size, protection, flags, fd, offset) < 0 ? -errno : 0;
}

/* Where the system forbids making written memory executable (W^X policy), the old stubs stay, which behave the same
 * for callers. */
static void map_returns(struct probe_object *object)
{
    size_t size = object->text_segment_size;
    void *returns = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (returns == MAP_FAILED)
        return;
    probe_site_fill_with_returns(returns, size);
    if (mprotect(returns, size, PROT_READ | PROT_EXEC) < 0 ||
        mremap(returns, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, object->place) == MAP_FAILED)
        munmap(returns, size);
}

static void replace_with_returns(struct probe_object *object)
{
    map_fixed(object->place + object->text_segment_size, object->data_segment_size, PROT_READ | PROT_WRITE, -1, 0);
    map_returns(object);
}

static int reserve_address(struct probe_object *object, const struct probe_image *image)
{
    if (object->place)
        return 0;
    size_t page_size = (size_t)sysconf(_SC_PAGESIZE),
           segments_size = image->text_segment_size + image->data_segment_size;
    uint8_t *place = mmap(NULL, segments_size + page_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (place == MAP_FAILED)
        return -errno;
    if (madvise(place + segments_size, page_size, MADV_WIPEONFORK) < 0) {
        int r = -errno;
        munmap(place, segments_size + page_size);
        return r;
    }
    object->place = place;
    object->text_segment_size = image->text_segment_size;
    object->data_segment_size = image->data_segment_size;
    object->is_ours = place + segments_size;
    return 0;
}

/* The semaphores first: when the text is mapped, the kernel counts the attached tracers in them. */
static int map_segments(struct probe_object *object, int fd)
{
    int r = map_fixed(object->place + object->text_segment_size, object->data_segment_size, PROT_READ | PROT_WRITE, fd,
                      object->text_segment_size);
    if (r == 0)
        r = map_fixed(object->place, object->text_segment_size, PROT_READ | PROT_EXEC, fd, 0);
    if (r == 0)
        __atomic_store_n(object->is_ours, 1, __ATOMIC_RELEASE);
    return r;
}

int probe_object_load(struct probe_object *object, const struct probe_image *image, int fd)
{
    struct stat status;
    int had_place = object->place != NULL;
    int r = fstat(fd, &status) < 0 ? -errno : reserve_address(object, image);
    if (r == 0)
        r = map_segments(object, fd);
    if (r < 0) {
        if (had_place)
            replace_with_returns(object);
        else
            probe_object_done(object);
        close(fd);
        return r;
    }
    object->fd = fd;
    object->device = status.st_dev;
    object->inode = status.st_ino;
    return 0;
}

void probe_object_renew(struct probe_object *object)
{
    if (object->fd < 0 || (fd_is_own(object) && map_segments(object, object->fd) == 0)) {
        __atomic_store_n(object->is_ours, 1, __ATOMIC_RELEASE);
        return;
    }
    /* The descriptor is gone. MADV_DONTNEED restores the bytes of the file, but tracers that were attached before the
     * fork are not attached any more. */
    madvise(object->place + object->text_segment_size, object->data_segment_size, MADV_DONTNEED);
    if (madvise(object->place, object->text_segment_size, MADV_DONTNEED) == 0)
        __atomic_store_n(object->is_ours, 1, __ATOMIC_RELEASE);
}

void probe_object_unload(struct probe_object *object)
{
    if (object->fd < 0)
        return;
    replace_with_returns(object);
    close_own(object);
}

void probe_object_done(struct probe_object *object)
{
    if (object->place)
        munmap(object->place, (size_t)(object->is_ours - object->place) + (size_t)sysconf(_SC_PAGESIZE));
    object->place = NULL;
    close_own(object);
}
