/* Processes that own probes of sonde_trace in unusual ways: `probe_owners forked|long|many`.
 *
 * forked: a child, forked at once, fires its parent's probes continuously; at SIGUSR1 the parent calls exec().
 * long: at SIGUSR1 begins a request that does not end, burning CPU in `burn_long`. many: 40 children, each with a provider of its own. Prints "child PID" or "children PID...".
 */
#include <sonde/probe.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CHILDREN 40

static struct sonde_probe *enter, *leave;
static volatile unsigned long sink;

__attribute__((noinline)) static void burn_long(void)
{
    while (1)
        sink++;
}

static void load(void)
{
    static const char arguments[] = "u64 trace_id_high, u64 trace_id_low, u64 span_id, u64 id";
    struct sonde_provider *provider;
    if (sonde_provider_new("sonde_trace", &provider) < 0 ||
        sonde_probe_add(provider, "thread_enter", arguments, &enter) < 0 ||
        sonde_probe_add(provider, "thread_leave", arguments, &leave) < 0 || sonde_provider_load(provider) < 0)
        _exit(1);
}

static pid_t fork_or_end(void)
{
    const pid_t child = fork();
    if (child < 0)
        _exit(1);
    return child;
}

static pid_t fork_child_that_fires(void)
{
    const pid_t child = fork_or_end();
    if (child != 0)
        return child;
    for (;; usleep(1000)) {
        sonde_probe_fire(enter, 1, 2, 3, 4);
        sonde_probe_fire(leave, 0, 0, 0, 0);
    }
}

static void fork_child_with_provider(int loaded)
{
    const pid_t child = fork_or_end();
    if (child != 0) {
        printf(" %d", child);
        return;
    }
    load();
    if (write(loaded, "", 1) != 1)
        _exit(1);
    while (1)
        pause();
}

static void fork_many(void)
{
    int loaded[2];
    char byte;
    if (pipe(loaded) < 0)
        _exit(1);
    printf("children");
    for (int i = 0; i < CHILDREN; i++) {
        fork_child_with_provider(loaded[1]);
        fflush(stdout); /* otherwise the child has it, too */
        if (read(loaded[0], &byte, 1) != 1)
            _exit(1);
    }
    printf("\n");
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "";
    sigset_t go;
    int number;
    sigemptyset(&go);
    sigaddset(&go, SIGUSR1);
    sigprocmask(SIG_BLOCK, &go, NULL);
    if (strcmp(mode, "many") != 0)
        load();
    if (strcmp(mode, "many") == 0)
        fork_many();
    else if (strcmp(mode, "long") != 0)
        printf("child %d\n", fork_child_that_fires());
    printf("pid %d\nready\n", getpid());
    fflush(stdout);
    sigwait(&go, &number);
    if (strcmp(mode, "long") == 0) {
        sonde_probe_fire(enter, 1, 2, 3, 4);
        burn_long();
    }
    execl("/bin/sleep", "sleep", "600", NULL);
    return 1;
}
