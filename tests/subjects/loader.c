/* Loads a library after it said that it is ready, and works in it: a mapping that appears in the middle. `loader LIBRARY [SECONDS]`
 * With SUBJECT_FIRE it loads the library at SIGUSR1. */
#include "subject.h"

#include <dlfcn.h>

typedef void work_function(volatile sig_atomic_t *over, volatile sig_atomic_t *firings);

KEEP static void loader_call(work_function *work)
{
    work(&subject_over, &subject_firings);
    STAY;
}

int main(int argc, char **argv)
{
    if (argc < 2)
        return 2;
    subject_end_after(subject_seconds(argc, argv, 2));
    subject_ready("main;loader_call;plugin_work;plugin_leaf");
    if (getenv("SUBJECT_FIRE"))
        subject_wait_to_fire();
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
    return subject_end();
}
