/* A vfork child burns on its parent's stack while the parent is blocked in vfork. `vforks [SECONDS]`; the cpu_ns
 * printed are the child's. Prints the child's pid as `child`; the child fires. */
#include "workload.h"

#include <sys/wait.h>

KEEP static void vfork_child(void)
{
    WORKLOAD_BURN();
}

KEEP static void vfork_parent(void)
{
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
    pid_t child = vfork();
#pragma GCC diagnostic pop
    if (child == 0) {
        printf("child %d\n", (int)getpid());
        fflush(stdout);
        vfork_child();
        STAY;
        _exit(0);
    }
    waitpid(child, NULL, 0);
}

int main(int argc, char **argv)
{
    /* Timers are not inherited, and the child shares the flag: a helper process ends it. */
    double seconds = workload_seconds(argc, argv, 1);
    workload_end_after(0);
    pid_t group = getpgrp();
    setpgid(0, 0);
    const pid_t helper = fork();
    if (helper == 0) {
        signal(SIGTERM, SIG_IGN);
        usleep((useconds_t)(seconds * 1e6));
        kill(0, SIGTERM);
        _exit(0);
    }
    workload_ready("main;vfork_parent;vfork_child");
    vfork_parent();
    STAY;
    setpgid(0, group);
    kill(helper, SIGKILL);
    waitpid(helper, NULL, 0);
    printf("cpu_ns %llu\n", (unsigned long long)workload_cpu_ns(RUSAGE_CHILDREN));
    return 0;
}
