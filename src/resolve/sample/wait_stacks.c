/* Ring buffer of stacks; see wait_stacks.h. Searched from the newest one, because a request refers to its last waits.
 */
#include "resolve/sample/wait_stacks.h"

#include <linux/types.h>

#include "probes/request.h"
#include "probes/unwind/stack.h"

#include <errno.h>
#include <string.h>

#define STACKS_MAX 512

struct wait_stack {
    uint32_t pid;
    uint64_t time_ns; /* 0: empty */
    uint16_t count;
    uint8_t end;
    uint64_t addresses[REQUEST_USER_FRAMES];
};

struct wait_stacks {
    size_t next;
    struct wait_stack stacks[STACKS_MAX];
};

int wait_stacks_new(struct wait_stacks **ret)
{
    struct wait_stacks *w = calloc(1, sizeof(*w));
    if (!w)
        return -ENOMEM;
    *ret = w;
    return 0;
}

void wait_stacks_free(struct wait_stacks *w)
{
    free(w);
}

void wait_stacks_put(struct wait_stacks *w, uint32_t pid, uint64_t time_ns, const uint64_t *addresses, size_t count,
                     unsigned end)
{
    struct wait_stack *s = &w->stacks[w->next];
    if (count > REQUEST_USER_FRAMES) {
        count = REQUEST_USER_FRAMES;
        end = UNWIND_END_TOO_DEEP;
    }
    w->next = (w->next + 1) % STACKS_MAX;
    s->pid = pid;
    s->time_ns = time_ns;
    s->count = (uint16_t)count;
    s->end = (uint8_t)end;
    memcpy(s->addresses, addresses, count * sizeof(*addresses));
}

int wait_stacks_find(const struct wait_stacks *w, uint32_t pid, uint64_t time_ns, uint64_t *ret, size_t max,
                     unsigned *ret_end)
{
    for (size_t i = 1; i <= STACKS_MAX; i++) {
        const struct wait_stack *s = &w->stacks[(w->next + STACKS_MAX - i) % STACKS_MAX];
        if (!s->time_ns)
            break;
        if (s->pid != pid || s->time_ns != time_ns)
            continue;
        size_t count = s->count < max ? s->count : max;
        memcpy(ret, s->addresses, count * sizeof(*ret));
        *ret_end = s->end;
        return (int)count;
    }
    return -ENOENT;
}
