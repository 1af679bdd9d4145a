/* See otlp_library.h. The library is never unloaded: libcurl and its dependencies have threads and exit handlers. */
#include "otlp_library.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define NAME         "libsonde-otlp.so.1"
#define PATH_SIZE    4096
#define STRING(x)    STRING_OF(x)
#define STRING_OF(x) #x

static bool find_beside(char *ret_path)
{
    Dl_info self;
    static const char here;
    if (!dladdr(&here, &self) || !self.dli_fname)
        return false;
    const char *slash = strrchr(self.dli_fname, '/');
    int folder = slash ? (int)(slash - self.dli_fname) + 1 : 0;
    int n = snprintf(ret_path, PATH_SIZE, "%.*s" NAME, folder, self.dli_fname);
    return folder > 0 && n > 0 && n < PATH_SIZE && access(ret_path, F_OK) == 0;
}

int trace_otlp_library_load(const struct otlp_transport **ret_transport, char *why, size_t why_size)
{
    char path[PATH_SIZE]; /* if this file exists but cannot be loaded (no libcurl), the error refers to it */
    void *library = dlopen(find_beside(path) ? path : NAME, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    const char *error = library ? "" : dlerror();
    const struct otlp_transport *t = library ? dlsym(library, STRING(OTLP_TRANSPORT_SYMBOL)) : NULL;
    if (t && t->version == OTLP_TRANSPORT_VERSION) {
        *ret_transport = t;
        return 0;
    }
    if (why_size)
        snprintf(why, why_size, "Bad option: \"--trace-config mode\".\n%s: %s",
                 library ? "of another version of libsonde" : "OpenTelemetry needs a library that cannot be loaded",
                 library ? NAME : error);
    if (library)
        dlclose(library);
    return -EOPNOTSUPP;
}
