/* The table behind processes.h, with the operations that the files which fill it share: processes_read.c (/proc, and
 * inheritance where /proc is no longer available), processes_resource.c and processes.c (process lifecycle events). */
#pragma once

#include "model/program_start.h"
#include "model/resource.h"
#include "resolve/files/process_context_file.h"
#include "resolve/object/objects.h"
#include "resolve/proc/cgroups.h"
#include "resolve/proc/paths.h"
#include "resolve/proc/proc_files.h"
#include "resolve/process/image.h"
#include "resolve/process/process.h"

#include <uthash.h>

/* service.name, service.namespace and service.version from a process's environment, shared by a process and its
 * children; or from the context that the process publishes itself, with all its other attributes. */
struct service {
    unsigned references;
    const char *name, *namespace, *version, *attributes; /* in `text` */
    char text[];
};

enum process_knowledge {
    KNOWN_BY_RECORDS, /* only partial records, which did not begin with its exec: /proc must be read */
    KNOWN_COMPLETELY, /* complete: its exec or /proc, and all records since */
    KNOWN_INHERITED,  /* exited before /proc was read: data of its parent */
};

/* A resource with references to the objects that it was made of: never changed, only replaced. */
struct process_resource {
    struct resource resource;
    struct process_resource *next; /* in table->retired */
    const char *executable;        /* interned (paths.h); NULL: unknown */
    struct cgroup *cgroup;
    struct service *service, *context;
    struct pods *pods;
    uint32_t parent_pid;
    char command[16];
};

struct process_entry {
    struct process process; /* first: callers hold a pointer to it */
    UT_hash_handle hh;
    struct process_entry *prev, *next; /* in table->used, or in table->exited */
    struct image *image;               /* NULL: unknown */
    struct cgroup *cgroup;             /* a reference; NULL: not known yet */
    struct service *service;           /* a reference; NULL: not known yet */
    struct service *context;           /* a reference; NULL: the process has published none so far */
    struct process_context_place context_place;
    uint64_t context_due_ns;           /* CLOCK_MONOTONIC: when to look for it, or to check it, next */
    struct process_resource *resource; /* NULL until first requested; may be outdated */
    uint64_t start_boot_ns;
    uint64_t exit_time_ns;
    uint64_t mappings_read_ns, cgroup_read_ns; /* CLOCK_MONOTONIC; 0: never */
    uint64_t cgroup_id;
    uint64_t view; /* mount namespace; 0: unknown */
    uint32_t parent_pid;
    uint32_t generation; /* table->generation when the entry was last verified */
    int32_t threads;
    uint8_t knowledge;    /* enum process_knowledge */
    bool threads_counted; /* `threads` is exact */
    bool leader_exited;
    bool view_known;                  /* read since its exec; otherwise `view` is its parent's */
    bool cgroup_known, service_known; /* has been read; there may be none */
    uint16_t reread_after_s;          /* minimum interval after mappings_read_ns: doubled when nothing had changed */
    uint16_t context_pause_s;         /* the last pause before a failed search; 0: none yet */
    bool is_kernel_thread;
    char command[16];
    uint64_t command_ns; /* the time of `command` */
};

#define MISSED_MAX       512
#define EXITED_NAMES_MAX 2048

struct exited_name {
    uint32_t pid;
    char command[16];
};

struct processes {
    struct process_entry *by_pid;
    struct process_entry *used;   /* running, least recently used first */
    struct process_entry *exited; /* in order of exit */
    struct objects *objects;
    struct cgroups *cgroups;
    struct paths paths;
    struct pods *pods;                      /* a reference; NULL: none known */
    struct process_resource *retired;       /* replaced in this turn: callers may still read them */
    uint64_t missed_containers[MISSED_MAX]; /* the first digits of container IDs already reported as missing */
    size_t missed_next;
    bool misses_pods;
    size_t max_bytes, bytes; /* `bytes`: entries, images, services, resources */
    size_t retired_bytes;    /* of `retired`; no eviction would free them, so they are not in `bytes` */
    uint64_t now_ns;
    uint64_t version;    /* the last mapping_version assigned */
    uint32_t generation; /* increases when records were lost */
    uint32_t *evicted;   /* PIDs evicted to keep within max_bytes, reported by the next sweep */
    size_t evicted_count;
    struct process_entry *check; /* next entry to verify after a loss; NULL: done */
    /* NULL: not known */
    bool (*find_start)(void *context, uint32_t pid, uint64_t since_ns, struct program_start *ret);
    void *find_start_context;
    struct buf scratch;
    unsigned depth;                                    /* recursion depth while reading ancestors */
    bool is_replay;                                    /* /proc is not read */
    struct exited_name exited_names[EXITED_NAMES_MAX]; /* of removed processes: the one with this PID modulo the size */
    struct {
        uint64_t evictions, proc_reads, mapping_reads, gone, lost;
        uint64_t contexts; /* processes that publish one now */
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

/* Sets the name, as of `time_ns`. */
void processes_set_command(struct process_entry *e, const char command[16], uint64_t time_ns);

/* Takes `image`'s reference (NULL: none). */
void processes_set_image(struct processes *p, struct process_entry *e, struct image *image);
/* Sets and references the object and the path of a mapping; neither where there is no file. */
void processes_name_mapping(struct processes *p, const struct object_sight *sight, struct process_mapping *m);
/* Maps a file, or anonymous code; opens a file that is new. */
void processes_map(struct processes *p, struct process_entry *e, const struct object_sight *sight,
                   uint64_t file_offset);
/* What is known of the program since its last exec. False: nothing. */
bool processes_program_start(const struct processes *p, const struct process_entry *e, struct program_start *ret);
/* Fills what a sight says about the process: with its ancestors. */
void processes_fill_sight(struct processes *p, struct process_entry *e, struct object_sight *sight);

/* NULL when all fields are empty, or out of memory. */
struct service *service_new(struct processes *p, const struct identity_service *from, const char *attributes);
struct service *service_ref(struct service *s);
void service_unref(struct processes *p, struct service *s);

/* Replaces the entry's resource by none, and keeps it readable until processes_free_retired. */
void processes_retire_resource(struct processes *p, struct process_entry *e);
void processes_free_retired(struct processes *p);
/* Takes `context`'s reference (NULL: none). */
void processes_set_context(struct processes *p, struct process_entry *e, struct service *context);
/* Forgets the context and where it was. */
void processes_drop_context(struct processes *p, struct process_entry *e);
