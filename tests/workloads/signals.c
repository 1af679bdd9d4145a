/* Burns CPU inside a signal handler that interrupted a function between any two instructions: `signals [SECONDS]
 * [alt]`. The frame under the handler is the kernel's signal frame, and the interrupted frame below it made no call.
 * With `alt` the handler has its own stack. */
#include "workload.h"

#include <string.h>

static volatile sig_atomic_t handled;

KEEP static void handler_leaf(void)
{
    WORKLOAD_BURN();
}

KEEP static void on_signal(int signal_number)
{
    (void)signal_number;
    handled = 1;
    handler_leaf();
    STAY;
}

KEEP static void interrupted(void)
{
    volatile uint64_t x = 1;
    while (!handled)
        x = x * 3 + 1;
}

int main(int argc, char **argv)
{
    struct sigaction action = {0};
    action.sa_handler = on_signal;
    if (argc > 2 && strcmp(argv[2], "alt") == 0) {
        stack_t other = {.ss_sp = malloc(1 << 16), .ss_size = 1 << 16};
        sigaltstack(&other, NULL);
        action.sa_flags = SA_ONSTACK;
    }
    sigaction(SIGVTALRM, &action, NULL);
    workload_end_after(workload_seconds(argc, argv, 1));
    struct itimerval soon = {{0, 0}, {0, 20000}};
    setitimer(ITIMER_VIRTUAL, &soon, NULL);
    workload_ready("main;interrupted;...;on_signal;handler_leaf");
    interrupted();
    STAY;
    return workload_end();
}
