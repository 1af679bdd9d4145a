/* Knows local file systems; see local_mounts.h. */
#include "resolve/files/local_mounts.h"

#include "base/buf.h"
#include "base/mounts.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#define LOCAL_MOUNTS_MAX 1024 /* the files of further ones are opened by the file helper */

static const struct {
    const char *name;
    uint32_t magic;
} local_types[] = {
    {"ext4", EXT4_SUPER_MAGIC},     {"ext3", EXT4_SUPER_MAGIC},   {"ext2", EXT4_SUPER_MAGIC},
    {"xfs", XFS_SUPER_MAGIC},       {"btrfs", BTRFS_SUPER_MAGIC}, {"tmpfs", TMPFS_MAGIC},
    {"ramfs", RAMFS_MAGIC},         {"f2fs", F2FS_SUPER_MAGIC},   {"squashfs", SQUASHFS_MAGIC},
    {"erofs", 0xe0f5e1e2}, /* this one and some below have no name in every header */
    {"iso9660", ISOFS_SUPER_MAGIC}, {"zfs", 0x2fc12fc1},          {"bcachefs", 0xca451a4e},
    {"vfat", MSDOS_SUPER_MAGIC},    {"exfat", 0x2011bab0},        {"hugetlbfs", HUGETLBFS_MAGIC},
};

struct local_mounts {
    int list; /* /proc/self/mountinfo; poll reports POLLPRI once after each change */
    bool is_read;
    uint64_t ids[LOCAL_MOUNTS_MAX];
    size_t count;
};

bool local_file_system(uint32_t magic)
{
    for (size_t i = 0; i < array_size(local_types); i++)
        if (local_types[i].magic == magic)
            return true;
    return false;
}

int local_mounts_new(struct local_mounts **ret)
{
    struct local_mounts *l = calloc(1, sizeof(*l));
    if (!l)
        return -ENOMEM;
    l->list = open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC);
    if (l->list < 0) {
        const int error = -errno;
        free(l);
        return error;
    }
    *ret = l;
    return 0;
}

void local_mounts_free(struct local_mounts *l)
{
    if (!l)
        return;
    close(l->list);
    free(l);
}

static bool is_local(const struct mount *m)
{
    for (size_t i = 0; i < array_size(local_types); i++)
        if (mounts_text_is(&m->type, local_types[i].name))
            return true;
    return false;
}

static void read_list(struct local_mounts *l)
{
    _cleanup_buf_ struct buf text = {0};
    struct mount m;
    l->count = 0;
    if (lseek(l->list, 0, SEEK_SET) < 0 || buf_read_fd(&text, l->list, MOUNTS_MAX_BYTES) < 0 || !text.data)
        return;
    for (const char *at = text.data; l->count < LOCAL_MOUNTS_MAX && mounts_next(&at, &m);)
        if (is_local(&m))
            l->ids[l->count++] = m.id;
}

bool local_mounts_has(struct local_mounts *l, uint64_t mount_id)
{
    struct pollfd changed = {.fd = l->list, .events = POLLPRI};
    if (poll(&changed, 1, 0) > 0 || !l->is_read)
        read_list(l);
    l->is_read = true;
    for (size_t i = 0; i < l->count; i++)
        if (l->ids[i] == mount_id)
            return true;
    return false;
}
