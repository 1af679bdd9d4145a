/* The evidence for the segments of a critical path; see path_evidence.h. */
#include "diagnose/path/path_evidence.h"

#include <stdlib.h>

void path_evidence_clear(struct path_evidence *e)
{
    free(e->files);
    free(e->runners);
    free(e->disks);
    free(e->interrupts);
    free(e->reclaims);
    *e = (struct path_evidence){0};
}

const struct path_file_wait *path_evidence_files(const struct path_evidence *e, uint64_t from_ns, uint64_t to_ns,
                                                 size_t *ret_count)
{
    size_t low = 0, high = e->file_count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (e->files[middle].time_ns < from_ns)
            low = middle + 1;
        else
            high = middle;
    }
    for (high = low; high < e->file_count && e->files[high].time_ns < to_ns;)
        high++;
    *ret_count = high - low;
    return e->files + low;
}
