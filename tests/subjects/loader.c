/* Loads a library after it said that it is ready, and works in it: a mapping that appears in the middle. `loader LIBRARY [SECONDS]` */
#include "subject.h"

#include <dlfcn.h>

KEEP static void loader_call(void (*work)(volatile sig_atomic_t *))
{
    work(&subject_over);
    STAY;
}

int main(int argc, char **argv)
{
    if (argc < 2)
        return 2;
    subject_end_after(subject_seconds(argc, argv, 2));
    subject_ready("main;loader_call;plugin_work;plugin_leaf");
    usleep(500000);
    void *library = dlopen(argv[1], RTLD_NOW);
    void *work = library ? dlsym(library, "plugin_work") : NULL;
    if (!work) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    loader_call((void (*)(volatile sig_atomic_t *))work);
    STAY;
    dlclose(library);
    return subject_end();
}
