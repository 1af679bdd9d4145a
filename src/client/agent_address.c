/* Where subcommands find the agent; see agent_address.h. */
#include "client/agent_address.h"

#include "base/cleanup.h"
#include "base/log.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

/* 0: an agent accepts. */
static int try_socket(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    _cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (strlen(path) >= sizeof(address.sun_path))
        return -ENAMETOOLONG;
    memcpy(address.sun_path, path, strlen(path) + 1);
    return fd < 0 || connect(fd, (const struct sockaddr *)&address, sizeof(address)) < 0 ? -errno : 0;
}

const char *agent_address_of(const char *socket_path, const char *listen_address)
{
    if (socket_path && (!listen_address || try_socket(socket_path) == 0))
        return socket_path;
    return listen_address ? listen_address : AGENT_SOCKET_PATH;
}

const char *agent_address_or_default(const char *given)
{
    return given ? given : agent_address_of(AGENT_SOCKET_PATH, AGENT_LISTEN_ADDRESS);
}

bool agent_address_is_socket(const char *address)
{
    return address[0] == '/';
}

bool agent_address_is_denied(void)
{
    return try_socket(AGENT_SOCKET_PATH) == -EACCES;
}

int agent_address_log_failure(const char *subcommand, const char *address, int error)
{
    const char *socket_path = agent_address_is_socket(address) ? address : AGENT_SOCKET_PATH;
    if (error == -ENOPKG)
        return error; /* already logged */
    if (error == -ECONNREFUSED && try_socket(socket_path) == -EACCES)
        log_error("%s: %s: Permission denied: only root and the socket's group can query the agent (page.socket_group)",
                  subcommand, socket_path);
    else if (error == -ECONNREFUSED)
        log_error("%s: no agent at %s; start one with `sonde up`", subcommand, address);
    else if (error == -EACCES)
        log_error("%s: the agent at %s wants a valid token (`sonde token new`) in the environment variable SONDE_TOKEN",
                  subcommand, address);
    else if (error == -EKEYREJECTED)
        log_error(
            "%s: the certificate of the agent at %s cannot be verified: name the file of its authority in the environment variable SONDE_CA_FILE, and use a name that the certificate has",
            subcommand, address);
    else if (error == -ECONNRESET && !strstr(address, "https://"))
        log_error(
            "%s: the agent at %s does not answer over HTTP; if it has page.tls_certificate, its address is https://%s",
            subcommand, address, address);
    else
        log_errno(error, "%s: the agent at %s does not answer", subcommand, address);
    return error;
}
