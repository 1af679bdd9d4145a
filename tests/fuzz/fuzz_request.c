/* Records of requests with any content that the wire's own checks let through (a size that its kind can
 * have): whatever they say, the parts add up to the duration, and all that is told is printable text. */
#include "diagnose/request.h"

#include <stdlib.h>
#include <string.h>

static size_t name_frames(void *context, const __u64 *addresses, size_t count, struct frame *ret_frames,
                          size_t max)
{
    static const char *const names[] = {
        "schedule", "io_schedule", "rwsem_down_read_slowpath", "jbd2_log_wait_commit", "__x64_sys_read", "",
        "x"};
    size_t n = 0;
    (void)context;
    for (; n < count && n < max; n++)
        ret_frames[n] = (struct frame){.kind = FRAME_KERNEL,
                                       .function = names[addresses[n] % array_size(names)],
                                       .mapping = "[kernel.kallsyms]",
                                       .file = "",
                                       .build_id = "",
                                       .address = addresses[n]};
    return n;
}

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
    const struct request_names names = {.kernel_frames = name_frames};
    static struct request_record record;
    struct request *request = NULL;
    const size_t fixed = offsetof(struct request_record, waits);
    memset(&record, 0, sizeof(record));
    memcpy(&record, data, size < sizeof(record) ? size : sizeof(record));
    /* Most bytes go to what is read, and not to guessing a method. */
    if (size && data[size - 1] & 1)
        memcpy(record.line, "GET /", 5);
    record.wait_count %= REQUEST_WAITS + 2;
    record.line_bytes %= REQUEST_LINE_BYTES + 8;
    for (size_t i = 0; i < REQUEST_WAITS; i++)
        record.waits[i].kernel_frames %= REQUEST_KERNEL_FRAMES + 1;
    record.h.kind = WIRE_REQUEST;
    record.h.size_bytes =
        (uint32_t)(fixed + (record.wait_count < REQUEST_WAITS ? record.wait_count : REQUEST_WAITS) *
                               sizeof(record.waits[0]));
    if (diagnose_request(&record, &names, &request) < 0)
        return 0;
    check(request);
    request_free(request);
    return 0;
}
