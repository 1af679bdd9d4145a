/* Where subcommands find the agent: ADDRESS:PORT, which may have http:// or https:// before it, or the path of its Unix
 * socket. */
#pragma once

#include "model/agent_place.h"

#include <stdbool.h>

#define AGENT_ADDRESS_HELP                                                                                             \
    "the agent's ADDRESS:PORT, https://ADDRESS:PORT, or path of its socket (default " AGENT_SOCKET_PATH                \
    " or " AGENT_LISTEN_ADDRESS ")"

/* The address that `--agent` gave; NULL: the socket of this node's agent if it accepts this process, else the default
 * network address. */
const char *agent_address_or_default(const char *given);

/* The same for an agent that listens at these places; NULL: it has no such place. */
const char *agent_address_of(const char *socket_path, const char *listen_address);

bool agent_address_is_socket(const char *address);

/* Whether the default socket exists, but not for this user. */
bool agent_address_is_denied(void);

/* Logs why the agent at this address could not be queried; `error` is of agent_client.h. Returns `error`. */
int agent_address_log_failure(const char *subcommand, const char *address, int error);
