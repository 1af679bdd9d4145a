/* The engine process: ClickHouse as a library over the tables of one directory, asked over sockets (engine_wire.h). A
 * process of its own, because the library ends its process when it fails, and to limit what readers' SQL can reach. */
#pragma once

#include <stdint.h>

#define ENGINE_READERS      4                    /* queries at once */
#define ENGINE_SESSIONS     (ENGINE_READERS + 1) /* the first inserts */
#define ENGINE_FIRST_SOCKET 3                    /* descriptor of the first session's socket; the others follow */
#define ENGINE_QUERY_S      30

/* Runs until the sockets are closed. argv[1]: the library's path, [2]: the data directory, absolute, [3]: for how many
 * days rows are kept, [4]: limit of memory in bytes. The first message on the first socket is a struct engine_reply:
 * whether the engine is ready. Returns the exit status. */
int engine_process_main(int argc, char **argv);
