/* See unpacker.h. Input and result are sent at the same time: neither fits into a socket's buffer. */
#include "resolve/symbols/unpacker.h"

#include "base/clock.h"
#include "base/turn_time.h"
#include "resolve/symbols/xz.h"

#include <errno.h>
#include <string.h>
#include <xxhash.h>

#define CPU_MAX_NS  500000000ull /* the largest real ones take some 300 ms */
#define WAIT_MAX_MS 1000

struct result {
    uint8_t *data;
    size_t size, capacity;
};

static int add_to_result(struct result *r, const struct name_message *m)
{
    if (r->size + m->size > XZ_UNPACKED_MAX)
        return -EFBIG;
    if (r->size + m->size > r->capacity) {
        const size_t capacity = r->capacity ? 2 * r->capacity : 16 * NAME_MESSAGE_BYTES;
        uint8_t *grown = realloc(r->data, capacity);
        if (!grown)
            return -ENOMEM;
        r->data = grown;
        r->capacity = capacity;
    }
    if (m->size)
        memcpy(r->data + r->size, m->data, m->size);
    r->size += m->size;
    return 0;
}

/* Sends as much as the process takes at present. 0, or -EPIPE. */
static int send_more(struct name_process *p, const char *packed, size_t size, size_t *sent)
{
    int r = 0;
    while (r == 0 && *sent < size) {
        const size_t n = size - *sent < NAME_MESSAGE_BYTES ? size - *sent : NAME_MESSAGE_BYTES;
        r = name_process_send(p, packed + *sent, n, *sent + n == size);
        *sent += r == 0 ? n : 0;
    }
    return r == -EPIPE ? r : 0;
}

static int exchange(struct name_process *p, const char *packed, size_t size, struct result *result)
{
    const uint64_t end_ns = clock_monotonic_ns() + turn_time_wait_ms(WAIT_MAX_MS) * 1000000ull;
    size_t sent = 0;
    for (;;) {
        const struct name_message *m;
        if (send_more(p, packed, size, &sent) < 0)
            return -EAGAIN;
        const int r = name_process_receive(p, sent < size ? 1 : 5, &m);
        if (r == -EPIPE)
            return -EPERM;
        const int added = r == 0 ? add_to_result(result, m) : 0;
        if (r == 0 && added == 0 && m->is_last)
            return m->error;
        if (added < 0 || clock_monotonic_ns() > end_ns) {
            name_process_abandon(p);
            return added < 0 ? added : -EAGAIN;
        }
    }
}

int unpacker_unpack(struct name_process *p, const void *packed, size_t size, uint8_t **ret, size_t *ret_size)
{
    struct result result = {0};
    if (!size)
        return -ENOEXEC;
    int r = name_process_begin(p, NAME_TASK_UNPACK, XXH3_64bits(packed, size), CPU_MAX_NS);
    if (r == 0)
        r = exchange(p, packed, size, &result);
    if (r < 0) {
        free(result.data);
        return r;
    }
    uint8_t *fitted = realloc(result.data, result.size ? result.size : 1);
    *ret = fitted ? fitted : result.data;
    *ret_size = result.size;
    return 0;
}
