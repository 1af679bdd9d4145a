/* Closes a library that burns CPU in its destructor: `closed LIBRARY [SECONDS]`. */
#include "workload.h"

#include <dlfcn.h>

int main(int argc, char **argv)
{
    void *library = argc > 1 ? dlopen(argv[1], RTLD_NOW) : NULL;
    if (!library)
        return 2;
    workload_end_after(workload_seconds(argc, argv, 2));
    volatile sig_atomic_t **over = dlsym(library, "closed_over"), **firings = dlsym(library, "closed_firings");
    *over = &workload_over;
    *firings = &workload_firings;
    workload_ready("main;dlclose;...;__do_global_dtors_aux;__cxa_finalize;closed_leaf");
    dlclose(library);
    STAY;
    return 0;
}
