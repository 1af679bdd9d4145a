/* Rows of captures; see capture_row.h. */
#include "server/capture_row.h"

#include "server/row_binary.h"

#include <string.h>

static void put_line(struct buf *row, const char *text)
{
    row_put_text(row, cursor_make(text, strlen(text)));
}

int capture_row_store(struct receiver *receiver, const struct capture *capture, const struct capture_event *event)
{
    _cleanup_buf_ struct buf row = {0};
    row_put_u64(&row, receiver->unix_ns());
    put_line(&row, capture->id);
    put_line(&row, event->state);
    row_put_text(&row, event->why);
    row_put_u8(&row, !event->has_samples); /* NULL */
    if (event->has_samples)
        row_put_u64(&row, event->samples);
    put_line(&row, capture->host);
    put_line(&row, capture->is_off_cpu ? "off_cpu" : "cpu");
    row_put_u32(&row, capture->seconds);
    row_put_u32(&row, capture->pid);
    put_line(&row, capture->container);
    put_line(&row, capture->service);
    put_line(&row, capture->token);
    put_line(&row, capture->address);
    return receiver_store_row(receiver, TABLE_CAPTURES, &row);
}

const char *capture_state_name(uint64_t state)
{
    static const char *const names[] = {[CAPTURE_RUNNING] = "running",
                                        [CAPTURE_DONE] = "done",
                                        [CAPTURE_FAILED] = "failed",
                                        [CAPTURE_REFUSED] = "refused"};
    return state < array_size(names) ? names[state] : NULL;
}
