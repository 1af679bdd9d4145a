/* The objects and processes that the unwind publisher has published or is to publish: the state that
 * unwind_publisher*.c share. */
#pragma once

#include "base/cpu_share.h"
#include "pipeline/unwind_builder.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

enum object_state {
    OBJECT_UNKNOWN, /* not in the kernel: no stack has needed it, or no space until `retry_ns` */
    OBJECT_WAITING, /* it has users, and its table is to be built within the share */
    OBJECT_QUEUED,  /* being built by the builder thread */
    OBJECT_PRESENT,
    OBJECT_NO_RULES,
    OBJECT_TOO_LARGE, /* its table does not fit, even alone: the stacks are copied */
};

struct published_object {
    uint64_t id;
    struct object *object; /* a reference */
    enum object_state state;
    uint32_t number; /* valid if present */
    size_t bytes;
    size_t users; /* mappings of published processes */
    uint64_t unused_since_ns;
    uint64_t retry_ns;
    uint64_t waiting_since_ns; /* 0: it has not waited since it was built */
    uint64_t first_lookups;    /* of its rules, by the walk that made it wait */
    struct published_object *waiting_prev, *waiting_next;
    bool is_outside_share; /* queued: its build is not charged to the share */
    unsigned refusals;     /* how often its table did not fit, in succession */
    uint64_t wanted_ns;    /* last use; up to date only after fill_wanted */
    UT_hash_handle hh;
};

struct published_mapping {
    struct published_object *object; /* NULL: no file */
    uint32_t number;                 /* as published to the kernel */
};

struct published_process {
    uint32_t pid;
    uint64_t start_time_ns, mapping_version;
    uint64_t generation; /* of the publisher, when the process was last published */
    uint64_t wanted_ns, retry_ns;
    bool is_in_kernel;
    int layout_error; /* -EAGAIN: an interpreter is still starting; other errors: its file could not be read; 0 */
    struct published_mapping *mappings;
    size_t mapping_count;
    UT_hash_handle hh;
};

struct unwind_publisher {
    struct unwind_tables *tables;
    struct unwind_cache *cache;
    struct interpreters *interpreters;
    struct unwind_builder *builder;
    struct published_process *processes;
    struct published_object *objects;
    uint64_t now_ns, last_sweep_ns;
    uint64_t generation; /* plus the cache's: when it changes, processes are republished with their next sample */
    uint64_t retry_ns;   /* when it is incremented, because an object may be retried; 0: never */
    uint64_t puts, evictions, refused;
    struct cpu_share share;
    struct published_object *waiting; /* the objects in OBJECT_WAITING */
    size_t waiting_count;
    bool trim_wanted, met_runtime;
};
