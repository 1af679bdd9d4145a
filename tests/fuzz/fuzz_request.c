/* Request records with any contents: the components sum to the duration, and all text is printable. */
#include "diagnose/request.h"

#include <stdlib.h>
#include <string.h>

static void check_text(const char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text < 0x20 || *text == 0x7f)
            abort();
}

static void check(const struct request *r)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < r->part_count; i++) {
        if (r->parts[i].kind >= REQUEST_PART_COUNT || r->parts[i].duration_ns == 0)
            abort();
        sum += r->parts[i].duration_ns;
        check_text(r->parts[i].detail);
    }
    if (sum != r->duration_ns)
        abort();
    check_text(r->method);
    check_text(r->route);
    check_text(r->cause);
    check_text(r->peer);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct request_names names = {0};
    struct request_record record = {.id = 0};
    struct request *request = NULL;
    memcpy(&record, data, size < sizeof(record) ? size : sizeof(record));
    /* Most of the input is spent on parsing, not on guessing a method. */
    if (size && data[size - 1] & 1)
        memcpy(record.line, "GET /", 5);
    record.line_bytes %= REQUEST_LINE_BYTES + 8;
    record.h.kind = RECORD_REQUEST;
    record.h.size_bytes = sizeof(record);
    if (diagnose_request(&record, NULL, (enum request_no_path)(size % REQUEST_NO_REASONS), &names, &request) < 0)
        return 0;
    check(request);
    request_free(request);
    return 0;
}
