/* Darshan's log format 3.41 as it lies in the file, on a little-endian machine: what darshan.c writes. A header, then
 * regions that are compressed one by one: job, names, and the records of each module, in this order. Readers find out
 * by the magic number whether they have to swap bytes. */
#pragma once

#include <stdint.h>

#define DARSHAN_VERSION           "3.41"
#define DARSHAN_MAGIC             INT64_C(6567223)
#define DARSHAN_COMPRESSION_ZLIB  0
#define DARSHAN_MODULES           64
#define DARSHAN_MODULE_POSIX      1 /* its index in the arrays of the header, and its bit of partial_flags */
#define DARSHAN_MODULE_HEATMAP    15
#define DARSHAN_POSIX_VERSION     4
#define DARSHAN_HEATMAP_VERSION   1
#define DARSHAN_SHARED_RANK       INT64_C(-1) /* of a record that was reduced over all ranks */
#define DARSHAN_NOT_AVAILABLE     INT64_C(-1) /* the value of a counter that was not observed */
#define DARSHAN_JOB_REGION_MAX    4096        /* readers ignore longer job regions */
#define DARSHAN_JOB_METADATA_SIZE 1024
#define DARSHAN_NAME_MAX          4095 /* darshan-convert copies a name into PATH_MAX bytes */

/* The record ID of this name by Darshan's own hash: readers know the heatmap by it. */
#define DARSHAN_HEATMAP_POSIX_NAME "heatmap:POSIX"
#define DARSHAN_HEATMAP_POSIX_ID   UINT64_C(16592106915301738621)

struct darshan_region {
    uint64_t offset, size; /* in the file, compressed; both 0: the log has no such region */
};

struct darshan_header {
    char version[8];
    int64_t magic;
    uint8_t compression;
    uint64_t partial_flags; /* a bit for each module with missing records */
    struct darshan_region names;
    struct darshan_region modules[DARSHAN_MODULES];
    uint32_t module_versions[DARSHAN_MODULES];
};
_Static_assert(sizeof(struct darshan_header) == 1328, "size of the header in the file");

/* The job region begins with it. The command line follows, then one "\nTYPE\tMOUNT_POINT" for each mount, then a NUL.
 */
struct darshan_job {
    int64_t uid;
    int64_t start_sec, start_nsec, end_sec, end_nsec; /* since 1970 */
    int64_t processes;
    int64_t job_id;
    char metadata[DARSHAN_JOB_METADATA_SIZE]; /* lines of KEY=VALUE */
};

/* A record of the region of names is this ID, the name and a NUL. A name is never empty, which readers abort on. */
struct darshan_base_record {
    uint64_t id;
    int64_t rank;
};

/* Darshan's names, in the order of the file. The ranges of four and ten are consecutive. */
enum darshan_posix_counter {
    POSIX_OPENS,
    POSIX_FILENOS,
    POSIX_DUPS,
    POSIX_READS,
    POSIX_WRITES,
    POSIX_SEEKS,
    POSIX_STATS,
    POSIX_MMAPS,
    POSIX_FSYNCS,
    POSIX_FDSYNCS,
    POSIX_RENAME_SOURCES,
    POSIX_RENAME_TARGETS,
    POSIX_RENAMED_FROM,
    POSIX_MODE,
    POSIX_BYTES_READ,
    POSIX_BYTES_WRITTEN,
    POSIX_MAX_BYTE_READ,
    POSIX_MAX_BYTE_WRITTEN,
    POSIX_CONSEC_READS,
    POSIX_CONSEC_WRITES,
    POSIX_SEQ_READS,
    POSIX_SEQ_WRITES,
    POSIX_RW_SWITCHES,
    POSIX_MEM_NOT_ALIGNED,
    POSIX_MEM_ALIGNMENT,
    POSIX_FILE_NOT_ALIGNED,
    POSIX_FILE_ALIGNMENT,
    POSIX_MAX_READ_TIME_SIZE,
    POSIX_MAX_WRITE_TIME_SIZE,
    POSIX_SIZE_READ_0_100,
    POSIX_SIZE_READ_1G_PLUS = POSIX_SIZE_READ_0_100 + 9,
    POSIX_SIZE_WRITE_0_100,
    POSIX_SIZE_WRITE_1G_PLUS = POSIX_SIZE_WRITE_0_100 + 9,
    POSIX_STRIDE1_STRIDE,
    POSIX_STRIDE4_STRIDE = POSIX_STRIDE1_STRIDE + 3,
    POSIX_STRIDE1_COUNT,
    POSIX_STRIDE4_COUNT = POSIX_STRIDE1_COUNT + 3,
    POSIX_ACCESS1_ACCESS,
    POSIX_ACCESS4_ACCESS = POSIX_ACCESS1_ACCESS + 3,
    POSIX_ACCESS1_COUNT,
    POSIX_ACCESS4_COUNT = POSIX_ACCESS1_COUNT + 3,
    POSIX_FASTEST_RANK,
    POSIX_FASTEST_RANK_BYTES,
    POSIX_SLOWEST_RANK,
    POSIX_SLOWEST_RANK_BYTES,
    POSIX_COUNTER_COUNT,
};
_Static_assert(POSIX_COUNTER_COUNT == 69, "number of counters in the file");

/* In seconds; timestamps since the start of the job, 0: it did not happen. */
enum darshan_posix_time {
    POSIX_F_OPEN_START_TIMESTAMP,
    POSIX_F_READ_START_TIMESTAMP,
    POSIX_F_WRITE_START_TIMESTAMP,
    POSIX_F_CLOSE_START_TIMESTAMP,
    POSIX_F_OPEN_END_TIMESTAMP,
    POSIX_F_READ_END_TIMESTAMP,
    POSIX_F_WRITE_END_TIMESTAMP,
    POSIX_F_CLOSE_END_TIMESTAMP,
    POSIX_F_READ_TIME,
    POSIX_F_WRITE_TIME,
    POSIX_F_META_TIME,
    POSIX_F_MAX_READ_TIME,
    POSIX_F_MAX_WRITE_TIME,
    POSIX_F_FASTEST_RANK_TIME,
    POSIX_F_SLOWEST_RANK_TIME,
    POSIX_F_VARIANCE_RANK_TIME,
    POSIX_F_VARIANCE_RANK_BYTES,
    POSIX_F_COUNTER_COUNT,
};
_Static_assert(POSIX_F_COUNTER_COUNT == 17, "number of times in the file");

struct darshan_posix_record {
    struct darshan_base_record base;
    int64_t counters[POSIX_COUNTER_COUNT];
    double times[POSIX_F_COUNTER_COUNT];
};
_Static_assert(sizeof(struct darshan_posix_record) == 704, "size of a POSIX record in the file");

/* The bytes written in each interval follow, then those read. */
struct darshan_heatmap_record {
    struct darshan_base_record base;
    double interval_seconds;
    int64_t interval_count;
    uint64_t reserved[2]; /* pointers in a reader's memory */
};
_Static_assert(sizeof(struct darshan_heatmap_record) == 48, "size of a heatmap record in the file");
