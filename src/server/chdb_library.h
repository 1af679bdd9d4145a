/* The functions of libchdb.so (ClickHouse as a library) that the engine process uses. The library's package has no
 * header: the declarations are ours, checked by tests/e2e/test_server.py against the library. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

typedef struct chdb_connection *chdb_connection;
typedef struct chdb_result *chdb_result;

struct chdb_library {
    /* NULL: it cannot be opened. Further connections with the same arguments share one engine. */
    chdb_connection *(*connect)(int argc, char **argv);
    /* Undoes the library's handling of signals, which keeps a process that fails from ending. */
    void (*reset_signals)(void);
    /* Must be called for every connection before the process ends. */
    void (*close)(chdb_connection *connection);
    chdb_result (*query)(chdb_connection connection, const char *query, size_t query_size, const char *format,
                         size_t format_size);
    char *(*result_data)(chdb_result result);
    size_t (*result_size)(chdb_result result);
    const char *(*result_error)(chdb_result result); /* NULL: the query succeeded */
    void (*free_result)(chdb_result result);
};

#define CHDB_LIBRARY_NAME "libchdb.so"

/* Writes where the library is: beside this program, where `make server` puts it, or where packages do. False: it is in
 * none of these places. */
bool chdb_library_find(char *ret_path, size_t size);

/* Loads the library, which then stays loaded. 0, or -ENOENT: the file or a function of it is missing. */
int chdb_library_load(const char *path, struct chdb_library *ret);
