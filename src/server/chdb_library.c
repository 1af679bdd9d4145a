/* Loads libchdb.so; see chdb_library.h. */
#include "server/chdb_library.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>

static bool find(void *library, const char *name, void *ret_function)
{
    return (*(void **)ret_function = dlsym(library, name)) != NULL;
}

int chdb_library_load(const char *path, struct chdb_library *ret)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    return library && find(library, "chdb_connect", &ret->connect) &&
                   find(library, "chdb_reset_signal_handlers", &ret->reset_signals) &&
                   find(library, "chdb_close_conn", &ret->close) && find(library, "chdb_query_n", &ret->query) &&
                   find(library, "chdb_result_buffer", &ret->result_data) &&
                   find(library, "chdb_result_length", &ret->result_size) &&
                   find(library, "chdb_result_error", &ret->result_error) &&
                   find(library, "chdb_destroy_query_result", &ret->free_result)
               ? 0
               : -ENOENT;
}
