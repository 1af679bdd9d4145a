/* The table behind processes.h, shared by the files that fill it: processes.c (records of lives),
 * processes_read.c (/proc, and what is inherited where /proc can no longer tell). */
#pragma once

#include "resolve/files/process_context_file.h"
#include "resolve/object/objects_table.h"
#include "resolve/proc/cgroups.h"
#include "resolve/proc/paths.h"
#include "resolve/proc/proc_files.h"
#include "resolve/process/image.h"
#include "resolve/process/processes.h"

#include <uthash.h>

/* service.name and its kin as a process's environment says, shared by a process and its children; or as it says itself,
 * with all that it says besides. */
struct service {
    unsigned references;
    const char *name, *namespace, *version, *attributes; /* in `text` */
    char text[];
};

enum process_knowledge {
    KNOWN_BY_RECORDS, /* only records have told of it, and they did not begin with its program: /proc is to be
                         asked */
    KNOWN_COMPLETELY, /* a record of exec and all since, or /proc and all since */
    KNOWN_INHERITED,  /* gone before anybody asked: what its parent had */
};

struct process_entry {
    struct process process; /* first: callers hold a pointer to it */
    UT_hash_handle hh;
    struct process_entry *prev, *next; /* in table->used, or in table->exited */
    struct image *image;               /* NULL: nothing known */
    struct cgroup *cgroup;             /* held; NULL: not known yet */
    struct service *service;           /* held; NULL: not known yet */
    struct service *context;           /* held; NULL: it does not say itself who it is, so far */
    struct process_context_place context_place;
    uint64_t context_due_ns;   /* CLOCK_MONOTONIC: when it is looked for, or at, next */
    struct resource *resource; /* NULL until somebody asks */
    uint64_t start_boot_ns;
    uint64_t exit_time_ns;
    uint64_t mappings_read_ns, cgroup_read_ns; /* CLOCK_MONOTONIC; 0: never */
    uint64_t cgroup_id;
    uint64_t view; /* mount namespace; 0: not known */
    uint32_t parent_pid;
    uint32_t generation; /* of table->generation, when last made sure of */
    int32_t threads;
    uint8_t knowledge;    /* enum process_knowledge */
    bool threads_counted; /* `threads` is exact */
    bool leader_exited;
    bool view_known;                  /* since its exec; else `view` is its parent's */
    bool cgroup_known, service_known; /* asked for; there may be none */
    uint16_t reread_after_s;          /* no sooner than this after mappings_read_ns: doubled when nothing had changed */
    uint16_t context_pause_s;         /* the last one before it was looked for in vain; 0: not yet */
    bool is_kernel_thread;
    char command[16];
    uint64_t command_ns; /* as of when */
};

#define MISSED_MAX 512

struct processes {
    struct process_entry *by_pid;
    struct process_entry *used;   /* not exited, least recently touched first */
    struct process_entry *exited; /* in order of exit */
    struct objects *objects;
    struct cgroups *cgroups;
    struct paths paths;
    const struct pods *pods;                /* NULL: nothing is known of them */
    uint64_t missed_containers[MISSED_MAX]; /* the first digits of their ids: told of as missing */
    size_t missed_next;
    bool misses_pods;
    size_t max_bytes, bytes; /* `bytes`: entries, images, services */
    uint64_t now_ns;
    uint64_t version;    /* the last mapping_version given */
    uint32_t generation; /* grows when records were lost */
    uint32_t *evicted;   /* PIDs that were forgotten to keep within max_bytes, to be told by the next sweep */
    size_t evicted_count;
    struct process_entry *check; /* next one to be made sure of after a loss; NULL: done */
    struct buf scratch;
    unsigned depth; /* of asking ancestors */
    bool is_replay; /* /proc is not asked */
    struct {
        uint64_t evictions, proc_reads, mapping_reads, gone, lost;
        uint64_t contexts; /* processes that have one now */
        uint64_t contexts_refused, attributes_left_out;
    } count;
};

#define EVICTED_MAX 1024

static inline struct process_entry *process_entry_of(const struct process *process)
{
    return (struct process_entry *)process;
}

struct process_entry *processes_lookup(struct processes *p, uint32_t pid);
struct process_entry *processes_add(struct processes *p, uint32_t pid, uint64_t start_ns, uint64_t start_boot_ns);
void processes_remove(struct processes *p, struct process_entry *e);
void processes_mark_exited(struct processes *p, struct process_entry *e, uint64_t time_ns);

/* What it is called as of that time. */
void processes_set_command(struct process_entry *e, const char command[16], uint64_t time_ns);

/* Takes `image`'s reference (NULL: none). */
void processes_set_image(struct processes *p, struct process_entry *e, struct image *image);
/* The object and the path of a mapping, held for it; neither where there is no file. */
void processes_name_mapping(struct processes *p, const struct object_sight *sight, struct process_mapping *m);
/* Maps a file, or code without one; opens what is new. */
void processes_map(struct processes *p, struct process_entry *e, const struct object_sight *sight,
                   uint64_t file_offset);
/* Fills the pids of a sight: the process and its ancestors. */
void processes_viewers(struct processes *p, struct process_entry *e, struct object_sight *sight);

/* processes_read.c */
uint64_t processes_boot_offset_ns(void); /* CLOCK_BOOTTIME is so far ahead of CLOCK_MONOTONIC */
struct process_entry *processes_read_new(struct processes *p, uint32_t pid);
/* The directory of `pid`, for functions of proc_files.h, if it is still the process of the entry (NULL: whichever has
 * the number). */
int processes_open_same(const struct processes *p, const struct process_entry *e, uint32_t pid,
                        struct proc_stat *ret_stat);
void processes_complete(struct processes *p, struct process_entry *e);
void processes_identify(struct processes *p, struct process_entry *e);
/* By /proc; and whether it has other threads than the main one. */
bool processes_is_alive(const struct processes *p, const struct process_entry *e, bool *ret_others);
/* NULL when there is nothing in it. */
struct service *service_new(struct processes *p, const struct identity_service *from, const char *attributes);
struct service *service_ref(struct service *s);
void service_unref(struct processes *p, struct service *s);

/* processes_resource.c */
void processes_drop_context(struct processes *p, struct process_entry *e);
