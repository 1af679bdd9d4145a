/* Writes without stdio; see standard_output.h. */
#include "base/standard_output.h"

#include "base/file_part.h"
#include "base/log.h"

#include <unistd.h>

int standard_output_flush(struct buf *out)
{
    int r = buf_error(out);
    if (r == 0 && out->size)
        r = file_part_write_all(STDOUT_FILENO, out->data, out->size);
    out->size = 0;
    return r;
}

int standard_output_write(const char *name, struct buf *out)
{
    const int r = standard_output_flush(out);
    return r < 0 ? log_errno(r, "%s: standard output cannot be written", name) : 0;
}
