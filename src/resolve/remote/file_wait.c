/* Waits for a reply of the file helper; see file_wait.h. */
#include "resolve/remote/file_wait.h"

#include "base/cleanup.h"
#include "base/turn_time.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define POLL_MS        250
#define SLEEPING_POLLS 4 /* consecutive polls that find the thread in one and the same sleep */

static uint64_t number_after(const char *text, const char *key)
{
    const char *at = strstr(text, key);
    return at ? strtoull(at + strlen(key), NULL, 10) : 0;
}

/* An identifier of the thread's current sleep: its count of context switches, plus 1. 0 when the thread is running
 * or runnable; UINT64_MAX when its status cannot be read. */
static uint64_t current_sleep(pid_t tid)
{
    char name[40], text[4096];
    snprintf(name, sizeof(name), "/proc/%d/status", (int)tid);
    _cleanup_close_ int fd = open(name, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
    if (n <= 0)
        return UINT64_MAX;
    text[n] = '\0';
    const char *state = strstr(text, "\nState:\t");
    if (state && !strchr("SD", state[strlen("\nState:\t")]))
        return 0;
    return number_after(text, "\nvoluntary_ctxt_switches:") + number_after(text, "\nnonvoluntary_ctxt_switches:") + 1;
}

bool file_wait_sleeps(pid_t tid)
{
    return current_sleep(tid) != 0;
}

int file_wait(int socket, pid_t tid, unsigned max_ms)
{
    struct pollfd answer = {.fd = socket, .events = POLLIN};
    uint64_t last = 0;
    unsigned sleeping_polls = 0;
    for (unsigned ms = 0; ms < max_ms && sleeping_polls < SLEEPING_POLLS && !turn_time_is_interrupted();
         ms += POLL_MS) {
        int ready;
        do
            ready = poll(&answer, 1, POLL_MS);
        while (ready < 0 && errno == EINTR);
        if (ready > 0)
            return 0;
        const uint64_t sleep = tid ? current_sleep(tid) : 0;
        sleeping_polls = !sleep ? 0 : sleep == last ? sleeping_polls + 1 : 1;
        last = sleep;
    }
    return sleeping_polls < SLEEPING_POLLS ? -EBUSY : -ETIMEDOUT;
}
