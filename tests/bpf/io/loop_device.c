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

/* -errno: there are no loop devices. */
static int add_device(void)
{
    const int control = open("/dev/loop-control", O_RDWR | O_CLOEXEC), first = 100 + getpid() % 1000;
    int r = control < 0 ? -errno : -EEXIST;
    for (int i = 0; r == -EEXIST && i < 100; i++) {
        r = ioctl(control, LOOP_CTL_ADD, first + i);
        r = r < 0 ? -errno : r;
    }
    if (control >= 0)
        close(control);
    return r;
}

static void remove_device(int index)
{
    const int control = open("/dev/loop-control", O_RDWR | O_CLOEXEC);
    for (int i = 0; i < 100 && ioctl(control, LOOP_CTL_REMOVE, index) < 0 && errno == EBUSY; i++)
        usleep(20000);
    close(control);
}

/* By a node of its own: /dev need not have one. */
static void open_device(struct loop_device *loop)
{
    char path[128];
    unsigned major_number = 0, minor_number = 0;
    snprintf(loop->name, sizeof(loop->name), "loop%d", loop->index);
    snprintf(path, sizeof(path), "/sys/block/%s/dev", loop->name);
    FILE *f = fopen(path, "re");
    assert_non_null(f);
    assert_int_equal(fscanf(f, "%u:%u", &major_number, &minor_number), 2);
    fclose(f);
    snprintf(path, sizeof(path), "%s/device", loop->folder);
    assert_int_equal(mknod(path, S_IFBLK | 0600, makedev(major_number, minor_number)), 0);
    loop->number = major_number << 20 | minor_number;
    loop->buffered = open(path, O_RDWR | O_CLOEXEC);
    assert_true(loop->buffered >= 0);
    assert_int_equal(ioctl(loop->buffered, LOOP_SET_FD, loop->image), 0);
    loop->direct = open(path, O_RDWR | O_DIRECT | O_CLOEXEC);
    assert_true(loop->direct >= 0);
}

static void remove_folder(struct loop_device *loop)
{
    static const char *const names[] = {"image", "device"};
    char path[128];
    close(loop->image);
    for (size_t i = 0; i < 2; i++) {
        snprintf(path, sizeof(path), "%s/%s", loop->folder, names[i]);
        unlink(path);
    }
    umount2(loop->folder, MNT_DETACH);
    rmdir(loop->folder);
}

struct loop_device loop_begin(size_t limit_bytes)
{
    struct loop_device loop = {.index = add_device()};
    if (loop.index < 0) {
        print_message("no loop devices: %s\n", strerror(-loop.index));
        skip();
    }
    loop.image = make_image(&loop, limit_bytes);
    open_device(&loop);
    return loop;
}

void loop_end(struct loop_device *loop)
{
    close(loop->direct);
    assert_int_equal(ioctl(loop->buffered, LOOP_CLR_FD), 0);
    close(loop->buffered);
    remove_device(loop->index);
    remove_folder(loop);
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
