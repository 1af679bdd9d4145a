/* Tensors and names that a server passes on from its clients: dtype, shape and data from the input, formatted as text.
 * The output must be JSON, with and without strict UTF-8. */
#include "trace/format.h"
#include "trace/json.h"
#include "trace/node.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const dtypes[] = {"BYTES", "BOOL",   "INT8", "UINT8", "INT16", "UINT16", "INT32", "UINT32",
                                     "INT64", "UINT64", "FP16", "BF16",  "FP32",  "FP64",   "NONE",  ""};

static void must_be_json(struct trace_text *value)
{
    struct trace_text out = {0};
    struct json *json;
    const char *why;
    size_t offset;
    trace_text_put_json(&out, value->data ? value->data : "", value->size);
    if (!out.failed && out.size <= JSON_SIZE_MAX) {
        if (json_read(out.data, out.size, &json, &why, &offset) < 0)
            abort();
        if (json_values(json)->text_size < value->size / 3)
            abort();
        json_free(json);
    }
    trace_text_free(&out);
}

/* The first byte: dtype; the second: dimensions, each of 8 bytes; the rest is data. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    const char *dtype = dtypes[data[0] % 16];
    size_t dims = data[1] % 5, shape_bytes = dims * sizeof(int64_t);
    if (size - 2 < shape_bytes)
        return 0;
    size_t data_bytes = size - 2 - shape_bytes;
    struct trace_tensor_record head = {.size_bytes = data_bytes,
                                       .copied_bytes = data_bytes,
                                       .dims = (uint32_t)dims,
                                       .dtype_size = (uint16_t)strlen(dtype)};
    unsigned char *record = malloc(sizeof(head) + size + head.dtype_size);
    if (!record)
        return 0;
    memcpy(record, &head, sizeof(head));
    memcpy(record + sizeof(head), data + 2, shape_bytes + data_bytes);
    memcpy(record + sizeof(head) + shape_bytes + data_bytes, dtype, head.dtype_size);
    struct trace_text text = {0}, raw = {0};
    char why[128] = "";
    int r = trace_format_tensor(&text, (const struct trace_tensor_record *)(const void *)record, why,
                                sizeof(why));
    if ((r < 0) != (why[0] != '\0'))
        abort();
    must_be_json(&text);
    trace_text_put(&raw, data, size);
    must_be_json(&raw);
    trace_text_free(&text);
    trace_text_free(&raw);
    free(record);
    return 0;
}
