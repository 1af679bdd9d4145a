/* Loads a library after it has printed that it is ready, and works in it: a mapping that appears later. `loader
 * LIBRARY [SECONDS]` With WORKLOAD_FIRE it loads the library at SIGUSR1. */
#include "workload.h"

#include <dlfcn.h>

typedef void work_function(volatile sig_atomic_t *over, volatile sig_atomic_t *firings);

KEEP static void loader_call(work_function *work)
{
    work(&workload_over, &workload_firings);
    STAY;
}

int main(int argc, char **argv)
{
    if (argc < 2)
        return 2;
    workload_end_after(workload_seconds(argc, argv, 2));
    workload_ready("main;loader_call;plugin_work;plugin_leaf");
    if (getenv("WORKLOAD_FIRE"))
        workload_wait_to_fire();
    else
        usleep(500000);
    void *library = dlopen(argv[1], RTLD_NOW);
    void *work = library ? dlsym(library, "plugin_work") : NULL;
    if (!work) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    loader_call((work_function *)work);
    STAY;
    dlclose(library);
    return workload_end();
}
