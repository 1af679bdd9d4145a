/* Where the agent listens by default, and where programs look for it. */
#pragma once

#define AGENT_SOCKET_PATH    "/run/sonde/sonde.sock"
#define AGENT_LISTEN_ADDRESS "127.0.0.1:7070"
