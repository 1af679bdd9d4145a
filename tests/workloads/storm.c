/* Short-lived processes: `storm COUNT MILLISECONDS [TOGETHER]` starts COUNT processes (fork and exec of itself), each
 * busy for MILLISECONDS of CPU, TOGETHER of them at a time, and prints exactly how many there were, how much CPU they
 * used, how often they were preempted, and how much CPU time starting them took here. Under a name of its own (a
 * copy), the children have that name too. With WORKLOAD_FIRE=N each child calls getppid() N times when it has worked. */
#include "workload.h"

#include <string.h>
#include <sys/wait.h>

KEEP static void storm_leaf(uint64_t until_ns)
{
    while (workload_own_cpu_ns() < until_ns)
        for (volatile int i = 0; i < 20000; i++) {
        }
    for (; workload_firings; workload_firings--)
        WORKLOAD_SYSTEM_CALL();
}

KEEP static void storm_work(uint64_t until_ns)
{
    storm_leaf(until_ns);
    STAY;
}

static int start(const char *self, const char *milliseconds)
{
    pid_t child = fork();
    if (child == 0) {
        execl(self, "storm-child", "--child", milliseconds, (char *)NULL);
        _exit(127);
    }
    return child > 0;
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "--child") == 0) {
        workload_on_fire(0);
        storm_work((uint64_t)(atof(argv[2]) * 1e6));
        STAY;
        return 0;
    }
    if (argc < 3)
        return 2;
    struct rusage used;
    const char *name = strrchr(argv[0], '/'), *self = name && strcmp(name, "/storm") != 0 ? argv[0] : "/proc/self/exe";
    int count = atoi(argv[1]), together = argc > 3 ? atoi(argv[3]) : 2, started = 0, ended = 0, good = 0;
    workload_ready("main;storm_work;storm_leaf");
    while (ended < count) {
        while (started < count && started - ended < together)
            started += start(self, argv[2]);
        int status;
        if (wait(&status) > 0) {
            ended++;
            good += WIFEXITED(status) && WEXITSTATUS(status) == 0;
        }
    }
    getrusage(RUSAGE_CHILDREN, &used);
    printf("processes %d\ncpu_ns %llu\nswitches %ld\nown_cpu_ns %llu\n", good, (unsigned long long)workload_cpu_ns(RUSAGE_CHILDREN),
           used.ru_nvcsw + used.ru_nivcsw, (unsigned long long)workload_own_cpu_ns());
    return good == count ? 0 : 1;
}
