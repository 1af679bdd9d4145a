/* Preloaded into sonde: the process that reads source lines blocks when it loads libdw. */
#include <dlfcn.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>
void *dlopen(const char *path, int flags)
{
    char name[16] = "";
    prctl(PR_GET_NAME, name);
    while (!strcmp(name, "sonde-lines"))
        pause();
    return ((void *(*)(const char *, int))dlsym(RTLD_NEXT, "dlopen"))(path, flags);
}
