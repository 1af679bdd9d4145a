/* Libraries by version, newest first; see cupti_library.h. */
#include "cuda/cupti_library.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>

#define CUDA_DIRECTORY "/usr/local/cuda/extras/CUPTI/lib64/"

static const struct {
    int cuda; /* the driver's number of this version: 1000 * major + 10 * minor */
    const char *name;
} libraries[] = {
    {13000, "libcupti.so.13"},   {12000, "libcupti.so.12"},   {11080, "libcupti.so.11.8"},
    {11070, "libcupti.so.11.7"}, {11060, "libcupti.so.11.6"}, {11050, "libcupti.so.11.5"},
    {11040, "libcupti.so.11.4"}, {11030, "libcupti.so.11.3"}, {11020, "libcupti.so.11.2"},
};

#define LIBRARIES (sizeof(libraries) / sizeof(*libraries))

/* The CUDA version that the driver supports; 0: unknown. */
static int driver_version(void)
{
    void *driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
    int (*get)(int *) = NULL;
    int version = 0;
    if (driver)
        *(void **)&get = dlsym(driver, "cuDriverGetVersion");
    return get && get(&version) == 0 ? version : 0;
}

static void *open_library(void)
{
    const int supported = driver_version();
    char path[128];
    void *library = NULL;
    for (size_t i = 0; !library && i < LIBRARIES; i++)
        library = dlopen(libraries[i].name, RTLD_LAZY | RTLD_NOLOAD);
    for (size_t i = 0; !library && i < LIBRARIES; i++) {
        if (supported && libraries[i].cuda > supported)
            continue;
        library = dlopen(libraries[i].name, RTLD_LAZY);
        snprintf(path, sizeof(path), CUDA_DIRECTORY "%s", libraries[i].name);
        if (!library)
            library = dlopen(path, RTLD_LAZY);
    }
    return library;
}

static bool load_functions(void *library, struct cupti *ret)
{
#define X(member, symbol, parameters)                                                                                  \
    *(void **)&ret->member = dlsym(library, symbol);                                                                   \
    if (!ret->member)                                                                                                  \
        return false;
    CUPTI_FUNCTIONS(X)
#undef X
    return true;
}

const struct cupti *cupti_library_load(uint32_t *ret_version, const char **ret_reason)
{
    static struct cupti functions;
    static void *library;
    if (!library)
        library = open_library();
    *ret_reason = NULL;
    if (!library)
        *ret_reason = "libcupti.so was not found";
    else if (!load_functions(library, &functions))
        *ret_reason = "libcupti.so lacks a function";
    else if (functions.version(ret_version) != CUPTI_OK)
        *ret_reason = "cuptiGetVersion failed";
    else if (*ret_version < CUPTI_VERSION_MIN || *ret_version > CUPTI_VERSION_MAX)
        *ret_reason = "this version of CUPTI is not supported";
    return *ret_reason ? NULL : &functions;
}
