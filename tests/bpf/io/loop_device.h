/* A loop device of the test's own, so that only its requests count there, and what the kernel's statistics say of it.
 */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LOOP_IMAGE_BYTES (16 << 20)

struct loop_device {
    char folder[64]; /* with "image" and "device" */
    char name[32];   /* "loop700" */
    int index, image;
    int direct, buffered; /* the device, opened in both ways */
    uint32_t number;      /* as in struct io_device_key */
};

/* The device is a new one: the kernel keeps for a device which cgroup first wrote to it. Its image is on a tmpfs of
 * `limit_bytes`, or with 0 in /tmp. Skips the test where there are no loop devices; ends with loop_end. */
struct loop_device loop_begin(size_t limit_bytes);
void loop_end(struct loop_device *loop);

/* Of /sys/block/NAME/stat. */
struct loop_stat {
    uint64_t reads, read_bytes, writes, write_bytes, discards, flushes;
};
struct loop_stat loop_stat(const struct loop_device *loop);

/* Writes /sys/block/NAME/queue/ATTRIBUTE. False: not possible. */
bool loop_set(const struct loop_device *loop, const char *attribute, const char *value);
