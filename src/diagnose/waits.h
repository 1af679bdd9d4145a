/* Explains a wait: its kind of component, and a sentence for people. */
#pragma once

#include "diagnose/request.h"

#define WAIT_DETAIL_MAX 640

/* The resolved stacks of a wait, leaf first. */
struct wait_frames {
    struct frame kernel[REQUEST_KERNEL_FRAMES];
    size_t kernel_count;
    struct frame user[REQUEST_USER_FRAMES + 1]; /* plus a frame with the reason of an incomplete stack */
    size_t user_count;
};

enum request_part_kind wait_kind(const struct request_wait *w, const struct wait_frames *frames);

/* Writes "fsync of log (ext4), 3 times in fsync < save < handle: jbd2_log_wait_commit < ext4_sync_file". Returns
 * `out`. */
const char *wait_detail(const struct request_wait *w, const struct wait_frames *frames, char *out, size_t size);

/* Writes "10.0.0.5:5432", "[::1]:80", or "" for none. Returns `out`. */
const char *wait_peer(unsigned family, const unsigned char *address, unsigned port, char *out, size_t size);
