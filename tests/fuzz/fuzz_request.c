/* Request records with any contents that the record check accepts (a size that its kind can have): the components sum
 * to the duration, and all text is printable. */
#include "diagnose/request.h"

#include <stdlib.h>
#include <string.h>

static size_t name_frames(void *context, const __u64 *addresses, size_t count, struct frame *ret_frames, size_t max)
{
    static const char *const names[] = {
        "schedule", "io_schedule", "rwsem_down_read_slowpath", "jbd2_log_wait_commit", "__x64_sys_read", "", "x"};
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

static size_t name_user_frames(void *context, const struct request_record *record, const struct request_wait *w,
                               const __u64 *addresses, struct frame *ret_frames, size_t max)
{
    static const char *const names[] = {"main", "", "nanosleep", "a\nb\x01\xff", "x<y>::z"}, *const mappings[] = {
                                                                                                 "/usr/bin/server",
                                                                                                 "/lib/libc.so.6",
                                                                                                 "[vdso]", ""};
    size_t n = 0;
    (void)context;
    (void)record;
    for (; n < w->user_frames && n < max; n++)
        ret_frames[n] = (struct frame){.kind = FRAME_NATIVE,
                                       .function = names[addresses[n] % array_size(names)],
                                       .mapping = mappings[addresses[n] / 8 % array_size(mappings)],
                                       .file = "",
                                       .build_id = "",
                                       .address = addresses[n]};
    if (w->user_end && n < max)
        ret_frames[n++] =
            (struct frame){.kind = FRAME_TRUNCATED, .function = "why", .mapping = "", .file = "", .build_id = ""};
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
        for (const char *at = r->parts[i].stack; *at; at++)
            if (((unsigned char)*at < 0x20 && *at != '\n') || *at == 0x7f)
                abort();
    }
    if (sum != r->duration_ns)
        abort();
    check_text(r->method);
    check_text(r->route);
    check_text(r->cause);
    check_text(r->peer);
}

static void set_name(struct request_wait *w, const __u64 *addresses)
{
    __u64 name = REQUEST_STACK_NAME_START(w->user_end);
    for (size_t i = 0; i < w->user_frames; i++)
        name = REQUEST_STACK_NAME_STEP(name, addresses[i]);
    w->stack = REQUEST_STACK_NAME_END(name);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct request_names names = {.kernel_frames = name_frames, .user_frames = name_user_frames};
    static struct request_record_stacks with_stacks;
    struct request_record *record = &with_stacks.r;
    struct request *request = NULL;
    const size_t fixed = offsetof(struct request_record, waits);
    memset(&with_stacks, 0, sizeof(with_stacks));
    memcpy(&with_stacks, data, size < sizeof(with_stacks) ? size : sizeof(with_stacks));
    /* Most of the input is spent on parsing, not on guessing a method. */
    if (size && data[size - 1] & 1)
        memcpy(record->line, "GET /", 5);
    record->wait_count %= REQUEST_WAITS + 2;
    record->line_bytes %= REQUEST_LINE_BYTES + 8;
    for (size_t i = 0; i < REQUEST_WAITS; i++)
        record->waits[i].kernel_frames %= REQUEST_KERNEL_FRAMES + 1;
    size_t frames = 0;
    for (size_t i = 0; i < REQUEST_WAITS; i++) {
        struct request_wait *w = &record->waits[i];
        w->user_frames %= REQUEST_FRAMES / REQUEST_WAITS + 1;
        if (size & 1) /* as the BPF side does: a name that belongs to its frames */
            set_name(w, with_stacks.frames + frames);
        if (i < record->wait_count)
            frames += w->user_frames;
    }
    record->h.kind = RECORD_REQUEST;
    record->h.size_bytes =
        (uint32_t)(fixed + (record->wait_count < REQUEST_WAITS ? record->wait_count : REQUEST_WAITS) *
                               sizeof(record->waits[0]));
    if (frames)
        record->h.size_bytes = (uint32_t)(sizeof(*record) + frames * sizeof(with_stacks.frames[0]));
    if (diagnose_request(record, NULL, &names, &request) < 0)
        return 0;
    check(request);
    request_free(request);
    return 0;
}
