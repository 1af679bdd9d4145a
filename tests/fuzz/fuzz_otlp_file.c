/* Arbitrary OTLP spans, JSON or protobuf, converted to Triton's JSON: reading stays within the input, and our own
 * reader accepts the output without a complaint. */
#include "trace/export/triton_json.h"
#include "trace/import/otlp_file.h"
#include "trace/import/triton_file.h"

#include "memory_file.h"

#include <stdint.h>
#include <string.h>

static void read_back(const struct buf *out)
{
    char path[MEMORY_FILE_PATH_BYTES];
    int fd = memory_file(out->data, out->size, path);
    _cleanup_(triton_file_freep) struct triton_file *file = NULL;
    struct triton_record record;
    int r = triton_file_open(path, &file);
    while (r >= 0 && (r = triton_file_next(file, &record)) > 0)
        ;
    const struct triton_report *report = triton_file_report(file);
    if (r < 0 || report->bad || report->is_cut || report->odd)
        abort();
    close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int (*const readers[])(const char *, size_t, struct otlp_spans *, size_t *) = {otlp_json_read, otlp_protobuf_read,
                                                                                   otlp_file_read};
    for (size_t i = 0; i < array_size(readers); i++) {
        _cleanup_(otlp_spans_clear) struct otlp_spans spans = {0};
        _cleanup_buf_ struct buf out = {0};
        struct triton_json_losses losses;
        size_t offset = 0;
        if (otlp_spans_init(&spans) < 0)
            abort();
        readers[i]((const char *)data, size, &spans, &offset);
        if (offset > size || triton_json_write(&out, &spans, 0, &losses) < 0 || losses.spans > spans.count)
            abort();
        read_back(&out);
    }
    return 0;
}
