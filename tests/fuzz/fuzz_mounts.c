/* Lines of mountinfo, a NUL, and a path to look up: parsing terminates, results are within the text, and only existing
 * mounts are found. */
#include "base/mounts.h"

#include <stdlib.h>
#include <string.h>

static void check_text(const struct mounts_text *part, const char *text, size_t size)
{
    if (part->at < text || part->size > size || part->at + part->size > text + size)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const size_t text_size = strnlen((const char *)data, size), rest = size - text_size;
    char *text = strndup((const char *)data, text_size);
    char *path = rest > 1 ? strndup((const char *)data + text_size + 1, rest - 1) : strdup("/");
    bool any = false;
    if (text && path) {
        struct mount m;
        for (const char *at = text; mounts_next(&at, &m);) {
            check_text(&m.point, text, text_size);
            check_text(&m.type, text, text_size);
            check_text(&m.options, text, text_size);
            (void)mounts_has_option(&m, "memory");
            (void)mounts_text_is(&m.type, "cgroup2");
            any = true;
        }
        if (mounts_find(text, path) != 0 && !any)
            abort();
    }
    free(text);
    free(path);
    return 0;
}
