/* Sets the wall clock of one program: when preloaded, CLOCK_REALTIME is the kernel's plus the nanoseconds in the file
 * WORKLOAD_CLOCK (int64_t). The machine's own clock is shared by all processes, and a time namespace does not
 * virtualise it. */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

typedef int clock_gettime_function(clockid_t, struct timespec *);

static volatile const int64_t *shift_ns;
static clock_gettime_function *next;

__attribute__((constructor)) static void open_clock(void)
{
    const char *path = getenv("WORKLOAD_CLOCK");
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    void *at = fd < 0 ? MAP_FAILED : mmap(NULL, sizeof(*shift_ns), PROT_READ, MAP_SHARED, fd, 0);
    next = (clock_gettime_function *)dlsym(RTLD_NEXT, "clock_gettime");
    if (at == MAP_FAILED || !next)
        _exit(126);
    shift_ns = at;
    close(fd);
}

int clock_gettime(clockid_t id, struct timespec *ret)
{
    int r = next ? next(id, ret) : -1;
    if (r < 0 || id != CLOCK_REALTIME || !shift_ns)
        return r;
    int64_t ns = ret->tv_sec * 1000000000ll + ret->tv_nsec + *shift_ns;
    *ret = (struct timespec){.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
    return 0;
}
