/* Keys of executable files; see object_keys.h. */
#include "resolve/object/object_keys.h"

#include <string.h>
#include <xxhash.h>

enum { KEY_CONTENT = 1, KEY_PLACE, KEY_CLAIM, KEY_INODE, KEY_VDSO };

bool object_key_is_build_id(const uint8_t *build_id, size_t bytes)
{
    for (size_t i = 0; i < bytes && i < OBJECT_BUILD_ID_MAX; i++)
        if (build_id[i])
            return bytes <= OBJECT_BUILD_ID_MAX;
    return false;
}

static struct object_key make_build_id_key(uint8_t kind, const uint8_t *build_id, size_t bytes, uint64_t check)
{
    struct object_key key = {.kind = kind, .bytes = (uint8_t)bytes};
    memcpy(key.build_id, build_id, bytes);
    key.check = check;
    return key;
}

struct object_key object_key_of_content(const struct object_identity *id)
{
    return make_build_id_key(KEY_CONTENT, id->build_id, id->build_id_bytes, id->digest);
}

bool object_key_is_place(const char *path)
{
    return strncmp(path, "/memfd:", 7) != 0;
}

struct object_key object_key_of_place(const struct object_sight *sight)
{
    const uint64_t place = XXH3_64bits_withSeed(sight->path, strlen(sight->path), sight->view);
    return make_build_id_key(KEY_PLACE, sight->build_id, sight->build_id_bytes, place);
}

struct object_key object_key_of_claim(const uint8_t *build_id, size_t bytes)
{
    return make_build_id_key(KEY_CLAIM, build_id, bytes, 0);
}

struct object_key object_key_of_inode(uint64_t device, uint64_t inode, uint64_t generation)
{
    struct object_key key = {.kind = KEY_INODE};
    key.device = device;
    key.inode = inode;
    key.generation = generation;
    return key;
}

struct object_key object_key_of_vdso(void)
{
    return (struct object_key){.kind = KEY_VDSO};
}
