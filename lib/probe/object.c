/* Mapping objects. The kernel takes uprobes in private executable mappings of files, semaphores in private
 * writable ones; both replace what was there in one step, so another thread sees either the old or the new.
 */
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

/* Programs that close all descriptors they do not know may have closed ours, and the number may be somebody
 * else's by now. */
static void close_own(struct probe_object *object)
{
    if (fd_is_own(object))
        close(object->fd);
    object->fd = -1;
}

/* The bare system call: for a race detector mmap writes to every byte, but here threads may go on reading. */
static int map(uint8_t *place, size_t size, int protection, int fd, size_t offset)
{
    int flags = MAP_PRIVATE | MAP_FIXED | (fd < 0 ? MAP_ANONYMOUS : 0);
    return syscall(SYS_mmap, place, size, protection, flags, fd, offset) < 0 ? -errno : 0;
}

/* Whoever forbids memory that was written to become executable keeps the old stubs, which do the same for
 * those who call them. */
static void put_returns(struct probe_object *object)
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

static void take_back(struct probe_object *object)
{
    map(object->place + object->text_segment_size, object->data_segment_size, PROT_READ | PROT_WRITE, -1, 0);
    put_returns(object);
}

static int find_place(struct probe_object *object, const struct probe_image *image)
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

/* The semaphores first: mapping the text makes the kernel count in them who is attached. */
static int map_segments(struct probe_object *object, int fd)
{
    int r = map(object->place + object->text_segment_size, object->data_segment_size, PROT_READ | PROT_WRITE, fd,
                object->text_segment_size);
    if (r == 0)
        r = map(object->place, object->text_segment_size, PROT_READ | PROT_EXEC, fd, 0);
    if (r == 0)
        __atomic_store_n(object->is_ours, 1, __ATOMIC_RELEASE);
    return r;
}

int probe_object_load(struct probe_object *object, const struct probe_image *image, int fd)
{
    struct stat status;
    int had_place = object->place != NULL;
    int r = fstat(fd, &status) < 0 ? -errno : find_place(object, image);
    if (r == 0)
        r = map_segments(object, fd);
    if (r < 0) {
        if (had_place)
            take_back(object);
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
    /* The descriptor is gone. This makes the bytes those of the file again too, but nobody is attached then
     * who was before the fork. */
    madvise(object->place + object->text_segment_size, object->data_segment_size, MADV_DONTNEED);
    if (madvise(object->place, object->text_segment_size, MADV_DONTNEED) == 0)
        __atomic_store_n(object->is_ours, 1, __ATOMIC_RELEASE);
}

void probe_object_unload(struct probe_object *object)
{
    if (object->fd < 0)
        return;
    take_back(object);
    close_own(object);
}

void probe_object_done(struct probe_object *object)
{
    if (object->place)
        munmap(object->place, (size_t)(object->is_ours - object->place) + (size_t)sysconf(_SC_PAGESIZE));
    object->place = NULL;
    close_own(object);
}
