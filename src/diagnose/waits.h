/* What one kind of wait means: its kind among the documented ones, and a sentence for people. */
#pragma once

#include "diagnose/request.h"

#define WAIT_DETAIL_MAX 320

enum request_part_kind wait_kind(const struct request_wait *w, const struct frame *frames, size_t frame_count);

/* "fsync of log (ext4), 3 times: jbd2_log_wait_commit < ext4_sync_file". Returns `out`. */
const char *wait_detail(const struct request_wait *w, const struct frame *frames, size_t frame_count, char *out, size_t size);

/* "10.0.0.5:5432", "[::1]:80", "" for none. Returns `out`. */
const char *wait_peer(unsigned family, const unsigned char *address, unsigned port, char *out, size_t size);
