/* Messages to the service manager; see service.h. */
#include "base/service.h"

#include "base/clock.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

static int notify_socket = -1; /* is kept: the manager hears every second that the program works */

void service_notify(const char *state)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const char *path = getenv("NOTIFY_SOCKET");
    const size_t size = path ? strlen(path) : 0;
    if (size < 2 || size >= sizeof(address.sun_path))
        return;
    memcpy(address.sun_path, path, size);
    if (path[0] == '@') /* the abstract namespace */
        address.sun_path[0] = '\0';
    if (notify_socket < 0)
        notify_socket = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (notify_socket >= 0)
        (void)!sendto(notify_socket, state, strlen(state), MSG_NOSIGNAL, (const struct sockaddr *)&address,
                      (socklen_t)(offsetof(struct sockaddr_un, sun_path) + size));
}

void service_notify_reloading(void)
{
    char state[64];
    snprintf(state, sizeof(state), "RELOADING=1\nMONOTONIC_USEC=%llu",
             (unsigned long long)(clock_monotonic_ns() / 1000));
    service_notify(state);
}
