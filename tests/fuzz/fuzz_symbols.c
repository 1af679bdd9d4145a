/* Symbols of a hostile ELF file: lookups with large caches and with none give the same results. */
#include "resolve/symbols/symbols.h"

#include "../unit/resolve/object_by_path.h"

#include "memory_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int object_open_in_process_root(const struct object *o, const char *path)
{
    (void)o;
    (void)path;
    return -ENOENT;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[MEMORY_FILE_PATH_BYTES];
    int fd = memory_file(data, size, path);
    struct object object = {.id = 1, .path = path, .build_id = ""};
    struct symbols *large, *small;
    if (symbols_new(&(struct symbols_options){.cache_bytes = 1 << 20, .debug_root = "/nonexistent"}, &large) <
            0 ||
        symbols_new(&(struct symbols_options){.cache_bytes = 1, .debug_root = "/nonexistent"}, &small) < 0)
        abort();
    /* addresses spread over the file, and dense where code often begins */
    for (size_t i = 0; i < 48; i++) {
        uint64_t offset = i < 32 ? size * i / 32 : 0x1000 + (i - 32) * 0x40;
        struct symbol a, b;
        symbols_find(large, &object, offset, &a);
        symbols_find(small, &object, offset, &b);
        if (a.address != b.address || strcmp(a.function, b.function))
            abort();
        struct symbol again;
        symbols_find(large, &object, offset, &again);
        if (strcmp(again.function, b.function))
            abort();
    }
    symbols_free(large);
    symbols_free(small);
    close(fd);
    return 0;
}
