/* By what an executable file is known in the registry of objects (objects.c). Plain data, compared by bytes.
 */
#pragma once

#include "resolve/files/object_file.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct object_key {
    uint8_t kind;
    uint8_t bytes; /* of build_id */
    uint8_t padding[6];
    union {
        struct {
            uint8_t build_id[OBJECT_BUILD_ID_MAX];
            uint64_t check; /* the digest, or a hash of the place */
        };
        struct {
            uint64_t device, inode, generation;
        };
    };
};

/* Linkers can be told any build id; one of zeros is what a careless build script gives to all its programs.
 */
bool object_key_is_build_id(const uint8_t *build_id, size_t bytes);

/* The build id and the digest of a file that was opened. */
struct object_key object_key_of_content(const struct object_identity *id);
/* Files in memory are all over the place: their names say nothing of which they are. */
bool object_key_is_place(const char *path);
/* Where a record told of a build id: path and mount namespace. */
struct object_key object_key_of_place(const struct object_sight *sight);
/* A build id alone: whoever claimed it first. */
struct object_key object_key_of_claim(const uint8_t *build_id, size_t bytes);
struct object_key object_key_of_inode(uint64_t device, uint64_t inode, uint64_t generation);
struct object_key object_key_of_vdso(void);
