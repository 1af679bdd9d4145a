/* The keys of an executable file in the registry of objects (objects.c). Plain data, compared as bytes. */
#pragma once

#include "resolve/files/object_file.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct object_key {
    uint8_t kind;
    uint8_t bytes; /* length of build_id */
    uint8_t padding[6];
    union {
        struct {
            uint8_t build_id[OBJECT_BUILD_ID_MAX];
            uint64_t check; /* the digest, or a hash of path and mount namespace */
        };
        struct {
            uint64_t device, inode, generation;
        };
    };
};

/* False for a build ID that identifies nothing: linkers accept any value, and careless build scripts give all zeros
 * to every program. */
bool object_key_is_build_id(const uint8_t *build_id, size_t bytes);

/* The build ID and the digest of an opened file. */
struct object_key object_key_of_content(const struct object_identity *id);
/* False for files in memory (memfd): unrelated files share their names. */
bool object_key_is_place(const char *path);
/* The path and mount namespace under which a record reported a build ID. */
struct object_key object_key_of_place(const struct object_sight *sight);
/* A build ID alone: leads to the first object that claimed it. */
struct object_key object_key_of_claim(const uint8_t *build_id, size_t bytes);
struct object_key object_key_of_inode(uint64_t device, uint64_t inode, uint64_t generation);
struct object_key object_key_of_vdso(void);
