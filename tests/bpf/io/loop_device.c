/* Loop devices; see loop_device.h. */
#include "loop_device.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/loop.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cmocka.h>

static int make_image(struct loop_device *loop, size_t limit_bytes)
{
    char path[128], options[32];
    snprintf(loop->folder, sizeof(loop->folder), "/tmp/sonde-loop-XXXXXX");
    assert_non_null(mkdtemp(loop->folder));
    snprintf(options, sizeof(options), "size=%zu", limit_bytes);
    if (limit_bytes)
        assert_int_equal(mount("sonde-io", loop->folder, "tmpfs", 0, options), 0);
    snprintf(path, sizeof(path), "%s/image", loop->folder);
    const int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, LOOP_IMAGE_BYTES), 0);
    return fd;
}

/* False: there are none. Another program may take a free one first. */
static bool set_up(struct loop_device *loop)
{
    const int control = open("/dev/loop-control", O_RDWR | O_CLOEXEC);
    bool is_set = false;
    for (int i = 0; control >= 0 && i < 20 && !is_set; i++) {
        snprintf(loop->name, sizeof(loop->name), "loop%d", ioctl(control, LOOP_CTL_GET_FREE));
        snprintf(loop->path, sizeof(loop->path), "/dev/%s", loop->name);
        loop->buffered = open(loop->path, O_RDWR | O_CLOEXEC);
        is_set = loop->buffered >= 0 && ioctl(loop->buffered, LOOP_SET_FD, loop->image) == 0;
        if (!is_set && loop->buffered >= 0)
            close(loop->buffered);
    }
    if (control >= 0)
        close(control);
    return is_set;
}

static void remove_image(struct loop_device *loop)
{
    char path[128];
    close(loop->image);
    snprintf(path, sizeof(path), "%s/image", loop->folder);
    unlink(path);
    umount2(loop->folder, MNT_DETACH);
    rmdir(loop->folder);
}

struct loop_device loop_begin(size_t limit_bytes)
{
    struct loop_device loop = {0};
    struct stat status;
    loop.image = make_image(&loop, limit_bytes);
    if (!set_up(&loop)) {
        print_message("no loop devices: %s\n", strerror(errno));
        remove_image(&loop);
        skip();
    }
    loop.direct = open(loop.path, O_RDWR | O_DIRECT | O_CLOEXEC);
    assert_true(loop.direct >= 0);
    assert_int_equal(fstat(loop.direct, &status), 0);
    loop.number = major(status.st_rdev) << 20 | minor(status.st_rdev);
    return loop;
}

void loop_end(struct loop_device *loop)
{
    close(loop->direct);
    assert_int_equal(ioctl(loop->buffered, LOOP_CLR_FD), 0);
    close(loop->buffered);
    remove_image(loop);
}

struct loop_stat loop_stat(const struct loop_device *loop)
{
    char path[128];
    unsigned long long v[17] = {0};
    snprintf(path, sizeof(path), "/sys/block/%s/stat", loop->name);
    FILE *f = fopen(path, "re");
    assert_non_null(f);
    for (size_t i = 0; i < 17 && fscanf(f, "%llu", &v[i]) == 1; i++)
        ;
    fclose(f);
    return (struct loop_stat){.reads = v[0],
                              .read_bytes = v[2] * 512,
                              .writes = v[4],
                              .write_bytes = v[6] * 512,
                              .discards = v[11],
                              .flushes = v[15]};
}

bool loop_set(const struct loop_device *loop, const char *attribute, const char *value)
{
    char path[128];
    snprintf(path, sizeof(path), "/sys/block/%s/queue/%s", loop->name, attribute);
    const int fd = open(path, O_WRONLY | O_CLOEXEC);
    const bool is_written = fd >= 0 && write(fd, value, strlen(value)) == (ssize_t)strlen(value);
    if (fd >= 0)
        close(fd);
    return is_written;
}
