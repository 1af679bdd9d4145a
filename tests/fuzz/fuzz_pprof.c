/* A pprof message: a profile that is read is complete, and comparing it with itself shows no change. */
#include "export/diff_text.h"
#include "import/pprof_file.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    _cleanup_(profile_freep) struct profile *p = NULL;
    _cleanup_(profile_diff_freep) struct profile_diff *d = NULL;
    _cleanup_buf_ struct buf text = {0}, folded = {0};
    struct pprof_about about;
    if (pprof_read(data, size, NULL, &p, &about) < 0)
        return 0;
    if (memchr(about.type, '\0', sizeof(about.type)) == NULL || profile_diff_new(p, p, &d) < 0)
        abort();
    for (size_t i = 0; i < d->function_count; i++) {
        const struct diff_change change = profile_diff_change(d, d->functions[i].self);
        if (diff_change_of(&change) != 0)
            abort();
    }
    const struct diff_text_options options = {.rows = 10, .all = true};
    if (diff_text_write(&text, d, &options) < 0 || diff_folded_write(&folded, d) < 0)
        abort();
    return 0;
}
