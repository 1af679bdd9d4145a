/* A recording with any contents through the whole pipeline: records that the reader accepts are resolved and written
 * without harm, and the replay terminates. */
#include "base/log.h"
#include "export/export.h"
#include "model/profile.h"
#include "pipeline/pipeline.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static int take_sample(void *context, const struct sample *sample)
{
    return profile_add(context, sample);
}

static int take_request(void *context, struct request *request)
{
    uint64_t sum_ns = 0;
    (void)context;
    for (size_t i = 0; i < request->part_count; i++)
        sum_ns += request->parts[i].duration_ns;
    if (sum_ns != request->duration_ns)
        abort();
    request_free(request);
    return 0;
}

static void replay(const char *path, struct profile *profile)
{
    struct attach_report report = {0};
    const struct pipeline_options options = {.memory_bytes = 8 << 20, .replay = path};
    const struct pipeline_sink sink = {.context = profile, .sample = take_sample, .request = take_request};
    _cleanup_(pipeline_freep) struct pipeline *p = NULL;
    _cleanup_buf_ struct buf out = {0};
    int r = pipeline_new(&options, &sink, &report, &p);
    if (r < 0)
        return;
    do
        r = pipeline_turn(p);
    while (r >= 0);
    if (r != -ENODATA || exporter_folded.write(profile, &out) < 0)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[32];
    struct profile *profile;
    _cleanup_close_ int fd = memfd_create("wire", MFD_CLOEXEC);
    log_set_level(LOG_LEVEL_ERROR);
    if (fd < 0 || write(fd, data, size) != (ssize_t)size || profile_new(4 << 20, &profile) < 0)
        return 0;
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    replay(path, profile);
    profile_free(profile);
    return 0;
}
