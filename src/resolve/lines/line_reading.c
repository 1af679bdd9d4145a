/* Messages of a line helper; see line_reading.h. */
#include "resolve/lines/line_reading.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/descriptors.h"
#include "base/sandbox.h"
#include "resolve/lines/line_files.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>

#define OPENS_MAX 65536 /* per process */

static void read_message(struct line_reading *r, struct line_helper *helper)
{
    _cleanup_free_ char *data = malloc(LINE_ANSWER_BYTES_MAX);
    struct descriptors with;
    if (!data) {
        r->error = -ENOSPC;
        return;
    }
    const ssize_t n = descriptors_receive(helper->socket, data, LINE_ANSWER_BYTES_MAX, &with, MSG_DONTWAIT);
    if (n > 0 && !r->greeted) {
        r->greeted = true;
        helper->listener = with.fds[0];
        with.fds[0] = -1;
        if (n == 1) {
            descriptors_close(&with);
            return;
        }
    }
    descriptors_close(&with);
    if (n == -EAGAIN)
        return;
    if (n <= 0) {
        r->ended = true;
        r->error = -EBADMSG; /* it ended without a status message */
        return;
    }
    r->error = line_answer_read(data, (size_t)n, r->answer);
    if (r->error < 0)
        return;
    if (r->answer->kind == LINE_ANSWER_PLACE) {
        r->error = r->place(r->context, r->answer);
        return;
    }
    r->status = r->answer->status;
    r->ended = true;
}

static void serve_open_request(struct line_reading *r, const struct line_helper *helper)
{
    struct sandbox_open asked;
    if (sandbox_next_open(helper->listener, &asked) < 0)
        return;
    _cleanup_close_ int fd =
        ++r->opens < OPENS_MAX ? line_files_open_split(r->object, asked.path, r->copy_max) : -EMFILE;
    sandbox_answer_open(helper->listener, &asked, fd < 0 ? -ENOENT : fd);
}

static int wait_ms(uint64_t until_ns)
{
    const uint64_t now_ns = clock_monotonic_ns();
    return now_ns >= until_ns ? 0 : (int)((until_ns - now_ns) / 1000000 + 1);
}

void line_reading_run(struct line_reading *r, struct line_helper *helper)
{
    while (!r->ended && r->error == 0) {
        struct pollfd fds[] = {{.fd = helper->socket, .events = POLLIN},
                               {.fd = helper->listener, .events = POLLIN},
                               {.fd = r->stop_fd, .events = POLLIN}};
        const int ready = poll(fds, array_size(fds), wait_ms(r->until_ns));
        if (ready < 0 && errno == EINTR)
            continue;
        if (ready <= 0) {
            r->error = -ETIMEDOUT;
        } else if (fds[2].revents) {
            r->error = -ECANCELED;
        } else if (fds[0].revents) {
            read_message(r, helper);
        } else if (fds[1].revents & POLLIN) {
            serve_open_request(r, helper);
        } else if (fds[1].revents) { /* the process is about to end */
            close(helper->listener);
            helper->listener = -1;
        }
    }
}
