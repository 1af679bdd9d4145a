/* Finds and loads libchdb.so; see chdb_library.h. */
#include "server/chdb_library.h"

#include "base/cleanup.h"
#include "server/engine_files.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

bool chdb_library_find(char *ret_path, size_t size)
{
    static const char *const directories[] = {"/usr/local/lib/sonde", "/usr/lib/sonde"};
    char program[PATH_MAX - sizeof("/engine/" CHDB_LIBRARY_NAME)];
    const ssize_t n = readlink("/proc/self/exe", program, sizeof(program) - 1);
    if (n > 0) {
        program[n] = '\0';
        *strrchr(program, '/') = '\0';
        snprintf(ret_path, size, "%s/engine/" CHDB_LIBRARY_NAME, program);
        if (access(ret_path, R_OK) == 0)
            return true;
    }
    for (size_t i = 0; i < array_size(directories); i++) {
        snprintf(ret_path, size, "%s/" CHDB_LIBRARY_NAME, directories[i]);
        if (access(ret_path, R_OK) == 0)
            return true;
    }
    return false;
}

static bool find(void *library, const char *name, void *ret_function)
{
    return (*(void **)ret_function = dlsym(library, name)) != NULL;
}

int chdb_library_load(const char *path, struct chdb_library *ret)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!library || engine_files_guard(library) < 0)
        return -ENOENT;
    return find(library, "chdb_connect", &ret->connect) &&
                   find(library, "chdb_reset_signal_handlers", &ret->reset_signals) &&
                   find(library, "chdb_close_conn", &ret->close) && find(library, "chdb_query_n", &ret->query) &&
                   find(library, "chdb_result_buffer", &ret->result_data) &&
                   find(library, "chdb_result_length", &ret->result_size) &&
                   find(library, "chdb_result_error", &ret->result_error) &&
                   find(library, "chdb_destroy_query_result", &ret->free_result)
               ? 0
               : -ENOENT;
}
