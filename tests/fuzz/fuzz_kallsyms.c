/* A kernel symbol table from any text: every lookup stays within bounds, and a found symbol begins at or before the
 * address. */
#include "resolve/kernel/kallsyms.h"

#include "memory_file.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    /* the bytes after a NUL are /proc/modules */
    const uint8_t *end = memchr(data, '\0', size);
    size_t text = end ? (size_t)(end - data) : size, rest = end ? size - text - 1 : 0;
    char path[MEMORY_FILE_PATH_BYTES];
    int fd = memory_file(data, text, path), modules = memory_file(end ? end + 1 : data, rest, path);
    struct kallsyms *k = NULL;
    (void)kallsyms_check(fd);
    if (kallsyms_read(fd, modules, &k) == 0) {
        static const uint64_t places[] = {
            0, 1, 0x1000, 0xffffffff81000000, 0xffffffff81000010, 0xffffffffc0000000, UINT64_MAX};
        uint64_t address = 0;
        for (size_t i = 0; i < 64; i++) {
            struct kallsyms_symbol s;
            address = i < sizeof(places) / sizeof(places[0]) ? places[i]
                                                             : address * 6364136223846793005u + 1442695040888963407u;
            if (!kallsyms_find(k, address, &s))
                continue;
            if (s.start > address || strlen(s.name) >= sizeof(s.name) || !s.module)
                abort();
            struct kallsyms_symbol at_start;
            if (!kallsyms_find(k, s.start, &at_start) || strcmp(s.name, at_start.name))
                abort();
        }
        kallsyms_free(k);
    }
    close(fd);
    close(modules);
    return 0;
}
