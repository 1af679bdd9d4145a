/* What the files of the I/O source share. */
#pragma once

#include "sources/io/io.h"

struct io_bpf;

struct io_source {
    struct io_bpf *bpf;
    const struct shared_tables *tables;
    bool is_started, is_shed;
    uint64_t swept;               /* requests */
    struct io_slow_records *slow; /* NULL: not wanted */
    size_t access_count;          /* in the table, in the last round */
};

/* Operations that were not seen. */
uint64_t io_source_missed(struct io_source *s, const struct io_stats *sum);
