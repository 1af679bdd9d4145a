/* Tells the two encodings apart; see otlp_file.h. */
#include "trace/import/otlp_file.h"

#include <errno.h>

/* A protobuf message starts with the tag of field 1, which is also the newline character, and JSON may start with a
 * newline: so JSON is tried when protobuf fails without a span. */
int otlp_file_read(const char *data, size_t size, struct otlp_spans *spans, size_t *ret_offset)
{
    const char protobuf = 1 << 3 | 2;
    const size_t before = spans->count;
    const int r = size && *data == protobuf ? otlp_protobuf_read(data, size, spans, ret_offset) : -EBADMSG;
    return r == -EBADMSG && spans->count == before ? otlp_json_read(size ? data : "", size, spans, ret_offset) : r;
}
