/* See nvml_library.h. */
#include "sources/gpu/nvml_library.h"

#include "base/buf.h"
#include "base/cleanup.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CACHE_MAX_BYTES (16u << 20)

static bool is_in(const char *directory, size_t size, char ret[PATH_MAX])
{
    const int length = snprintf(ret, PATH_MAX, "%.*s/" NVML_LIBRARY, (int)size, directory);
    return size > 0 && length > 0 && length < PATH_MAX && access(ret, R_OK) == 0;
}

static bool find_in_environment(char ret[PATH_MAX])
{
    const char *at = getenv("LD_LIBRARY_PATH");
    while (at && *at) {
        const size_t size = strcspn(at, ":");
        if (is_in(at, size, ret))
            return true;
        at += size + (at[size] == ':');
    }
    return false;
}

/* The cache of the dynamic linker has the paths of libraries as strings. */
static bool find_in_cache(char ret[PATH_MAX])
{
    static const char entry[] = "/" NVML_LIBRARY;
    _cleanup_buf_ struct buf cache = {0};
    if (buf_read_file(&cache, "/etc/ld.so.cache", CACHE_MAX_BYTES) < 0 || !cache.data ||
        !memmem(cache.data, cache.size, entry, sizeof(entry)))
        return false;
    snprintf(ret, PATH_MAX, "%s", NVML_LIBRARY);
    return true;
}

bool nvml_library_find(char ret[PATH_MAX])
{
    static const char *const directories[] = {
        "/usr/local/nvidia/lib64",                      /* device plugins of Kubernetes */
        "/run/nvidia/driver/usr/lib/x86_64-linux-gnu",  /* a driver in a container (GPU operator) */
        "/run/nvidia/driver/usr/lib/aarch64-linux-gnu", /* likewise */
        "/run/nvidia/driver/usr/lib64",                 /* likewise */
        "/home/kubernetes/bin/nvidia/lib64",            /* Google's Container-Optimized OS */
        "/run/opengl-driver/lib",                       /* NixOS */
        "/usr/lib/wsl/lib",
    };
    if (find_in_environment(ret) || find_in_cache(ret))
        return true;
    for (size_t i = 0; i < array_size(directories); i++)
        if (is_in(directories[i], strlen(directories[i]), ret))
            return true;
    return false;
}

int nvml_library_load(const char *path, struct nvml_functions *ret)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return -ENOENT;
#define X(member, symbol, parameters) *(void **)&ret->member = dlsym(library, symbol);
    NVML_FUNCTIONS(X)
#undef X
    *(void **)&ret->error_text = dlsym(library, "nvmlErrorString");
    return ret->init && ret->count && ret->device ? 0 : -ENOENT;
}
