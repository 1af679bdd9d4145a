/* Maps a file with code where another one was, calls it, and unmaps it, continuously: `remapper SECONDS LIBRARY...`
 * (libremapped-N.so). The calling frame identifies the file mapped at that time: called_N calls remapped_N. Prints how
 * many mappings there were. With WORKLOAD_FIRE=N it maps N files, from SIGUSR1 on. */
#include "workload.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>

#define PAGE 4096
#define FILES 4

typedef unsigned remapped(unsigned);

static unsigned (*volatile code)(unsigned);
static volatile unsigned sink;

#define CALLED(N)                                                                                            \
    KEEP static void called_##N(void)                                                                        \
    {                                                                                                        \
        sink += code(N);                                                                                     \
        STAY;                                                                                                \
    }
CALLED(0)
CALLED(1)
CALLED(2)
CALLED(3)
static void (*const called[FILES])(void) = {called_0, called_1, called_2, called_3};

struct file {
    int fd;
    off_t offset; /* of the page with the function */
    size_t within;
};

static int find(const char *path, int number, struct file *ret)
{
    char name[] = "remapped_0";
    struct link_map *map;
    Dl_info info;
    name[sizeof(name) - 2] = (char)('0' + number);
    void *library = dlopen(path, RTLD_NOW), *function = library ? dlsym(library, name) : NULL;
    if (!function || !dladdr1(function, &info, (void **)&map, RTLD_DL_LINKMAP))
        return -1;
    uintptr_t at = (uintptr_t)function - map->l_addr; /* also in the file: its segments have the same relative
                                                       * positions there */
    *ret = (struct file){open(path, O_RDONLY | O_CLOEXEC), (off_t)(at & -PAGE), at % PAGE};
    return dlclose(library) || ret->fd < 0 ? -1 : 0;
}

int main(int argc, char **argv)
{
    struct file files[FILES];
    unsigned long count = 0;
    if (argc != 2 + FILES)
        return 2;
    for (int i = 0; i < FILES; i++)
        if (find(argv[2 + i], i, &files[i]) < 0)
            return 1;
    char *place = mmap(NULL, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    workload_end_after(workload_seconds(argc, argv, 1));
    workload_ready(NULL);
    workload_wait_to_fire();
    for (; !workload_over; count++) {
        const struct file *file = &files[count % FILES];
        if (mmap(place, PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED, file->fd, file->offset) != place)
            return 1;
        code = (remapped *)(place + file->within);
        called[count % FILES]();
        munmap(place, PAGE);
        if (workload_firings)
            workload_over = --workload_firings == 0;
    }
    printf("mappings %lu\n", count);
    return workload_end();
}
