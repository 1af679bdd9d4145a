/* Evidence for the segments of a critical path, from the records of their threads and times: the files that threads
 * waited for, and the processes that ran while a thread waited for a CPU. Pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* At `time`, thread `tid` began to wait for pages of a file. */
struct path_file_wait {
    uint64_t time_ns;
    uint64_t file;              /* its key (flight_recorder_file) */
    uint64_t first_page, pages; /* `pages` 0: the range is not known */
    uint32_t tid;
    bool is_of_call;  /* the file of the system call; otherwise the file of the pages that the thread last read */
    bool is_transfer; /* these pages had to come from the disk, or go to it; otherwise the call asked for them */
    bool is_inferred; /* a page fault; the page that it needs is not recorded: the thread last read these */
};

/* In the segment of kind run_queue that starts at `segment`, this process ran on the CPU that the thread then got. */
struct path_runner {
    uint64_t segment_ns;
    uint64_t ns;
    uint32_t pid; /* never 0 */
};

struct path_evidence {
    struct path_file_wait *files; /* by time */
    size_t file_count;
    struct path_runner *runners; /* by segment */
    size_t runner_count;
    struct path_disk_request *disks; /* path_disk.h */
    size_t disk_count;
    struct path_interrupt *interrupts; /* path_interrupts.h; by segment */
    size_t interrupt_count;
    struct path_reclaim *reclaims; /* path_reclaim.h */
    size_t reclaim_count;
};

void path_evidence_clear(struct path_evidence *e);

/* The waits for files, of all threads, that began in [from, to). */
const struct path_file_wait *path_evidence_files(const struct path_evidence *e, uint64_t from_ns, uint64_t to_ns,
                                                 size_t *ret_count);
