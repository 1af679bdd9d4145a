/* See read_burst.h. */
#include "diagnose/flight/read_burst.h"

void read_burst_read(struct read_burst *b, uint64_t socket)
{
    if (b->is_over)
        read_burst_end(b);
    if (b->count && b->count <= READ_BURST_MAX && b->sockets[b->count - 1] == socket)
        return; /* more of it */
    if (b->count < READ_BURST_MAX)
        b->sockets[b->count] = socket;
    b->count += b->count <= READ_BURST_MAX;
}

static void begin_handling(struct read_burst *b, uint32_t steps)
{
    if (b->is_over)
        return;
    b->is_over = true;
    b->is_in_order = b->count > 1 && b->count <= READ_BURST_MAX && steps == b->count;
}

void read_burst_answer(struct read_burst *b, uint64_t socket, uint32_t steps)
{
    if (b->count < 2)
        return;
    begin_handling(b, steps);
    if (b->last_sent == socket)
        return; /* more of it */
    b->last_sent = socket;
    b->is_in_order = b->is_in_order && b->handled < b->count && b->sockets[b->handled] == socket;
    b->handled++;
}

uint64_t read_burst_hand_over(struct read_burst *b, uint32_t steps)
{
    if (b->count < 2)
        return 0;
    begin_handling(b, steps);
    b->last_sent = 0;
    const uint32_t number = b->handled++;
    return b->is_in_order && number < b->count ? b->sockets[number] : 0;
}

void read_burst_end(struct read_burst *b)
{
    *b = (struct read_burst){0};
}
