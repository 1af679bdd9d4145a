/* Takes down a library that burns CPU on its way out: `closed LIBRARY [SECONDS]`. */
#include "subject.h"

#include <dlfcn.h>

int main(int argc, char **argv)
{
    void *library = argc > 1 ? dlopen(argv[1], RTLD_NOW) : NULL;
    if (!library)
        return 2;
    subject_end_after(subject_seconds(argc, argv, 2));
    volatile sig_atomic_t **over = dlsym(library, "closed_over");
    *over = &subject_over;
    dlclose(library);
    STAY;
    return 0;
}
